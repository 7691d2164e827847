"""The translation of Transformers' transforms, and what is declared beside them."""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_configs
import torch
from transformers import conversion_mapping
from transformers.core_model_loading import (
    Chunk,
    Concatenate,
    Conv3dToLinear,
    PermuteForRope,
    PrefixChange,
    Split,
    Transpose,
    WeightConverter,
    WeightRenaming,
)
from transformers_declarations import DECLARED, declared_for

from weightloom._transformers_rules import (
    UntranslatableTransform,
    mapping_text,
    mapping_to_json,
    transform_to_json,
)

ROOT = Path(__file__).resolve().parents[2]
REGISTERED = conversion_mapping._build_checkpoint_conversion_mapping()


def test_the_shipped_mappings_are_those_of_the_installed_transformers() -> None:
    command = [sys.executable, str(ROOT / "tools" / "export_transformers.py")]
    run = subprocess.run(
        [*command, "--check", "--only", "mappings"], capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, f"run tools/export_transformers.py:\n{run.stdout}{run.stderr}"


def test_the_check_says_what_is_another_than_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    import export_transformers

    files = {"a.json": "one\ntwo\n", "new.json": "n\n"}
    found = export_transformers.differences(files, {"a.json": "one\nthree\n", "old.json": "o\n"})
    lines = [line.rstrip("\n") for line in found if not line.startswith("@@")]
    assert {"-three", "+two", "+n", "-o"} <= set(lines)
    assert export_transformers.differences(files, files) == []


def converter(*operations: Any, targets: list[str] | None = None) -> WeightConverter:
    """A converter of `x` with these operations."""
    return WeightConverter(["x"], targets or ["y"], list(operations))


def test_a_renaming_keeps_its_patterns_and_its_scope() -> None:
    renaming = WeightRenaming(r"^a\.(\d+)", r"^b(?!c)\.\1")
    renaming.scope_prefix, renaming.base_model_prefix = "tower", "model"
    assert transform_to_json(renaming) == {
        "type": "WeightRenaming",
        "source_patterns": [r"^a\.(\d+)"],
        "target_patterns": [r"^b(?!c)\.\1"],
        "scope": {"prefix": "tower", "base_model_prefix": "model"},
    }


def test_a_transform_that_was_reversed_once_still_says_what_it_matches() -> None:
    renaming = WeightRenaming(r"^a\.(\d+)", r"^b\.\1")
    renaming.reverse_transform()
    assert renaming._original_source_patterns != [r"^a\.(\d+)"], "the fault is gone: simplify"
    form = transform_to_json(renaming)
    assert form["source_patterns"] == [r"^a\.(\d+)"]
    assert form["target_patterns"] == [r"b.\1"]


def test_translating_changes_nothing() -> None:
    before = copy.deepcopy(REGISTERED["kimi_k25"])
    mapping_to_json("kimi_k25", REGISTERED["kimi_k25"], declared=declared_for("kimi_k25"))
    after = REGISTERED["kimi_k25"]
    assert [(t.source_patterns, t._original_source_patterns) for t in after] == [
        (t.source_patterns, t._original_source_patterns) for t in before
    ]


def test_a_prefix_is_plain_text() -> None:
    change = PrefixChange(prefix_to_remove="model", model_prefix=r"model\.language_model")
    assert transform_to_json(change) == {
        "type": "PrefixChange",
        "prefix_to_remove": "model",
        "model_prefix": "model.language_model",
    }
    with pytest.raises(UntranslatableTransform, match="PrefixChange: the prefix"):
        transform_to_json(PrefixChange(prefix_to_add="mode[l1]"))


def test_what_is_not_known_is_refused_by_name() -> None:
    class MyChunk(Chunk):
        pass

    class MyRenaming(WeightRenaming):
        pass

    with pytest.raises(UntranslatableTransform, match="MyChunk") as failure:
        transform_to_json(converter(MyChunk(dim=0)))
    assert failure.value.what == "MyChunk"
    with pytest.raises(UntranslatableTransform, match="MyRenaming"):
        transform_to_json(MyRenaming("a", "b"))
    with pytest.raises(UntranslatableTransform, match="Split: without a model, its 'sizes'"):
        transform_to_json(converter(Split(dim=0), targets=["y", "z"]))


def test_a_kernel_is_flattened_and_a_transposition_that_is_not_needed_left_out() -> None:
    flat = transform_to_json(converter(Conv3dToLinear(in_channels=3, kernel_size=(2, 4, 4))))
    assert flat["operations"] == [{"op": "Flatten", "dim": 1, "sizes": [3, 2, 4, 4]}]
    checked = converter(Transpose(dim0=1, dim1=2, check_dims=True))
    assert transform_to_json(checked, for_saving=True)["operations"] == []


class Tiny(torch.nn.Module):
    """A module with a config, as far as numbers are taken from it."""

    class Config:
        num_attention_heads = 6
        parts = 3

        class vision_config:
            num_attention_heads = 2

        def get_text_config(self) -> Any:
            return self

    config = Config()

    def __init__(self, *shapes: tuple[int, int, int]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList()
        for q, k, width in shapes:
            layer = torch.nn.Module()
            layer.q, layer.k = torch.nn.Linear(width, q), torch.nn.Linear(width, k)
            self.layers.append(layer)


def test_with_a_model_numbers_are_its_own() -> None:
    model = Tiny((5, 3, 4), (5, 3, 4))
    split = converter(Split(dim=0), targets=["q", "k"])
    assert transform_to_json(split, model=model)["operations"] == [
        {"op": "Split", "dim": 0, "sizes": [5, 3]}
    ]
    checked = converter(Transpose(dim0=0, dim1=1, check_dims=True), targets=["k.weight"])
    assert transform_to_json(checked, model=model)["operations"][0]["check_dims"] == [3, 4]
    heads = converter(PermuteForRope(), PermuteForRope(subconfig_key="vision_config"))
    numbers = [op["num_heads"] for op in transform_to_json(heads, model=model)["operations"]]
    assert numbers == [6, 2]
    parts = converter(Concatenate(dim=0, num_shards_attribute="parts"))
    assert transform_to_json(parts, model=model)["operations"][0]["num_shards_attribute"] == 3


def test_parameters_that_differ_between_layers_are_refused() -> None:
    split = converter(Split(dim=0), targets=["q", "k"])
    with pytest.raises(
        UntranslatableTransform, match=r"sizes of the parameters differ: \[\(5, 3\)"
    ):
        transform_to_json(split, model=Tiny((5, 3, 4), (7, 3, 4)))
    with pytest.raises(UntranslatableTransform, match="no such parameter"):
        transform_to_json(converter(Split(dim=0), targets=["a", "b"]), model=Tiny((5, 3, 4)))


def test_a_mapping_is_written_one_transform_a_line() -> None:
    form = mapping_to_json("m", [WeightRenaming("a", "b"), WeightRenaming("c", "d")], aliases=["n"])
    head, first, second = mapping_text(form).splitlines()
    assert (
        head == '{"format": "weightloom.mapping/1", "name": "m", "aliases": ["n"], "transforms": ['
    )
    assert (
        first == '  {"type": "WeightRenaming", "source_patterns": ["a"], "target_patterns": ["b"]},'
    )
    assert second.endswith('["d"]}]}')


# --- what is declared agrees with the models ------------------------------------------------------


def value_of(expression: str | int, config: dict[str, Any]) -> int | None:
    """A number of a mapping, as docs/mappings.md says it is found."""
    for product in str(expression).split("|"):
        factors = [f if f.isdigit() else looked_up(f, config) for f in product.split("*")]
        if all(factor is not None for factor in factors):
            return math.prod(int(factor) for factor in factors)
    return None


def looked_up(key: str, config: dict[str, Any]) -> int | None:
    """A key of the root, then of text_config; or a path."""
    found: Any = config
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if found is None and "." not in key:
        found = (config.get("text_config") or {}).get(key)
    return found if type(found) is int else None


def classes_of(key: str) -> list[str]:
    """One class for a registry key: the class itself, or the first whose model type it is."""
    if (found := tiny_configs.class_named(key)) is not None:
        return [found.__name__]
    return [name for name in MODEL_TYPES if MODEL_TYPES[name] == key][:1]


MODEL_TYPES = {
    name: tiny_configs.class_named(name).config_class.model_type
    for name in tiny_configs.model_classes()
}
MERGING = sorted(
    key
    for key, transforms in REGISTERED.items()
    if any("MergeModulelist" in repr(getattr(t, "operations", "")) for t in transforms)
)


def built(key: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, dict[str, Any]]:
    """A model on meta with as many experts as its default config says, and its config.json."""
    if not classes_of(key):
        pytest.skip("no class has this name or model type")
    caps = {k: v for k, v in tiny_configs.CAPS.items() if k != tiny_configs.EXPERTS}
    monkeypatch.setattr(tiny_configs, "CAPS", caps)
    model = tiny_configs.build_on_meta(tiny_configs.class_named(classes_of(key)[0]), (3, 0, 5))
    return model, json.loads(model.config.to_json_string())


@pytest.mark.parametrize("key", MERGING)
def test_config_json_says_how_many_experts_there_are(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, config = built(key, monkeypatch)
    form = mapping_to_json(key, REGISTERED[key], declared=declared_for(key))
    for transform in form["transforms"]:
        operations = transform.get("operations", [])
        if not operations or "count" not in operations[0]:
            continue
        told = [value_of(each, config) for each in operations[0]["count"]]
        count = next((each for each in told if each is not None), None)
        name = transform["target_patterns"][0].replace("\\.", ".").removeprefix("^")
        sizes = {
            tuple(parameter.shape)[operations[0]["dim"]]
            for full, parameter in model.named_parameters()
            if full.endswith(name)
        }
        assert count is None or not sizes or sizes == {count}, name


@pytest.mark.parametrize("key", sorted(set(DECLARED) - set(MERGING)))
def test_what_is_declared_is_what_the_model_has(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, config = built(key, monkeypatch)
    said = mapping_to_json(key, REGISTERED[key], declared=declared_for(key))
    own = mapping_to_json(key, REGISTERED[key], model=model)
    for declared, found in zip(said["transforms"], own["transforms"], strict=True):
        for ours, theirs in zip(
            declared.get("operations", []), found.get("operations", []), strict=True
        ):
            compare(ours, theirs, config)


def compare(ours: dict[str, Any], theirs: dict[str, Any], config: dict[str, Any]) -> None:
    """Numbers that config.json declares, against those that the model has."""
    sub = config.get(ours.get("subconfig_key"), config)
    for parameter in ("sizes", "check_dims", "num_heads", "num_shards_attribute"):
        if parameter not in ours:
            continue
        numbers = ours[parameter] if isinstance(ours[parameter], list) else [ours[parameter]]
        wanted = theirs[parameter] if isinstance(theirs[parameter], list) else [theirs[parameter]]
        assert [value_of(number, sub) for number in numbers] == wanted, parameter


def test_defaults_at_the_end_of_expressions_are_those_of_the_config_classes() -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    for key in ("kimi_k25", "mistral_large4", "step3p7"):
        assert CONFIG_MAPPING[key]().vision_config.num_attention_heads == 16
    assert CONFIG_MAPPING["step3p5_vision"]().num_attention_heads == 16
    assert CONFIG_MAPPING["gradium_phonon_tts"]().num_attention_heads == 12
    assert CONFIG_MAPPING["qwen4_exp_text"]().split_ngram_parts == 512
