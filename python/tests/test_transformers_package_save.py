"""`weightloom.transformers.save_pretrained` writes what `model.save_pretrained` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from transformers_cases import CLASSES, bits, differences, files_of, quiet, tiny_model

import weightloom
import weightloom.transformers as ours

quiet()


@pytest.fixture(scope="module", params=CLASSES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tiny model that was built, and the checkpoint that Transformers makes of it."""
    model = tiny_model(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    model.save_pretrained(folder)
    return model, folder


def test_a_built_model_is_saved_byte_for_byte(case: Any, tmp_path: Path) -> None:
    model, folder = case
    ours.save_pretrained(model, tmp_path / "saved")
    assert files_of(tmp_path / "saved") == files_of(folder)


def test_a_loaded_model_is_saved_as_its_checkpoint(case: Any, tmp_path: Path) -> None:
    model, folder = case
    theirs = type(model).from_pretrained(folder)
    own = ours.from_pretrained(type(model), folder)
    theirs.save_pretrained(tmp_path / "theirs")
    ours.save_pretrained(own, tmp_path / "ours")
    ours.save_pretrained(theirs, tmp_path / "crossed")
    own.save_pretrained(tmp_path / "crossed back")
    expected = files_of(tmp_path / "theirs")
    for name in ("ours", "crossed", "crossed back"):
        assert files_of(tmp_path / name) == expected, name


@pytest.fixture(scope="module")
def mixtral() -> Any:
    return tiny_model("MixtralForCausalLM")


def test_shards_are_split_alike(mixtral: Any, tmp_path: Path) -> None:
    for size in ("40KB", "90KB", 200_000):
        mixtral.save_pretrained(tmp_path / f"theirs {size}", max_shard_size=size)
        ours.save_pretrained(mixtral, tmp_path / f"ours {size}", max_shard_size=size)
        expected = files_of(tmp_path / f"theirs {size}")
        assert "model.safetensors.index.json" in expected
        assert files_of(tmp_path / f"ours {size}") == expected


def test_tied_weights_are_written_once_and_counted_once(tmp_path: Path) -> None:
    model = tiny_model("BertForMaskedLM")
    model.save_pretrained(tmp_path / "theirs", max_shard_size="40KB")
    ours.save_pretrained(model, tmp_path / "ours", max_shard_size="40KB")
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "theirs")
    index = json.loads((tmp_path / "ours" / "model.safetensors.index.json").read_text())
    assert "cls.predictions.decoder.weight" not in index["weight_map"]


def test_the_runtime_layout_when_asked_for(mixtral: Any, tmp_path: Path) -> None:
    mixtral.save_pretrained(tmp_path / "theirs", save_original_format=False)
    ours.save_pretrained(mixtral, tmp_path / "ours", save_original_format=False)
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "theirs")


def test_a_variant(mixtral: Any, tmp_path: Path) -> None:
    for size in ("50GB", "90KB"):
        mixtral.save_pretrained(tmp_path / f"theirs {size}", variant="ema", max_shard_size=size)
        ours.save_pretrained(mixtral, tmp_path / f"ours {size}", variant="ema", max_shard_size=size)
        assert files_of(tmp_path / f"ours {size}") == files_of(tmp_path / f"theirs {size}")
    folder = tmp_path / "ours 90KB"
    own = ours.from_pretrained(AutoModelForCausalLM, folder, variant="ema")
    theirs = AutoModelForCausalLM.from_pretrained(folder, variant="ema")
    assert differences(own, theirs) == []


def test_shards_of_an_earlier_save_go(mixtral: Any, tmp_path: Path) -> None:
    ours.save_pretrained(mixtral, tmp_path, max_shard_size="40KB")
    (tmp_path / "notes.txt").write_text("stays")
    before = {path.name for path in tmp_path.iterdir()}
    ours.save_pretrained(mixtral, tmp_path, max_shard_size="90KB")
    after = {path.name for path in tmp_path.iterdir()}
    assert "notes.txt" in after
    assert not {n for n in before & after if n.startswith("model-0")}


def test_into_the_folder_that_the_model_came_from(mixtral: Any, tmp_path: Path) -> None:
    mixtral.save_pretrained(tmp_path)
    before = files_of(tmp_path)
    model = ours.from_pretrained(AutoModelForCausalLM, tmp_path)
    ours.save_pretrained(model, tmp_path)
    assert files_of(tmp_path) == before


def test_a_checkpoint_in_old_names_is_saved_in_old_names(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    model = tiny_model("BertModel")
    model.save_pretrained(tmp_path / "old")
    path = tmp_path / "old" / "model.safetensors"
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    tensors = {}
    for name, tensor in load_file(path).items():
        for new, former in old.items():
            name = name.replace(new, former)
        tensors[name] = tensor
    save_file(tensors, path, metadata={"format": "pt"})
    ours.save_pretrained(
        ours.from_pretrained(transformers.BertModel, tmp_path / "old"), tmp_path / "new"
    )
    assert (tmp_path / "new" / "model.safetensors").read_bytes() == path.read_bytes()


def test_a_tensor_with_gaps(tmp_path: Path) -> None:
    model = tiny_model("LlamaForCausalLM")
    with torch.no_grad():
        weight = model.lm_head.weight
        model.lm_head.weight = torch.nn.Parameter(weight.t().contiguous().t())
    assert not model.lm_head.weight.is_contiguous()
    model.save_pretrained(tmp_path / "theirs")
    ours.save_pretrained(model, tmp_path / "ours")
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "theirs")


def test_a_state_dict_in_the_place_of_the_models(mixtral: Any, tmp_path: Path) -> None:
    state = {name: tensor.clone() for name, tensor in mixtral.state_dict().items()}
    state["lm_head.weight"] += 1
    mixtral.save_pretrained(tmp_path / "theirs", state_dict=dict(state))
    ours.save_pretrained(mixtral, tmp_path / "ours", state_dict=state)
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "theirs")


def test_memory_that_is_shared_without_a_tie_is_refused(tmp_path: Path) -> None:
    model = tiny_model("LlamaForCausalLM")
    layers = model.model.layers
    layers[1].mlp.up_proj.weight = layers[0].mlp.up_proj.weight
    with pytest.raises(RuntimeError, match="share"):
        ours.save_pretrained(model, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_a_failed_save_leaves_the_folder_as_it_was(mixtral: Any, tmp_path: Path) -> None:
    mixtral.save_pretrained(tmp_path)
    before = files_of(tmp_path)
    with pytest.raises(weightloom.UnsupportedError, match="push_to_hub"):
        ours.save_pretrained(mixtral, tmp_path, push_to_hub=True)
    empty = transformers.MixtralForCausalLM._from_config(mixtral.config)
    empty.to("meta")
    with pytest.raises(weightloom.UnsupportedError, match="on the meta device"):
        ours.save_pretrained(empty, tmp_path)
    assert files_of(tmp_path) == before


def test_what_is_saved_loads_again_bit_for_bit(mixtral: Any, tmp_path: Path) -> None:
    ours.save_pretrained(mixtral, tmp_path, max_shard_size="90KB")
    again = ours.from_pretrained(AutoModelForCausalLM, tmp_path)
    wanted = mixtral.state_dict()
    assert {n: bits(t) for n, t in again.state_dict().items()} == {
        n: bits(t) for n, t in wanted.items()
    }
