"""What ranks hold, against DTensor: random meshes, shapes and placements, uneven and empty ones."""

from __future__ import annotations

import math
import os
import random
import socket
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from spread_probe import Indices, Json, parts_of
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import Placement, _StridedShard
from torch.testing._internal.distributed.fake_pg import FakeStore

SEED = int(os.environ.get("WEIGHTLOOM_SEED", "20261130"))
CASES = 300
# Meshes of which every rank is played, one after another.
PLAYED_CASES = 40

Case = tuple[dict[str, int], list[int], list[Placement]]


def random_case(dice: random.Random, most_axes: int = 4) -> Case:
    """A mesh, a shape, and a placement for each axis of the mesh."""
    axes = {f"axis{i}": dice.choice([1, 2, 2, 3, 4]) for i in range(dice.randint(1, most_axes))}
    shape = [dice.choice([0, 1, 2, 3, 5, 7, 8, 12, 13]) for _ in range(dice.randint(1, 3))]
    return axes, shape, [random_placement(dice, len(shape)) for _ in axes]


def random_placement(dice: random.Random, dims: int) -> Placement:
    """Any of the three kinds."""
    dim = dice.randrange(dims)
    kinds = [
        Replicate(),
        Shard(dim),
        Shard(dim),
        _StridedShard(dim, split_factor=dice.randint(2, 4)),
    ]
    return dice.choice(kinds)


def as_request(case: Case) -> tuple[str, list[Json], list[int]]:
    """The case as the library takes it."""
    axes, shape, placements = case
    mesh = ",".join(f"{name}={size}" for name, size in axes.items())
    steps = [as_step(name, placement) for name, placement in zip(axes, placements, strict=True)]
    return mesh, steps, shape


def as_step(axis: str, placement: Placement) -> Json:
    """One placement in our form."""
    if isinstance(placement, _StridedShard):
        strided = {"dim": placement.dim, "split_factor": placement.split_factor}
        return {"axis": axis, "strided_shard": strided}
    if isinstance(placement, Shard):
        return {"axis": axis, "shard": placement.dim}
    return {"axis": axis, "replicate": True}


def elements(shape: list[int], part: Indices) -> torch.Tensor:
    """The rank's part of a tensor whose elements are numbered."""
    whole = torch.arange(math.prod(shape)).reshape(shape)
    for dim, indices in enumerate(part):
        whole = whole.index_select(dim, torch.tensor(indices, dtype=torch.long))
    return whole


def coordinate_of(rank: int, sizes: list[int]) -> list[int]:
    """Row-major."""
    found = []
    for size in reversed(sizes):
        found.insert(0, rank % size)
        rank //= size
    return found


def test_local_shapes_and_offsets_are_torchs() -> None:
    dice = random.Random(SEED)
    cases = [random_case(dice) for _ in range(CASES)]
    for case, parts in zip(cases, parts_of([as_request(case) for case in cases]), strict=True):
        axes, shape, placements = case
        sizes = list(axes.values())
        assert len(parts) == math.prod(sizes)
        for rank, part in enumerate(parts):
            wanted, offsets = _compute_local_shape_and_global_offset(
                shape, sizes, coordinate_of(rank, sizes), placements
            )
            assert [len(each) for each in part] == list(wanted), (SEED, case, rank)
            firsts = [each[0] for each in part if each]
            assert firsts == [o for o, n in zip(offsets, wanted, strict=True) if n], (SEED, case)


def test_local_elements_are_those_of_distribute_tensor() -> None:
    dice = random.Random(SEED + 1)
    cases = [random_case(dice, most_axes=3) for _ in range(PLAYED_CASES)]
    for case, parts in zip(cases, parts_of([as_request(case) for case in cases]), strict=True):
        for rank, part in enumerate(parts):
            local = played(case, rank, len(parts))
            assert torch.equal(local, elements(case[1], part)), (SEED, case, rank)


def played(case: Case, rank: int, ranks: int) -> torch.Tensor:
    """What `distribute_tensor` leaves to a rank of a group in which nothing is sent."""
    axes, shape, placements = case
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    try:
        mesh = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
        whole = torch.arange(math.prod(shape)).reshape(shape)
        return distribute_tensor(whole, mesh, placements, src_data_rank=None).to_local()
    finally:
        dist.destroy_process_group()


# torch scatters strided shards of equal sizes only.
GLOO_CASES: list[Case] = [
    ({"fsdp": 2, "tp": 2}, [7, 3], [Shard(0), Shard(1)]),
    ({"fsdp": 2, "tp": 2}, [5, 8], [Shard(0), _StridedShard(1, split_factor=2)]),
    ({"fsdp": 2, "tp": 2}, [8, 2], [_StridedShard(0, split_factor=2), Shard(0)]),
    ({"dp": 2, "tp": 2}, [3, 5], [Replicate(), Shard(1)]),
    ({"ep": 4}, [6, 2], [Shard(0)]),
]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def scatter_cases(rank: int, port: int, folder: str) -> None:
    """One rank of a gloo group: its local tensors of all cases, in a file."""
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=4)
    locals_: list[Any] = []
    for axes, shape, placements in GLOO_CASES:
        mesh = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
        whole = torch.arange(math.prod(shape)).reshape(shape)
        spread = distribute_tensor(whole, mesh, placements)
        assert torch.equal(spread.full_tensor(), whole)
        locals_.append(spread.to_local())
    torch.save(locals_, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


def test_local_elements_are_those_that_gloo_scatters(tmp_path: Path) -> None:
    multiprocessing.spawn(scatter_cases, (free_port(), str(tmp_path)), nprocs=4)
    of_ranks = [torch.load(tmp_path / f"{rank}.pt") for rank in range(4)]
    answers = parts_of([as_request(case) for case in GLOO_CASES])
    for i, (case, parts) in enumerate(zip(GLOO_CASES, answers, strict=True)):
        for rank, part in enumerate(parts):
            assert torch.equal(of_ranks[rank][i], elements(case[1], part)), (case, rank)
