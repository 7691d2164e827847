"""tie_word_embeddings against what the checkpoint holds: a field case, stated by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Command
from safetensors_by_hand import Tensor, facts, read_folder, u16, write_file, write_sharded

import weightloom as loom

EMBEDDING, HEAD, NORM = "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"
E, H, N = u16(1, (8, 4)), u16(2, (8, 4)), u16(3, (4,))
PLACES = {
    EMBEDDING: {"dtype": "BF16", "shape": [8, 4]},
    HEAD: {"dtype": "BF16", "shape": [8, 4]},
    NORM: {"dtype": "BF16", "shape": [4]},
}


def checkpoint(folder: Path, tie: bool, tensors: dict[str, Tensor], shards: int = 1) -> Path:
    """A checkpoint of a class that nobody knows, whose config says whether its head is tied."""
    folder.mkdir()
    stored = {**tensors, NORM: N}
    if shards == 1:
        write_file(folder / "model.safetensors", stored)
    else:
        write_sharded(folder, stored, shards)
    config = {"model_type": "x", "tie_word_embeddings": tie}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def loaded(folder: Path) -> dict[str, loom.Tensor]:
    """What a runtime asks for: embedding, norm and head."""
    return loom.load(folder, mapping="none", expect=PLACES, framework="weightloom")


def bits(tensor: loom.Tensor) -> bytes:
    """The values, byte for byte."""
    return bytes(tensor.bytes)


def test_an_absent_head_that_is_tied_is_the_embedding(tmp_path: Path) -> None:
    """One copy in memory, under both names."""
    tensors = loaded(checkpoint(tmp_path / "m", True, {EMBEDDING: E}))
    assert tensors.keys() == PLACES.keys()
    assert tensors[HEAD] is tensors[EMBEDDING]
    assert bits(tensors[HEAD]) == E.data


def test_a_head_stored_twice_is_loaded_without_a_word(tmp_path: Path, recwarn: object) -> None:
    """Equal values agree with the config."""
    tensors = loaded(checkpoint(tmp_path / "m", True, {EMBEDDING: E, HEAD: E}))
    assert bits(tensors[HEAD]) == bits(tensors[EMBEDDING]) == E.data
    assert not recwarn.list


def test_values_win_over_the_config_and_both_are_named(tmp_path: Path) -> None:
    """The stored head is kept, never replaced by the embedding."""
    folder = checkpoint(tmp_path / "m", True, {EMBEDDING: E, HEAD: H})
    with pytest.warns(loom.TiedValuesWarning, match="tie_word_embeddings") as told:
        tensors = loaded(folder)
    assert HEAD in str(told[0].message)
    assert EMBEDDING in str(told[0].message)
    assert bits(tensors[HEAD]) == H.data
    assert bits(tensors[EMBEDDING]) == E.data


def test_an_absent_head_that_is_not_tied_is_refused(tmp_path: Path) -> None:
    """Never an uninitialised head."""
    folder = checkpoint(tmp_path / "m", False, {EMBEDDING: E})
    with pytest.raises(loom.PlanError, match="tie_word_embeddings") as refusal:
        loaded(folder)
    assert HEAD in str(refusal.value)


def test_an_untied_head_is_its_own(tmp_path: Path) -> None:
    """Nothing to say."""
    tensors = loaded(checkpoint(tmp_path / "m", False, {EMBEDDING: E, HEAD: H}))
    assert bits(tensors[HEAD]) == H.data


def test_an_alias_is_saved_once(tmp_path: Path) -> None:
    """The same storage under two names is no error where it is said to be tied."""
    embedding, norm = np.arange(32, dtype=np.uint16).reshape(8, 4), np.arange(4, dtype=np.uint16)
    tensors = {EMBEDDING: embedding, HEAD: embedding, NORM: norm}
    loom.save(tensors, tmp_path / "out", mapping="none", to="same", tied={HEAD: EMBEDDING})
    assert read_folder(tmp_path / "out").keys() == {EMBEDDING, NORM}


def test_a_split_that_names_the_alias_leaves_its_file_out(tmp_path: Path) -> None:
    """Three files were named; the one for the head has nothing left: not written, not indexed."""
    reference = checkpoint(tmp_path / "reference", True, {EMBEDDING: E, HEAD: H}, shards=3)
    embedding, norm = np.arange(32, dtype=np.uint16).reshape(8, 4), np.arange(4, dtype=np.uint16)
    out = tmp_path / "out"
    loom.save(
        {EMBEDDING: embedding, NORM: norm}, out, mapping="none", to="same", layout_from=reference
    )
    assert read_folder(out).keys() == {EMBEDDING, NORM}
    index = json.loads((out / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == {EMBEDDING, NORM}
    assert {file.name for file in out.glob("*.safetensors")} == set(index["weight_map"].values())
    assert len(set(index["weight_map"].values())) == 2


@pytest.mark.parametrize("equal", [True, False])
def test_a_copy_may_drop_what_is_equal(weightloom: Command, tmp_path: Path, equal: bool) -> None:
    """What differs is kept, and the config is said to be wrong."""
    head = E if equal else H
    folder = checkpoint(tmp_path / "m", True, {EMBEDDING: E, HEAD: head})
    done = weightloom("convert", folder, tmp_path / "out", "--drop-tied").done()
    wanted = {EMBEDDING: E, NORM: N} | ({} if equal else {HEAD: H})
    assert facts(read_folder(tmp_path / "out")) == facts(wanted)
    assert ("tie_word_embeddings" in done.said) is not equal
