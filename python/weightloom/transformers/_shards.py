"""Which weight goes into which file, as Transformers splits a model, and the index that says so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from huggingface_hub.serialization import split_state_dict_into_shards_factory
from huggingface_hub.serialization._base import parse_size_to_int
from transformers import PreTrainedModel, modeling_utils
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME


class Spec(Protocol):
    """A tensor to write."""

    @property
    def name(self) -> str:
        """As it is stored."""

    @property
    def nbytes(self) -> int:
        """Of its data."""


@dataclass(frozen=True)
class Layout:
    """Files with the names of their tensors, and name and text of the index of several files."""

    files: dict[str, list[str]]
    index: tuple[str, str] | None


def shard_layout(
    model: PreTrainedModel,
    specs: list[Spec],
    variant: str | None,
    max_shard_size: int | str,
    reverted: Callable[[], dict[str, torch.Tensor]],
) -> Layout:
    """The split that ``model.save_pretrained`` makes.

    Parameters
    ----------
    model
        For the number of its parameters, which the index states.
    specs
        What is written.
    variant, max_shard_size
        As for `save_pretrained`.
    reverted
        The same tensors on the meta device, in the order and with the shared storages that
        Transformers has them in; asked for only if one file does not hold all.
    """
    pattern = modeling_utils._add_variant(SAFE_WEIGHTS_NAME, variant)
    pattern = pattern.replace(".safetensors", "{suffix}.safetensors")
    total = sum(spec.nbytes for spec in specs)
    if total <= _bytes(max_shard_size):
        return Layout({pattern.format(suffix=""): [spec.name for spec in specs]}, None)
    split = split_state_dict_into_shards_factory(
        _as_transformers_orders(specs, reverted),
        get_storage_size=lambda tensor: tensor.untyped_storage().nbytes(),
        get_storage_id=lambda tensor: tensor.untyped_storage()._cdata,
        filename_pattern=pattern,
        max_shard_size=max_shard_size,
    )
    return Layout(split.filename_to_tensors, _index(model, split, variant))


def _as_transformers_orders(
    specs: list[Spec], reverted: Callable[[], dict[str, torch.Tensor]]
) -> dict[str, torch.Tensor]:
    """The tensors in Transformers' order; in ours where its way back has other names."""
    names = {spec.name for spec in specs}
    tensors = reverted()
    if set(tensors) == names:
        return tensors
    empty = torch.empty
    return {spec.name: empty(spec.nbytes, dtype=torch.uint8, device="meta") for spec in specs}


def _index(model: PreTrainedModel, split: Any, variant: str | None) -> tuple[str, str] | None:
    if not split.is_sharded:
        return None
    index = {
        "metadata": {"total_parameters": model.num_parameters(), **split.metadata},
        "weight_map": split.tensor_to_filename,
    }
    name = modeling_utils._add_variant(SAFE_WEIGHTS_INDEX_NAME, variant)
    return name, json.dumps(index, indent=2, sort_keys=True) + "\n"


def _bytes(size: int | str) -> int:
    """A size as the Hub's client reads it."""
    return size if isinstance(size, int) else parse_size_to_int(size)


def written(folder: Path, layout: Layout) -> Iterator[tuple[Path, list[str]]]:
    """Path of each file, and the names of its tensors."""
    for name, tensors in layout.files.items():
        yield folder / name, tensors


def stale_files(folder: Path, layout: Layout, variant: str | None) -> Iterable[Path]:
    """What an earlier save left that would be read in place of the new files: its shards, its one
    file or its index, and Weightloom's records of it."""
    stem = modeling_utils._add_variant(SAFE_WEIGHTS_NAME, variant).removesuffix(".safetensors")
    shard = re.compile(rf"{re.escape(stem)}-\d{{5}}-of-\d{{5}}\.safetensors")
    for file in sorted(folder.iterdir()):
        if shard.fullmatch(file.name) and file.name not in layout.files:
            yield file
    index = layout.index[0] if layout.index else ""
    single = f"{stem}.safetensors"
    for name in (single, f"{single}.index.json", "weightloom.json", "weightloom.checksums.json"):
        if name != index and name not in layout.files and (folder / name).exists():
            yield folder / name
