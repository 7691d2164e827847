"""What this rank holds of a trainer's state, as `weightloom._core.ParallelSave` takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from ._arrays import dtype_name, held
from ._errors import UsageError, refusal

State = torch.nn.Module | Mapping[str, Any]
Placed = tuple[str, int, int]
Described = tuple[
    str, str, list[int], list[int], list[tuple[str, int]], list[int], list[Placed], str
]


@dataclass(frozen=True)
class Part:
    """This rank's part of a tensor: what it is of the whole, and its elements."""

    described: Described
    local: torch.Tensor

    @property
    def name(self) -> str:
        """The same on all ranks."""
        return self.described[0]

    @property
    def nbytes(self) -> int:
        """Size of the part in bytes."""
        return self.local.numel() * self.local.element_size()

    @property
    def lies_ready(self) -> bool:
        """True if its bytes can be read where they are: on the CPU, without gaps."""
        local = self.local
        on_cpu = local.device.type == "cpu" and local.is_contiguous()
        return on_cpu and not local.is_conj() and not local.is_neg()


def parts_of(state: State, ranks: list[int]) -> list[Part]:
    """The parts that this rank holds; `ranks` are those of the group, by their world numbers.

    A DTensor is what its placements say, any other tensor a replica. Two names of one tensor are
    told by its memory.

    Raises
    ------
    UsageError
        For what is no tensor, sums that are pending, and meshes of ranks outside the group.
    """
    places = {rank: place for place, rank in enumerate(ranks)}
    names: dict[Any, str] = {}
    parts = []
    for name, tensor in tensors_of(state).items():
        _refuse_unfit(name, tensor)
        if isinstance(tensor, DTensor) and tensor.device_mesh.get_coordinate() is None:
            continue
        local = local_of(tensor)
        first = next((names[key] for key in _identity(tensor, local) if key in names), "")
        for key in _identity(tensor, local):
            names.setdefault(key, first or name)
        parts.append(Part(_described(name, tensor, local, places, first), local))
    return parts


def tensors_of(state: State) -> Mapping[str, Any]:
    """The state by name; of a module its state dict, in which tied tensors are one object."""
    if isinstance(state, torch.nn.Module):
        return state.state_dict(keep_vars=True)
    if isinstance(state, Mapping):
        return state
    raise refusal(
        UsageError,
        f"a state of {type(state).__module__}.{type(state).__qualname__}",
        "give a torch.nn.Module or a state dict",
    )


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """What stands in this process, outside of autograd."""
    tensor = tensor.detach()
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _refuse_unfit(name: str, tensor: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        held(name, tensor)  # raises for what no checkpoint holds
        raise refusal(UsageError, f"tensor '{name}': it is no torch tensor", "give torch tensors")
    if tensor.layout != torch.strided or tensor.device.type == "meta":
        raise refusal(
            UsageError,
            f"tensor '{name}': it is {tensor.layout} on {tensor.device}, not strided in memory",
            "make it dense, and give it values, first",
        )


def _identity(tensor: torch.Tensor, local: torch.Tensor) -> list[Any]:
    """What tells that two names are one tensor; an empty part has no memory to tell it by."""
    where = (str(local.device), local.data_ptr(), local.dtype, local.shape, local.stride())
    return [id(tensor), *([where] if local.numel() else [])]


def _described(
    name: str, tensor: torch.Tensor, local: torch.Tensor, places: Mapping[int, int], first: str
) -> Described:
    dtype = str(dtype_name(tensor.dtype))
    axes, ranks, placed = _spread(name, tensor, places)
    return (
        name,
        dtype,
        _sizes(tensor.shape, dtype),
        _sizes(local.shape, dtype),
        axes,
        ranks,
        placed,
        first,
    )


def _sizes(shape: torch.Size, dtype: str) -> list[int]:
    """In elements of the dtype; torch counts pairs of F4."""
    sizes = list(shape)
    if dtype == "F4" and sizes:
        sizes[-1] *= 2
    return sizes


def axes_of(tensor: DTensor) -> list[tuple[str, int]]:
    """Name and size of each axis of its mesh."""
    mesh = tensor.device_mesh
    names = mesh.mesh_dim_names or [f"axis{i}" for i in range(mesh.ndim)]
    return [(axis, mesh.size(i)) for i, axis in enumerate(names)]


def placed_of(name: str, tensor: DTensor) -> list[Placed]:
    """How it is placed along each axis.

    Raises
    ------
    UsageError
        For sums that are pending.
    """
    return [_placed(name, placement, tensor.dim()) for placement in tensor.placements]


def _spread(
    name: str, tensor: torch.Tensor, places: Mapping[int, int]
) -> tuple[list[tuple[str, int]], list[int], list[Placed]]:
    """Axes of its mesh, the mesh's ranks in the group, placements."""
    if not isinstance(tensor, DTensor):
        return [], [], []
    ranks = tensor.device_mesh.mesh.flatten().tolist()
    if foreign := [rank for rank in ranks if rank not in places]:
        raise refusal(
            UsageError,
            f"tensor '{name}': its mesh has ranks {foreign}, which are not of the group that saves",
            "give a group that has all ranks of the meshes, or none: all ranks save then",
        )
    return axes_of(tensor), [places[rank] for rank in ranks], placed_of(name, tensor)


def _placed(name: str, placement: Any, dims: int) -> Placed:
    kind = type(placement).__name__
    if kind == "_StridedShard":
        return "strided_shard", placement.dim % dims, placement.split_factor
    if kind == "Shard":
        return "shard", placement.dim % dims, 1
    if kind == "Replicate":
        return "replicate", 0, 1
    raise refusal(
        UsageError,
        f"tensor '{name}': it is placed as {placement}, so no rank has its values",
        "redistribute it to Shard or Replicate first",
    )
