"""Quantised checkpoints whose codes become values when they are loaded, as on a CPU.

The core decodes before any rule sees a name, so what the quantiser puts into the mapping (renamings
of scales, converters of its own, an operation at the head of the model's converters) has nothing
left to do, and goes. What remains is the mapping of the model as if it were not quantised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel
from transformers.core_model_loading import WeightConverter

DECODED = ("fp8", "mxfp4", "compressed-tensors")


def is_decoded(quantiser: Any) -> bool:
    """True if the model is built without the scheme, and the core makes the values of its codes."""
    config = quantiser.quantization_config
    decodes = quantiser.pre_quantized and getattr(config, "dequantize", False)
    return bool(decodes) and method_of(quantiser) in DECODED


def method_of(quantiser: Any) -> str:
    """As config.json spells it."""
    method = quantiser.quantization_config.quant_method
    return str(getattr(method, "value", method))


def quantiser_in(transforms: Iterable[Any]) -> Any:
    """The quantiser that put operations into a mapping; None if none did."""
    found = (_quantiser_of(transform) for transform in transforms)
    return next((quantiser for quantiser in found if quantiser is not None), None)


def _quantiser_of(transform: Any) -> Any:
    operations = getattr(transform, "operations", ())
    return getattr(operations[0], "hf_quantizer", None) if operations else None


def without_quantiser(
    transforms: Iterable[Any], quantiser: Any, model: PreTrainedModel
) -> list[Any]:
    """The transforms of a mapping that are the model's own, as they were.

    What the quantiser adds to any list is told by what it makes of an empty one.
    """
    added = {_identity(each) for each in quantiser.update_weight_conversions([], model)}
    own = [each for each in transforms if _identity(each) not in added]
    return [_restored(each) for each in own]


def _identity(transform: Any) -> tuple[Any, ...]:
    operations = getattr(transform, "operations", ())
    return (
        type(transform),
        tuple(transform.source_patterns),
        tuple(transform.target_patterns),
        tuple(type(operation) for operation in operations),
    )


def _restored(transform: Any) -> Any:
    """A converter without the operation at its head, and without the companions' patterns."""
    quantiser = _quantiser_of(transform)
    if quantiser is None or not isinstance(transform, WeightConverter):
        return transform
    plain = transform.copy(
        _own_sources(transform, quantiser.serialized_names),
        list(transform._original_target_patterns),
        operations=list(transform.operations[1:]),
    )
    plain._was_used = transform._was_used
    return plain


def _own_sources(transform: Any, serialized_names: dict[str, list[str]]) -> list[str]:
    """One source for each run of a parameter's serialised names."""
    sources = list(transform._original_source_patterns)
    for parameter, names in serialized_names.items():
        runs = [sources[i : i + len(names)] for i in range(0, len(sources), len(names))]
        if all(len(run) == len(names) and _are_of(run, names) for run in runs):
            return [re.sub(f"{re.escape(names[0])}$", parameter, run[0]) for run in runs]
    return sources


def _are_of(run: list[str], names: list[str]) -> bool:
    pairs = zip(run, names, strict=True)
    return len({source.removesuffix(name) for source, name in pairs}) == 1


def config_of(folder: str, model: PreTrainedModel, quantiser: Any) -> str | None:
    """The config that declares the scheme, if it is not the one beside the tensors."""
    beside = Path(folder) / "config.json"
    if beside.is_file() and _declares(json.loads(beside.read_text(encoding="utf-8"))):
        return None
    config = json.loads(model.config.to_json_string(use_diff=False))
    config["quantization_config"] = quantiser.quantization_config.to_dict()
    return json.dumps(config)


def _declares(config: dict[str, Any]) -> bool:
    places = config, config.get("text_config") or {}
    keys = "quantization_config", "compression_config"
    return any(place.get(key) for place in places for key in keys)
