"""Loading what one rank of a mesh holds: against slices that NumPy and torch cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Become
from safetensors_by_hand import Tensor, f32, write_file
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor

import weightloom as wl
import weightloom.torch as wl_torch

EXPERTS, HIDDEN, INTER = 4, 6, 5
STEM = "model.layers.0.block_sparse_moe.experts"
GATE_UP = "model.layers.0.mlp.experts.gate_up_proj"
DOWN = "model.layers.0.mlp.experts.down_proj"


def hub_tensors() -> dict[str, Tensor]:
    """A Mixtral layer in F32."""
    tensors = {"model.norm.weight": f32(1, (HIDDEN,))}
    for expert in range(EXPERTS):
        tensors[f"{STEM}.{expert}.w1.weight"] = f32(10 + expert, (INTER, HIDDEN))
        tensors[f"{STEM}.{expert}.w3.weight"] = f32(20 + expert, (INTER, HIDDEN))
        tensors[f"{STEM}.{expert}.w2.weight"] = f32(30 + expert, (HIDDEN, INTER))
    return tensors


def array(tensor: Tensor) -> np.ndarray:
    return np.frombuffer(tensor.data, "<f4").reshape(tensor.shape)


def runtime_arrays() -> dict[str, np.ndarray]:
    """What a program runs, by NumPy."""
    hub = {name: array(tensor) for name, tensor in hub_tensors().items()}

    def stacked(part: str) -> np.ndarray:
        return np.stack([hub[f"{STEM}.{e}.{part}.weight"] for e in range(EXPERTS)])

    return {
        "model.norm.weight": hub["model.norm.weight"],
        GATE_UP: np.concatenate([stacked("w1"), stacked("w3")], axis=1),
        DOWN: stacked("w2"),
    }


@pytest.fixture
def mixtral(tmp_path: Path) -> Path:
    folder = tmp_path / "mixtral"
    folder.mkdir()
    write_file(folder / "model.safetensors", hub_tensors())
    config = {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "num_local_experts": EXPERTS,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def chunk(whole: np.ndarray, dim: int, parts: int, part: int) -> np.ndarray:
    size = -(-whole.shape[dim] // parts)
    rows = range(min(part * size, whole.shape[dim]), min((part + 1) * size, whole.shape[dim]))
    return np.take(whole, rows, axis=dim)


def assert_equal(loaded: dict[str, Any], expected: dict[str, np.ndarray]) -> None:
    assert loaded.keys() == expected.keys()
    for name, tensor in loaded.items():
        np.testing.assert_array_equal(np.asarray(tensor), expected[name], err_msg=name)


@pytest.mark.parametrize("world", [2, 3, 5])
def test_each_rank_gets_its_rows(mixtral: Path, world: int) -> None:
    whole = runtime_arrays()
    for rank in range(world):
        loaded = wl.load(mixtral, mesh={"fsdp": world}, rank=rank)
        assert_equal(loaded, {n: chunk(w, 0, world, rank) for n, w in whole.items()})


@pytest.mark.parametrize("form", ["mapping", "list", "path"])
def test_placements_say_what_is_cut(mixtral: Path, tmp_path: Path, form: str) -> None:
    steps = {GATE_UP: [{"axis": "tp", "shard": 1, "groups": [INTER, INTER]}], "*": []}
    rules: Any = steps
    if form != "mapping":
        rules = [{"pattern": name, "placements": each} for name, each in steps.items()]
    if form == "path":
        (tmp_path / "rules.json").write_text(json.dumps(rules))
        rules = tmp_path / "rules.json"
    whole = runtime_arrays()
    for rank in range(2):
        loaded = wl.load(mixtral, mesh="tp=2", rank=rank, placements=rules)
        halves = np.split(whole[GATE_UP], 2, axis=1)
        cut = np.concatenate([chunk(half, 1, 2, rank) for half in halves], axis=1)
        assert_equal(loaded, {**whole, GATE_UP: cut})


def test_the_models_plan_spreads_experts(mixtral: Path) -> None:
    whole = runtime_arrays()
    for rank in range(4):
        loaded = wl.load(mixtral, mesh="ep=2,fsdp=2", rank=rank, tp_plan="auto")
        ep, fsdp = divmod(rank, 2)
        cut = {
            name: chunk(chunk(w, 0, 2, ep) if "experts" in name else w, 0, 2, fsdp)
            for name, w in whole.items()
        }
        assert_equal(loaded, cut)


def test_a_plan_may_be_given_in_words(mixtral: Path) -> None:
    plan = {"model.layers.*.mlp.experts.down_proj": "rowwise"}
    loaded = wl.load(mixtral, mesh="tp=2", rank=1, tp_plan=plan)
    assert loaded[DOWN].shape == (EXPERTS, HIDDEN, INTER // 2)
    np.testing.assert_array_equal(loaded[DOWN], chunk(runtime_arrays()[DOWN], 2, 2, 1))


def test_load_specs_name_keys_and_shards(mixtral: Path) -> None:
    keys = [f"{STEM}.{e}.w2.weight" for e in range(EXPERTS)]
    spec = {
        "name": "w2",
        "global_hf_keys": keys,
        "fused_dim": 0,
        "global_shape": [EXPERTS * HIDDEN, INTER],
        "shards": [{"dim": 0, "axis": "ep"}],
    }
    whole = np.concatenate([array(hub_tensors()[key]) for key in keys])
    for rank in range(3):
        loaded = wl.load(
            mixtral, to="same", mesh="ep=3", rank=rank, load_specs=[spec], lenient=True
        )
        assert_equal(loaded, {"w2": chunk(whole, 0, 3, rank)})


def test_streams_and_parts_of_plans_are_of_the_rank(mixtral: Path) -> None:
    plan = wl.plan(mixtral, to="runtime", mesh="fsdp=2", rank=1)
    expected = {n: chunk(w, 0, 2, 1) for n, w in runtime_arrays().items()}
    with plan.stream() as tensors:
        assert_equal(dict(tensors), expected)
    assert (plan.mesh, plan.rank) == ("fsdp=2", 1)
    assert plan.nbytes == sum(w.nbytes for w in expected.values())
    loaded, _ = plan.only([DOWN]).load()
    assert_equal(loaded, {DOWN: expected[DOWN]})
    buffer = np.zeros_like(expected[DOWN])
    plan.only([DOWN]).load_into({DOWN: buffer})
    np.testing.assert_array_equal(buffer, expected[DOWN])


def test_a_manifest_tells_how_tensors_are_spread(mixtral: Path) -> None:
    told = json.loads(wl.plan(mixtral, to="runtime", mesh="fsdp=2").manifest)
    assert told["mesh"] == [["fsdp", 2]]
    assert told["tensors"][DOWN]["placements"] == [{"axis": "fsdp", "shard": 0}]
    assert wl.plan(mixtral).manifest == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mesh": "fsdp=2"}, ("fsdp=2", "rank=0")),
        ({"rank": 1}, ("rank=1", "no mesh")),
        ({"mesh": "fsdp=2", "rank": 2}, ("rank 2", "2 ranks")),
        ({"mesh": "fsdp=2", "rank": -1}, ("rank -1", "2 ranks")),
        ({"mesh": "tp=2", "rank": 0}, ("axis 'tp'", "tp_plan='auto'")),
        ({"mesh": 2, "rank": 0}, ("mesh=2", "DeviceMesh")),
        ({"mesh": "fsdp=0", "rank": 0}, ("fsdp",)),
        ({"mesh": "tp=2", "rank": 0, "placements": {"*": [{"axis": "tp", "shrd": 0}]}}, ("shrd",)),
    ],
)
def test_what_is_not_said_is_refused(
    mixtral: Path, arguments: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(wl.Error) as refused:
        wl.load(mixtral, **arguments)
    for word in words:
        assert word in str(refused.value)


def test_a_sharded_folder_is_written_and_loaded(mixtral: Path, tmp_path: Path) -> None:
    parts, again = tmp_path / "parts", tmp_path / "again"
    wl.convert(mixtral, parts, to="runtime", mesh="dp=2,fsdp=2")
    assert len(list(parts.glob("rank-*.safetensors"))) == 4
    assert_equal(wl.load(parts), runtime_arrays())
    loaded = wl.load(parts, mesh="fsdp=3", rank=1, to="same")
    assert_equal(loaded, {n: chunk(w, 0, 3, 1) for n, w in runtime_arrays().items()})
    wl.convert(parts, again, to="hub")
    assert (again / "model.safetensors").read_bytes() == (
        mixtral / "model.safetensors"
    ).read_bytes()


def test_one_rank_alone_may_be_written(mixtral: Path, tmp_path: Path) -> None:
    wl.convert(mixtral, tmp_path / "parts", to="runtime", mesh="fsdp=2", rank=1)
    (written,) = (tmp_path / "parts").glob("rank-*.safetensors")
    expected = {n: chunk(w, 0, 2, 1) for n, w in runtime_arrays().items()}
    assert_equal(wl.load_file(written), expected)


def test_replicas_that_differ_are_not_loaded(mixtral: Path, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    wl.convert(mixtral, parts, to="runtime", mesh="dp=2")
    file = parts / "rank-00001-of-00002.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(wl.CheckpointError, match="rank-00001"):
        wl.load(parts)
    assert_equal(wl.load(parts, trust_replicas=True), runtime_arrays())


@pytest.mark.parametrize(
    ("steps", "placements"),
    [
        ([("fsdp", 0)], "(Shard(dim=0), Replicate())"),
        ([("tp", 1), ("fsdp", 0)], "(Shard(dim=0), Shard(dim=1))"),
        ([("fsdp", 1), ("tp", 1)], "(Shard(dim=1), Shard(dim=1))"),
        ([("tp", 0), ("fsdp", 0)], "(_StridedShard(dim=0, sf=2), Shard(dim=0))"),
    ],
)
def test_dtensors_are_placed_as_the_cuts_say(
    mixtral: Path, become: Become, steps: list[tuple[str, int]], placements: str
) -> None:
    whole = runtime_arrays()
    rules = {"*experts*": [{"axis": a, "shard": d} for a, d in steps], "*": []}
    for rank in range(4):
        become(rank, 4)
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("fsdp", "tp"))
        loaded = wl_torch.load_dtensors(mixtral, mesh, placements=rules)
        place = dict(zip(("fsdp", "tp"), divmod(rank, 2), strict=True))
        for name, tensor in loaded.items():
            assert isinstance(tensor, DTensor)
            assert tuple(tensor.shape) == whole[name].shape
            part = whole[name]
            for axis, dim in steps if "experts" in name else []:
                part = chunk(part, dim, 2, place[axis])
            np.testing.assert_array_equal(tensor.to_local().numpy(), part)
        if "Strided" not in placements:
            assert str(loaded[DOWN].placements) == placements
        else:
            assert [type(p).__name__ for p in loaded[DOWN].placements] == ["_StridedShard", "Shard"]
            assert loaded[DOWN].placements[0].split_factor == 2


def test_what_torch_cannot_say_is_named_or_local(mixtral: Path, become: Become) -> None:
    rules = {GATE_UP: [{"axis": "tp", "shard": 1, "groups": [INTER, INTER]}], "*": []}
    become(1, 2)
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    with pytest.raises(wl.UsageError, match=GATE_UP):
        wl_torch.load_dtensors(mixtral, mesh, placements=rules)
    loaded = wl_torch.load_dtensors(mixtral, mesh, placements=rules, local=["*gate_up*"])
    assert type(loaded[GATE_UP]) is torch.Tensor
    assert loaded[GATE_UP].shape == (EXPERTS, 2 * (INTER - 3), HIDDEN)
    assert isinstance(loaded[DOWN], DTensor)


def test_uneven_cuts_of_cuts_are_not_torchs(mixtral: Path, become: Become) -> None:
    """6 rows by tp=2, then fsdp=2: 2, 1, 2, 1; torch would compute others."""
    rules = {
        DOWN: [{"axis": "tp", "shard": 1}, {"axis": "fsdp", "shard": 1}],
        "*": [],
    }
    become(0, 4)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("fsdp", "tp"))
    with pytest.raises(wl.UsageError, match=DOWN):
        wl_torch.load_dtensors(mixtral, mesh, placements=rules)


def test_fsdp_of_what_is_cut_in_stripes_is_not_torchs(mixtral: Path, become: Become) -> None:
    """torch would read (_StridedShard, _StridedShard) as other rows than gate and up, each cut."""
    striped = {"axis": "tp", "strided_shard": {"dim": 1, "split_factor": 2}}
    rules = {GATE_UP: [striped, {"axis": "fsdp", "shard": 1}], "*": []}
    become(0, 4)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("fsdp", "tp"))
    with pytest.raises(wl.UsageError, match=GATE_UP):
        wl_torch.load_dtensors(mixtral, mesh, placements=rules)
    rules[GATE_UP] = [striped, {"axis": "fsdp", "shard": 0}]
    placed = wl_torch.load_dtensors(mixtral, mesh, placements=rules)[GATE_UP].placements
    assert [type(each).__name__ for each in placed] == ["Shard", "_StridedShard"]


def test_a_mesh_of_other_ranks_is_refused(mixtral: Path, become: Become) -> None:
    become(0, 4)
    mesh = DeviceMesh("cpu", [[2, 3], [0, 1]], mesh_dim_names=("fsdp", "tp"))
    with pytest.raises(wl.UsageError, match="row by row"):
        wl.load(mixtral, mesh=mesh)
