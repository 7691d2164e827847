"""`weightloom.torch.load_into` fills DTensors, each rank its own part.

What needs no others runs in this process, which a fake group makes each rank in turn; the scenarios
of loading_ranks.py run in four processes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Become
from rank_processes import RANKS, run_ranks
from safetensors.torch import save_file
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.distributed.tensor.placement_types import _StridedShard
from transformers_cases import quiet, tiny_model

import weightloom
from weightloom.torch import load_into

quiet()
SOUND = ("fsdp", "from_meta", "hybrid", "meshes", "fsdp_over_tp")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What four processes tell."""
    folder = tmp_path_factory.mktemp("ranks")
    return run_ranks(folder, *SOUND, "alone", "mixtral", "stage", program="loading_ranks.py")


@pytest.mark.parametrize("scenario", SOUND)
def test_ranks_together_hold_what_is_stored(told: Any, scenario: str) -> None:
    for rank in told[scenario]:
        assert rank["clean"]
        assert rank["stays"]
        assert rank["different"] == []


def test_a_rank_holds_its_part_only(told: Any) -> None:
    assert sum(rank["elements"] for rank in told["fsdp"]) == 7 * 5 + 2 * (14 * 5 * 2 + 14 + 10)
    assert all(rank["gathered"] for rank in told["fsdp"])


def test_no_rank_waits_for_another(told: Any) -> None:
    assert [rank["filled"] for rank in told["alone"]] == [False, False, True, False]


def test_fused_experts_come_from_a_hubs_keys(told: Any) -> None:
    for rank in told["mixtral"]:
        assert rank == {"clean": True, "different": [], "close": True, "hub": True}


def test_a_pipelines_stage_on_a_mesh_of_its_own(told: Any) -> None:
    assert told["stage"] == [{"clean": True, "filled": True}] * RANKS


def cut(whole: torch.Tensor, dim: int, parts: int, part: int) -> torch.Tensor:
    """Part of a dim that ⌈n/parts⌉ rows of each part make."""
    rows = -(-whole.shape[dim] // parts)
    begin = min(part * rows, whole.shape[dim])
    return whole.narrow(dim, begin, min(rows, whole.shape[dim] - begin))


def local(tensor: torch.Tensor) -> torch.Tensor:
    assert isinstance(tensor, DTensor)
    return tensor.detach().to_local()


def mesh_of(rank: int, **sizes: int) -> DeviceMesh:
    """Axes have names of their own on each rank: torch remembers placements by what meshes say, and
    in one process would take another rank's for this one's.
    """
    names = tuple(f"{name}{rank}" for name in sizes)
    return init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=names)


class Pair(nn.Module):
    """Two layers for tensor parallelism."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 7)
        self.down = nn.Linear(7, 5)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "weights.safetensors"
    generator = torch.Generator().manual_seed(3)
    state = {n: torch.randn(t.shape, generator=generator) for n, t in Pair().state_dict().items()}
    save_file(state, path)
    return path


def whole_of(path: Path) -> dict[str, torch.Tensor]:
    loaded: dict[str, torch.Tensor] = weightloom.load(path, mapping="none", framework="torch")
    return loaded


def parallel_pair(mesh: DeviceMesh) -> Pair:
    model = Pair()
    parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


@pytest.mark.parametrize("world", [2, 3, 5])
def test_tensor_parallelism_cuts_rows_and_columns(become: Become, stored: Path, world: int) -> None:
    whole = whole_of(stored)
    for rank in range(world):
        become(rank, world)
        model = parallel_pair(mesh_of(rank, tp=world))
        assert load_into(model, stored).is_clean
        assert torch.equal(local(model.up.weight), cut(whole["up.weight"], 0, world, rank))
        assert torch.equal(local(model.up.bias), cut(whole["up.bias"], 0, world, rank))
        assert torch.equal(local(model.down.weight), cut(whole["down.weight"], 1, world, rank))
        assert torch.equal(local(model.down.bias), whole["down.bias"])


def test_fsdp_over_tp_of_rows_that_nothing_divides(become: Become, stored: Path) -> None:
    """7 rows by 2 and then by 3: ranks (2, 0) and (2, 1) hold none and one."""
    whole = whole_of(stored)
    sizes = []
    for rank in range(6):
        become(rank, 6)
        mesh = mesh_of(rank, fsdp=3, tp=2)
        fsdp, tp = divmod(rank, 2)
        model = parallel_pair(mesh[f"tp{rank}"])
        fully_shard(model, mesh=mesh[f"fsdp{rank}"])
        before = {name: id(p) for name, p in model.named_parameters()}
        assert load_into(model, stored).is_clean
        assert {name: id(p) for name, p in model.named_parameters()} == before
        parts = {
            "up.weight": cut(cut(whole["up.weight"], 0, 2, tp), 0, 3, fsdp),
            "up.bias": cut(cut(whole["up.bias"], 0, 2, tp), 0, 3, fsdp),
            "down.weight": cut(cut(whole["down.weight"], 1, 2, tp), 0, 3, fsdp),
            "down.bias": cut(whole["down.bias"], 0, 3, fsdp),
        }
        for name, parameter in model.named_parameters():
            assert torch.equal(local(parameter), parts[name]), (name, rank)
        sizes.append(len(parts["up.bias"]))
    assert sizes == [2, 1, 2, 1, 0, 1]


def test_strided_rows_as_torch_distributes_them(become: Become, tmp_path: Path) -> None:
    """The same placements, of 7 rows, by torch: (2, 0) has row 6 and (2, 1) none."""
    rows = torch.arange(7.0)
    save_file({"w": rows}, tmp_path / "w.safetensors")
    held = [[0, 1], [4], [2, 3], [5], [6], []]
    for rank in range(6):
        become(rank, 6)
        mesh = mesh_of(rank, fsdp=3, tp=2)
        tensor = placed(torch.zeros(len(held[rank])), mesh, [_StridedShard(0, split_factor=2),
                                                             Shard(0)], 7)  # fmt: skip
        assert load_into({"w": tensor}, tmp_path / "w.safetensors").is_clean
        assert local(tensor).tolist() == held[rank]


def placed(part: torch.Tensor, mesh: DeviceMesh, placements: Any, *shape: int) -> DTensor:
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(
        part, mesh, placements, run_check=False, shape=torch.Size(shape), stride=stride
    )


def test_replicas_and_several_meshes_in_one_dict(become: Become, stored: Path) -> None:
    whole = whole_of(stored)
    for rank in range(4):
        become(rank, 4)
        flat = init_device_mesh("cpu", (4,))  # without names
        square = mesh_of(rank, dp=2, tp=2)
        dp, tp = divmod(rank, 2)
        state: dict[str, torch.Tensor] = {
            "up.weight": distribute_tensor(torch.zeros(7, 4), flat, [Shard(0)]),
            "up.bias": distribute_tensor(torch.zeros(7), square, [Replicate(), Replicate()]),
            "down.weight": distribute_tensor(torch.zeros(5, 7), square, [Shard(0), Shard(-1)]),
            "down.bias": torch.zeros(5),
        }
        assert load_into(state, stored).is_clean
        assert torch.equal(local(state["up.weight"]), cut(whole["up.weight"], 0, 4, rank))
        assert torch.equal(local(state["up.bias"]), whole["up.bias"])
        part = cut(cut(whole["down.weight"], 0, 2, dp), 1, 2, tp)
        assert torch.equal(local(state["down.weight"]), part)
        assert torch.equal(state["down.bias"], whole["down.bias"])


def bytes_read() -> int:
    """By this process so far, as the system counts."""
    counts = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in counts)["rchar"])


def test_only_a_ranks_own_bytes_are_read(become: Become, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    whole = torch.arange(1 << 20, dtype=torch.int64).reshape(1 << 10, 1 << 10)
    save_file({"w": whole}, path)
    become(2, 4)
    mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("fsdp",))
    part = placed(torch.zeros(1 << 8, 1 << 10, dtype=torch.int64), mesh, [Shard(0)], *whole.shape)
    before = bytes_read()
    assert load_into({"w": part}, path, threads=1).is_clean
    assert local(part).nbytes <= bytes_read() - before < 1.1 * local(part).nbytes
    assert torch.equal(local(part), cut(whole, 0, 4, 2))


def test_experts_stacked_into_cut_parts(become: Become, tmp_path: Path) -> None:
    """A Mixtral's experts over ep, their columns over tp, in BF16 of F32, with gaps."""
    tiny_model("MixtralForCausalLM").save_pretrained(tmp_path)
    whole = weightloom.load(tmp_path, framework="torch")
    for rank in range(4):
        become(rank, 4)
        mesh = mesh_of(rank, ep=2, tp=2)
        ep, tp = divmod(rank, 2)
        state: dict[str, torch.Tensor] = {n: torch.zeros_like(t) for n, t in whole.items()}
        parts = {}
        for name in [name for name in whole if ".experts." in name]:
            parts[name] = cut(cut(whole[name], 0, 2, ep), 2, 2, tp)
            part = torch.zeros_like(parts[name], dtype=torch.bfloat16)
            part = part.transpose(1, 2).contiguous().transpose(1, 2)
            state[name] = placed(part, mesh, [Shard(0), Shard(2)], *whole[name].shape)
        assert parts
        assert load_into(state, tmp_path, cast=True).is_clean
        for name, tensor in whole.items():
            if name in parts:
                assert torch.equal(local(state[name]), parts[name].to(torch.bfloat16))
            else:
                assert torch.equal(state[name], tensor)


def test_one_dtensor_under_two_names(become: Become, tmp_path: Path) -> None:
    """Also where this rank's part is empty."""
    path = tmp_path / "w.safetensors"
    save_file({"a": torch.ones(2, 3), "c": torch.ones(2, 3)}, path)
    for rank in range(3):
        become(rank, 3)
        mesh = mesh_of(rank, fsdp=3)
        state = {
            name: placed(torch.zeros(0 if rank == 2 else 1, 3), mesh, [Shard(0)], 2, 3)
            for name in "ac"
        }
        state["b"] = state["a"]
        assert load_into(state, path).is_clean
        assert all(torch.equal(local(t), torch.ones_like(local(t))) for t in state.values())
    save_file({"a": torch.ones(2, 3), "b": torch.arange(6.0).reshape(2, 3)}, path)
    become(1, 3)
    mesh = init_device_mesh("cpu", (3,), mesh_dim_names=("fsdp",))
    state = {"a": placed(torch.zeros(1, 3), mesh, [Shard(0)], 2, 3)}
    state["b"] = state["a"]
    with pytest.raises(weightloom.PlanError, match="'b' and 'a' are one tensor"):
        load_into(state, path)
    assert local(state["a"]).tolist() == [[0, 0, 0]]


def test_what_does_not_fit_is_told_of_whole_tensors(become: Become, stored: Path) -> None:
    become(1, 3)
    mesh = init_device_mesh("cpu", (3,), mesh_dim_names=("fsdp",))
    state = {
        "up.weight": placed(torch.zeros(3, 5), mesh, [Shard(0)], 7, 5),
        "up.bias": placed(torch.zeros(3, dtype=torch.float16), mesh, [Shard(0)], 7),
        "down.weight": placed(torch.zeros(2, 7), mesh, [Shard(0)], 5, 7),
        "more": placed(torch.zeros(1), mesh, [Shard(0)], 2),
    }
    with pytest.raises(weightloom.PlanError) as caught:
        load_into(state, stored)
    for words in (
        "'more' is missing",
        "'down.bias' has no place in the module",
        "'up.weight' is [7, 4], but the module wants [7, 5]",
        "'up.bias' is F32, but the module wants torch.float16",
    ):
        assert words in str(caught.value)
    assert not local(state["down.weight"]).any()
    report = load_into(state, stored, strict=False)
    assert report.missing_keys == {"more"}
    assert report.unexpected_keys == {"down.bias"}
    assert report.mismatched_keys == {("up.weight", (7, 4), (7, 5))}
    assert len(report.error_msgs) == 1
    assert torch.equal(local(state["down.weight"]), cut(whole_of(stored)["down.weight"], 0, 3, 1))


def test_a_part_that_placements_do_not_give_is_told_with_both_shapes(
    become: Become, stored: Path
) -> None:
    become(1, 3)
    mesh = init_device_mesh("cpu", (3,), mesh_dim_names=("fsdp",))
    state = {name: torch.zeros_like(tensor) for name, tensor in whole_of(stored).items()}
    state["up.bias"] = placed(torch.zeros(2), mesh, [Shard(0)], 7)
    words = (
        r"'up.bias' is \[2\] of F32 \[7\] on the mesh 'fsdp=3' as \[Shard\(0\)\], "
        r"but this rank's part is \[3\]"
    )
    with pytest.raises(weightloom.PlanError, match=words):
        load_into(state, stored)
    report = load_into(state, stored, strict=False)
    assert len(report.error_msgs) == 1
    assert torch.equal(state["up.weight"], whole_of(stored)["up.weight"])
    assert not local(state["up.bias"]).any()


def test_parts_that_both_orders_give_are_refused_by_name(become: Become, tmp_path: Path) -> None:
    """Rows 0 and 4 of 16 as torch reads the placements; 0 and 1 where FSDP cut last."""
    path = tmp_path / "w.safetensors"
    save_file({"w": torch.arange(16.0)}, path)
    become(0, 8)
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("fsdp", "ep", "tp"))
    placements = [_StridedShard(0, split_factor=4), Shard(0), _StridedShard(0, split_factor=2)]
    tensor = placed(torch.zeros(2), mesh, placements, 16)
    with pytest.raises(weightloom.PlanError, match=r"'w' is .* fits other rows where FSDP"):
        load_into({"w": tensor}, path)


def test_pending_sums_are_refused_by_name(become: Become, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"w": torch.arange(2.0)}, path)
    become(0, 2)
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    with pytest.raises(weightloom.UsageError, match="'w': it is placed as P"):
        load_into({"w": placed(torch.zeros(2), mesh, [Partial()], 2)}, path)


def test_a_mesh_without_this_rank_asks_nothing_of_it(become: Become, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"w": torch.arange(4.0), "v": torch.ones(1)}, path)
    become(3, 4)
    mesh = DeviceMesh("cpu", [0, 1])
    state = {"w": placed(torch.zeros(0), mesh, [Shard(0)], 4), "v": torch.zeros(1)}
    assert load_into(state, path).is_clean
    assert state["v"].tolist() == [1]
