"""Writes a checkpoint as the ranks of an FSDP program save it through torch's DCP: sharded files.

usage: make_dcp.py RANKS OUT_DIR SRC_DIR

Each rank's file holds a stretch of every tensor's rows and, in its metadata, where that begins.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch.distributed.checkpoint import _hf_utils as dcp


def tensors_of(folder: Path) -> dict[str, Path]:
    """The file of each tensor, by name."""
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    return {name: folder / file for name, file in index["weight_map"].items()}


def part_of(file: Path, name: str, rank: int, ranks: int) -> tuple[torch.Tensor, list[int]]:
    """A rank's rows, and where they begin in the whole."""
    with safe_open(file, framework="pt") as opened:
        whole = opened.get_slice(name)
        shape = whole.get_shape()
        step = -(-shape[0] // ranks)
        begin = min(step * rank, shape[0])
        return whole[begin : begin + step], [begin, *[0] * (len(shape) - 1)]


def write_rank(source: Path, folder: Path, rank: int, ranks: int) -> None:
    """One rank's file."""
    parts = {name: part_of(file, name, rank, ranks) for name, file in tensors_of(source).items()}
    places = {name: {dcp.SAVED_OFFSETS_KEY: begin} for name, (_, begin) in parts.items()}
    metadata = {
        dcp.CUSTOM_METADATA_KEY: json.dumps(places),
        dcp.DCP_VERSION_KEY: str(dcp.HF_DCP_VERSION),
        dcp.FORMAT_KEY: dcp.FORMAT_VALUE,
    }
    file = folder / dcp._gen_file_name(1, 1, rank + 1)
    save_file({name: part for name, (part, _) in parts.items()}, file, metadata=metadata)


def main() -> None:
    """The command."""
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    ranks, folder, source = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        write_rank(source, folder, rank, ranks)
    shutil.copy(source / "config.json", folder)
    print(f"{folder}: {ranks} ranks")


if __name__ == "__main__":
    main()
