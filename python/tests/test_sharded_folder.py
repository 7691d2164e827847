"""Sharded folders: what is sharded and what is replicated is written down.

Parts are put together by what is written; numpy cuts the parts that are compared with.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Command, Result
from safetensors_by_hand import Tensor, f32, read_file, read_folder, write_file

WORLD = 4
SOLE = np.ones((8, 2), "<f4")


def of_array(array: np.ndarray, dtype: str) -> Tensor:
    return Tensor(dtype, array.shape, np.ascontiguousarray(array).tobytes())


def to_array(tensor: Tensor) -> np.ndarray:
    kinds = {"F32": "<f4", "I64": "<i8"}
    return np.frombuffer(tensor.data, kinds[tensor.dtype]).reshape(tensor.shape)


FULL = {
    "norm.weight": of_array(SOLE, "F32"),  # equal shards, and sharded nevertheless
    "proj.weight": f32(2, (5, 3)),  # 2 + 2 + 1 + 0 rows
    "head.weight": f32(3, (3, 2)),  # 1 + 1 + 1 + 0
    "layer_scalar": of_array(np.array(2.5, "<f4"), "F32"),
    "std_bias": f32(4, (3,)),
    "tid2eid": of_array(np.arange(6, dtype="<i8"), "I64"),
    "wide.weight": f32(5, (2, 6)),  # sharded on dim 1: 2 + 2 + 2 + 0 columns
}
CUT_DIM = {"norm.weight": 0, "proj.weight": 0, "head.weight": 0, "wide.weight": 1}


def chunk(array: np.ndarray, dim: int, rank: int, world: int) -> np.ndarray:
    """What torch.chunk gives: pieces of the ceiling, the last short or empty."""
    rows = array.shape[dim]
    size = -(-rows // world)
    return np.take(array, range(min(rank * size, rows), min((rank + 1) * size, rows)), axis=dim)


def parts_of(rank: int, world: int) -> dict[str, Tensor]:
    parts = {}
    for name, tensor in FULL.items():
        dim = CUT_DIM.get(name)
        cut = (
            tensor
            if dim is None
            else of_array(chunk(to_array(tensor), dim, rank, world), tensor.dtype)
        )
        parts[name] = cut
    return parts


def write_folder(
    folder: Path, world: int, tweak: Callable[[int, dict[str, Tensor]], None] | None = None
) -> Path:
    """A sharded folder, written by hand."""
    folder.mkdir()
    for rank in range(world):
        parts = parts_of(rank, world)
        if tweak:
            tweak(rank, parts)
        write_file(folder / f"rank-{rank:05d}-of-{world:05d}.safetensors", parts)
    tensors = {
        name: {
            "shape": list(tensor.shape),
            "dtype": tensor.dtype,
            "placements": [{"axis": "fsdp", "shard": CUT_DIM[name]}] if name in CUT_DIM else [],
        }
        for name, tensor in FULL.items()
    }
    manifest = {"format": "weightloom.layout/1", "mesh": [["fsdp", world]], "tensors": tensors}
    (folder / "layout.json").write_text(json.dumps(manifest))
    return folder


def refused(result: Result, *names: str) -> None:
    assert result.code == 3, result.said
    for name in names:
        assert name in result.said, (name, result.said)


@pytest.mark.parametrize("world", [1, WORLD])
def test_parts_become_whole_tensors(weightloom: Command, tmp_path: Path, world: int) -> None:
    folder = write_folder(tmp_path / "parts", world)
    weightloom("convert", folder, tmp_path / "whole").done()
    assert read_folder(tmp_path / "whole") == FULL


def test_four_ranks_become_three(weightloom: Command, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "parts", WORLD)
    rules = [
        {"pattern": name, "placements": [{"axis": "fsdp", "shard": dim}]}
        for name, dim in CUT_DIM.items()
    ]
    placements = tmp_path / "placements.json"
    placements.write_text(json.dumps([*rules, {"pattern": "*", "placements": []}]))
    out = tmp_path / "three"
    weightloom("convert", folder, out, "--mesh", "fsdp=3", "--placements", placements).done()
    for rank in range(3):
        made = read_file(out / f"rank-{rank:05d}-of-00003.safetensors")
        assert made == parts_of(rank, 3)


def test_replicas_that_differ_are_refused(weightloom: Command, tmp_path: Path) -> None:
    def differ(rank: int, parts: dict[str, Tensor]) -> None:
        if rank == 2:
            parts["std_bias"] = of_array(to_array(FULL["std_bias"]) + 1, "F32")

    folder = write_folder(tmp_path / "parts", WORLD, differ)
    refused(weightloom("convert", folder, tmp_path / "whole"), "std_bias", "rank-00002")
    assert not (tmp_path / "whole").exists()


def test_a_part_without_its_last_rows_is_refused(weightloom: Command, tmp_path: Path) -> None:
    def shorten(rank: int, parts: dict[str, Tensor]) -> None:
        if rank == 1:
            parts["proj.weight"] = of_array(to_array(FULL["proj.weight"])[2:3], "F32")

    folder = write_folder(tmp_path / "parts", WORLD, shorten)
    refused(weightloom("convert", folder, tmp_path / "whole"), "proj.weight", "[5, 3]", "4")
    assert not (tmp_path / "whole").exists()


def test_a_rank_that_is_gone_is_named(weightloom: Command, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "parts", WORLD)
    (folder / "rank-00003-of-00004.safetensors").unlink()
    refused(weightloom("convert", folder, tmp_path / "whole"), "rank 3", "rank-00003-of-00004")


def test_the_order_of_two_cuts_of_one_dim_is_data(weightloom: Command, tmp_path: Path) -> None:
    whole = to_array(f32(6, (10, 2)))
    folder = tmp_path / "parts"
    folder.mkdir()
    for fsdp, tp in itertools.product(range(2), range(2)):
        part = chunk(chunk(whole, 0, tp, 2), 0, fsdp, 2)
        name = f"rank-{fsdp * 2 + tp:05d}-of-00004.safetensors"
        write_file(folder / name, {"proj.weight": of_array(part, "F32")})
    placements = [{"axis": "tp", "shard": 0}, {"axis": "fsdp", "shard": 0}]
    tensor = {"shape": [10, 2], "dtype": "F32", "placements": placements}
    manifest: dict[str, Any] = {
        "format": "weightloom.layout/1",
        "mesh": [["fsdp", 2], ["tp", 2]],
        "tensors": {"proj.weight": tensor},
    }
    (folder / "layout.json").write_text(json.dumps(manifest))
    weightloom("convert", folder, tmp_path / "whole").done()
    assert read_folder(tmp_path / "whole") == {"proj.weight": of_array(whole, "F32")}


# ---- any layout to any other ---------------------------------------------------------------------

MESHES = ("fsdp=2", "fsdp=3", "tp=2,fsdp=2", "ep=2,tp=3", "pp=2,ep=2,tp=2")


def random_rules(draw: random.Random, mesh: str, tensors: Mapping[str, Tensor]) -> list[Any]:
    axes = [axis.split("=")[0] for axis in mesh.split(",")]
    rules = []
    for name, tensor in tensors.items():
        steps: list[Any] = []
        for axis in draw.sample(axes, len(axes)):
            if not tensor.shape or draw.random() < 0.3:
                continue
            dim = draw.randrange(len(tensor.shape))
            if draw.random() < 0.2:
                steps.append({"pad": {"dim": dim, "multiple": draw.randint(2, 4)}})
            if draw.random() < 0.3:
                step = {"axis": axis, "strided_shard": {"dim": dim, "split_factor": 2}}
            else:
                step = {"axis": axis, "shard": dim}
                if draw.random() < 0.3:
                    step["rule"] = draw.choice(["balanced", "round_robin"])
            steps.append(step)
        rules.append({"pattern": name, "placements": steps})
    return rules


@pytest.mark.parametrize("seed", range(6))
def test_any_layout_becomes_any_other(weightloom: Command, tmp_path: Path, seed: int) -> None:
    """hub → A → B → hub gives the input's bytes."""
    draw = random.Random(seed)
    source = tmp_path / "model.safetensors"
    tensors = {
        f"t{i}": f32(i, tuple(draw.randint(0 if i == 0 else 1, 9) for _ in range(i % 4)))
        for i in range(10)
    }
    write_file(source, tensors)
    here = source
    for step in "ab":
        mesh = draw.choice(MESHES)
        placements = tmp_path / f"{step}.json"
        placements.write_text(json.dumps(random_rules(draw, mesh, tensors)))
        there = tmp_path / step
        weightloom("convert", here, there, "--mesh", mesh, "--placements", placements).done()
        here = there
    weightloom("convert", here, tmp_path / "back.safetensors").done()
    assert read_file(tmp_path / "back.safetensors") == tensors
