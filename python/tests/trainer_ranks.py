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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import weightloom
from weightloom import _core
from weightloom._torch_group import TorchTransport
from weightloom.torch import Saver, save_hub, save_sharded

Told = dict[str, Any]


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


def fsdp_model() -> nn.Module:
    """Every block and the root fully sharded over all ranks."""
    model = Model()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return model


def tp_plan() -> dict[str, Any]:
    """Of a block."""
    return {"up": ColwiseParallel(), "down": RowwiseParallel()}


def fsdp_over_tp_model() -> nn.Module:
    """Blocks cut by tensor parallelism, then fully sharded, on a mesh of two axes."""
    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("dp", "tp"))
    model = Model()
    for block in model.blocks:
        parallelize_module(block, mesh["tp"], tp_plan())
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


def tensor_parallel(folder: Path) -> Told:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    model = Model()
    for block in model.blocks:
        parallelize_module(block, mesh, tp_plan())
    return compare(folder, model, whole_state())


def fsdp_over_tp(folder: Path) -> Told:
    return compare(folder, fsdp_over_tp_model(), whole_state())


def replicas(folder: Path) -> Told:
    return compare(folder, whole_state(), whole_state(), dtype="BF16")


SCENARIOS = {
    function.__name__: function for function in (fsdp, tensor_parallel, fsdp_over_tp, replicas)
}


def run(scenario: str, folder: Path) -> Told:
    """What the scenario gives, or what it raised."""
    mine = folder / scenario
    mine.mkdir(exist_ok=True)
    try:
        return SCENARIOS[scenario](mine)
    except Exception:
        return {"raised": traceback.format_exc()}


def main() -> None:
    """One rank."""
    rank, ranks, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
    )
    for scenario in sys.argv[4:]:
        told = run(scenario, folder)
        (folder / f"{scenario}.{rank}.json").write_text(json.dumps(told))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
