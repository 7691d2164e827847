"""Tensors of a rank as torch's DTensors: the work of `weightloom.torch.load_dtensors`."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.distributed.tensor import DeviceMesh, DTensor, Replicate, Shard
from torch.distributed.tensor.placement_types import Placement, _StridedShard

from . import _load
from ._errors import UsageError, refusal
from ._load import Size, Source
from ._progress import Progress, callback_for

_MOST_LISTED = 5


def load_dtensors(
    path: Source,
    mesh: DeviceMesh | Mapping[str, DeviceMesh],
    *,
    local: Iterable[str] = (),
    to: str = "runtime",
    threads: int | None = None,
    memory_budget: Size = None,
    progress: Progress = None,
    **selection: Any,
) -> dict[str, DTensor | torch.Tensor]:
    """Load what this rank holds of a checkpoint, as DTensors on the CPU.

    Each rank reads its own bytes and no others, through any conversion. There is no communication.

    Parameters
    ----------
    path
        A safetensors file, a folder, an index; a sharded folder too.
    mesh
        With named axes; all ranks, counted row by row. Several by name, such as ``{"dense": ...,
        "expert": ...}``, if placements or the model's plan tell them apart.
    local
        Globs of the tensors that come as plain tensors, this rank's part.
    to, threads, memory_budget, progress
        As for `weightloom.load`.
    selection
        Among it ``tp_plan`` and ``placements``, which say how tensors are spread; as
        `weightloom.plan` takes it.

    Returns
    -------
    dict of str to DTensor
        By name. What a pipeline's other stages hold is not there.

    Raises
    ------
    UsageError
        If placements of torch cannot say how a tensor is spread (uneven cuts by FSDP of what
        another axis has cut, FSDP of what is cut in stripes, parts of a fused tensor, copies,
        tables, padding), and `local` does not name it. Nothing is read.
    PlanError
        As `weightloom.load`.
    """
    planned = _load.plan(
        _load.opened(path, threads), mesh=mesh, to=to, threads=threads, **selection
    )
    told = {name: how for name, *how in planned.dtensors()}
    apart = {name for name in told if any(fnmatch.fnmatchcase(name, glob) for glob in local)}
    _refuse([name for name in told.keys() - apart if told[name][-1] is None])
    meshes = mesh if isinstance(mesh, Mapping) else {"": mesh}
    tensors, _ = planned.load(
        threads=threads,
        memory_budget=memory_budget,
        progress=callback_for(progress, "load"),
        framework="torch",
    )
    for name in told.keys() - apart:
        tensors[name] = _dtensor(tensors[name], meshes, *told[name])
    return tensors


def _dtensor(
    part: torch.Tensor,
    meshes: Mapping[str, DeviceMesh],
    mesh: str,
    shape: list[int],
    placed: list[tuple[str, int, int]],
) -> DTensor:
    """The tensor of which `part` is this rank's; nothing is compared or sent."""
    return DTensor.from_local(
        part,
        meshes.get(mesh, next(iter(meshes.values()))),
        [_placement(*each) for each in placed],
        run_check=False,
        shape=torch.Size(shape),
        stride=torch.empty(shape, device="meta").stride(),
    )


def _placement(kind: str, dim: int, split_factor: int) -> Placement:
    if kind == "replicate":
        return Replicate()
    return Shard(dim) if kind == "shard" else _StridedShard(dim, split_factor=split_factor)


def _refuse(names: list[str]) -> None:
    if not names:
        return
    names.sort()
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    raise refusal(
        UsageError,
        f"no placements of torch say how {', '.join(names[:_MOST_LISTED])}{more} lie on the ranks",
        "name them in local=[...]: they come as plain tensors, this rank's part",
    )
