"""The transforms that the installed Transformers registers, in Weightloom's JSON form."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from transformers import conversion_mapping, core_model_loading


@dataclass(frozen=True)
class Registered:
    """A transform of Transformers, and where it was found."""

    key: str
    place: int
    direction: str
    transform: Any

    @property
    def label(self) -> str:
        """For messages: mixtral[0] forward."""
        return f"{self.key}[{self.place}] {self.direction}"

    @property
    def identity(self) -> tuple[str, ...]:
        """Equal for transforms that cannot differ in what they match."""
        t = self.transform
        offset = str(getattr(t, "offset", ""))
        sources, targets = t._original_source_patterns, t._original_target_patterns
        return (type(t).__name__, offset, *sources, "→", *targets)


def registered_transforms() -> list[Registered]:
    """Every distinct transform, forwards and reversed."""
    found: dict[tuple[str, ...], Registered] = {}
    for item in _all_transforms():
        found.setdefault(item.identity, item)
    return list(found.values())


def _all_transforms() -> Iterator[Registered]:
    mapping = conversion_mapping._build_checkpoint_conversion_mapping()
    for key, transforms in mapping.items():
        for place, transform in enumerate(transforms):
            yield Registered(key, place, "forward", transform)
            # Reversing edits the pattern lists of the transform that is reversed.
            yield Registered(key, place, "reversed", copy.deepcopy(transform).reverse_transform())


def mapping_text(transform: Any) -> str:
    """One transform as a mapping file; a converter without its operations."""
    return json.dumps(
        {"format": "weightloom.mapping/1", "name": "probe", "transforms": [_form(transform)]}
    )


def _form(transform: Any) -> dict[str, Any]:
    sources = list(transform._original_source_patterns)
    targets = list(transform._original_target_patterns)
    if isinstance(transform, core_model_loading.PrefixChange):
        names = ("prefix_to_add", "prefix_to_remove", "model_prefix")
        given = {name: getattr(transform, name) for name in names if getattr(transform, name)}
        return {"type": "PrefixChange", **given}
    if isinstance(transform, core_model_loading.Inkling2IndexOffsetWeightRename):
        return {
            "type": "IndexOffsetWeightRename",
            "source_pattern": sources[0],
            "target_pattern": targets[0],
            "offset": transform.offset,
        }
    form = {"source_patterns": sources, "target_patterns": targets}
    if isinstance(transform, core_model_loading.GroupWeightRename):
        return {"type": "GroupWeightRename", **form}
    if isinstance(transform, core_model_loading.WeightConverter):
        return {"type": "WeightConverter", **form, "operations": []}
    return {"type": "WeightRenaming", **form}
