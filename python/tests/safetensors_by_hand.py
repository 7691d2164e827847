"""Safetensors files written and read byte by byte, without the package and without Weightloom.

Values come from two patterns, so that an expected tensor can be recomputed anywhere:
  u16(tag, shape): flat[i] = (tag * 40503 + i * 7919) mod 65536, as 16-bit patterns, NaNs included
  f32(tag, shape): flat[i] = tag * 4096 + i, exact in F32 for tag < 4096
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

BITS = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}


@dataclass(frozen=True)
class Tensor:
    """A tensor as a file sees it: dtype name, shape, bytes (C order, little endian)."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def __post_init__(self) -> None:
        assert len(self.data) * 8 == math.prod(self.shape) * BITS[self.dtype]

    @property
    def fact(self) -> tuple[str, tuple[int, ...], str]:
        """What tests compare: dtype, shape and the hash of the bytes."""
        return self.dtype, self.shape, hashlib.sha256(self.data).hexdigest()

    def bits16(self) -> np.ndarray:
        """The bytes as 16-bit patterns in the tensor's shape."""
        return np.frombuffer(self.data, "<u2").reshape(self.shape)


Tensors = Mapping[str, Tensor]


def from_bits16(array: np.ndarray) -> Tensor:
    """A BF16 tensor of the given 16-bit patterns."""
    return Tensor("BF16", array.shape, np.ascontiguousarray(array, "<u2").tobytes())


def u16(tag: int, shape: Sequence[int]) -> Tensor:
    """A BF16 tensor by the formula above."""
    count = math.prod(shape)
    flat = (tag * 40503 + np.arange(count, dtype=np.int64) * 7919) & 0xFFFF
    return from_bits16(flat.astype("<u2").reshape(shape))


def f32(tag: int, shape: Sequence[int], add: int = 0) -> Tensor:
    """An F32 tensor by the formula above, plus a constant."""
    flat = tag * 4096 + np.arange(math.prod(shape), dtype=np.int64) + add
    return Tensor("F32", tuple(shape), flat.astype("<f4").tobytes())


def write_raw(path: Path, header: bytes, body: bytes = b"", length: int | None = None) -> None:
    """A length prefix (true unless given), a header and a body."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + body)


def write_file(path: Path, tensors: Tensors, metadata: Mapping[str, str] | None = None) -> None:
    """Writes the tensors in the order given: callers choose awkward orders on purpose."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    at = 0
    for name, tensor in tensors.items():
        end = at + len(tensor.data)
        header[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [at, end],
        }
        at = end
    text = json.dumps(header, ensure_ascii=False).encode()
    write_raw(path, text + b" " * (-len(text) % 8), b"".join(t.data for t in tensors.values()))


def write_index(
    folder: Path,
    shards: Mapping[str, Sequence[str]],
    total_size: int | None,
    name: str = "model.safetensors.index.json",
) -> None:
    """An index of {shard: tensor names}; no metadata where `total_size` is None."""
    value: dict[str, Any] = {} if total_size is None else {"metadata": {"total_size": total_size}}
    value["weight_map"] = {tensor: shard for shard, names in shards.items() for tensor in names}
    (folder / name).write_text(json.dumps(value, indent=1, ensure_ascii=False), encoding="utf-8")


def write_sharded(folder: Path, tensors: Tensors, count: int) -> None:
    """Deals the tensors round robin over `count` shards and writes the index."""
    names = list(tensors)
    shards: dict[str, list[str]] = {}
    for shard in range(count):
        file = f"model-{shard + 1:05d}-of-{count:05d}.safetensors"
        shards[file] = names[shard::count]
        write_file(folder / file, {n: tensors[n] for n in shards[file]}, {"format": "pt"})
    write_index(folder, shards, sum(len(t.data) for t in tensors.values()))


def read_header(path: Path) -> tuple[dict[str, Any], int]:
    """The header of a file, and where its data begins."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length)), 8 + length


def read_file(path: Path) -> dict[str, Tensor]:
    """All tensors of one file."""
    header, begin = read_header(path)
    header.pop("__metadata__", None)
    data = path.read_bytes()[begin:]
    return {
        name: Tensor(entry["dtype"], tuple(entry["shape"]), data[slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }


def read_folder(folder: Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint, as a reader finds them: by its index, else its one file."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return read_file(folder / "model.safetensors")
    weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    shards = {shard: read_file(folder / shard) for shard in set(weight_map.values())}
    return {name: shards[shard][name] for name, shard in weight_map.items()}


def facts(tensors: Tensors) -> dict[str, tuple[str, tuple[int, ...], str]]:
    """Name → dtype, shape and hash: small to print when two checkpoints differ."""
    return {name: tensor.fact for name, tensor in sorted(tensors.items())}
