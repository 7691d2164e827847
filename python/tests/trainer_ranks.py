"""One rank of a trainer, for tests of parallel saving: runs scenarios in turn, and tells how each
went.

usage: trainer_ranks.py RANK RANKS FOLDER SCENARIO...

Each scenario is a function of this file; what it gives, or raised, stands in
FOLDER/SCENARIO.RANK.json when it is over.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import weightloom
from weightloom import _core
from weightloom._torch_group import TorchTransport
from weightloom.torch import Saver, save_hub, save_sharded

Told = dict[str, Any]
Scenarios = Mapping[str, Callable[[Path], Told]]


class Block(nn.Module):
    """Two linear layers and a norm, of sizes that no mesh divides."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(5, 14)
        self.down = nn.Linear(14, 5, bias=False)
        self.norm = nn.LayerNorm(5)
        self.register_buffer("steps", torch.arange(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Not run: only the state counts."""
        return self.norm(self.down(self.up(x)))


class Model(nn.Module):
    """Blocks, with tied embeddings."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.embed = nn.Embedding(7, 5)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(5, 7, bias=False)
        for parameter in self.parameters():
            nn.init.normal_(parameter)
        self.head.weight = self.embed.weight


def whole_state(tied: bool = True) -> dict[str, torch.Tensor]:
    """What a single process would save; the second name of a tied tensor left out."""
    state = {name: tensor.detach() for name, tensor in Model().state_dict().items()}
    if tied:
        del state["head.weight"]
    return state


def fully_shard(module: nn.Module, **options: Any) -> None:
    """FSDP2's; imported by scenarios that need it, for it takes seconds."""
    from torch.distributed import fsdp

    fsdp.fully_shard(module, **options)


def parallelize(block: nn.Module, mesh: DeviceMesh) -> None:
    """Cuts a block by tensor parallelism; imported likewise."""
    from torch.distributed.tensor import parallel

    plan = {"up": parallel.ColwiseParallel(), "down": parallel.RowwiseParallel()}
    parallel.parallelize_module(block, mesh, plan)


def fsdp_model() -> nn.Module:
    """Every block and the root fully sharded over all ranks."""
    model = Model()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return model


def fsdp_over_tp_model() -> nn.Module:
    """Blocks cut by tensor parallelism, then fully sharded, on a mesh of two axes."""
    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("dp", "tp"))
    model = Model()
    for block in model.blocks:
        parallelize(block, mesh["tp"])
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    return model


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


def refused(work: Any) -> Told:
    """The exception that `work` raises, in words."""
    try:
        work()
    except (weightloom.Error, KeyboardInterrupt) as error:
        rank = getattr(error, "rank", None)
        return {"class": type(error).__name__, "message": str(error), "rank": rank}
    return {"class": "none", "message": "", "rank": None}


def interrupted_save(folder: Path, victim: int, harm: Any) -> Told:
    """Overwrites a checkpoint; at the sixth exchange of the save one rank comes to harm."""
    state = {"w": distributed_rows(1.0)}
    save_hub(state, folder / "out", mapping="none")
    state = {"w": distributed_rows(2.0)}
    saver = Saver(state, mapping="none", overwrite=True)
    transport, count = saver._transport, 0
    exchange = transport.exchange

    def harmed(*messages: Any) -> Any:
        nonlocal count
        count += 1
        return harm(saver) if count == 6 else exchange(*messages)

    if dist.get_rank() == victim:
        transport.exchange = harmed
    told = refused(lambda: saver.save(folder / "out"))
    told["again"] = refused(lambda: saver.save(folder / "out"))
    saver.close()
    return told


def distributed_rows(value: float) -> torch.Tensor:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return distribute_tensor(torch.full((400, 300), value), mesh, [Shard(0)])


def killed(folder: Path) -> Told:
    return interrupted_save(folder, 2, lambda _: os.kill(os.getpid(), signal.SIGKILL))


def killed_leader(folder: Path) -> Told:
    return interrupted_save(folder, 0, lambda _: os.kill(os.getpid(), signal.SIGKILL))


def raising(folder: Path) -> Told:
    def fail(_: Saver) -> None:
        raise ValueError("out of order")

    return interrupted_save(folder, 1, fail)


def interrupted(folder: Path) -> Told:
    """Ctrl-C on one rank, which is in an exchange."""

    def interrupt(saver: Saver) -> Any:
        ended, abort = threading.Event(), saver._transport.abort

        def noted(reason: Any) -> Any:
            told = abort(reason)
            ended.set()
            return told

        saver._transport.abort = noted
        os.kill(os.getpid(), signal.SIGINT)
        ended.wait()
        return saver._transport._line.reason

    return interrupted_save(folder, 3, interrupt)


def group(folder: Path) -> Told:
    """What a process group promises, over the transport."""
    ranks = _core.python_group(TorchTransport())
    mine = b"x" * ranks.rank
    halves = ranks.sub_group([0, 2] if ranks.rank % 2 == 0 else [3, 1])
    told: Told = {
        "gathered": [len(bytes_) for bytes_ in ranks.all_gather(mine)],
        "broadcast": [ranks.broadcast(root, bytes([ranks.rank])).hex() for root in range(4)],
        "large": hash(ranks.broadcast(1, bytes(5 << 20))) == hash(bytes(5 << 20)),
        "half": [halves.rank, [int(b[0]) for b in halves.all_gather(bytes([ranks.rank]))]],
        "alone": halves.sub_group([halves.rank]).all_gather(b"me") == [b"me"],
    }
    ranks.barrier()
    told["aborted"] = refused(lambda: ends(ranks, halves))
    told["later"] = refused(ranks.barrier)
    return told


def ends(ranks: Any, halves: Any) -> None:
    """Rank 1 gives up; 3 waits for it, 0 for rank 2 only, which waits for 0 and 3 too."""
    if ranks.rank == 1:
        ranks.abort("enough")
    (ranks if ranks.rank == 2 else halves).barrier()


def two_sizes(folder: Path) -> Told:
    """A message of another size than is wanted is an error, and no crash."""
    ranks = _core.python_group(TorchTransport())
    return refused(lambda: ranks.broadcast(0, bytes(3 if ranks.rank == 0 else 2)))


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
        group,
        two_sizes,
    )
}


def run(scenarios: Scenarios, name: str, folder: Path) -> Told:
    """What the scenario gives, or what it raised."""
    mine = folder / name
    mine.mkdir(exist_ok=True)
    try:
        return scenarios[name](mine)
    except Exception:
        return {"raised": traceback.format_exc()}


def main(scenarios: Scenarios) -> None:
    """One rank."""
    rank, ranks, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
    )
    for scenario in sys.argv[4:]:
        told = run(scenarios, scenario, folder)
        (folder / f"{scenario}.{rank}.json").write_text(json.dumps(told))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(SCENARIOS)
