"""PyTorch's distributed checkpoints in safetensors: its own writer and reader, and our folders."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from conftest import Command
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

RANKS = 3
CUT_DIM = {"wide": 1, "rows": 0, "few": 0, "whole": None, "scalar": None, "steps": 0}


def full_tensors() -> dict[str, torch.Tensor]:
    """Cut evenly, unevenly, into fewer parts than ranks, and not at all."""
    return {
        "wide": torch.arange(4 * 7, dtype=torch.float32).reshape(4, 7),
        "rows": torch.arange(8 * 3, dtype=torch.bfloat16).reshape(8, 3),
        "few": torch.arange(2 * 5, dtype=torch.float16).reshape(2, 5),
        "whole": torch.arange(5, dtype=torch.float64),
        "scalar": torch.tensor(2.5),
        "steps": torch.arange(9),
    }


def assert_equal(made: dict[str, torch.Tensor]) -> None:
    full = full_tensors()
    assert made.keys() == full.keys()
    for name, tensor in made.items():
        assert tensor.dtype == full[name].dtype, name
        assert torch.equal(tensor, full[name]), name


def _save_as_rank(rank: int, store: str, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("fsdp",))
    state = full_tensors()
    for name, dim in CUT_DIM.items():
        if dim is not None:
            state[name] = distribute_tensor(state[name], mesh, [Shard(dim)])
    writer = HuggingFaceStorageWriter(path=folder, save_distributed=True)
    dcp.save(state, storage_writer=writer)
    dist.destroy_process_group()


def test_what_torch_wrote_is_put_together(weightloom: Command, tmp_path: Path) -> None:
    folder = tmp_path / "dcp"
    mp.spawn(_save_as_rank, (str(tmp_path / "store"), str(folder)), nprocs=RANKS)
    assert len(list(folder.rglob("*.safetensors"))) > 1
    parts = next(folder.rglob("*.safetensors")).parent
    weightloom("convert", parts, tmp_path / "whole.safetensors").done()
    assert_equal(load_file(tmp_path / "whole.safetensors"))
    weightloom("convert", parts, tmp_path / "two", "--mesh", "fsdp=2").done()
    weightloom("convert", tmp_path / "two", tmp_path / "again.safetensors").done()
    assert_equal(load_file(tmp_path / "again.safetensors"))


def test_torch_reads_our_folder(weightloom: Command, tmp_path: Path) -> None:
    save_file(full_tensors(), tmp_path / "full.safetensors")
    rules = tmp_path / "rules.json"
    cut = (
        f'{{"pattern": "{name}", "placements": [{{"axis": "fsdp", "shard": {dim}}}]}}, '
        for name, dim in CUT_DIM.items()
        if dim is not None
    )
    rules.write_text(f'[{"".join(cut)}{{"pattern": "*", "placements": []}}]')
    flags = ("--mesh", f"fsdp={RANKS}", "--placements", rules)
    weightloom("convert", tmp_path / "full.safetensors", tmp_path / "parts", *flags).done()
    state = {name: torch.zeros_like(tensor) for name, tensor in full_tensors().items()}
    dcp.load(state, storage_reader=HuggingFaceStorageReader(str(tmp_path / "parts")), no_dist=True)
    assert_equal(state)
