"""Writes tiny checkpoints for the stories, with nothing but the standard library.

usage: make_checkpoint.py KIND PATH

  mixtral   a folder: one Mixtral layer of two experts in three shards, config.json, tokenizer.json
  holed     the same, but expert 1 has no w3
  single    a folder with one file and no config.json
  floats    a file with an F32 matrix of ordinary and large values, an F32 bias and an I64 scalar
  fp8       a folder: two matrices in FP8 and their scales, a norm, a head, a config that says so
  odd       a file with names and shapes at the edge of the format
  pickled   a folder with pytorch_model.bin only
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

BYTES = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "I64": 8, "U8": 1}
Tensors = dict[str, tuple[str, list[int]]]


def content(tag: int, size: int) -> bytes:
    """Bytes that differ from tensor to tensor and from place to place."""
    return bytes((tag * 83 + i * 7) % 256 for i in range(size))


def write_file(path: Path, tensors: Tensors, first_tag: int = 0) -> None:
    """One safetensors file; the header is laid out as the safetensors package does."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for tag, (name, (dtype, shape)) in enumerate(tensors.items(), first_tag):
        size = BYTES[dtype]
        for dim in shape:
            size *= dim
        offsets = [len(data), len(data) + size]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        data += content(tag, size)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def mixtral_tensors() -> Tensors:
    """Hub names and shapes of one layer; hidden 6, intermediate 4, two experts."""
    layer = "model.layers.0.block_sparse_moe."
    tensors: Tensors = {"lm_head.weight": ("BF16", [8, 6]), layer + "gate.weight": ("BF16", [2, 6])}
    for expert in range(2):
        for key, shape in {"w1": [4, 6], "w2": [6, 4], "w3": [4, 6]}.items():
            tensors[f"{layer}experts.{expert}.{key}.weight"] = ("BF16", shape)
    return tensors


def write_sharded(folder: Path, tensors: Tensors, count: int) -> None:
    """Deals tensors over `count` shards and writes the index."""
    names = sorted(tensors)
    weight_map = {}
    total = 0
    for shard in range(count):
        part = {name: tensors[name] for name in names[shard::count]}
        file = f"model-{shard + 1:05d}-of-{count:05d}.safetensors"
        write_file(folder / file, part, 10 * shard)
        weight_map.update(dict.fromkeys(part, file))
        for dtype, shape in part.values():
            size = BYTES[dtype]
            for dim in shape:
                size *= dim
            total += size
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    text = json.dumps(index, indent=2) + "\n"
    (folder / "model.safetensors.index.json").write_text(text)


def write_mixtral(folder: Path, tensors: Tensors) -> None:
    """A sharded checkpoint with its side files."""
    folder.mkdir(parents=True)
    write_sharded(folder, tensors, 3)
    config = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral"}
    config["num_local_experts"] = 2
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "tokenizer.json").write_text('{"version": "1.0"}\n')


def write_rows(path: Path, rows: dict[str, tuple[str, list[int], bytes]]) -> None:
    """Tensors whose bytes are given."""
    header = {}
    data = b""
    for name, (dtype, shape, content_bytes) in rows.items():
        offsets = [len(data), len(data) + len(content_bytes)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        data += content_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_floats(path: Path) -> None:
    """Values by hand: 1.01 is rounded by every narrower type, 1e6 is beyond F16."""
    rows = {
        "a.weight": ("F32", [2, 3], struct.pack("<6f", 1.0, -2.5, 1.01, 1e6, -1e6, 65504.0)),
        "router.bias": ("F32", [2], struct.pack("<2f", 0.1, 0.2)),
        "step": ("I64", [], struct.pack("<q", -7)),
    }
    write_rows(path, rows)


def write_fp8(folder: Path) -> None:
    """Codes of 448, 1 and 2 in blocks of 2 x 2, the last of which are ragged; one NaN."""
    folder.mkdir(parents=True)
    prefix = "model.layers.0.mlp."
    codes = bytes([0x7E, 0x38, 0x7E, 0x40, 0xB8, 0x38, 0x7E, 0x38, 0x7E])
    scales = struct.pack("<4f", 1.0, 0.5, 0.25, 2.0)
    rows = {
        prefix + "up_proj.weight": ("F8_E4M3", [3, 3], codes),
        prefix + "up_proj.weight_scale_inv": ("F32", [2, 2], scales),
        prefix + "down_proj.weight": ("F8_E4M3", [2, 2], bytes([0x7E, 0x38, 0x7F, 0x40])),
        prefix + "down_proj.weight_scale_inv": ("F32", [1, 1], struct.pack("<f", 1.0)),
        "model.norm.weight": ("BF16", [3], bytes([0x80, 0x3F] * 3)),
        "lm_head.weight": ("BF16", [2, 3], bytes([0x80, 0x3F] * 6)),
    }
    write_rows(folder / "model.safetensors", rows)
    quantisation = {"quant_method": "fp8", "weight_block_size": [2, 2]}
    quantisation["modules_to_not_convert"] = ["lm_head"]
    config = {"model_type": "llama", "torch_dtype": "bfloat16"}
    config["quantization_config"] = quantisation
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def make(kind: str, path: Path) -> None:
    """One checkpoint."""
    if kind == "mixtral":
        write_mixtral(path, mixtral_tensors())
    elif kind == "holed":
        tensors = mixtral_tensors()
        del tensors["model.layers.0.block_sparse_moe.experts.1.w3.weight"]
        write_mixtral(path, tensors)
    elif kind == "single":
        path.mkdir(parents=True)
        write_file(path / "model.safetensors", {"a.weight": ("F32", [2, 3]), "b": ("I64", [])})
    elif kind == "floats":
        write_floats(path)
    elif kind == "fp8":
        write_fp8(path)
    elif kind == "odd":
        names = {"a\x1b[31m": ("F32", [1]), "empty": ("F32", [0, 3]), "层.é": ("F32", [])}
        write_file(path, names)
    elif kind == "pickled":
        path.mkdir(parents=True)
        (path / "pytorch_model.bin").write_bytes(b"\x80\x02}q\x00.")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    make(sys.argv[1], Path(sys.argv[2]))
