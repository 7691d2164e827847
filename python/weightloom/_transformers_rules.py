"""The transforms of an installed Transformers in Weightloom's mapping form.

Transformers describes how a checkpoint becomes a model by a list of transform objects. Here each
becomes the JSON object that says the same in a Weightloom mapping (`docs/mappings.md`)::

    from transformers.conversion_mapping import get_model_conversion_mapping

    form = mapping_to_json("mine", get_model_conversion_mapping(model), model=model)
    text = mapping_text(form)

Some operations take numbers from the model: how many heads it has, how long the parts of a fused
tensor are, which shape a parameter has. With a model at hand they are taken from its parameters and
its config, as plain numbers. Without one they are keys of config.json: those that Transformers
itself looks up, and what `declared` says where Transformers would look at parameters.

Whatever is not known here, or is not what Transformers ships (a subclass of one's own), is refused
with `UntranslatableTransform`, so that a caller can fall back. Neither torch nor Transformers is
imported.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FORMAT = "weightloom.mapping/1"

Json = dict[str, Any]
# Name of an operation → parameters that are declared for it: {"Split": {"sizes": ["n", …]}}.
Declared = Mapping[str, Mapping[str, Any]]


class UntranslatableTransform(ValueError):
    """A transform or an operation of Transformers that Weightloom has no form for.

    Attributes
    ----------
    what
        Name of the class of the transform or operation.
    reason
        Why it has no form, and what would help.
    """

    def __init__(self, what: str, reason: str) -> None:
        self.what = what
        self.reason = reason
        super().__init__(f"{what}: {reason}")


def mapping_to_json(
    name: str,
    transforms: Iterable[Any],
    *,
    model: Any = None,
    declared: Mapping[str, Declared] | None = None,
    aliases: Sequence[str] = (),
    for_saving: bool = False,
) -> Json:
    """Say a list of transforms as a mapping.

    Parameters
    ----------
    name
        Name of the mapping.
    transforms
        Transform objects of Transformers, hub to runtime, in their order. None is changed.
    model
        The `PreTrainedModel` that they are for; its numbers are then written down. May be on meta.
    declared
        Without a model: what is declared for the operations of a converter, by its first target
        pattern; `"*"` stands for every other converter.
    aliases
        Further names of the mapping.
    for_saving
        See `transform_to_json`.

    Returns
    -------
    dict
        The mapping, in the key order that Weightloom writes; `mapping_text` makes the file of it.

    Raises
    ------
    UntranslatableTransform
        If a transform or an operation has no form.
    """
    known = declared or {}
    forms = []
    for transform in transforms:
        first = _patterns(transform)[1][0]
        forms.append(
            transform_to_json(
                transform,
                model=model,
                declared=known.get(first, known.get("*")),
                for_saving=for_saving,
            )
        )
    form: Json = {"format": FORMAT, "name": name}
    if aliases:
        form["aliases"] = list(aliases)
    form["transforms"] = forms
    return form


def mapping_text(form: Json) -> str:
    """Write a mapping as Weightloom does: one line per transform."""
    head = json.dumps({key: value for key, value in form.items() if key != "transforms"})
    lines = ",".join(f"\n  {json.dumps(transform)}" for transform in form["transforms"])
    return f'{head[:-1]}, "transforms": [{lines}]}}\n'


def transform_to_json(
    transform: Any,
    *,
    model: Any = None,
    declared: Declared | None = None,
    for_saving: bool = False,
) -> Json:
    """Say one transform as an object of a mapping's `transforms`.

    Parameters
    ----------
    transform
        A transform object of Transformers; it is not changed.
    model
        The `PreTrainedModel` that it is for; see `mapping_to_json`.
    declared
        Parameters by name of operation, for what config.json has to declare.
    for_saving
        The form is for writing a model that was not loaded: a transposition that Transformers makes
        depend on the shape it finds (`check_dims`) finds the model's own, and so does nothing.

    Returns
    -------
    dict
        `{"type": "WeightRenaming", "source_patterns": […], …}`.

    Raises
    ------
    UntranslatableTransform
        If it has no form.
    """
    kind = _kind(transform)
    if kind not in _TRANSFORMS:
        raise UntranslatableTransform(
            type(transform).__name__,
            f"a kind of transform that is not one of {_listed(_TRANSFORMS)}",
        )
    if (quantises := getattr(transform, "quantization_operation", None)) is not None:
        raise UntranslatableTransform(
            type(transform).__name__,
            f"it quantises ({type(quantises).__name__}), which a mapping does not",
        )
    chain = _Chain(transform, model, declared or {}, for_saving)
    form = {"type": _TRANSFORMS[kind], **_BODIES[kind](transform, chain)}
    if (scope := _scope(transform)) is not None:
        form["scope"] = scope
    return form


def _kind(thing: Any) -> str:
    """Name of its class if that is one of Transformers' own; else nothing that is known here."""
    own = type(thing).__module__.startswith("transformers.")
    return type(thing).__name__ if own else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


# --- what every transform has ---------------------------------------------------------------------


def _patterns(transform: Any) -> tuple[list[str], list[str]]:
    """Source and target patterns as they were given.

    Making the reverse of a transform edits the lists that its originals are kept in. Where one no
    longer gives what the transform matches with, what it matches with is taken.
    """
    wanted = _compiled(transform)
    originals = list(transform._original_source_patterns), list(transform._original_target_patterns)
    base = next(c for c in type(transform).__mro__ if c.__name__ == "WeightTransform")
    for sources in (originals[0], wanted[0]):
        for targets in (originals[1], wanted[1]):
            if sources is wanted[0] and any(t.startswith("^") for t in targets):
                continue  # an anchor that the reverse put there
            try:
                fresh = base(list(sources), list(targets))
            except ValueError:  # an edit can leave groups that do not agree
                continue
            if _compiled(fresh) == wanted:
                return sources, targets
    return wanted


def _compiled(transform: Any) -> tuple[list[str], list[str]]:
    return list(transform.source_patterns), list(transform.target_patterns)


def _scope(transform: Any) -> Json | None:
    if transform.scope_prefix is None:
        return None
    scope = {"prefix": transform.scope_prefix}
    if transform.base_model_prefix:
        scope["base_model_prefix"] = transform.base_model_prefix
    return scope


def _plain(transform: Any, text: str) -> str:
    """A prefix, which Transformers puts into a pattern, as the text that it stands for."""
    plain = text.replace(r"\.", ".")
    if re.search(r"[\\^$*+?{}\[\]|()]", plain):
        raise UntranslatableTransform(
            type(transform).__name__, f"the prefix {text!r} is a pattern, not a text"
        )
    return plain


def _prefix_body(transform: Any, chain: _Chain) -> Json:
    body = {}
    for key in ("prefix_to_add", "prefix_to_remove", "model_prefix"):
        if text := getattr(transform, key):
            body[key] = _plain(transform, text)
    return body


def _offset_body(transform: Any, chain: _Chain) -> Json:
    sources, targets = _patterns(transform)
    if len(sources) != 1 or len(targets) != 1:
        raise UntranslatableTransform(type(transform).__name__, "it has more than one pattern")
    return {
        "source_pattern": sources[0],
        "target_pattern": targets[0],
        "offset": transform.offset,
    }


def _rename_body(transform: Any, chain: _Chain) -> Json:
    sources, targets = _patterns(transform)
    return {"source_patterns": sources, "target_patterns": targets}


def _convert_body(transform: Any, chain: _Chain) -> Json:
    return {**_rename_body(transform, chain), "operations": chain.operations()}


_TRANSFORMS = {
    "WeightRenaming": "WeightRenaming",
    "PrefixChange": "PrefixChange",
    "GroupWeightRename": "GroupWeightRename",
    "Inkling2IndexOffsetWeightRename": "IndexOffsetWeightRename",
    "WeightConverter": "WeightConverter",
}
_BODIES: dict[str, Callable[[Any, _Chain], Json]] = {
    "WeightRenaming": _rename_body,
    "PrefixChange": _prefix_body,
    "GroupWeightRename": _rename_body,
    "Inkling2IndexOffsetWeightRename": _offset_body,
    "WeightConverter": _convert_body,
}


# --- the operations of a converter ----------------------------------------------------------------


@dataclass
class _Chain:
    """The operations of a transform, and where their numbers come from."""

    transform: Any
    model: Any
    declared: Declared
    for_saving: bool

    def operations(self) -> list[Json]:
        """The operations' forms, in order."""
        forms = []
        for operation in self.transform.operations:
            kind = _kind(operation)
            if kind not in _OPERATIONS:
                raise UntranslatableTransform(
                    type(operation).__name__,
                    f"an operation that is not one of {_listed(_OPERATIONS)}",
                )
            forms.extend(_OPERATIONS[kind](operation, self))
        return forms

    def said(self, operation: str, parameter: str, otherwise: Any = None) -> Any:
        """What is declared for a parameter of an operation."""
        return self.declared.get(operation, {}).get(parameter, otherwise)

    def need(self, operation: str, parameter: str) -> Any:
        """As `said`, but it has to be."""
        value = self.said(operation, parameter)
        if value is None:
            raise UntranslatableTransform(
                operation,
                f"without a model, its '{parameter}' has to be declared for "
                f"'{_patterns(self.transform)[1][0]}'",
            )
        return value

    def shape_of_target(self, operation: str) -> tuple[int, ...]:
        """The shape that every parameter which the first target names has."""
        shapes = {shape for _, _, _, shape in self.parameters(self.transform.target_patterns[0])}
        return self.only(operation, shapes, "shapes")

    def sizes_of_targets(self, operation: str, dim: int) -> tuple[int, ...]:
        """Size of each target's parameter along a dim."""
        targets = self.transform.target_patterns
        shapes = {name: tuple(p.shape) for name, p in self.model.named_parameters()}
        found = set()
        for name, begin, end, _ in self.parameters(targets[0]):
            names = [name[:begin] + target + name[end:] for target in targets]
            if any(each not in shapes for each in names):
                raise UntranslatableTransform(operation, f"the model lacks one of {names}")
            found.add(tuple(shapes[each][dim] for each in names))
        return self.only(operation, found, "sizes")

    def only(self, operation: str, found: set[tuple[int, ...]], what: str) -> tuple[int, ...]:
        """The one that is found."""
        if len(found) == 1:
            return found.pop()
        target = self.transform.target_patterns[0]
        reason = (
            f"the {what} of the parameters differ: {sorted(found)}"
            if found
            else "the model has no such parameter"
        )
        raise UntranslatableTransform(operation, f"target '{target}': {reason}")

    def parameters(self, target: str) -> Iterator[tuple[str, int, int, tuple[int, ...]]]:
        """Name, place of the target in it, and shape of the parameters that a target names."""
        pattern = _target_regex(target)
        for name, parameter in self.model.named_parameters():
            begin = self.scope_end(name)
            match = pattern.search(name, begin) if begin is not None else None
            if match:
                yield name, match.start(), match.end(), tuple(parameter.shape)

    def scope_end(self, name: str) -> int | None:
        """Where the part of a name begins that the transform sees; None outside of its scope."""
        if self.transform.scope_prefix is None:
            return 0
        scope = _dotted(self.transform.scope_prefix)
        base = _dotted(self.transform.base_model_prefix)
        return next((len(p) for p in (base + scope, scope) if name.startswith(p)), None)

    def heads(self, operation: Any) -> int:
        """Number of heads as Transformers finds it: in the sub-config, or in the config itself."""
        config = self.model.config
        if operation.subconfig_key is not None:
            config = getattr(config, operation.subconfig_key, config)
        return getattr(config, "num_attention_heads", 1)


def _dotted(prefix: str | None) -> str:
    return f"{prefix}." if prefix else ""


def _target_regex(target: str) -> re.Pattern[str]:
    """What a processed target pattern looks like in a name."""
    pieces = re.split(r"(\\\d|\*)", target)
    body = "".join(
        {"*": r"\d+"}.get(p, ".+?" if p.startswith("\\") else re.escape(p)) for p in pieces
    )
    return re.compile(body + (r"(?!\w)" if re.search(r"\w$", target) else ""))


def _chunk(operation: Any, chain: _Chain) -> list[Json]:
    return [{"op": "Chunk", "dim": operation.dim, **_shards(operation, chain)}]


def _concatenate(operation: Any, chain: _Chain) -> list[Json]:
    sizes = chain.said("Concatenate", "sizes")
    extra = {"sizes": sizes} if sizes else _shards(operation, chain)
    return [{"op": "Concatenate", "dim": operation.dim, **extra}]


def _shards(operation: Any, chain: _Chain) -> Json:
    """How many parts a list is cut into, or made of, where the config says it."""
    if (key := operation.num_shards_attribute) is None:
        return {}
    if chain.model is not None:
        return {"num_shards_attribute": getattr(chain.model.config.get_text_config(), key)}
    return {
        "num_shards_attribute": chain.said(type(operation).__name__, "num_shards_attribute", key)
    }


def _split(operation: Any, chain: _Chain) -> list[Json]:
    if chain.model is not None:
        sizes = list(chain.sizes_of_targets("Split", operation.dim))
    else:
        sizes = list(chain.need("Split", "sizes"))
    return [{"op": "Split", "dim": operation.dim, "sizes": sizes}]


def _merge(operation: Any, chain: _Chain) -> list[Json]:
    return [_list_form("MergeModulelist", operation, chain)]


def _split_list(operation: Any, chain: _Chain) -> list[Json]:
    return [_list_form("SplitModulelist", operation, chain)]


def _list_form(name: str, operation: Any, chain: _Chain) -> Json:
    count = None if chain.model is not None else chain.said(name, "count")
    return {"op": name, "dim": operation.dim, **({"count": list(count)} if count else {})}


def _transpose(operation: Any, chain: _Chain) -> list[Json]:
    form = {"op": "Transpose", "dim0": operation.dim0, "dim1": operation.dim1}
    if not operation.check_dims:
        return [form]
    if chain.for_saving:
        return []
    if chain.model is not None:
        wanted = list(chain.shape_of_target("Transpose"))
    else:
        wanted = list(chain.need("Transpose", "check_dims"))
    return [{**form, "check_dims": wanted}]


def _interleave(operation: Any, chain: _Chain) -> list[Json]:
    return [{"op": "Interleave", "dim": operation.dim, **_inverse(operation)}]


def _rope(operation: Any, chain: _Chain) -> list[Json]:
    form: Json = {"op": "PermuteForRope"}
    if chain.model is not None:
        form["num_heads"] = chain.heads(operation)
    else:
        form["num_heads"] = chain.said("PermuteForRope", "num_heads", "num_attention_heads")
        if operation.subconfig_key is not None:
            form["subconfig_key"] = operation.subconfig_key
    if operation.permute_layer_names is not None:
        form["permute_layer_names"] = list(operation.permute_layer_names)
    return [{**form, **_inverse(operation)}]


def _inverse(operation: Any) -> Json:
    return {"inverse": True} if operation.inverse else {}


def _vision_unfuse(operation: Any, chain: _Chain) -> list[Json]:
    return _chunk(operation.chunk_op, chain) + _rope(operation.permute_op, chain)


def _vision_fuse(operation: Any, chain: _Chain) -> list[Json]:
    return _rope(operation.permute_op, chain) + _concatenate(operation.concat_op, chain)


def _experts(operation: Any, chain: _Chain) -> list[Json]:
    return [
        {
            "op": type(operation).__name__,
            "stack_dim": operation.stack_dim,
            "concat_dim": operation.concat_dim,
        }
    ]


def _to_linear(operation: Any, chain: _Chain) -> list[Json]:
    return [{"op": "Flatten", "dim": 1, "sizes": _kernel(operation)}]


def _to_conv(operation: Any, chain: _Chain) -> list[Json]:
    return [{"op": "Unflatten", "dim": 1, "sizes": _kernel(operation)}]


def _kernel(operation: Any) -> list[int]:
    sizes = [operation.in_channels, *operation.kernel_size]
    if not all(isinstance(size, int) for size in sizes) or math.prod(sizes) < 1:
        raise UntranslatableTransform(type(operation).__name__, f"its sizes are {sizes}")
    return sizes


_OPERATIONS: dict[str, Callable[[Any, _Chain], list[Json]]] = {
    "Chunk": _chunk,
    "Split": _split,
    "Concatenate": _concatenate,
    "MergeModulelist": _merge,
    "SplitModulelist": _split_list,
    "Transpose": _transpose,
    "Interleave": _interleave,
    "PermuteForRope": _rope,
    "VisionUnfuseAndPermuteForRope": _vision_unfuse,
    "VisionFuseAndPermuteForRope": _vision_fuse,
    "ErnieFuseAndSplitTextVisionExperts": _experts,
    "ErnieSplitAndDecoupleTextVisionExperts": _experts,
    "Conv3dToLinear": _to_linear,
    "LinearToConv3d": _to_conv,
}
