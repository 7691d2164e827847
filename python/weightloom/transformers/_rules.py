"""A model's mapping, as the installed Transformers has it, in the form that the core compiles."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from transformers import PreTrainedModel, core_model_loading

from weightloom import _transformers_rules as rules

FORMAT = "weightloom.mapping/1"


@dataclass(frozen=True)
class Untranslated:
    """A transform that the core cannot express, and why."""

    transform: Any
    reason: str


@dataclass(frozen=True)
class ModelRules:
    """The transforms of one model: those that the core runs, and those that it cannot."""

    forms: list[dict[str, Any]] = field(default_factory=list)
    transforms: list[Any] = field(default_factory=list)
    untranslated: list[Untranslated] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The mapping file of those that the core runs."""
        return json.dumps({"format": FORMAT, "name": "model", "transforms": self.forms})

    @property
    def untranslated_renamings(self) -> list[Untranslated]:
        """Renamings that the core cannot run: no name is certain then."""
        renaming = core_model_loading.WeightRenaming
        return [u for u in self.untranslated if isinstance(u.transform, renaming)]


def translate(
    transforms: list[Any] | None, model: PreTrainedModel, *, for_saving: bool = False
) -> ModelRules:
    """Each transform in the core's form, with the numbers that this model gives it."""
    result = ModelRules()
    for transform in transforms or []:
        try:
            form = rules.transform_to_json(transform, model=model, for_saving=for_saving)
        except rules.UntranslatableTransform as error:
            result.untranslated.append(Untranslated(transform, str(error)))
            continue
        result.forms.append(form)
        result.transforms.append(transform)
    return result
