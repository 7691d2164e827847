"""Where the tensors that `load_into` fills lie: whole, or as this rank's parts of DTensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

Held = tuple[str, list[int], list[tuple[str, int]], list[int], list[tuple[str, int, int]]]


@dataclass(frozen=True)
class Place:
    """A tensor of the caller's, of which this process may hold a part."""

    name: str
    tensor: torch.Tensor

    @cached_property
    def local(self) -> torch.Tensor:
        """What stands in this process, outside of autograd: the memory that is filled."""
        tensor = self.tensor.detach()
        return tensor.to_local() if self.is_dtensor else tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole."""
        return tuple(self.tensor.shape)

    @property
    def is_dtensor(self) -> bool:
        """True for torch's DTensor, without importing torch.distributed."""
        return hasattr(self.tensor, "device_mesh")

    @property
    def is_elsewhere(self) -> bool:
        """True if this rank is not on the tensor's mesh, and has no part of it."""
        return self.is_dtensor and self.tensor.device_mesh.get_coordinate() is None

    @property
    def held(self) -> Held:
        """As `Plan.held` takes it."""
        sizes = list(self.local.shape)
        if not self.is_dtensor:
            return self.name, sizes, [], [], []
        from ._rank_tensors import axes_of, placed_of

        at = list(self.tensor.device_mesh.get_coordinate())
        return self.name, sizes, axes_of(self.tensor), at, placed_of(self.name, self.tensor)

    @property
    def memory(self) -> Any:
        """Equal for names that are one tensor. Memory of no bytes is nobody's; a DTensor may have
        bytes on other ranks, so of its names one object tells.
        """
        local = self.local
        if local.device.type == "meta" or (local.numel() == 0 and not self.is_dtensor):
            return self.name
        if local.numel() == 0:
            return id(self.tensor)
        return (local.device, local.data_ptr(), tuple(local.shape), local.stride())

    @property
    def extent(self) -> tuple[int, int]:
        """First byte of the memory, and the one after its last."""
        local = self.local
        span = sum((n - 1) * step for n, step in zip(local.shape, local.stride(), strict=True))
        begin = local.data_ptr()
        return begin, begin + (span + 1) * local.element_size()


def places_of(owner: torch.nn.Module | Mapping[str, torch.Tensor]) -> dict[str, Place]:
    """The tensors of a module, or of a dict, by name."""
    if isinstance(owner, torch.nn.Module):
        owner = owner.state_dict(keep_vars=True)
    return {name: Place(name, t) for name, t in owner.items() if isinstance(t, torch.Tensor)}
