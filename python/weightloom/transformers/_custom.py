"""Adapters, and checkpoints that are loaded into a model that exists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import torch
from transformers import PreTrainedModel, modeling_utils

from . import _edits, _loading, _refusals
from ._seam import Request, serving


def add_adapter(
    model: PreTrainedModel, path: str, name: str, request: Request, kwargs: dict[str, Any]
) -> Any:
    """See `load_adapter`; a refused adapter leaves the model without it."""
    had_adapters = bool(getattr(model, "_hf_peft_config_loaded", False))
    before = set(getattr(model, "peft_config", {}))
    try:
        with serving(request):
            info = model.load_adapter(path, adapter_name=name, **kwargs)
        missing = {key for key in info.missing_keys if name in key.split(".")}
        if missing and not request.lenient:
            raise _refusals.incomplete_adapter(path, missing)
    except Exception:
        if name not in before:
            _take_off(model, name, had_adapters)
        raise
    return info


def _take_off(model: PreTrainedModel, name: str, had_adapters: bool) -> None:
    """The model as it was: without the adapter, and without wrappers if it was the only one."""
    if name in getattr(model, "peft_config", {}):
        model.delete_adapter(name)
    if had_adapters:
        return
    _unwrap(model)
    vars(model).pop("peft_config", None)
    model._hf_peft_config_loaded = False


def _unwrap(model: PreTrainedModel) -> None:
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = {n: m for n, m in model.named_modules() if isinstance(m, BaseTunerLayer)}
    for name, layer in layers.items():
        path, _, leaf = name.rpartition(".")
        if not any(name.startswith(f"{outer}.") for outer in layers):
            setattr(model.get_submodule(path), leaf, layer.get_base_layer())


def load_weights(
    model: PreTrainedModel,
    path: str,
    transforms: Iterable[Any] | None,
    request: Request,
    require: tuple[str, ...],
) -> Any:
    """See `weightloom.transformers.load_weights`."""
    chosen = _edits.transforms_of(model) if transforms is None else list(transforms)
    config = modeling_utils.LoadStateDictConfig(
        pretrained_model_name_or_path=path,
        dtype=model.dtype,
        dtype_plan=model._get_dtype_plan(model.dtype),
        weight_mapping=chosen,
    )
    was_empty = all(p.device.type == "meta" for p in model.parameters())
    check = _required(require, path)
    info = _loading.load_files(request, model, path, config, check)
    if was_empty:
        info = model._finalize_model_loading(model, config, info)
    else:
        _finish(model, path, set(info.missing_keys))
    return info


def _finish(model: PreTrainedModel, path: str, missing: set[str]) -> None:
    """What was there before stays; ties are made again; nothing may be left without values.

    Of a tie the name that was loaded counts; where both were, with different values, they are no
    longer tied.
    """
    ties = getattr(model, "all_tied_weights_keys", None) or {}
    if any({name, source} - missing for name, source in ties.items()):
        model.tie_weights(missing_keys=missing, recompute_mapping=False)
    else:
        model.tie_weights()
    left = [name for name, p in model.named_parameters() if p.device.type == "meta"]
    if left:
        raise _refusals.without_values(path, left)


def _required(patterns: tuple[str, ...], path: str) -> Callable[[Any], None]:
    """Refuses, before a byte moves, a load that leaves out what the caller needs."""

    def check(info: Any) -> None:
        missing = [n for n in info.missing_keys if any(re.search(p, n) for p in patterns)]
        if missing:
            raise _refusals.required_missing(path, missing)

    return check


def on_cpu(model: torch.nn.Module) -> bool:
    """True if no parameter lies on a device."""
    return all(p.device.type in ("cpu", "meta") for p in model.parameters())
