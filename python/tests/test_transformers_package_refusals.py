"""What Transformers passes over is refused before a byte moves, and said why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
from transformers_cases import bits, quiet, tiny_model

import weightloom
import weightloom.transformers as ours

quiet()

Tensors = dict[str, torch.Tensor]
PREFIX = "model.layers.0.mlp.experts"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("qwen3_moe")
    tiny_model("Qwen3MoeForCausalLM").save_pretrained(folder)
    return folder


@pytest.fixture
def edited(stored: Path, tmp_path: Path) -> Callable[[Callable[[Tensors], None]], Path]:
    """Makes the checkpoint anew, with its tensors edited."""

    def make(edit: Callable[[Tensors], None]) -> Path:
        tensors = load_file(stored / "model.safetensors")
        edit(tensors)
        save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
        (tmp_path / "config.json").write_bytes((stored / "config.json").read_bytes())
        return tmp_path

    return make


def refusal(folder: Path, **kwargs: object) -> weightloom.Error:
    """What loading it raises."""
    with pytest.raises(weightloom.Error) as caught:
        ours.from_pretrained(AutoModelForCausalLM, folder, **kwargs)
    return caught.value


def test_an_expert_that_is_missing(edited: Callable[..., Path]) -> None:
    def drop(tensors: Tensors) -> None:
        for part in ("gate_proj", "up_proj", "down_proj"):
            del tensors[f"{PREFIX}.1.{part}.weight"]

    error = refusal(edited(drop))
    assert isinstance(error, weightloom.PlanError)
    codes = [(f.code, f.tensor) for f in error.findings if f.severity == "error"]
    assert {code for code, _ in codes} == {"index_gap"}
    assert "1" in str(error)
    assert f"{PREFIX}." in str(error)


def test_one_part_of_an_expert_that_is_missing(edited: Callable[..., Path]) -> None:
    def drop(tensors: Tensors) -> None:
        del tensors[f"{PREFIX}.2.up_proj.weight"]

    error = refusal(edited(drop))
    assert "missing_source" in {f.code for f in error.findings}
    assert f"{PREFIX}." in str(error)


def test_the_last_expert_that_is_missing(edited: Callable[..., Path]) -> None:
    """No gap, no part without its other: only the shape tells."""

    def drop(tensors: Tensors) -> None:
        for part in ("gate_proj", "up_proj", "down_proj"):
            del tensors[f"{PREFIX}.3.{part}.weight"]

    error = refusal(edited(drop))
    assert f"'{PREFIX}.down_proj' is [3," in str(error)
    assert "wants [4," in str(error)


def test_fused_and_single_experts_together(edited: Callable[..., Path], stored: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(stored)
    fused = model.state_dict()[f"{PREFIX}.gate_up_proj"]

    def add(tensors: Tensors) -> None:
        tensors[f"{PREFIX}.gate_up_proj"] = fused.clone()

    folder = edited(add)
    AutoModelForCausalLM.from_pretrained(folder)  # the original says nothing
    error = refusal(folder)
    assert any(f.code == "duplicate_target" for f in error.findings)


def test_two_tensors_for_one_parameter(tmp_path: Path) -> None:
    tiny_model("BertModel").save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    tensors["embeddings.LayerNorm.gamma"] = tensors["embeddings.LayerNorm.weight"] + 1
    save_file(tensors, path, metadata={"format": "pt"})
    transformers.BertModel.from_pretrained(tmp_path)  # the original says nothing
    with pytest.raises(weightloom.PlanError, match=r"embeddings\.LayerNorm\.weight"):
        ours.from_pretrained(transformers.BertModel, tmp_path)


def test_a_name_in_two_shards(stored: Path, tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(stored)
    model.save_pretrained(tmp_path, max_shard_size="150KB")
    first, second = sorted(tmp_path.glob("model-*.safetensors"))[:2]
    tensors = load_file(second)
    name, value = next(iter(load_file(first).items()))
    tensors[name] = value + 1
    save_file(tensors, second, metadata={"format": "pt"})
    index = tmp_path / "model.safetensors.index.json"
    text = json.loads(index.read_text())
    assert text["weight_map"][name] == first.name
    # The index decides which copy counts; the original lets the last file win.
    own = ours.from_pretrained(AutoModelForCausalLM, tmp_path)
    assert bits(own.state_dict()[name]) == bits(value)


def test_unexpected_tensors(edited: Callable[..., Path]) -> None:
    def add(tensors: Tensors) -> None:
        tensors["model.layers.0.mlp.router.scale"] = torch.ones(2)

    folder = edited(add)
    error = refusal(folder)
    assert "1 tensor that Qwen3MoeForCausalLM has no place for" in str(error)
    assert "'model.layers.0.mlp.router.scale'" in str(error)
    assert "lenient=True" in error.next_step
    _, info = ours.from_pretrained(
        AutoModelForCausalLM, folder, lenient=True, output_loading_info=True
    )
    assert info["unexpected_keys"] == {"model.layers.0.mlp.router.scale"}


def test_a_checkpoint_of_another_model(edited: Callable[..., Path]) -> None:
    def rename(tensors: Tensors) -> None:
        for name in list(tensors):
            tensors[f"student.{name}"] = tensors.pop(name)

    error = refusal(edited(rename), lenient=True)
    assert "none of its tensors is one that Qwen3MoeForCausalLM wants" in str(error)


def test_other_shapes(edited: Callable[..., Path]) -> None:
    def cut(tensors: Tensors) -> None:
        tensors["model.norm.weight"] = tensors["model.norm.weight"][:-1].contiguous()

    error = refusal(edited(cut))
    assert "'model.norm.weight' is [63], but Qwen3MoeForCausalLM wants [64]" in str(error)


def test_pickled_weights(stored: Path, tmp_path: Path) -> None:
    torch.save(load_file(stored / "model.safetensors"), tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_bytes((stored / "config.json").read_bytes())
    error = refusal(tmp_path, use_safetensors=False)
    assert isinstance(error, weightloom.UnsupportedError)
    assert "pytorch_model.bin" in str(error)


@pytest.mark.parametrize("option", ["gguf_file", "tp_plan", "state_dict", "device_mesh"])
def test_loads_that_are_not_of_one_process(stored: Path, option: str) -> None:
    error = refusal(stored, **{option: "x"})
    assert isinstance(error, weightloom.UnsupportedError)
    assert f"({option}=)" in str(error)


def test_a_class_that_loads_in_a_way_of_its_own(stored: Path) -> None:
    class Other:
        @classmethod
        def from_pretrained(cls, path: Path) -> object:
            return object()

    with pytest.raises(weightloom.UnsupportedError, match=r"Other\.from_pretrained"):
        ours.from_pretrained(Other, stored)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        ours.from_pretrained(AutoModelForCausalLM, tmp_path / "nowhere", local_files_only=True)


def test_a_file_that_is_cut_off(edited: Callable[..., Path]) -> None:
    folder = edited(lambda tensors: None)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    error = refusal(folder)
    assert isinstance(error, ValueError)
    assert "model.safetensors" in str(error)
