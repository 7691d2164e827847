"""A real model end to end: an embedding computed with weights loaded both ways."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from transformers_cases import differences, files_of, quiet

import weightloom.transformers as ours

SENTENCES = ["The cat sits on the mat.", "A feline is resting on a rug.", "Prices rose in May."]

quiet()


def embeddings(model: transformers.PreTrainedModel, folder: Path) -> torch.Tensor:
    """One vector for each sentence: the mean over its tokens, of length one."""
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(
        SENTENCES, padding=True, return_tensors="pt"
    )
    with torch.no_grad():
        states = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1)
    return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1))


def test_embeddings_are_equal(minilm: Path) -> None:
    theirs = transformers.AutoModel.from_pretrained(minilm)
    own = ours.from_pretrained(transformers.AutoModel, minilm)
    assert differences(own, theirs) == []
    vectors = embeddings(own, minilm)
    assert torch.equal(vectors, embeddings(theirs, minilm))
    likeness = vectors @ vectors.T
    assert likeness[0, 1] > 0.5 > likeness[0, 2]


def test_a_half_precision_copy_is_saved_alike(minilm: Path, tmp_path: Path) -> None:
    theirs = transformers.AutoModel.from_pretrained(minilm, dtype=torch.bfloat16)
    own = ours.from_pretrained(transformers.AutoModel, minilm, dtype=torch.bfloat16)
    theirs.save_pretrained(tmp_path / "theirs")
    ours.save_pretrained(own, tmp_path / "ours")
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "theirs")
