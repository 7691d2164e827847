"""Loaded tensors become the parameters and buffers of a model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.integrations import accelerate as placement

from ._wanted import Devices


class Placer:
    """Puts tensors into a model under their names, as Transformers does.

    A parameter that is put there is marked as initialised, so that the initialisation of missing
    weights leaves it alone. Modules that several names lead to are found by each.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._modules = dict(model.named_modules(remove_duplicate=False))

    def put(self, name: str, tensor: torch.Tensor) -> None:
        """Replaces the parameter or buffer called `name`."""
        path, _, leaf = name.rpartition(".")
        module = self._modules[path]
        value = tensor if leaf in module._buffers else _as_parameter(tensor)
        value._is_hf_initialized = True
        setattr(module, leaf, value)


def _as_parameter(tensor: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=tensor.is_floating_point())


class Offload:
    """Tensors that stay on disk: an index of where, and files for those that were converted."""

    def __init__(self, model: PreTrainedModel, files: list[str], config: Any) -> None:
        self.index: dict[str, Any] | None = None
        self._folder = config.disk_offload_folder
        self._buffers: set[str] = set()
        if not _uses_disk(config.device_map):
            return
        if not config.offload_buffers:
            self._buffers = {name for name, _ in model.named_buffers()}
        self.index = placement.accelerate_disk_offload(
            model,
            config.disk_offload_folder,
            files,
            config.device_map,
            config.sharded_metadata,
            config.weight_mapping,
        )

    def takes(self, name: str, devices: Devices) -> bool:
        """True if the tensor is to stay on disk."""
        return devices[name] == "disk" and name not in self._buffers

    def has(self, name: str, verbatim_of: str | None) -> bool:
        """True if the checkpoint's own file holds the tensor as it is wanted."""
        entry = (self.index or {}).get(name)
        return entry is not None and entry["weight_name"] == verbatim_of

    def keep(self, name: str, tensor: torch.Tensor) -> None:
        """Writes a tensor that the checkpoint does not hold as it is wanted."""
        self.index = placement.offload_weight(tensor, name, self._folder, self.index)


def _uses_disk(device_map: dict[str, Any] | None) -> bool:
    return device_map is not None and "disk" in device_map.values()


def warm_up(model: PreTrainedModel, names: Iterable[str], config: Any) -> None:
    """Lets the allocators of devices take their memory at once, as Transformers does."""
    from transformers import modeling_utils

    if config.device_map is None:
        return
    expanded = placement.expand_device_map(config.device_map, list(names))
    modeling_utils.caching_allocator_warmup(model, expanded, config.hf_quantizer)
