"""Transforms as classes, under the specification's names and with its methods.

A list of them is a mapping: `register_checkpoint_conversion_mapping` gives it a name,
`mapping_text` the text that `plan` and `load` take. Names are matched by the library, so what
`rename_source_key` says is what a conversion does.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from . import _core
from ._core import Registry
from ._errors import UsageError, refusal
from ._load import default_registry, load
from ._save import config_text, in_memory
from .operations import BUILT_IN, ConversionOperation, LayoutOperation, operation_of

FORMAT = "weightloom.mapping/1"
_KINDS = {int: "int", bool: "bool", str: "str", list: "list"}


class WeightTransform:
    """What all kinds of transforms have.

    Attributes
    ----------
    source_patterns, target_patterns : list of str
        Regular expressions, searched anywhere, in which ``*.`` stands for an index and a dot.
    scope_prefix, base_model_prefix : str or None
        Restrict it to names below a sub-model's path.
    required : bool
        That nothing matches is then an error of a conversion.
    collected_tensors : dict of str to list
        What `add_tensor` was given, by source pattern.
    """

    _kind: ClassVar[str] = ""

    def __init__(
        self, source_patterns: str | Sequence[str], target_patterns: str | Sequence[str]
    ) -> None:
        self.source_patterns = _listed(source_patterns)
        self.target_patterns = _listed(target_patterns)
        self.scope_prefix: str | None = None
        self.base_model_prefix: str | None = None
        self.required = False
        self.collected_tensors: dict[str, list[Any]] = defaultdict(list)
        self.layer_targets: dict[str, set[str]] = defaultdict(set)
        self._sources: dict[str, Any] = {}
        self._used = False
        self._renamer: tuple[str, Any] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source_patterns}, {self.target_patterns})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WeightTransform) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def to_json(self) -> dict[str, Any]:
        """The object of the mapping file form."""
        given: dict[str, Any] = {"type": type(self).__name__, **self._parameters()}
        if self.scope_prefix is not None:
            given["scope"] = {
                "prefix": self.scope_prefix,
                "base_model_prefix": self.base_model_prefix or "",
            }
        return {**given, "required": True} if self.required else given

    def _parameters(self) -> dict[str, Any]:
        return {"source_patterns": self.source_patterns, "target_patterns": self.target_patterns}

    def rename_source_key(self, source_key: str) -> tuple[str, str | None]:
        """The new name of a key, and the source pattern that matched it.

        A converter gives its first target's name. Where nothing matches, the key itself and None.
        """
        text = mapping_text("transform", [self])
        if self._renamer is None or self._renamer[0] != text:
            self._renamer = (text, _core.KeyRenamer(text, default_registry))
        key, source = self._renamer[1].rename(source_key)
        if source is None:
            return source_key, None
        self._used = True
        return key, self.source_patterns[source]

    def add_tensor(
        self, target_key: str, source_key: str, source_pattern: str, tensor: Any
    ) -> None:
        """Collects a tensor, or what gives one: a future, or a function without arguments."""
        self.collected_tensors[source_pattern].append(tensor)
        self.layer_targets[target_key].add(source_key)
        self._sources[source_key] = tensor

    def was_used(self) -> bool:
        """True once `rename_source_key` matched."""
        return self._used

    def reverse_transform(self) -> WeightTransform:
        """The transform that undoes this one: sides swapped, operations reversed."""
        text = _core.reversed_json(mapping_text("transform", [self]), default_registry)
        return transform_of(json.loads(text)["transforms"][0])

    def convert(self, *, config: Any = None, framework: str | None = None) -> dict[str, Any]:
        """What the transform makes of the tensors that were collected, by name.

        Parameters
        ----------
        config : dict, path or object with ``to_json_string``, optional
            Where numbers of operations are looked up.
        framework : {"numpy", "torch", "weightloom"}, optional
            What results are; as the tensors collected by default.

        Raises
        ------
        PlanError
            If the transform cannot be applied; all of why stands in ``findings``.
        """
        tensors = {key: _materialized(tensor) for key, tensor in self._sources.items()}
        wanted = framework or _framework_of(tensors)
        declared = json.loads(config_text(config) or "{}")
        return load(
            in_memory(tensors, config=declared),
            mapping=mapping_text("transform", [self]),
            from_="hub",
            framework=wanted,
            progress=False,
        )


class WeightRenaming(WeightTransform):
    """Renames; one target, or as many as sources. Renamings chain."""


class GroupWeightRename(WeightTransform):
    """Renamings that share intermediate names: at most one acts, and only if the first can.

    In a conversion, whether the first source matches is asked of all names; `rename_source_key`
    takes it for granted.
    """


class PrefixChange(WeightTransform):
    """Puts a whole component on a name, or takes one off, behind `model_prefix`."""

    def __init__(
        self,
        prefix_to_add: str | None = None,
        prefix_to_remove: str | None = None,
        model_prefix: str | None = None,
    ) -> None:
        if (prefix_to_add is None) == (prefix_to_remove is None):
            raise refusal(
                UsageError,
                "PrefixChange: both or neither of prefix_to_add and prefix_to_remove are given",
                "give exactly one",
            )
        self.prefix_to_add = prefix_to_add
        self.prefix_to_remove = prefix_to_remove
        self.model_prefix = model_prefix
        super().__init__([prefix_to_remove or ""], [prefix_to_add or ""])

    def _parameters(self) -> dict[str, Any]:
        given = {
            "prefix_to_add": self.prefix_to_add,
            "prefix_to_remove": self.prefix_to_remove,
            "model_prefix": self.model_prefix,
        }
        return {name: value for name, value in given.items() if value is not None}


class WeightConverter(WeightTransform):
    """Claims the tensors that its sources match, and makes its targets of them."""

    def __init__(
        self,
        source_patterns: str | Sequence[str],
        target_patterns: str | Sequence[str],
        operations: Iterable[ConversionOperation] = (),
    ) -> None:
        super().__init__(source_patterns, target_patterns)
        self.operations = list(operations)

    def _parameters(self) -> dict[str, Any]:
        operations = [operation.to_json() for operation in self.operations]
        return {**super()._parameters(), "operations": operations}


class _OtherTransform(WeightTransform):
    """A transform of the library that has no class of its own, by its JSON form."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        super().__init__(
            given.get("source_patterns") or given["source_pattern"],
            given.get("target_patterns") or given["target_pattern"],
        )

    def to_json(self) -> dict[str, Any]:
        return dict(self._given)


Config = dict[str, Any]
GetConversions = Callable[[Config], Iterable[WeightTransform]]
UpdateConversions = Callable[[list[WeightTransform], Config], Iterable[WeightTransform]]


def transform_of(given: dict[str, Any]) -> WeightTransform:
    """The transform of a JSON object."""
    kinds = {kind.__name__: kind for kind in (WeightRenaming, GroupWeightRename)}
    kind, scope = given.get("type"), given.get("scope")
    transform: WeightTransform
    if kind == "WeightConverter":
        operations = [operation_of(operation) for operation in given.get("operations", ())]
        transform = WeightConverter(given["source_patterns"], given["target_patterns"], operations)
    elif kind == "PrefixChange":
        names = ("prefix_to_add", "prefix_to_remove", "model_prefix")
        transform = PrefixChange(**{name: given.get(name) for name in names})
    elif kind in kinds:
        transform = kinds[kind](given["source_patterns"], given["target_patterns"])
    else:
        return _OtherTransform(given)
    transform.required = given.get("required", False)
    if scope is not None:
        transform.scope_prefix = scope["prefix"]
        transform.base_model_prefix = scope.get("base_model_prefix", "")
    return transform


def mapping_text(name: str, transforms: Iterable[WeightTransform]) -> str:
    """The text of a mapping file, which `mapping=` takes."""
    listed = [transform.to_json() for transform in transforms]
    return json.dumps({"format": FORMAT, "name": name, "transforms": listed})


def transforms_of(name: str, registry: Registry | None = None) -> list[WeightTransform]:
    """The transforms of a registered mapping.

    Raises
    ------
    UsageError
        If none is registered under that name or alias.
    """
    text = (registry if registry is not None else default_registry).json(name)
    if text is None:
        raise refusal(UsageError, f"no mapping is called '{name}'", "see Registry().names()")
    return [transform_of(given) for given in json.loads(text)["transforms"]]


def register_checkpoint_conversion_mapping(
    key: str,
    transforms: Iterable[WeightTransform],
    overwrite: bool = False,
    *,
    registry: Registry | None = None,
) -> None:
    """Registers the transforms of a model type or a class.

    Parameters
    ----------
    key : str
        A ``model_type`` or a class name.
    transforms : iterable of WeightTransform
        From hub names to runtime names, in their order.
    overwrite : bool
        Replace what is registered under `key`.
    registry : Registry, optional
        `default_registry` by default.

    Raises
    ------
    MappingError
        If the key is taken, or a transform makes no sense.
    """
    known = registry if registry is not None else default_registry
    known.add_json(mapping_text(key, transforms), overwrite)


def register_operation(
    kind: type[LayoutOperation], *, registry: Registry | None = None
) -> type[LayoutOperation]:
    """Lets mappings name an operation that is written in Python; gives the class back.

    Raises
    ------
    MappingError
        If there is an operation of that name.
    UsageError
        If a parameter is no int, bool, str or list (of str).
    """
    parameters = {name: _KINDS.get(wanted, str(wanted)) for name, wanted in kind.parameters.items()}
    known = registry if registry is not None else default_registry
    known.add_operation(kind.__name__, parameters, kind)
    if registry is None:
        BUILT_IN[kind.__name__] = kind
    return kind


def register_quantiser(
    quant_method: str,
    get_weight_conversions: GetConversions | None = None,
    update_weight_conversions: UpdateConversions | None = None,
    *,
    overwrite: bool = False,
    registry: Registry | None = None,
) -> None:
    """Says what a scheme does to the rules of every model whose config.json names it.

    The rules are those that a conversion finds (by class, type or name) or reads from a file; those
    of a record have it in them already. A quantiser says names and layouts, and computes no values.

    Parameters
    ----------
    quant_method : str
        What ``quantization_config.quant_method`` says.
    get_weight_conversions : callable, optional
        Gets config.json as a dict, and gives transforms that are put behind those of the model.
    update_weight_conversions : callable, optional
        Gets the whole list, those included, and config.json as a dict; gives the list as it is to
        be. Old names that every model may have are in it on the way to the runtime layout.
    overwrite : bool
        Replace the quantiser that is registered under `quant_method`.
    registry : Registry, optional
        `default_registry` by default.

    Raises
    ------
    MappingError
        If the name is taken.
    UsageError
        If the name is empty, or there is nothing to register.

    Examples
    --------
    >>> weightloom.register_quantiser(
    ...     "packed9", lambda config: [weightloom.WeightRenaming(r"\.codes$", ".weight")])
    """
    if get_weight_conversions is None and update_weight_conversions is None:
        raise refusal(
            UsageError,
            f"quantiser '{quant_method}': there is nothing to register",
            "give get_weight_conversions, update_weight_conversions or both",
        )
    known = registry if registry is not None else default_registry
    known.add_quantiser(
        quant_method,
        get_weight_conversions and _conversions_text(quant_method, get_weight_conversions),
        update_weight_conversions and _updated_text(quant_method, update_weight_conversions),
        overwrite,
    )


def _conversions_text(name: str, get: GetConversions) -> Callable[[str], str]:
    return lambda config: mapping_text(name, get(json.loads(config)))


def _updated_text(name: str, update: UpdateConversions) -> Callable[[str, str], str]:
    def updated(mapping: str, config: str) -> str:
        transforms = [transform_of(given) for given in json.loads(mapping)["transforms"]]
        return mapping_text(name, update(transforms, json.loads(config)))

    return updated


def _listed(patterns: str | Sequence[str]) -> list[str]:
    return [patterns] if isinstance(patterns, str) else list(patterns)


def _materialized(tensor: Any) -> Any:
    if hasattr(tensor, "result"):
        return tensor.result()
    return tensor() if callable(tensor) else tensor


def _framework_of(tensors: dict[str, Any]) -> str:
    for tensor in tensors.values():
        if hasattr(tensor, "data_ptr"):
            return "torch"
        if isinstance(tensor, _core.Tensor):
            return "weightloom"
    return "numpy"
