"""Adapters and heads of one's own: names prepared, mapping described, loaded, reported."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.core_model_loading import (
    Concatenate,
    ConversionOps,
    WeightConverter,
    WeightRenaming,
)
from transformers_cases import bits, differences, quiet, refill, tiny_model

import weightloom
import weightloom.transformers as ours

peft = pytest.importorskip("peft")
quiet()

LORA: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {"target_modules": ["q_proj", "v_proj", "down_proj"]},
    # Parameters of experts, which are no modules: fused gate and up, and down.
    "MixtralForCausalLM": {
        "target_modules": ["q_proj"],
        "target_parameters": ["experts.gate_up_proj", "experts.down_proj"],
    },
    "Qwen3MoeForCausalLM": {"target_modules": ["q_proj", "o_proj"]},
}


@pytest.fixture(scope="module", params=LORA)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A base checkpoint and a LoRA adapter for it, both with random values."""
    folder = tmp_path_factory.mktemp(request.param)
    model = tiny_model(request.param)
    model.save_pretrained(folder / "base")
    config = peft.LoraConfig(r=3, lora_alpha=5, **LORA[request.param])
    wrapped = peft.get_peft_model(model, config)
    refill(wrapped)
    wrapped.save_pretrained(folder / "adapter")
    return folder / "base", folder / "adapter"


def base(folder: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(folder)


def test_an_adapter_is_the_one_that_transformers_loads(pair: Any) -> None:
    folder, adapter = pair
    theirs, own = base(folder), base(folder)
    expected = theirs.load_adapter(str(adapter))
    report = ours.load_adapter(own, adapter)
    assert differences(own, theirs) == []
    assert report.missing_keys == expected.missing_keys == set()
    assert report.unexpected_keys == expected.unexpected_keys == set()
    assert own.active_adapters() == theirs.active_adapters()
    stored = load_file(adapter / "adapter_model.safetensors")
    held = {bits(t) for n, t in own.state_dict().items() if "lora_" in n}
    assert {bits(t) for t in stored.values()} <= held
    tokens = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        assert torch.equal(own(tokens).logits, theirs(tokens).logits)


def test_a_second_adapter_under_a_name_of_its_own(pair: Any) -> None:
    folder, adapter = pair
    model = base(folder)
    ours.load_adapter(model, adapter, "one")
    ours.load_adapter(model, adapter, "two")
    state = model.state_dict()
    ones = {n.replace(".one.", ".two."): bits(t) for n, t in state.items() if ".one." in n}
    assert ones
    assert ones == {n: bits(t) for n, t in state.items() if ".two." in n}


def test_an_adapter_by_from_pretrained(pair: Any) -> None:
    """Pointed at an adapter, Transformers loads the base model that it names, and then it."""
    import json

    folder, adapter = pair
    config = adapter / "adapter_config.json"
    text = json.loads(config.read_text())
    text["base_model_name_or_path"] = str(folder)
    config.write_text(json.dumps(text))
    theirs = AutoModelForCausalLM.from_pretrained(adapter)
    own = ours.from_pretrained(AutoModelForCausalLM, adapter)
    assert differences(own, theirs) == []


def edited(adapter: Path, target: Path, edit: Any) -> Path:
    """The adapter with its tensors edited."""
    target.mkdir()
    (target / "adapter_config.json").write_bytes((adapter / "adapter_config.json").read_bytes())
    tensors = load_file(adapter / "adapter_model.safetensors")
    edit(tensors)
    save_file(tensors, target / "adapter_model.safetensors", metadata={"format": "pt"})
    return target


def test_a_tensor_of_the_adapter_that_is_not_applied_is_an_error(pair: Any, tmp_path: Path) -> None:
    folder, adapter = pair
    name = "base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight"

    def add(tensors: dict[str, torch.Tensor]) -> None:
        tensors[name] = torch.ones(3, 3)

    broken = edited(adapter, tmp_path / "more", add)
    model = base(folder)
    before = list(model.state_dict())
    with pytest.raises(weightloom.PlanError, match=r"layers\.9\.self_attn\.q_proj\.lora_A"):
        ours.load_adapter(model, broken)
    assert list(model.state_dict()) == before
    ours.load_adapter(model, adapter)
    report = ours.load_adapter(base(folder), broken, lenient=True)
    assert len(report.unexpected_keys) == 1


def test_a_tensor_of_the_adapter_that_is_missing_is_an_error(pair: Any, tmp_path: Path) -> None:
    folder, adapter = pair

    def drop(tensors: dict[str, torch.Tensor]) -> None:
        del tensors[next(n for n in sorted(tensors) if "q_proj.lora_B" in n)]

    broken = edited(adapter, tmp_path / "less", drop)
    with pytest.raises(weightloom.PlanError, match=r"gives no values for 1 tensor of its own"):
        ours.load_adapter(base(folder), broken)


def test_an_adapter_of_another_model_is_an_error(pair: Any, tmp_path: Path) -> None:
    folder, adapter = pair

    def rename(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            tensors[name.replace("base_model.model.", "_orig_mod.base_model.model.")] = tensors.pop(
                name
            )

    broken = edited(adapter, tmp_path / "other", rename)
    with pytest.raises(weightloom.PlanError):
        ours.load_adapter(base(folder), broken)


# ---- heads and mappings of one's own -------------------------------------------------------------


def test_a_head_that_is_stored_apart(tmp_path: Path) -> None:
    tiny_model("LlamaModel").save_pretrained(tmp_path / "base")
    model = transformers.LlamaForSequenceClassification.from_pretrained(tmp_path / "base")
    wanted = torch.randn(model.score.weight.shape)
    head = tmp_path / "head.safetensors"
    save_file({"classifier.out.weight": wanted}, head)
    body = {n: bits(t) for n, t in model.model.state_dict().items()}
    rules = ours.added([], last=[WeightRenaming(r"^classifier\.out\.", "score.")])
    report = ours.load_weights(model, head, rules, require=[r"^score\."])
    assert bits(model.score.weight) == bits(wanted)
    assert {n: bits(t) for n, t in model.model.state_dict().items()} == body
    assert "score.weight" not in report.missing_keys
    with pytest.raises(weightloom.PlanError, match=r"required: 'lm_head|required"):
        ours.load_weights(model, head, rules, require=[r"^model\.norm\."])


def test_a_model_without_values_is_filled_and_finished(tmp_path: Path) -> None:
    source = tiny_model("BertForMaskedLM")
    source.save_pretrained(tmp_path)
    with torch.device("meta"):
        model = type(source)(source.config)
    ours.load_weights(model, tmp_path)
    state = source.state_dict()
    assert {n: bits(t) for n, t in model.state_dict().items()} == {
        n: bits(t) for n, t in state.items()
    }
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight


class Halved(Concatenate):
    """An operation on values that Weightloom has no form for."""

    @torch.no_grad()
    def convert(self, input_dict: Any, **kwargs: Any) -> Any:
        made = super().convert(input_dict, **kwargs)
        return {name: tensor / 2 for name, tensor in made.items()}


class Doubled(ConversionOps):
    """Likewise, for every converter."""

    @torch.no_grad()
    def convert(self, input_dict: Any, **kwargs: Any) -> Any:
        return {
            n: [t * 2 for t in v] if isinstance(v, list) else v * 2 for n, v in input_dict.items()
        }


def test_an_operation_in_the_place_of_another(tmp_path: Path) -> None:
    source = tiny_model("MixtralForCausalLM")
    source.save_pretrained(tmp_path)
    from transformers.conversion_mapping import get_model_conversion_mapping

    plain = get_model_conversion_mapping(source)
    rules = ours.replaced(plain, Concatenate, lambda op: Halved(dim=op.dim))
    model = AutoModelForCausalLM.from_config(source.config)
    ours.load_weights(model, tmp_path, rules)
    for name, tensor in source.state_dict().items():
        expected = tensor / 2 if name.endswith("gate_up_proj") else tensor
        assert bits(model.state_dict()[name]) == bits(expected), name
    kinds = [type(op) for t in plain if isinstance(t, WeightConverter) for op in t.operations]
    assert Halved not in kinds


def test_an_operation_more_in_every_converter(tmp_path: Path) -> None:
    source = tiny_model("MixtralForCausalLM")
    source.save_pretrained(tmp_path)
    from transformers.conversion_mapping import get_model_conversion_mapping

    rules = ours.with_operation(get_model_conversion_mapping(source), Doubled())
    model = AutoModelForCausalLM.from_config(source.config)
    ours.load_weights(model, tmp_path, rules)
    for name, tensor in source.state_dict().items():
        expected = tensor * 2 if re.search(r"experts\.\w+_proj$", name) else tensor
        assert bits(model.state_dict()[name]) == bits(expected), name


def test_transforms_that_are_given_stay_as_they_are(tmp_path: Path) -> None:
    from transformers.conversion_mapping import get_model_conversion_mapping

    source = tiny_model("MixtralForCausalLM")
    plain = get_model_conversion_mapping(source)
    before = [copy.deepcopy(vars_of(t)) for t in plain]
    ours.added(plain, first=[WeightRenaming("a", "b")])
    ours.with_operation(plain, Doubled(), first=True)
    ours.replaced(plain, Concatenate, lambda op: Halved(dim=op.dim))
    assert [vars_of(t) for t in plain] == before


def vars_of(transform: Any) -> Any:
    operations = [type(op).__name__ for op in getattr(transform, "operations", [])]
    return (transform.source_patterns, transform.target_patterns, operations)
