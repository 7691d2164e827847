"""Saving: the weights go from where they lie into the files, in the layout they came from."""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, core_model_loading, modeling_utils
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.modeling_utils import unwrap_model

import weightloom
from weightloom._load import Size

from . import _engine, _quantised, _refusals, _rules, _shards


@dataclass(frozen=True)
class SaveOptions:
    """How to write; see `save_pretrained`."""

    max_shard_size: int | str
    variant: str | None
    save_original_format: bool
    threads: int | None
    memory_budget: Size
    progress: Any

    @property
    def run(self) -> _engine.Run:
        """For the core."""
        return _engine.Run(self.threads, self.memory_budget, self.progress, "save")


@torch.no_grad()
def save(
    model: PreTrainedModel,
    folder: str,
    state_dict: dict[str, Any] | None,
    options: SaveOptions,
    kwargs: dict[str, Any],
) -> None:
    """Plans every file, lets Transformers write what is no weight, and puts all in place."""
    _refusals.refuse_unsavable(model, kwargs)
    tensors = tensors_to_write(model, state_dict)
    transforms = transforms_to_reverse(model) if options.save_original_format else []
    tensors, rules = _value_operations_done(model, tensors, transforms)
    try:
        plan = _engine.plan_save(tensors, rules, model.base_model_prefix, options.threads)
    except weightloom.MappingError:  # a rule has no reverse; it may not be needed
        rules = _rules.translate(acting_backwards(transforms, tensors), model, for_saving=True)
        plan = _engine.plan_save(tensors, rules, model.base_model_prefix, options.threads)
    layout = _shards.shard_layout(
        model,
        plan.targets,
        options.variant,
        options.max_shard_size,
        lambda: reverted_on_meta(model, tensors) if rules.forms else meta_copies(tensors),
    )
    with tempfile.TemporaryDirectory(prefix=".weightloom-", dir=_parent(folder)) as beside:
        model.save_pretrained(beside, state_dict={}, save_original_format=False, **kwargs)
        os.makedirs(folder, exist_ok=True)
        _write(plan, layout, Path(folder), options)
        copy_side_files(Path(beside), Path(folder))


def _write(
    plan: _engine.SavePlan, layout: _shards.Layout, folder: Path, options: SaveOptions
) -> None:
    """Each file whole or not at all; the index, which names them, last."""
    for file, names in _shards.written(folder, layout):
        plan.write(file, names, options.run)
    stale = list(_shards.stale_files(folder, layout, options.variant))
    if layout.index is not None:
        name, text = layout.index
        put_text(folder / name, text)
    for file in stale:
        file.unlink()


def _parent(folder: str) -> str:
    parent = os.path.dirname(os.path.abspath(folder))
    os.makedirs(parent, exist_ok=True)
    return parent


def tensors_to_write(
    model: PreTrainedModel, state_dict: dict[str, Any] | None
) -> dict[str, torch.Tensor]:
    """The tensors that are saved, each memory once: ties are those that the model declares.

    Raises
    ------
    RuntimeError
        From Transformers, if two names share memory and no tie is declared.
    """
    whole = unwrap_model(model)
    tensors = dict(whole.state_dict() if state_dict is None else state_dict)
    for name in model._keys_to_ignore_on_save or ():
        tensors.pop(name, None)
    for name, tensor in tensors.items():
        _refusals.refuse_odd_tensor(name, tensor)
    once = modeling_utils.remove_tied_weights_from_state_dict(tensors, whole)
    return {name: tensor.detach().cpu().contiguous() for name, tensor in once.items()}


def transforms_to_reverse(model: PreTrainedModel) -> list[Any]:
    """Those that fired at load; for a model that was not loaded, the registry's.

    Of a model that was built from a config nothing tells whether a prefix was there: changes of
    prefix are left out, as Transformers does.
    """
    whole = unwrap_model(model)
    fired = getattr(whole, "_weight_conversions", None)
    if fired is not None:
        return _of_values(list(fired), whole)
    registered = get_model_conversion_mapping(whole, add_legacy=False)
    return [t for t in registered if not isinstance(t, core_model_loading.PrefixChange)]


def _of_values(fired: list[Any], model: PreTrainedModel) -> list[Any]:
    """Those that lead back from values: of codes that became values when they were loaded, nothing
    is made anew, since nothing says which tensors had been codes."""
    quantiser = _quantised.quantiser_in(fired)
    if quantiser is None:
        return fired
    return _quantised.without_quantiser(fired, quantiser, model)


def acting_backwards(transforms: list[Any], names: Iterable[str]) -> list[Any]:
    """Those whose reverse does something to one of the names."""
    backwards = [copy.deepcopy(t).reverse_transform() for t in reversed(transforms)]
    kinds = core_model_loading.WeightRenaming, core_model_loading.WeightConverter
    rules = [[t for t in backwards if isinstance(t, kind)] for kind in kinds]
    for name in names:
        core_model_loading.rename_source_key(name, *rules, reverse=True)
    acting = [back.was_used() for back in reversed(backwards)]
    return [t for t, acts in zip(transforms, acting, strict=True) if acts]


def _value_operations_done(
    model: PreTrainedModel, tensors: dict[str, torch.Tensor], transforms: list[Any]
) -> tuple[dict[str, torch.Tensor], _rules.ModelRules]:
    """The rules that the core reverses; where it cannot, the tensors that Transformers makes."""
    rules = _rules.translate(transforms, model, for_saving=True)
    if not rules.untranslated:
        return tensors, rules
    made = core_model_loading.revert_weight_conversion(model, tensors)
    return {name: t.contiguous() for name, t in made.items()}, _rules.ModelRules()


def copy_side_files(beside: Path, folder: Path) -> None:
    """Each file into place in one step."""
    for file in sorted(beside.iterdir()):
        staged = folder / f".{file.name}.weightloom"
        shutil.copy2(file, staged)
        os.replace(staged, folder / file.name)


def put_text(file: Path, text: str) -> None:
    """The file holds the old text or the new one, at any time."""
    staged = file.with_name(f".{file.name}.weightloom")
    staged.write_text(text, encoding="utf-8")
    os.replace(staged, file)


def meta_copies(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same names, shapes and dtypes, without memory."""
    return {name: torch.empty_like(tensor, device="meta") for name, tensor in tensors.items()}


def reverted_on_meta(
    model: PreTrainedModel, tensors: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """What Transformers would write, in its order and with its shared storages; no byte moves."""
    probe = copy.copy(model)
    fired = getattr(probe, "_weight_conversions", None)
    if fired is not None:
        probe._weight_conversions = _of_values(fired, unwrap_model(model))
    return core_model_loading.revert_weight_conversion(probe, meta_copies(tensors))
