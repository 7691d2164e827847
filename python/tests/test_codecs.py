"""Casts and decoded blocks against torch and Transformers, by `codec_probe` of the build."""

from __future__ import annotations

import os
import subprocess

import numpy as np
import pytest
import torch
from conftest import Command
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

SEED = int(os.environ.get("WEIGHTLOOM_SEED", "1"))
TORCH = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3": torch.float8_e4m3fn,
}
FLOAT8 = ("F8_E5M2", "F8_E4M3")


def probed(command: Command, *arguments: object, data: bytes) -> tuple[bytes, int]:
    """What the probe made of the bytes, and how many values it counted."""
    done = subprocess.run(
        [str(command.path.parent / "codec_probe"), *map(str, arguments)],
        input=data,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout, int(done.stderr)


def raw(tensor: torch.Tensor) -> bytes:
    """The bytes of a tensor."""
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def of(data: bytes, dtype: str, *shape: int) -> torch.Tensor:
    """A tensor of bytes."""
    return torch.frombuffer(bytearray(data), dtype=TORCH[dtype]).reshape(shape or (-1,))


def patterns(dtype: str) -> torch.Tensor:
    """All patterns of a dtype of 8 or 16 bits; of F32 a sample, and ties with F8 among them."""
    if dtype in FLOAT8:
        return of(np.arange(256, dtype=np.uint8).tobytes(), dtype)
    if dtype != "F32":
        return of(np.arange(65536, dtype=np.uint16).tobytes(), dtype)
    random = np.random.default_rng(SEED)
    any_bits = random.integers(0, 2**32, 1 << 20, dtype=np.uint32)
    near = random.integers(0x33000000, 0x48000000, 1 << 20, dtype=np.uint32)
    ties = near & 0xFFF00000 | random.choice(
        np.array([0x80000, 0x7FFFF, 0x80001, 0x100000, 0, 0xFFFFF], np.uint32), near.size
    )
    signs = random.integers(0, 2, near.size, dtype=np.uint32) << 31
    return of(np.concatenate([any_bits, near | signs, ties | signs]).tobytes(), "F32")


@pytest.mark.parametrize("to", FLOAT8)
@pytest.mark.parametrize("source", ["F32", "BF16", "F16", "F8_E5M2", "F8_E4M3"])
def test_what_becomes_f8_has_the_bits_of_torch(weightloom: Command, source: str, to: str) -> None:
    """NaN and overflow too. Of equal dtypes the bytes are copied."""
    if source == to:
        pytest.skip("equal dtypes are copied")
    values = patterns(source)
    expected = values.to(torch.float32).to(TORCH[to])
    made, lost = probed(weightloom, "cast", source, to, data=raw(values))
    assert made == raw(expected)
    became = values.to(torch.float32).isfinite() & ~expected.to(torch.float32).isfinite()
    assert lost == int(became.sum())


@pytest.mark.parametrize("to", ["F64", "F32", "BF16", "F16"])
@pytest.mark.parametrize("source", FLOAT8)
def test_what_was_f8_has_the_bits_of_torch(weightloom: Command, source: str, to: str) -> None:
    """Except that the NaNs of torch depend on the way it took."""
    values = patterns(source)
    expected = values.to(torch.float32).to(TORCH[to])
    made, lost = probed(weightloom, "cast", source, to, data=raw(values))
    assert lost == 0
    nan = expected.isnan()
    assert torch.equal(of(made, to).isnan(), nan)
    assert raw(of(made, to)[~nan]) == raw(expected[~nan])


def ordinary_codes(rows: int, cols: int, dtype: str) -> torch.Tensor:
    """All finite codes of F8, and no others."""
    random = np.random.default_rng(SEED)
    codes = of(random.integers(0, 256, rows * cols, dtype=np.uint8).tobytes(), dtype, rows, cols)
    return torch.where(codes.to(torch.float32).isfinite(), codes.to(torch.float32), 0.25).to(
        TORCH[dtype]
    )


@pytest.mark.parametrize("to", ["BF16", "F32", "F16"])
@pytest.mark.parametrize("codes_dtype", FLOAT8)
@pytest.mark.parametrize(("rows", "cols"), [(256, 384), (130, 200), (1, 129)])
def test_blocks_of_fp8_have_the_bits_of_torch(
    weightloom: Command, codes_dtype: str, rows: int, cols: int, to: str
) -> None:
    """By torch's own operations, ragged last blocks too."""
    generator = torch.Generator().manual_seed(SEED)
    codes = ordinary_codes(rows, cols, codes_dtype)
    grid = (-(-rows // 128), -(-cols // 128))
    scales = torch.rand(grid, generator=generator) * 0.01 + 1e-4
    spread = scales.repeat_interleave(128, 0).repeat_interleave(128, 1)[:rows, :cols]
    expected = (codes.to(torch.float32) * spread).to(TORCH[to])
    made, lost = probed(
        weightloom,
        "fp8",
        codes_dtype,
        "F32",
        128,
        128,
        rows,
        cols,
        to,
        data=raw(codes) + raw(scales),
    )
    assert made == raw(expected)
    assert lost == int((~expected.isfinite()).sum())


def test_whole_blocks_of_fp8_have_the_bits_of_transformers(weightloom: Command) -> None:
    """Where its block size, taken from the grid of scales, is the declared one."""
    generator = torch.Generator().manual_seed(SEED)
    codes = ordinary_codes(256, 384, "F8_E4M3")
    scales = torch.rand((2, 3), generator=generator) * 0.01 + 1e-4
    dequantized = Fp8Dequantize(None)._dequantize_one(codes, scales, torch.bfloat16)
    made, _ = probed(
        weightloom,
        "fp8",
        "F8_E4M3",
        "F32",
        128,
        128,
        256,
        384,
        "BF16",
        data=raw(codes) + raw(scales),
    )
    assert made == raw(dequantized)


def test_every_scale_and_code_of_mxfp4_is_exact(weightloom: Command) -> None:
    """Scales 0 (subnormal values) to 254; 255 is NaN (OCP MX v1.0), infinite in Transformers."""
    random = np.random.default_rng(SEED)
    codes = random.integers(0, 256, (256, 16), dtype=np.uint8)
    codes[:, :8] = np.arange(8) * 0x20 + 0x10 + np.arange(8) * 2
    scales = np.arange(256, dtype=np.uint8)
    made, lost = probed(
        weightloom, "e2m1", "U8", 32, 256, 32, "F32", data=codes.tobytes() + scales.tobytes()
    )
    magnitudes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    table = np.concatenate([magnitudes, -magnitudes])
    nibbles = np.stack([codes & 15, codes >> 4], -1).reshape(256, 32)
    with np.errstate(over="ignore"):
        expected = np.ldexp(table[nibbles], scales.astype(int)[:, None] - 127).astype(np.float32)
    values = np.frombuffer(made, np.float32).reshape(256, 32)
    np.testing.assert_array_equal(values[:255].view(np.uint32), expected[:255].view(np.uint32))
    assert np.isnan(values[255]).all()
    assert lost == 32 + int(np.isinf(expected[:255]).sum())


def test_mxfp4_has_the_bits_of_transformers(weightloom: Command) -> None:
    """Up to scale 252, where BF16 holds every value."""
    random = np.random.default_rng(SEED)
    codes = torch.from_numpy(random.integers(0, 256, (1, 64, 3, 16), dtype=np.uint8))
    scales = torch.from_numpy(random.integers(0, 253, (1, 64, 3), dtype=np.uint8))
    expected = convert_moe_packed_tensors(codes, scales, dtype=torch.bfloat16)[0].T
    made, lost = probed(weightloom, "e2m1", "U8", 32, 64, 96, "BF16", data=raw(codes) + raw(scales))
    assert made == raw(expected)
    assert lost == 0
