"""One rank of a trainer, for tests of parallel saving; run as rank_program.py says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lost_ranks import interrupted, killed, killed_leader, raising
from rank_program import Told, main, refused
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from trainer_models import (
    Model,
    fsdp_model,
    fsdp_over_tp_model,
    fully_shard,
    parallelize,
    whole_state,
)

import weightloom
from weightloom.torch import Saver, save_hub, save_sharded


def same_files(a: Path, b: Path) -> list[str]:
    """Names of files that are not the same, byte for byte, in two folders."""
    names = {path.name for folder in (a, b) for path in folder.iterdir()}
    return sorted(
        name
        for name in names
        if not (a / name).exists()
        or not (b / name).exists()
        or (a / name).read_bytes() != (b / name).read_bytes()
    )


def compare(folder: Path, state: Any, whole: Mapping[str, torch.Tensor], **options: Any) -> Told:
    """Saves the state by all ranks, and the whole tensors by one, and compares the folders."""
    options = {"mapping": "none", **options}
    report = save_hub(state, folder / "parallel", **options)
    told = {"bytes_written": report.bytes_written, "target_bytes": report.target_bytes}
    if dist.get_rank() == 0:
        weightloom.save(whole, folder / "single", to="hub", **options)
        told["different"] = same_files(folder / "parallel", folder / "single")
    return told


def fsdp(folder: Path) -> Told:
    return compare(folder, fsdp_model(), whole_state(), max_shard_size=500)


def hybrid(folder: Path) -> Told:
    """Fully sharded along one axis of a mesh, replicated along the other."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = Model()
    fully_shard(model, mesh=mesh)
    return compare(folder, model, whole_state())


def tensor_parallel(folder: Path) -> Told:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    model = Model()
    for block in model.blocks:
        parallelize(block, mesh)
    return compare(folder, model, whole_state())


def fsdp_over_tp(folder: Path) -> Told:
    return compare(folder, fsdp_over_tp_model(), whole_state())


def replicas(folder: Path) -> Told:
    return compare(folder, whole_state(), whole_state(), dtype="BF16")


def rows_of_a_mesh(folder: Path) -> Told:
    """Tensor parallelism along one axis of a mesh; along the other, replicas."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = Model()
    parallelize(model.blocks[0], mesh["tp"])
    parallelize(model.blocks[1], mesh["dp"])
    return compare(folder, model, whole_state())


def stages(folder: Path) -> Told:
    """A pipeline: each half of the ranks has one of the blocks, fully sharded."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
    stage = mesh.get_local_rank("pp")
    model = Model()
    fully_shard(model.blocks[stage], mesh=mesh["dp"])
    state = {name: tensor for name, tensor in model.state_dict().items() if "blocks" in name}
    mine = {name: tensor for name, tensor in state.items() if name.startswith(f"blocks.{stage}.")}
    whole = {name: tensor for name, tensor in whole_state().items() if "blocks" in name}
    return compare(folder, mine, whole)


def distributed(folder: Path) -> Told:
    """Tensors that distribute_tensor cut."""
    mesh = init_device_mesh("cpu", (2, 2))
    placed = {
        "rows_twice": [Shard(0), Shard(0)],
        "both_dims": [Shard(1), Shard(0)],
        "columns": [Replicate(), Shard(-1)],
        "whole": [Replicate(), Replicate()],
    }
    whole = {name: torch.randn(7, 3, generator=torch.Generator().manual_seed(3)) for name in placed}
    state = {name: distribute_tensor(whole[name], mesh, placed[name]) for name in placed}
    whole["with_gaps"] = torch.arange(12.0).reshape(3, 4)
    state["with_gaps"] = whole["with_gaps"].T.contiguous().T
    return compare(folder, state, whole)


def mixtral(folder: Path) -> Told:
    """The runtime's fused experts become a hub's, each with its key."""
    import tiny_models

    model = tiny_models.make_tiny("mixtral", torch.bfloat16, seed=5)
    whole = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    report = save_hub(model, folder / "parallel", max_shard_size=100_000)
    told: Told = {"files": len(report.files)}
    if dist.get_rank() == 0:
        weightloom.save(
            whole, folder / "single", to="hub", config=model.config, max_shard_size=100_000
        )
        told["different"] = same_files(folder / "parallel", folder / "single")
        told["names"] = list(weightloom.open(folder / "parallel"))
    return told


def sharded(folder: Path) -> Told:
    report = save_sharded(fsdp_over_tp_model(), folder / "parts", mapping="none")
    told: Told = {"files": report.files, "sent": report.bytes_sent}
    if dist.get_rank() == 0:
        weightloom.convert(folder / "parts", folder / "merged")
        merged = weightloom.load(folder / "merged", mapping="none", framework="torch")
        whole = whole_state()
        told["equal"] = merged.keys() == whole.keys() and all(
            torch.equal(merged[name], whole[name]) for name in whole
        )
        told["manifest"] = json.loads((folder / "parts/layout.json").read_text())["mesh"]
    return told


def some_ranks(folder: Path) -> Told:
    """Two of the ranks save by themselves."""
    group = dist.new_group([1, 3])
    if dist.get_rank() not in (1, 3):
        return {}
    report = save_hub(whole_state(), folder / "pair", mapping="none", group=group)
    return {"target_bytes": report.target_bytes, "names": len(weightloom.open(folder / "pair"))}


def asynchronous(folder: Path) -> Told:
    """What is saved are the values of the call, whatever becomes of them; one save at a time."""
    state = {"w": torch.arange(7.0) + 10 * dist.get_rank()}
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    state["w"] = DTensor.from_local(state["w"], mesh, [Shard(0)])
    with Saver(state, mapping="none", overwrite=True, async_=True, memory_budget="9MiB") as saver:
        first = saver.save(folder / "a")
        state["w"].to_local().fill_(-1)
        dist.all_reduce(torch.ones(3))  # what the trainer sends meanwhile
        second = saver.save(folder / "b")  # waits for the first
        first_was_done = first.done()
        state["w"].to_local().fill_(-2)
        second.wait()
    once = save_hub(state, folder / "c", mapping="none", async_=True)
    state["w"].to_local().fill_(-3)
    once.wait()
    loaded = {
        name: weightloom.load(folder / name, framework="torch")["w"].tolist() for name in "abc"
    }
    return {"first_was_done": first_was_done, "loaded": loaded}


def too_small_a_budget(folder: Path) -> Told:
    state = {"w": torch.zeros(3 << 18)}  # 3 MiB
    return refused(
        lambda: save_hub(
            state, folder / "out", mapping="none", async_=True, threads=1, memory_budget="4MiB"
        )
    )


def changed(folder: Path) -> Told:
    """One rank's part has another shape than was planned; the saver still serves afterwards."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("fsdp",))
    planned = {"w": distribute_tensor(torch.arange(8.0), mesh, [Shard(0)])}
    other = {"w": distribute_tensor(torch.arange(9.0), mesh, [Shard(0)])}
    with Saver(planned, mapping="none") as saver:
        told = refused(
            lambda: saver.save(folder / "out", other if dist.get_rank() == 1 else planned)
        )
        told["exists"] = (folder / "out").exists()
        dist.barrier()
        saver.save(folder / "out")
    told["loaded"] = weightloom.load(folder / "out", framework="torch")["w"].tolist()
    return told


def unfit(folder: Path) -> Told:
    """What one rank cannot save is refused on all."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    pending = DTensor.from_local(torch.ones(2), mesh, [Partial()])
    state: dict[str, Any] = {"w": pending if dist.get_rank() == 2 else torch.ones(2)}
    return refused(lambda: save_hub(state, folder / "out", mapping="none"))


def contradiction(folder: Path) -> Told:
    state = {"w": torch.ones(2 + dist.get_rank() // 3)}
    return refused(lambda: save_hub(state, folder / "out", mapping="none"))


def not_replaced(folder: Path) -> Told:
    """The destination exists: known to one rank, raised on all."""
    if dist.get_rank() == 0:
        (folder / "out").mkdir()
        (folder / "out/notes.txt").write_text("mine")
    dist.barrier()
    state = {"w": torch.ones(2)}
    told = refused(lambda: save_hub(state, folder / "out", mapping="none"))
    told["async"] = refused(
        lambda: save_hub(state, folder / "out", mapping="none", async_=True).wait()
    )
    return told


SCENARIOS = {
    function.__name__: function
    for function in (
        fsdp,
        hybrid,
        tensor_parallel,
        fsdp_over_tp,
        replicas,
        rows_of_a_mesh,
        stages,
        distributed,
        mixtral,
        sharded,
        some_ranks,
        asynchronous,
        too_small_a_budget,
        changed,
        unfit,
        contradiction,
        not_replaced,
        killed,
        killed_leader,
        raising,
        interrupted,
    )
}


if __name__ == "__main__":
    main(SCENARIOS)
