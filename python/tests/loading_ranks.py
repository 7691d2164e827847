"""One rank of a trainer, for tests of loading into DTensors; run as rank_program.py says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from rank_program import Told, main
from safetensors.torch import save_file
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from trainer_models import (
    Model,
    fsdp_model,
    fsdp_over_tp_model,
    fully_shard,
    parallelize,
    whole_state,
)

import weightloom
from weightloom.torch import load_into, save_hub


def stored(folder: Path) -> dict[str, torch.Tensor]:
    """Values that no model begins with, in `folder`, written by one rank."""
    generator = torch.Generator().manual_seed(11)
    state = {
        name: torch.randn(tensor.shape, generator=generator)
        if tensor.is_floating_point()
        else tensor + 5
        for name, tensor in whole_state().items()
    }
    if dist.get_rank() == 0:
        save_file(state, folder / "model.safetensors")
    dist.barrier()
    return state


def places(model: nn.Module) -> dict[str, Any]:
    """What must stay: the object, and the memory of its part."""
    return {name: (id(p), local(p).data_ptr()) for name, p in model.named_parameters()}


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part."""
    tensor = tensor.detach()
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def filled(model: nn.Module, folder: Path) -> Told:
    """Fills the model, and gathers it again with what torch and Weightloom have for that."""
    wanted = stored(folder)
    before = places(model)
    report = load_into(model, folder)
    save_hub(model, folder / "back", mapping="none")
    back = weightloom.load(folder / "back", mapping="none", framework="torch")
    return {
        "clean": report.is_clean,
        "stays": places(model) == before,
        "different": [name for name in wanted if not torch.equal(back[name], wanted[name])],
        "elements": sum(local(p).numel() for p in model.parameters()),
    }


def fsdp(folder: Path) -> Told:
    """Uneven dims: ranks hold nothing of some tensors."""
    model = fsdp_model()
    told = filled(model, folder)
    wanted = stored(folder)
    told["gathered"] = all(
        torch.equal(p.full_tensor(), wanted[name]) for name, p in model.named_parameters()
    )
    return told


def from_meta(folder: Path) -> Told:
    """As large models begin: without memory, which they get when they are sharded."""
    with torch.device("meta"):
        model = Model()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    model.to_empty(device="cpu")
    return filled(model, folder)


def hybrid(folder: Path) -> Told:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = Model()
    fully_shard(model, mesh=mesh)
    return filled(model, folder)


def meshes(folder: Path) -> Told:
    """Blocks cut along different axes of a mesh; what is left is plain."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = Model()
    parallelize(model.blocks[0], mesh["tp"])
    fully_shard(model.blocks[1], mesh=mesh["dp"])
    return filled(model, folder)


def fsdp_over_tp(folder: Path) -> Told:
    return filled(fsdp_over_tp_model(), folder)


def alone(folder: Path) -> Told:
    """One rank calls while the others wait: nobody communicates."""
    wanted = stored(folder)
    model = fsdp_model()
    if dist.get_rank() == 2:
        load_into(model, folder)
    dist.barrier()
    mine = model.get_parameter("blocks.0.up.weight")
    return {"filled": torch.equal(local(mine), wanted["blocks.0.up.weight"][8:12])}


def mixtral(folder: Path) -> Told:
    """Fused experts come out of the hub's keys; the model then gives what a whole one gives."""
    import tiny_models

    source = tiny_models.make_tiny("mixtral", torch.float32, seed=5)
    if dist.get_rank() == 0:
        source.save_pretrained(folder, max_shard_size="100KB")
    dist.barrier()
    keys = list(weightloom.open(folder))
    model = tiny_models.make_tiny("mixtral", torch.float32, seed=5)  # buffers that are not stored
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    tokens = torch.arange(12).reshape(2, 6)
    with torch.no_grad():
        model(tokens)  # the root keeps whole parameters after that
    report = load_into(model, folder)
    whole = source.state_dict()
    different = [
        n for n, p in model.named_parameters() if not torch.equal(p.full_tensor(), whole[n])
    ]
    with torch.no_grad():
        close = torch.allclose(model(tokens).logits, source(tokens).logits, atol=1e-5)
    return {
        "clean": report.is_clean,
        "different": different,
        "close": close,
        "hub": "model.layers.1.block_sparse_moe.experts.11.w2.weight" in keys,
    }


def stage(folder: Path) -> Told:
    """A pipeline: each half of the ranks has one of the blocks, fully sharded."""
    wanted = stored(folder)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
    model = Model()
    mine, part = mesh.get_local_rank("pp"), mesh.get_local_rank("dp")
    fully_shard(model.blocks[mine], mesh=mesh["dp"])
    state = {n: t for n, t in model.state_dict().items() if n.startswith(f"blocks.{mine}.")}
    report = load_into(state, folder, include=[f"blocks.{mine}.*"])
    name = f"blocks.{mine}.up.weight"
    rows = wanted[name][7 * part : 7 * part + 7]
    return {"clean": report.is_clean, "filled": torch.equal(local(state[name]), rows)}


SCENARIOS = {
    function.__name__: function
    for function in (fsdp, from_meta, hybrid, meshes, fsdp_over_tp, alone, mixtral, stage)
}


if __name__ == "__main__":
    main(SCENARIOS)
