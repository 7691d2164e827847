"""What a checkpoint gives a model: taken, missing, unexpected, mismatched; and what is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import torch
from transformers import PreTrainedModel, modeling_utils

from . import _refusals
from ._wanted import Wanted


class Target(Protocol):
    """A tensor that a plan makes."""

    @property
    def name(self) -> str:
        """Whole, as the model has it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Row-major."""


@dataclass
class Outcome:
    """What a plan's targets are to the model."""

    taken: list[str] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)
    unexpected: set[str] = field(default_factory=set)
    mismatched: set[tuple[str, torch.Size, torch.Size]] = field(default_factory=set)

    def info(self) -> Any:
        """As Transformers reports a load."""
        info = new_info()
        info.missing_keys = set(self.missing)
        info.unexpected_keys = set(self.unexpected)
        info.mismatched_keys = set(self.mismatched)
        return info


def compare(
    targets: Iterable[Target], unexpected: Iterable[str], wanted: dict[str, Wanted]
) -> Outcome:
    """Sorts the targets by what the model wants; all have names that it has."""
    outcome = Outcome(missing=set(wanted), unexpected=set(unexpected))
    for target in targets:
        name, shape = target.name, torch.Size(target.shape)
        outcome.missing.discard(name)
        if shape == torch.Size(wanted[name].shape):
            outcome.taken.append(name)
        else:
            outcome.mismatched.add((name, shape, torch.Size(wanted[name].shape)))
    return outcome


def new_info() -> Any:
    """An empty report, whatever fields this Transformers gives it."""
    kind = modeling_utils.LoadStateDictInfo
    return kind(**{f.name: _EMPTY.get(f.name, set)() for f in fields(kind)})


_EMPTY: dict[str, Any] = {"error_msgs": list, "conversion_errors": dict}


def merge(into: Any, other: Any) -> None:
    """One report of two loads of the same model."""
    into.missing_keys &= other.missing_keys
    into.unexpected_keys |= other.unexpected_keys
    into.mismatched_keys |= other.mismatched_keys
    into.error_msgs += other.error_msgs
    into.conversion_errors |= other.conversion_errors


def refuse_unfit(info: Any, model: PreTrainedModel, source: str, limits: Limits) -> None:
    """Refuses before a byte moves what Transformers would pass over or find out at the end."""
    unexpected = info.unexpected_keys
    if limits.ignores_by_class:
        unexpected = _unexpected_to(model, info)
    if unexpected and not limits.lenient:
        raise _refusals.unexpected_tensors(source, type(model).__name__, unexpected)
    if info.mismatched_keys and not limits.ignore_mismatched_sizes:
        raise _refusals.mismatched_tensors(source, type(model).__name__, info.mismatched_keys)


@dataclass(frozen=True)
class Limits:
    """What a load lets pass."""

    lenient: bool = False
    ignore_mismatched_sizes: bool = False
    ignores_by_class: bool = True  # `_keys_to_ignore_on_load_unexpected` and old buffers


def _unexpected_to(model: PreTrainedModel, info: Any) -> set[str]:
    """Those that the class does not say to ignore."""
    probe = new_info()
    probe.unexpected_keys = set(info.unexpected_keys)
    model._adjust_missing_and_unexpected_keys(probe)
    return set(probe.unexpected_keys)
