"""Operations that only Transformers can run: raw tensors by Weightloom, values by Transformers.

A converter with an operation that the core has no form for, and everything of a quantiser, takes
this way: the names and operations are those of Transformers' own loader, which gets, instead of
slices of mapped files, tensors that Weightloom reads when they are asked for.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedModel, core_model_loading, modeling_utils

import weightloom

from ._rules import ModelRules


@dataclass(frozen=True)
class ByValue:
    """Stored tensors that only Transformers can convert."""

    names: frozenset[str] = frozenset()
    seen_as: frozenset[str] = frozenset()  # what the core, without their rules, would call them
    everything: bool = False  # no tensor is certain to go another way


def by_value(
    rules: ModelRules, transforms: list[Any], names: Iterable[str], prefix: str, wanted: Any
) -> ByValue:
    """Which stored tensors reach a transform that the core cannot run."""
    if rules.untranslated_renamings:
        return ByValue(everything=True)
    patterns = {p for u in rules.untranslated for p in u.transform.source_patterns}
    whole, rest = _Renamer(transforms), _Renamer(rules.transforms)
    taken = frozenset(name for name in names if whole(name)[1] in patterns)
    seen = {name: rest(name) for name in taken}
    if any(pattern is not None for _, pattern in seen.values()):
        return ByValue(everything=True)
    prefixed = {rest(name, prefix, wanted)[0] for name in taken}
    return ByValue(taken, taken | {name for name, _ in seen.values()} | prefixed)


class _Renamer:
    """Transformers' names of stored tensors, and the pattern of the converter that takes each."""

    def __init__(self, transforms: list[Any]) -> None:
        probes = copy.deepcopy(transforms)  # matching marks a transform as used
        kinds = core_model_loading.WeightRenaming, core_model_loading.WeightConverter
        self._rules = [[t for t in probes if isinstance(t, kind)] for kind in kinds]

    def __call__(
        self, name: str, prefix: str | None = None, wanted: Any = None
    ) -> tuple[str, str | None]:
        return core_model_loading.rename_source_key(name, *self._rules, prefix, wanted)


def load_by_value(
    model: PreTrainedModel, files: list[str], config: Any, names: frozenset[str] | None, index: Any
) -> tuple[Any, Any]:
    """Transformers' own loader over tensors that Weightloom reads; all of them for `names` None.

    Returns
    -------
    tuple
        The report and the index of tensors that stay on disk.
    """
    with ExitStack() as open_files:
        stored: dict[str, Any] = {}
        for path in files:
            file = open_files.enter_context(weightloom.safe_open(path, framework="pt"))
            taken = [name for name in file.keys() if names is None or name in names]  # noqa: SIM118
            stored |= {name: file.get_slice(name) for name in taken}
        return modeling_utils.convert_and_load_state_dict_in_model(
            model=model, state_dict=stored, load_config=config, disk_offload_index=index
        )
