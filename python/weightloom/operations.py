"""Conversion operations as classes, under the specification's names, for mappings made by hand.

Each says what a converter does to the tensors it collected; the library composes them before data
moves. Numbers may be keys of config.json, as text: ``"num_local_experts"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from ._core import Layout, OperationContext
from ._errors import MappingError, refusal

Number = int | str
Slots = Sequence[Layout | Sequence[Layout]]


class ConversionOperation:
    """One step of a converter."""

    @property
    def name(self) -> str:
        """As mapping files spell it."""
        return type(self).__name__

    def to_json(self) -> dict[str, Any]:
        """The object of the mapping file form."""
        given: dict[str, Any] = {"op": self.name}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is not None and value is not False and value != ():
                given[field.name] = list(value) if isinstance(value, tuple) else value
        return given


@dataclass(frozen=True)
class Chunk(ConversionOperation):
    """Equal parts along `dim`: one per target, or as many as `num_shards_attribute`
    says, a number or a key of config.json, for a target that enumerates.
    """

    dim: int = 0
    num_shards_attribute: Number | None = None


@dataclass(frozen=True)
class Split(ConversionOperation):
    """Parts of given sizes along `dim`, one per target."""

    dim: int = 0
    sizes: tuple[Number, ...] = ()


@dataclass(frozen=True)
class Concatenate(ConversionOperation):
    """All sources, in order, along `dim`. `sizes`: how long each is, where they are not equal."""

    dim: int = 0
    sizes: tuple[Number, ...] = ()
    num_shards_attribute: Number | None = None


@dataclass(frozen=True)
class Interleave(ConversionOperation):
    """De-interleaves pairs along `dim`; `inverse`: the other way."""

    dim: int = 0
    inverse: bool = False


@dataclass(frozen=True)
class MergeModulelist(ConversionOperation):
    """Stacks what each source collected along a new dim. `count`: how many there must be."""

    dim: int = 0
    count: tuple[Number, ...] = ()


@dataclass(frozen=True)
class SplitModulelist(ConversionOperation):
    """A list of the parts along `dim`, which disappears."""

    dim: int = 0
    count: tuple[Number, ...] = ()


@dataclass(frozen=True)
class Transpose(ConversionOperation):
    """Swaps two dims. `check_dims`: the shape that is wanted; what has it already stays."""

    dim0: int = 0
    dim1: int = 1
    check_dims: tuple[Number, ...] = ()


@dataclass(frozen=True)
class PermuteForRope(ConversionOperation):
    """Rows of each head from interleaved to half-split rotary order; `inverse`: the other way."""

    num_heads: Number | None = None
    subconfig_key: str | None = None
    permute_layer_names: tuple[str, ...] = ()
    inverse: bool = False


@dataclass(frozen=True)
class ErnieFuseAndSplitTextVisionExperts(ConversionOperation):
    """ERNIE 4.5 VL MoE: text and vision experts, stacked and concatenated, apart."""

    stack_dim: int = 0
    concat_dim: int = 1


@dataclass(frozen=True)
class ErnieSplitAndDecoupleTextVisionExperts(ConversionOperation):
    """What undoes `ErnieFuseAndSplitTextVisionExperts`."""

    stack_dim: int = 0
    concat_dim: int = 1


class LayoutOperation(ConversionOperation):
    """An operation of one's own, written in Python, which says where each element comes from.

    Derive from it, give `parameters` (names and kinds of what its JSON form has), and register it
    with `weightloom.register_operation`. It composes with all others, so nothing is copied for it,
    and its reverse is applied where a mapping is reversed.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Reverse(LayoutOperation):
    ...     dim: int = 0
    ...     parameters = {"dim": int}
    ...
    ...     def apply(self, slots, context):
    ...         return [self._reversed(layout) for layout in slots]
    ...
    ...     def reverse(self):
    ...         return self
    """

    parameters: ClassVar[dict[str, type]] = {}

    def apply(self, slots: Slots, context: OperationContext) -> Slots:
        """The tensors that the operation makes.

        Parameters
        ----------
        slots : list of Layout or list of Layout
            One per source pattern: the tensor it matched, or the list that it collected.
        context : OperationContext
            Target patterns, and config.json's numbers.

        Returns
        -------
        list of Layout or list of Layout
            One per target pattern, unless another operation follows.

        Raises
        ------
        ValueError
            If it cannot do its work; told with the other findings.
        """
        raise NotImplementedError(f"{self.name}.apply")

    def reverse(self) -> LayoutOperation:
        """The operation that undoes this one on what this one made."""
        raise NotImplementedError(f"{self.name}.reverse")

    def to_json(self) -> dict[str, Any]:
        """Its name and parameters."""
        return {"op": self.name, **{name: getattr(self, name) for name in self.parameters}}


BUILT_IN: dict[str, type[ConversionOperation]] = {
    kind.__name__: kind
    for kind in (
        Chunk,
        Split,
        Concatenate,
        Interleave,
        MergeModulelist,
        SplitModulelist,
        Transpose,
        PermuteForRope,
        ErnieFuseAndSplitTextVisionExperts,
        ErnieSplitAndDecoupleTextVisionExperts,
    )
}


@dataclass(frozen=True)
class OtherOperation(ConversionOperation):
    """An operation of the library that has no class of its own, by its JSON form."""

    json: dict[str, Any]

    @property
    def name(self) -> str:
        """As mapping files spell it."""
        return str(self.json["op"])

    def to_json(self) -> dict[str, Any]:
        """The object of the mapping file form."""
        return dict(self.json)


def operation_of(given: dict[str, Any]) -> ConversionOperation:
    """The operation of a JSON object."""
    if "op" not in given:
        raise refusal(MappingError, f"{given}: an operation has an 'op'", "name it")
    kind = BUILT_IN.get(given["op"])
    known = {field.name for field in fields(kind)} if kind is not None else set()  # type: ignore[arg-type]
    if kind is None or not given.keys() - {"op"} <= known:
        return OtherOperation(given)
    return kind(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in given.items()
            if name != "op"
        }
    )
