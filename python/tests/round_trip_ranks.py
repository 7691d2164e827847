"""One rank of a trainer, for tests that go from layout to layout; run as rank_program.py says."""

from __future__ import annotations

import itertools
from pathlib import Path

import torch
import torch.distributed as dist
from rank_program import Told, main
from torch.distributed.device_mesh import init_device_mesh

import weightloom
from weightloom.torch import load_dtensors, save_hub, save_sharded

# Layouts of a Mixtral over four ranks: mesh, and what spreads tensors over it.
LAYOUTS: dict[str, tuple[tuple[str, ...], tuple[int, ...], Told]] = {
    "fsdp": (("fsdp",), (4,), {}),
    "ep_fsdp": (("ep", "fsdp"), (2, 2), {"tp_plan": "auto"}),
    "tp": (
        ("dp", "tp"),
        (2, 2),
        {
            "placements": {
                "*.gate_up_proj": [{"axis": "tp", "strided_shard": {"dim": 1, "split_factor": 2}}],
                "*.down_proj": [{"axis": "tp", "shard": 2}],
                "*": [],
            }
        },
    ),
}


def round_trips(folder: Path) -> Told:
    """From the hub to one layout, from there to another, and back."""
    import tiny_models

    if dist.get_rank() == 0:
        tiny_models.make_tiny("mixtral", torch.bfloat16, seed=6).save_pretrained(folder / "hub")
    dist.barrier()
    hub = (folder / "hub/model.safetensors").read_bytes()
    different = []
    for a, b in itertools.permutations(LAYOUTS, 2):
        config = folder / "hub"
        held = load_spread(folder / "hub", a)
        first, second = folder / f"{a}-{b}", folder / f"{a}-{b}-back"
        save_sharded(held, folder / f"{a}-{b}-{a}", config=config)
        if dist.get_rank() == 0:
            axes, sizes, spread = LAYOUTS[b]
            weightloom.convert(
                folder / f"{a}-{b}-{a}", first, mesh=dict(zip(axes, sizes, strict=True)), **spread
            )
        dist.barrier()
        save_hub(load_spread(first, b), second, config=config)
        if (second / "model.safetensors").read_bytes() != hub:
            different.append(f"{a} to {b}")
    return {"different": different}


def load_spread(path: Path, layout: str) -> dict[str, torch.Tensor]:
    """This rank's part as DTensors."""
    axes, sizes, spread = LAYOUTS[layout]
    return load_dtensors(path, init_device_mesh("cpu", sizes, mesh_dim_names=axes), **spread)


if __name__ == "__main__":
    main({"round_trips": round_trips})
