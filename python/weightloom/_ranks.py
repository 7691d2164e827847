"""How a caller says what ranks there are, and how tensors are spread over them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ._errors import UsageError, refusal

Axes = str | Mapping[str, Any]
Mesh = Axes | Any | None
"""As the command has it (``"fsdp=4,tp=2"``); sizes by axis; torch's DeviceMesh; or several of
these by name. None: no ranks."""

Rules = str | os.PathLike[str] | Mapping[str, Any] | Sequence[Any] | None
"""A path, or what stands in such a file."""


def spread_request(
    mesh: Mesh, rank: int | None, tp_plan: Rules, placements: Rules, load_specs: Rules
) -> dict[str, Any]:
    """The arguments of `_core.plan` that say how targets are spread."""
    return {
        "mesh": mesh_text(mesh),
        "rank": rank_in(mesh) if rank is None else rank,
        "tp_plan": rules_text(tp_plan),
        "placements": rules_text(_placement_rules(placements)),
        "load_specs": rules_text(load_specs),
    }


def mesh_text(mesh: Mesh) -> str:
    """A mesh, or several, as the command has it; no mesh is ""."""
    if mesh is None or isinstance(mesh, str):
        return mesh or ""
    if is_device_mesh(mesh):
        return _axes_text(_axes_of(mesh))
    if not isinstance(mesh, Mapping):
        raise refusal(
            UsageError,
            f"mesh={mesh!r} is no mesh",
            "give 'fsdp=4,tp=2', {'fsdp': 4, 'tp': 2} or a DeviceMesh",
        )
    if all(isinstance(size, int) for size in mesh.values()):
        return _axes_text(mesh)
    return "; ".join(f"{name}: {mesh_text(each)}" for name, each in mesh.items())


def rank_in(mesh: Mesh) -> int | None:
    """This process's rank, which a DeviceMesh tells; None for any other mesh."""
    if is_device_mesh(mesh):
        return int(mesh.get_rank())
    meshes = mesh.values() if isinstance(mesh, Mapping) else ()
    return next((int(m.get_rank()) for m in meshes if is_device_mesh(m)), None)


def is_device_mesh(mesh: Any) -> bool:
    """True for torch's DeviceMesh, without importing torch."""
    return hasattr(mesh, "mesh_dim_names") and hasattr(mesh, "get_rank")


def rules_text(rules: Rules) -> str | None:
    """A path, or the text of a file that is given in its place."""
    if rules is None:
        return None
    if isinstance(rules, str | os.PathLike):
        return os.fspath(rules)
    return json.dumps(list(rules) if isinstance(rules, Sequence) else dict(rules))


def _placement_rules(placements: Rules) -> Rules:
    """Placements by pattern as a list of rules; the first that matches wins."""
    if not isinstance(placements, Mapping):
        return placements
    return [{"pattern": name, "placements": list(steps)} for name, steps in placements.items()]


def _axes_text(axes: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={size}" for name, size in axes.items())


def _axes_of(mesh: Any) -> dict[str, int]:
    """Names and sizes; ranks must count from 0, row by row, as the engine counts them."""
    names = mesh.mesh_dim_names
    if not names:
        raise refusal(
            UsageError,
            f"the axes of {mesh} have no names",
            "give them: init_device_mesh(..., mesh_dim_names=('fsdp', 'tp'))",
        )
    ranks = mesh.mesh.flatten().tolist()
    if ranks != list(range(len(ranks))):
        raise refusal(
            UsageError,
            f"{mesh} has the ranks {ranks}: a checkpoint is spread over 0, 1, 2, ... row by row",
            "give the mesh of all ranks, of which this one is a part, and placements on it",
        )
    return dict(zip(names, mesh.mesh.shape, strict=True))
