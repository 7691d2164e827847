#!/usr/bin/env python3
"""Write mappings/plain.json: the model types whose stored names are their runtime names.

    python tools/export_plain.py --output mappings/plain.json
    python tools/export_plain.py --same-as qwen2_moe

A type is plain when Transformers registers no conversion for any sub-model of any of its classes. Each
class that the auto mappings list for the type is built on the meta device, with its default config at
two layers, and Transformers itself is asked what it would convert.

Left out, since nothing can be said about them: types with a class that cannot be built so, and types
that hold a sub-model of whatever type config.json names. The conversions that Transformers applies to
every model (`LayerNorm.gamma` and the like) do not count.

`--same-as TYPE` prints, instead, the types whose every class gets exactly what is registered for TYPE.
"""

import argparse
import json
import re
import signal
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import transformers
from transformers import AutoConfig
from transformers.conversion_mapping import (
    get_checkpoint_conversion_mapping,
    get_model_conversion_mapping,
)
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

LAYER_COUNT = re.compile(r"^(num_hidden_layers|num_layers|n_layers?|\w+_layers)$")
# Fields that some default configs leave open and some classes ask for.
OPEN_FIELDS = {"head_dim": 64, "num_key_value_heads": 2, "prediction_length": 2, "vocab_size": 64}
SECONDS_PER_CLASS = 60


def classes_by_type() -> dict[str, list[str]]:
    """Names of the model classes that the auto mappings list, by model type."""
    classes = defaultdict(set)
    for table, entries in vars(modeling_auto).items():
        if not re.fullmatch(r"MODEL_\w*MAPPING_NAMES", table):
            continue
        for model_type, names in entries.items():
            classes[model_type].update([names] if isinstance(names, str) else names)
    return {model_type: sorted(names) for model_type, names in classes.items()}


def configs_to_try(config_class: type) -> Iterator[transformers.PreTrainedConfig]:
    """The default config with two layers, the default itself, and it with open fields filled."""
    values = config_class().to_dict()
    fewer = {
        key: 2
        for key, value in values.items()
        if LAYER_COUNT.match(key) and type(value) is int and value > 2
    }
    per_layer = {
        key: value[:2]
        for key, value in values.items()
        if isinstance(value, list) and key in ("layer_types", "mlp_layer_types")
    }
    filled = {
        key: value for key, value in OPEN_FIELDS.items() if key in values and values[key] is None
    }
    for fields in (fewer | per_layer, {}, filled):
        try:
            yield config_class(**fields)
        except Exception:  # a config may check its fields against one another in any way
            continue


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the block after `seconds`."""

    def expire(signum: int, frame: object) -> None:
        raise TimeoutError(f"not built in {seconds} s")

    previous = signal.signal(signal.SIGALRM, expire)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def build(class_name: str, config_class: type) -> torch.nn.Module:
    """The model on the meta device: its tree, without weights."""
    failure = ValueError("its default config is refused")
    for config in configs_to_try(config_class):
        try:
            with time_limit(SECONDS_PER_CLASS), torch.device("meta"):
                return getattr(transformers, class_name)(config)
        except Exception as error:  # whatever a constructor raises
            failure = error
    raise failure


def holds_any_type(config_class: type) -> bool:
    """True if a sub-config may be of whatever type config.json names."""
    subs = getattr(config_class, "sub_configs", {}) or {}
    return AutoConfig in subs.values() or "backbone_config" in subs


def is_of_another_type(class_name: str, model_type: str) -> bool:
    """True if the class is listed for the type but made for the config of another one."""
    config_class = getattr(getattr(transformers, class_name, None), "config_class", None)
    return config_class is not None and config_class.model_type != model_type


def signature(transforms: list) -> list[tuple]:
    """What two equal lists of transforms have in common."""
    return [
        (
            type(t).__name__,
            tuple(t.source_patterns),
            tuple(t.target_patterns),
            t.scope_prefix or "",
            repr(getattr(t, "operations", None)),
        )
        for t in transforms
    ]


def signatures_of(model_type: str, class_names: list[str]) -> list[list[tuple]]:
    """One signature per class. Raises whatever building a class raises."""
    config_class = CONFIG_MAPPING[model_type]
    if holds_any_type(config_class):
        raise ValueError("a sub-model of any type")
    found = []
    for name in class_names:
        if is_of_another_type(name, model_type):
            continue
        model = build(name, config_class)
        found.append(signature(get_model_conversion_mapping(model, add_legacy=False)))
    return found


def matching_types(wanted: list[tuple]) -> list[str]:
    """The model types whose every class has the signature `wanted`; the others go to stderr."""
    matching = []
    for model_type, class_names in sorted(classes_by_type().items()):
        if model_type not in CONFIG_MAPPING:
            continue
        try:
            found = signatures_of(model_type, class_names)
        except Exception as error:  # see build()
            reason = (str(error).splitlines() or [""])[0]
            print(f"{model_type}: left out: {type(error).__name__}: {reason}", file=sys.stderr)
            continue
        if found and all(each == wanted for each in found):
            matching.append(model_type)
    return matching


def main() -> None:
    """Parse the arguments and write or print the list."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--output", type=Path, metavar="FILE", help="write the plain types to FILE")
    group.add_argument("--same-as", metavar="TYPE", help="print the types that convert as TYPE does")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()

    if arguments.same_as:
        registered = get_checkpoint_conversion_mapping(arguments.same_as)
        if registered is None:
            parser.error(f"nothing is registered for {arguments.same_as!r}")
        print(*matching_types(signature(registered)), sep="\n")
        return
    plain = {"format": "weightloom.plain/1", "model_types": matching_types([])}
    arguments.output.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
