"""The transforms that the installed Transformers registers, in Weightloom's JSON form."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from transformers import conversion_mapping

from weightloom._transformers_rules import mapping_text as text_of
from weightloom._transformers_rules import transform_to_json

# Sizes do not matter to patterns, but have to be declared.
ANY_SIZES = {"Split": {"sizes": [1]}, "Transpose": {"check_dims": [1, 1, 1]}}


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
    """One transform as a mapping file."""
    form = transform_to_json(transform, declared=ANY_SIZES)
    return text_of({"format": "weightloom.mapping/1", "name": "probe", "transforms": [form]})
