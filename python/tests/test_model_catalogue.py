"""The model catalogue against the models that the installed Transformers builds.

All classes with `WEIGHTLOOM_ALL_CLASSES=1`; else those of the registry's kinds and every 25th.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import model_catalogue
import pytest
import tiny_configs
from model_walk import Json, walk
from transformers import PreTrainedConfig, PreTrainedModel, conversion_mapping

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE: Json = json.loads((ROOT / "mappings" / "models.json").read_text(encoding="utf-8"))
ALL_CLASSES = bool(os.environ.get("WEIGHTLOOM_ALL_CLASSES"))
REGISTERED = set(conversion_mapping._build_checkpoint_conversion_mapping())
# A plain one, one of each kind of composite, and those where the walk goes its own ways.
CHOSEN = [
    "BertModel",
    "MixtralForCausalLM",
    "LlavaForConditionalGeneration",
    "LlavaModel",
    "LlavaNextForConditionalGeneration",
    "DetrForSegmentation",
    "DetrForObjectDetection",
    "T5ForConditionalGeneration",
    "CLIPModel",
    "MaskFormerForInstanceSegmentation",
    "Kimi_K25ForConditionalGeneration",
    "Molmo2ForConditionalGeneration",
    "Qwen2_5OmniForConditionalGeneration",
    "Qwen3OmniMoeForConditionalGeneration",
    "Glm5NextForConditionalGeneration",
    "Ernie4_5_VLMoeForConditionalGeneration",
    "SpeechEncoderDecoderModel",
    "VisionTextDualEncoderModel",
    "MimiModel",
    "Sam3Model",
    "Gemma3ForConditionalGeneration",
    "BlipForQuestionAnswering",
]
# Classes that take more than a config, or a config that their model has made ready.
ONLY_INSIDE = {
    "PatchTSTEncoder",
    "Qwen3OmniMoeCode2WavDecoderBlock",
    "SeamlessM4Tv2TextToUnitDecoder",
    "SeamlessM4Tv2TextToUnitModel",
    "SwinEncoder",
    "T5GemmaDecoder",
    "T5GemmaEncoder",
    "UVDocBridge",
}


def class_names() -> list[str]:
    """The classes to compare."""
    every = sorted(CATALOGUE["classes"])
    if ALL_CLASSES:
        return every
    return sorted({*every[::25], *(name for name in CHOSEN if name in CATALOGUE["classes"])})


def build(name: str) -> PreTrainedModel:
    """The model on meta; skips one that needs a package, or that is known not to be built."""
    if CATALOGUE["classes"][name].get("tree", True) is False:
        pytest.skip("no small config builds it: the catalogue says so")
    model_class = tiny_configs.class_named(name)
    if model_class is None:
        pytest.skip(f"needs {tiny_configs.classes_not_imported()[name]}")
    try:
        model = tiny_configs.build_on_meta(model_class)
    except tiny_configs.NotBuilt as failure:
        if failure.package:
            pytest.skip(f"needs {failure.package}")
        assert name in ONLY_INSIDE
        pytest.skip("it is built by other models only")
    return tiny_configs.on_meta(model_class, reloaded(model.config))


def reloaded(config: PreTrainedConfig) -> PreTrainedConfig:
    """The config as its config.json makes it: some are of another type before they are saved.

    A few refuse what they have written (Mamba's, whose limit is infinite): those stay as they are.
    """
    try:
        return type(config).from_dict(json.loads(config.to_json_string()))
    except Exception:
        return config


def walk_of_transformers(
    model: PreTrainedModel, patch: pytest.MonkeyPatch
) -> list[tuple[str, str]]:
    """Scope and registry key of each list that Transformers takes, in order."""
    taken: list[tuple[list[Any], str]] = []
    original = conversion_mapping.get_checkpoint_conversion_mapping

    def noting(key: str) -> list[Any] | None:
        transforms = original(key)
        if transforms:
            taken.append((transforms, key))
        return transforms

    patch.setattr(conversion_mapping, "get_checkpoint_conversion_mapping", noting)
    conversion_mapping.get_model_conversion_mapping(model, add_legacy=False)
    return once([(starred(transforms[0].scope_prefix or ""), key) for transforms, key in taken])


def starred(path: str) -> str:
    """The path with `*` for its numbers."""
    return ".".join("*" if part.isdigit() else part for part in path.split("."))


def once(steps: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each step once, where the members of a list of sub-models are alike."""
    return list(dict.fromkeys(steps))


def config_json(model: PreTrainedModel) -> Json:
    """config.json as it is saved with the model."""
    return json.loads(model.config.to_json_string())


@pytest.mark.parametrize("name", class_names())
def test_the_walk_over_the_catalogue_is_that_of_transformers(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(name)
    base = model.base_model_prefix
    steps = walk(CATALOGUE, REGISTERED, name, config_json(model))
    scopes = [(path.removeprefix(base).removeprefix("."), key) for path, key in steps]
    assert once(scopes) == walk_of_transformers(model, monkeypatch)


def composed_names(name: str, prefix: str = "") -> set[str]:
    """Templates of all names of a class, its sub-models' included, fixed classes and defaults."""
    entry = CATALOGUE["classes"][name]
    found = {prefix + each for each in entry.get("names", [])}
    for sub in entry.get("submodels", []):
        inner = sub.get("class") or CATALOGUE["auto"][sub["auto"]][sub["model_type"]]
        found |= composed_names(inner, f"{prefix}{sub['path']}.")
    return found


@pytest.mark.parametrize("name", class_names())
def test_every_name_of_a_state_dict_is_composed_from_the_catalogue(name: str) -> None:
    model = build(name)
    names = {starred(each) for each in model.state_dict()}
    assert names <= composed_names(name)


@pytest.mark.parametrize("name", class_names()[:: 1 if ALL_CLASSES else 4])
def test_an_entry_is_what_the_installed_transformers_makes(name: str) -> None:
    build(name)  # or skip
    made = model_catalogue.entries_of(name)[name]
    shipped = dict(CATALOGUE["classes"][name])
    for key in model_catalogue.NAMES:
        names = set(made.pop(key, []))
        assert names <= set(shipped.pop(key, []))
    assert made == shipped, "run tools/export_transformers.py"


def test_every_class_that_an_entry_names_has_an_entry() -> None:
    classes, autos = CATALOGUE["classes"], CATALOGUE["auto"]
    for name, entry in classes.items():
        for sub in entry.get("submodels", []):
            inner = sub.get("class") or autos[sub["auto"]][sub["model_type"]]
            assert inner in classes, f"{name}: {sub}"


def test_every_registered_class_and_auto_class_has_an_entry() -> None:
    known = set(tiny_configs.model_classes())
    wanted = {key for key in REGISTERED if key in known} | set(
        CATALOGUE["auto"]["AutoModel"].values()
    )
    assert wanted - set(CATALOGUE["classes"]) == set()


def test_few_classes_have_no_tree() -> None:
    without = [n for n, entry in CATALOGUE["classes"].items() if entry.get("tree") is False]
    assert len(without) <= 10
