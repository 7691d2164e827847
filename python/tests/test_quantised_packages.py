"""`convert --dequantize` against the packages that make the checkpoints, and words by NumPy.

compressed-tensors packs and unpacks its own formats here. GPTQ, AWQ and bitsandbytes are packed by
their definitions, in NumPy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Command
from safetensors.torch import load_file, save_file

ROWS, COLUMNS = 48, 96
MODULE = "model.layers.0.mlp.up_proj"
Tensors = dict[str, torch.Tensor]


def dequantised(
    command: Command, folder: Path, tensors: Tensors, config: dict[str, Any], *options: str
) -> Tensors:
    """What the command makes of a checkpoint."""
    source, out = folder / "in", folder / "out"
    source.mkdir()
    stored = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(stored, source / "model.safetensors", metadata={"format": "pt"})
    (source / "config.json").write_text(json.dumps(config), encoding="utf-8")
    command("convert", source, out, "--dequantize", "--mapping", "none", *options).done()
    assert "quantization_config" not in json.loads((out / "config.json").read_text())
    return load_file(out / "model.safetensors")


def assert_bits(made: torch.Tensor, wanted: torch.Tensor) -> None:
    """Same dtype, shape and bits."""
    assert (made.dtype, made.shape) == (wanted.dtype, wanted.shape)
    found, expected = (t.contiguous().view(torch.uint8) for t in (made, wanted))
    assert torch.equal(found, expected), f"{int((made != wanted).sum())} of {made.numel()} differ"


# ---- compressed-tensors --------------------------------------------------------------------------

INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}
INT8 = {"num_bits": 8, "type": "int", "strategy": "channel"}
FLOAT8 = {"num_bits": 8, "type": "float"}
FLOAT4 = {"num_bits": 4, "type": "float"}
# Name → format, arguments of the weights, shape of the scales.
SCHEMES: dict[str, tuple[str, dict[str, Any], Sequence[int]]] = {
    "int4 group": ("pack-quantized", INT4, (ROWS, 3)),
    "int4 group asymmetric": ("pack-quantized", {**INT4, "symmetric": False}, (ROWS, 3)),
    "int4 channel": (
        "pack-quantized",
        {**INT8, "num_bits": 4},
        (ROWS, 1),
    ),
    "int8 packed": ("pack-quantized", {**INT8, "symmetric": False}, (ROWS, 1)),
    "int8 channel": ("int-quantized", INT8, (ROWS, 1)),
    "int8 channel asymmetric": ("int-quantized", {**INT8, "symmetric": False}, (ROWS, 1)),
    "float8 tensor": ("float-quantized", {**FLOAT8, "strategy": "tensor"}, (1,)),
    "float8 channel": ("float-quantized", {**FLOAT8, "strategy": "channel"}, (ROWS, 1)),
    "float8 block": (
        "float-quantized",
        {**FLOAT8, "strategy": "block", "block_structure": [16, 32]},
        (3, 3),
    ),
    "nvfp4": (
        "nvfp4-pack-quantized",
        {**FLOAT4, "strategy": "tensor_group", "group_size": 16},
        (ROWS, 6),
    ),
    "mxfp4": ("mxfp4-pack-quantized", {**FLOAT4, "strategy": "group", "group_size": 32}, (ROWS, 3)),
}


def compressed(form: str, arguments: dict[str, Any], grid: Sequence[int]) -> Any:
    """A weight as the package stores it, the values it gives back, and its config."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import (
        QuantizationArgs,
        QuantizationConfig,
        QuantizationScheme,
    )

    args = QuantizationArgs(**arguments)
    scheme = QuantizationScheme(targets=["Linear"], weights=args, format=form)
    compressor = BaseCompressor.get_value_from_registry(form)
    generator = torch.Generator().manual_seed(len(form) + 31 * len(grid))
    weight = torch.randn(ROWS, COLUMNS, generator=generator)
    given = {"weight": weight, "weight_scale": torch.rand(*grid, generator=generator) * 0.2 + 0.01}
    if form.startswith("nvfp4"):
        given["weight_global_scale"] = torch.tensor([37.5])
        given["weight_scale"] *= 37.5
    elif form.startswith("mxfp4"):
        given["weight_scale"] = torch.exp2(torch.randint(-6, 3, tuple(grid), generator=generator))
    else:
        given = {name: tensor.to(torch.bfloat16) for name, tensor in given.items()}
    if not args.symmetric:
        limit = 2 ** (args.num_bits - 1)
        zeros = torch.randint(-limit, limit, tuple(grid), generator=generator)
        given["weight_zero_point"] = zeros.to(torch.int8)
    stored = compressor.compress(given, scheme)
    config = QuantizationConfig(
        config_groups={"group_0": scheme}, format=form, quantization_status="compressed"
    )
    values = compressor.decompress(dict(stored), scheme)["weight"]
    return stored, values, json.loads(config.model_dump_json())


@pytest.mark.parametrize("name", SCHEMES)
def test_compressed_tensors_gives_back_what_its_package_does(
    weightloom: Command, tmp_path: Path, name: str
) -> None:
    pytest.importorskip("compressed_tensors")
    stored, values, scheme = compressed(*SCHEMES[name])
    tensors = {f"{MODULE}.{part}": tensor for part, tensor in stored.items()}
    config = {"torch_dtype": "bfloat16", "quantization_config": scheme}
    made = dequantised(weightloom, tmp_path, tensors, config)
    assert list(made) == [f"{MODULE}.weight"]
    assert_bits(made[f"{MODULE}.weight"], values.to(torch.bfloat16))


# ---- words of 32 bits ----------------------------------------------------------------------------


def packed_words(codes: np.ndarray, bits: int, axis: int, order: Sequence[int]) -> np.ndarray:
    """Codes along an axis, 32 // bits to a word; code order[k] of a run in bits k * bits and on."""
    count = 32 // bits
    moved = np.moveaxis(codes, axis, -1).astype(np.uint32)
    runs = moved.reshape(*moved.shape[:-1], -1, count)[..., list(order)]
    words = np.zeros(runs.shape[:-1], np.uint32)
    for k in range(count):
        words |= runs[..., k] << np.uint32(k * bits)
    return np.ascontiguousarray(np.moveaxis(words, -1, axis)).view(np.int32)


IN, OUT, GROUP = 128, 32, 32


def grouped(bits: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes [in, out], zero points and F16 scales [groups, out]."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2**bits, (IN, OUT))
    zeros = rng.integers(0, 2**bits, (IN // GROUP, OUT))
    scales = rng.uniform(0.001, 0.1, (IN // GROUP, OUT)).astype(np.float16)
    return codes, zeros, scales


def values_of(codes: Any, zeros: Any, scales: Any, groups: np.ndarray) -> torch.Tensor:
    """One F32 product an element, rounded once to F16; [out, in]."""
    products = (codes - zeros[groups]).astype(np.float32) * scales[groups].astype(np.float32)
    return torch.from_numpy(np.ascontiguousarray(products.astype(np.float16).T))


@pytest.mark.parametrize("act_order", [False, True])
@pytest.mark.parametrize("form", ["gptq", "gptq_v2"])
@pytest.mark.parametrize("bits", [4, 8])
def test_gptq_by_its_definition(
    weightloom: Command, tmp_path: Path, bits: int, form: str, act_order: bool
) -> None:
    codes, zeros, scales = grouped(bits, 10 + bits)
    groups = np.arange(IN) // GROUP
    if act_order:
        groups = np.random.default_rng(3).permutation(groups)
    order = range(32 // bits)
    stored_zeros = zeros if form == "gptq_v2" else (zeros - 1) % 2**bits
    tensors = {
        f"{MODULE}.qweight": torch.from_numpy(packed_words(codes, bits, 0, order)),
        f"{MODULE}.qzeros": torch.from_numpy(packed_words(stored_zeros, bits, 1, order)),
        f"{MODULE}.scales": torch.from_numpy(scales),
        f"{MODULE}.g_idx": torch.from_numpy(groups.astype(np.int32)),
    }
    scheme = {"quant_method": "gptq", "bits": bits, "group_size": GROUP, "desc_act": act_order}
    config = {
        "torch_dtype": "float16",
        "quantization_config": {**scheme, "sym": False, "checkpoint_format": form},
    }
    # The stored zero point is one less, by 2^bits: a zero point of 0 is read as 2^bits.
    read = zeros if form == "gptq_v2" else np.where(zeros == 0, 2**bits, zeros)
    made = dequantised(weightloom, tmp_path, tensors, config)
    assert list(made) == [f"{MODULE}.weight"]
    assert_bits(made[f"{MODULE}.weight"], values_of(codes, read % 2**bits, scales, groups))


def test_awq_by_its_definition(weightloom: Command, tmp_path: Path) -> None:
    codes, zeros, scales = grouped(4, 20)
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    tensors = {
        f"{MODULE}.qweight": torch.from_numpy(packed_words(codes, 4, 1, order)),
        f"{MODULE}.qzeros": torch.from_numpy(packed_words(zeros, 4, 1, order)),
        f"{MODULE}.scales": torch.from_numpy(scales),
    }
    scheme = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm"}
    config = {"torch_dtype": "float16", "quantization_config": {**scheme, "zero_point": True}}
    made = dequantised(weightloom, tmp_path, tensors, config)
    assert list(made) == [f"{MODULE}.weight"]
    wanted = values_of(codes, zeros, scales, np.arange(IN) // GROUP)
    assert_bits(made[f"{MODULE}.weight"], wanted)


# ---- bitsandbytes --------------------------------------------------------------------------------

# The quantiles of the normal distribution of QLoRA, to the digits of a float.
NF4 = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
]  # fmt: skip


@pytest.mark.parametrize("nested", [False, True])
def test_nf4_by_its_definition(weightloom: Command, tmp_path: Path, nested: bool) -> None:
    """Rows of 96 are no whole blocks of 64: blocks run on from row to row."""
    rng = np.random.default_rng(30)
    codes = rng.integers(0, 16, ROWS * COLUMNS, dtype=np.uint8)
    blocks = math.ceil(codes.size / 64)
    table = np.array(NF4, np.float32)
    state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [ROWS, COLUMNS]}
    name = f"{MODULE}.weight"
    tensors = {
        name: torch.from_numpy(codes[0::2] << 4 | codes[1::2]).reshape(-1, 1),
        f"{name}.quant_map": torch.from_numpy(table),
    }
    if nested:
        absmax = rng.integers(0, 256, blocks, dtype=np.uint8)
        map_of_scales = np.linspace(-1, 1, 256, dtype=np.float32)
        nested_absmax = rng.uniform(0.5, 2, math.ceil(blocks / 256)).astype(np.float32)
        offset = np.float32(1.25)
        state |= {
            "nested_blocksize": 256,
            "nested_offset": float(offset),
            "nested_dtype": "float32",
        }
        tensors |= {
            f"{name}.absmax": torch.from_numpy(absmax),
            f"{name}.nested_absmax": torch.from_numpy(nested_absmax),
            f"{name}.nested_quant_map": torch.from_numpy(map_of_scales),
        }
        scales = map_of_scales[absmax] * nested_absmax[np.arange(blocks) // 256] + offset
    else:
        scales = rng.uniform(0.01, 2, blocks).astype(np.float32)
        tensors[f"{name}.absmax"] = torch.from_numpy(scales)
    packed_state = np.frombuffer(json.dumps(state).encode(), np.uint8).copy()
    tensors[f"{name}.quant_state.bitsandbytes__nf4"] = torch.from_numpy(packed_state)
    scheme = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    config = {"torch_dtype": "bfloat16", "quantization_config": scheme}
    made = dequantised(weightloom, tmp_path, tensors, config)
    values = table[codes] * scales[np.arange(codes.size) // 64]
    wanted = torch.from_numpy(values.reshape(ROWS, COLUMNS)).to(torch.bfloat16)
    assert list(made) == [name]
    assert_bits(made[name], wanted)


def test_int8_of_bitsandbytes_by_its_definition(weightloom: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(40)
    codes = rng.integers(-127, 128, (ROWS, COLUMNS), dtype=np.int8)
    peaks = rng.uniform(0.1, 4, ROWS).astype(np.float32)
    tensors = {
        f"{MODULE}.weight": torch.from_numpy(codes),
        f"{MODULE}.SCB": torch.from_numpy(peaks),
        f"{MODULE}.weight_format": torch.tensor(0, dtype=torch.uint8),
    }
    config = {
        "torch_dtype": "float16",
        "quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True},
    }
    made = dequantised(weightloom, tmp_path, tensors, config)
    scaled = torch.from_numpy(codes).float() * torch.from_numpy(peaks).view(-1, 1)
    wanted = (scaled * 7.874015718698502e-3).to(torch.float16)
    assert list(made) == [f"{MODULE}.weight"]
    assert_bits(made[f"{MODULE}.weight"], wanted)
