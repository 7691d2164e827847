"""Models of a trainer, whole and spread over ranks as torch does it."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh


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
