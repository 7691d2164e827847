"""The parallel plans of Transformers: which style each config and each model class has for what.

A config class says how the modules of its base model are split over the ranks of tensor and of
expert parallelism; a model class adds what it has beside the base model (`lm_head`).
`mappings/parallel_plans.json` is made of this by export_transformers.py; docs/mappings.md describes
it. Plans for FSDP are not here: they group modules, and cut every tensor alike.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tiny_configs
import transformers
from transformers import PreTrainedConfig

FORMAT = "weightloom.parallel_plans/1"
KINDS = ("tp", "ep")

Plans = dict[str, dict[str, str]]


def plans_of(thing: type, attribute: str) -> Plans:
    """The plans that a class has under `attribute`, by kind; those that are not empty."""
    found = {kind: getattr(thing, attribute.format(kind), None) for kind in KINDS}
    return {kind: dict(plan) for kind, plan in found.items() if plan}


def config_classes() -> list[type[PreTrainedConfig]]:
    """Every config class of the installed Transformers, by name."""
    root = Path(transformers.__file__).parent / "models"
    for file in sorted(root.glob("*/configuration_*.py")):
        importlib.import_module(f"transformers.models.{file.parent.name}.{file.stem}")
    return sorted(set(below(PreTrainedConfig)), key=lambda each: (each.__module__, each.__name__))


def below(base: type[Any]) -> Iterator[type[Any]]:
    """The classes derived from one."""
    for each in base.__subclasses__():
        yield each
        yield from below(each)


def plans_of_configs() -> dict[str, Plans]:
    """Plans by model type.

    Raises
    ------
    ValueError
        If two config classes of one model type say different things.
    """
    found: dict[str, Plans] = {}
    for config_class in config_classes():
        plans = plans_of(config_class, "base_model_{}_plan")
        known = found.setdefault(config_class.model_type, plans)
        if known != plans:
            raise ValueError(f"model type '{config_class.model_type}' has two plans")
    return {model_type: plans for model_type, plans in found.items() if plans}


def plans_of_classes(class_names: list[str]) -> dict[str, Plans]:
    """Plans by model class, without what a config or a sub-model adds."""
    found = {name: plans_of(tiny_configs.class_named(name), "_{}_plan") for name in class_names}
    return {name: plans for name, plans in found.items() if plans}
