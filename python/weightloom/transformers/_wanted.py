"""What a model wants: the names, shapes and dtypes of its tensors, and where they are to lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel, core_model_loading
from transformers.integrations import accelerate as placement

from . import _refusals


@dataclass(frozen=True)
class Wanted:
    """A tensor of a model's state dict, before it holds values."""

    shape: tuple[int, ...]
    dtype: torch.dtype


def wanted_tensors(model: PreTrainedModel, dtype_plan: dict[str, torch.dtype]) -> dict[str, Wanted]:
    """Every tensor of the state dict, in its order, with the dtype that loading gives it.

    That is the dtype of the parameter, which the model's construction chose, unless a rule of the
    class keeps the module in another (`_keep_in_fp32_modules`).
    """
    kept = _kept_dtype(dtype_plan)
    return {
        name: Wanted(tuple(tensor.shape), kept(name) or tensor.dtype)
        for name, tensor in model.state_dict().items()
        if _is_plain(name, tensor)
    }


def _is_plain(name: str, tensor: Any) -> bool:
    if core_model_loading.is_dtensor(tensor):
        raise _refusals.unsupported(f"a model sharded over devices ({name!r} is a DTensor)")
    return isinstance(tensor, torch.Tensor)


def _kept_dtype(dtype_plan: dict[str, torch.dtype]) -> Callable[[str], torch.dtype | None]:
    """Name → the dtype that a rule of the class keeps it in."""
    if not dtype_plan:
        return lambda name: None
    pattern, rule_of_group, _ = core_model_loading.build_glob_alternation(list(dtype_plan))

    def kept(name: str) -> torch.dtype | None:
        match = pattern.search(name)
        return None if match is None else dtype_plan[rule_of_group[str(match.lastgroup)]]

    return kept


Device = str | int | torch.device


@dataclass(frozen=True)
class Devices:
    """Where each tensor is to lie."""

    by_name: dict[str, Device]

    @classmethod
    def of(cls, device_map: dict[str, Device] | None, names: Iterable[str]) -> Devices:
        """Expanded once for all names; empty when everything stays in memory."""
        if device_map is None or all(_is_cpu(device) for device in device_map.values()):
            return cls({})
        return cls(placement.expand_device_map(device_map, list(names)))

    @property
    def all_cpu(self) -> bool:
        """True if nothing leaves memory."""
        return not self.by_name

    def __getitem__(self, name: str) -> Device:
        return self.by_name.get(name, "cpu")


def _is_cpu(device: Device) -> bool:
    return str(device) == "cpu"
