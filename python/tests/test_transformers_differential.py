"""Weightloom against Transformers: the names, dtypes and bits `from_pretrained` gives, and back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from conftest import Command
from safetensors.torch import save_file
from safetensors_by_hand import Tensor, facts, read_folder
from tiny_models import FAMILIES, make_tiny
from transformers import PreTrainedModel

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

DTYPES = {torch.bfloat16: "BF16", torch.float32: "F32", torch.int64: "I64"}
SHARD_SIZES = {"single": "1GB", "sharded": "20KB"}
EXPERT_FAMILIES = ("mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v3", "olmoe")

pytestmark = [
    pytest.mark.parametrize("family", FAMILIES),
    pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "f32"]),
    pytest.mark.parametrize("shards", SHARD_SIZES),
]


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The tensor's elements, C order."""
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()


def state_of(model: PreTrainedModel) -> dict[str, Tensor]:
    """The model's state less tied aliases, which `save_pretrained` leaves out too."""
    aliases = set(getattr(model, "all_tied_weights_keys", {}) or {})
    return {
        name: Tensor(DTYPES[tensor.dtype], tuple(tensor.shape), bytes_of(tensor))
        for name, tensor in model.state_dict().items()
        if name not in aliases
    }


def load(folder: Path, family: str) -> PreTrainedModel:
    """The model that Transformers makes of a folder."""
    return FAMILIES[family][0].from_pretrained(folder, dtype="auto")


def weight_files(folder: Path) -> dict[str, bytes]:
    """The safetensors files and the index of a folder."""
    names = [*folder.glob("*.safetensors"), *folder.glob("*.safetensors.index.json")]
    return {path.name: path.read_bytes() for path in names}


@pytest.fixture
def saved(tmp_path: Path, family: str, dtype: torch.dtype, shards: str) -> Path:
    """A tiny model as `save_pretrained` writes it."""
    folder = tmp_path / "hub"
    make_tiny(family, dtype, seed=7).save_pretrained(folder, max_shard_size=SHARD_SIZES[shards])
    assert (len(weight_files(folder)) > 1) == (shards == "sharded")
    return folder


def test_runtime_layout_is_the_state_of_the_loaded_model(
    weightloom: Command, tmp_path: Path, saved: Path, family: str
) -> None:
    weightloom("convert", saved, tmp_path / "runtime", "--to", "runtime").done()
    assert facts(read_folder(tmp_path / "runtime")) == facts(state_of(load(saved, family)))


def test_the_way_back_gives_the_files_that_were_saved(
    weightloom: Command, tmp_path: Path, saved: Path
) -> None:
    runtime, back = tmp_path / "runtime", tmp_path / "back"
    weightloom("convert", saved, runtime, "--to", "runtime").done()
    weightloom("convert", runtime, back, "--to", "hub").done()
    assert weight_files(back) == weight_files(saved)
    assert json.loads((back / "config.json").read_text()) == json.loads(
        (saved / "config.json").read_text()
    )


def test_the_way_back_without_the_record_gives_the_tensors(
    weightloom: Command, tmp_path: Path, saved: Path, family: str
) -> None:
    runtime, back = tmp_path / "runtime", tmp_path / "back"
    weightloom("convert", saved, runtime, "--to", "runtime").done()
    (runtime / "weightloom.json").unlink()
    weightloom("convert", runtime, back, "--to", "hub", *side(family)).done()
    assert facts(read_folder(back)) == facts(read_folder(saved))
    assert facts(state_of(load(back, family))) == facts(state_of(load(saved, family)))


def test_a_runtime_file_of_another_writer_goes_to_the_hub_layout(
    weightloom: Command, tmp_path: Path, saved: Path, family: str
) -> None:
    model, runtime, back = load(saved, family), tmp_path / "runtime", tmp_path / "back"
    runtime.mkdir()
    shutil.copy(saved / "config.json", runtime)
    kept = state_of(model)
    state = {n: t.contiguous() for n, t in model.state_dict().items() if n in kept}
    save_file(state, runtime / "model.safetensors", metadata={"format": "pt"})
    weightloom("convert", runtime, back, "--to", "hub", *side(family)).done()
    assert facts(read_folder(back)) == facts(read_folder(saved))


def test_verify_holds_both_layouts_equal(weightloom: Command, tmp_path: Path, saved: Path) -> None:
    runtime = tmp_path / "runtime"
    weightloom("convert", saved, runtime, "--to", "runtime").done()
    result = weightloom("verify", saved, runtime, "--json").done()
    assert result.json["equal"] is True


def side(family: str) -> list[str]:
    """`--from runtime` where names alone cannot tell: families without converters."""
    return [] if family in EXPERT_FAMILIES else ["--from", "runtime"]
