"""Tensors of a rank as torch's DTensors: the work of `weightloom.torch.load_dtensors`."""

from __future__ import annotations

import fnmatch
import json
import math
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
        another axis has cut, parts of a fused tensor, copies, tables, padding), and `local` does
        not name it. Nothing is read.
    PlanError
        As `weightloom.load`.
    """
    planned = _load.plan(
        _load.opened(path, threads), mesh=mesh, to=to, threads=threads, **selection
    )
    planned.raise_if_refused()
    spread = json.loads(planned.manifest)["tensors"]
    meshes = mesh if isinstance(mesh, Mapping) else {"": mesh}
    spreads = {t.name: _Spread(spread[t.name], meshes) for t in planned.targets}
    apart = {name for name in spreads if any(fnmatch.fnmatchcase(name, glob) for glob in local)}
    _refuse([name for name, each in spreads.items() if not each.is_dtensor and name not in apart])
    tensors, _ = planned.load(
        threads=threads,
        memory_budget=memory_budget,
        progress=callback_for(progress, "load"),
        framework="torch",
    )
    for name in spreads.keys() - apart:
        tensors[name] = spreads[name].dtensor(tensors[name])
    return tensors


def _refuse(names: list[str]) -> None:
    if not names:
        return
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    raise refusal(
        UsageError,
        f"no placements of torch say how {', '.join(names[:_MOST_LISTED])}{more} lie on the ranks",
        "name them in local=[...]: they come as plain tensors, this rank's part",
    )


class _Spread:
    """How one tensor lies on a mesh: an entry of layout.json, as torch says it if it can."""

    def __init__(self, entry: Mapping[str, Any], meshes: Mapping[str, DeviceMesh]) -> None:
        self._shape = torch.Size(entry["shape"])
        self._mesh = meshes.get(entry.get("mesh", ""), next(iter(meshes.values())))
        self._sizes = dict(zip(self._mesh.mesh_dim_names or (), self._mesh.mesh.shape, strict=True))
        self._cuts: dict[str, tuple[int, int]] = {}  # axis → dim, groups; in carving order
        self.is_dtensor = all(self._add(step) for step in entry["placements"])
        self.is_dtensor &= all(self._divides(axis) for axis in self._cuts)

    def dtensor(self, part: torch.Tensor) -> DTensor:
        """The tensor of which `part` is this rank's; nothing is compared or sent."""
        placements = [self._placement(axis) for axis in self._sizes]
        stride = torch.empty(self._shape, device="meta").stride()
        return DTensor.from_local(
            part, self._mesh, placements, run_check=False, shape=self._shape, stride=stride
        )

    def _add(self, step: Mapping[str, Any]) -> bool:
        """Takes a step; False if it is none of torch's."""
        if step.get("replicate"):
            return True
        if step.keys() == {"axis", "shard"}:
            self._cuts[step["axis"]] = (step["shard"], 1)
            return True
        if step.keys() == {"axis", "strided_shard"}:
            dim, groups = step["strided_shard"]["dim"], step["strided_shard"]["split_factor"]
            is_alone = dim not in {each for each, _ in self._cuts.values()}
            self._cuts[step["axis"]] = (dim, groups)
            return is_alone
        return False

    def _placement(self, axis: str) -> Placement:
        if axis not in self._cuts:
            return Replicate()
        dim, _ = self._cuts[axis]
        pieces = self._pieces(axis)
        return Shard(dim) if pieces == 1 else _StridedShard(dim, split_factor=pieces)

    def _pieces(self, axis: str) -> int:
        """In how many pieces the dim was by then, of those that the mesh names only later."""
        dim, groups = self._cuts[axis]
        order, carved = list(self._sizes), list(self._cuts)
        before = [
            self._sizes[other]
            for other in carved[: carved.index(axis)]
            if self._cuts[other][0] == dim and order.index(other) > order.index(axis)
        ]
        return math.prod(before) * groups

    def _divides(self, axis: str) -> bool:
        """Of uneven pieces torch computes others than were cut."""
        dim, groups = self._cuts[axis]
        if self._pieces(axis) == 1:
            return True
        parts = [self._sizes[a] for a, (other, _) in self._cuts.items() if other == dim]
        return self._shape[dim] % (math.prod(parts) * groups) == 0
