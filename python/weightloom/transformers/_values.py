"""Operations that only Transformers can run: raw tensors by Weightloom, values by Transformers.

A converter with an operation that the core has no form for, and everything of a quantiser, takes
this way: the names and operations are those of Transformers' own loader, which gets, instead of
slices of mapped files, tensors that Weightloom reads when they are asked for.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

from transformers import PreTrainedModel, core_model_loading, modeling_utils

import weightloom

from ._rules import ModelRules


def names_by_value(rules: ModelRules, transforms: list[Any], names: Iterable[str]) -> set[str]:
    """The stored names that reach a transform which the core cannot run."""
    if not rules.untranslated:
        return set()
    if rules.untranslated_renamings:
        return set(names)
    patterns = {p for u in rules.untranslated for p in u.transform.source_patterns}
    probes = copy.deepcopy(transforms)  # matching marks a transform as used
    renamings = [t for t in probes if isinstance(t, core_model_loading.WeightRenaming)]
    converters = [t for t in probes if isinstance(t, core_model_loading.WeightConverter)]
    rename = core_model_loading.rename_source_key
    return {name for name in names if rename(name, renamings, converters)[1] in patterns}


def load_by_value(
    model: PreTrainedModel, files: list[str], config: Any, names: set[str] | None, index: Any
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
