"""Three edits of a model's mapping, for adapters and heads of one's own.

What a checkpoint needs beyond the mapping of the base model is said as an edit of it: more
transforms, one more operation in every converter, or one kind of operation in the place of another.
The lists that come out go to `load_weights`. Nothing that is given is changed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from transformers import PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import ConversionOps, WeightConverter

Transforms = list[Any]


def transforms_of(model: PreTrainedModel) -> Transforms:
    """The mapping of the installed Transformers for a model, old names included."""
    return list(get_model_conversion_mapping(model))


def added(
    transforms: Iterable[Any], *, first: Iterable[Any] = (), last: Iterable[Any] = ()
) -> Transforms:
    """The list with more transforms.

    Parameters
    ----------
    transforms
        A mapping, such as `model`'s.
    first
        Run before it; a renaming here sees the names as they are stored.
    last
        Run after it.
    """
    return [*first, *copy.deepcopy(list(transforms)), *last]


def with_operation(
    transforms: Iterable[Any], operation: ConversionOps, *, first: bool = False
) -> Transforms:
    """The list with one more operation in every converter.

    Parameters
    ----------
    transforms
        A mapping.
    operation
        Run last in each converter's chain, or first.
    first
        See `operation`.
    """

    def longer(chain: list[ConversionOps]) -> list[ConversionOps]:
        return [operation, *chain] if first else [*chain, operation]

    return _with_chains(transforms, longer)


def replaced(
    transforms: Iterable[Any],
    kind: type[ConversionOps],
    make: Callable[[ConversionOps], ConversionOps],
) -> Transforms:
    """The list with every operation of a kind replaced, as PEFT does with `Concatenate`.

    Parameters
    ----------
    transforms
        A mapping.
    kind
        The class of the operations to replace.
    make
        Gives the operation that stands in for one.
    """

    def swapped(chain: list[ConversionOps]) -> list[ConversionOps]:
        return [make(op) if isinstance(op, kind) else op for op in chain]

    return _with_chains(transforms, swapped)


def _with_chains(
    transforms: Iterable[Any], change: Callable[[list[ConversionOps]], list[ConversionOps]]
) -> Transforms:
    edited = []
    for transform in copy.deepcopy(list(transforms)):
        if isinstance(transform, WeightConverter):
            transform.operations = change(transform.operations)
        edited.append(transform)
    return edited
