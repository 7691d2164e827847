"""What a rank holds, against Transformers' own sharded load of families where that is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from tiny_models import make_tiny
from transformers import AutoModelForCausalLM
from transformers.distributed import DistributedConfig

import weightloom as wl

RANKS = 2
# Our meshes, and what Transformers calls the same.
MESHES: dict[str, dict[str, int]] = {
    "tp=2": {"tp_size": 2},
    "fsdp=2": {"fsdp_size": 2},
    "dense: fsdp=2; expert: ep=2": {"fsdp_size": 2, "ep_size": 2},
    "dense: tp=2; expert: ep=2": {"tp_size": 2, "ep_size": 2},
}


def local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _load_as_rank(rank: int, store: str, model: str, out: str) -> None:
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS}.items():
            environment.setenv(name, str(value))
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
        for i, sizes in enumerate(MESHES.values()):
            config: Any = DistributedConfig(**sizes)
            loaded = AutoModelForCausalLM.from_pretrained(
                model, dtype="auto", distributed_config=config
            )
            parts = {name: local(tensor) for name, tensor in loaded.state_dict().items()}
            torch.save(parts, Path(out) / f"{i}-{rank}.pt")
        dist.destroy_process_group()


@pytest.mark.parametrize("family", ["mixtral", "deepseek_v3"])
def test_ranks_hold_what_transformers_gives_them(family: str, tmp_path: Path) -> None:
    model = tmp_path / "model"
    make_tiny(family, torch.bfloat16).save_pretrained(model)
    mp.spawn(_load_as_rank, (str(tmp_path / "store"), str(model), str(tmp_path)), nprocs=RANKS)
    for i, mesh in enumerate(MESHES):
        for rank in range(RANKS):
            theirs = torch.load(tmp_path / f"{i}-{rank}.pt")
            ours = wl.load(model, mesh=mesh, rank=rank, tp_plan="auto", framework="torch")
            assert ours.keys() == theirs.keys()
            for name, tensor in theirs.items():
                assert tensor.shape == ours[name].shape, (mesh, rank, name)
                assert torch.equal(tensor, ours[name]), (mesh, rank, name)
