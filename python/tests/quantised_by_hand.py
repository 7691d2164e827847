"""Number formats of quantised checkpoints, by their definitions, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from safetensors_by_hand import Tensor, from_bits16

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], "<f4")


def from_f32(array: np.ndarray) -> Tensor:
    """An F32 tensor."""
    return Tensor("F32", array.shape, np.ascontiguousarray(array, "<f4").tobytes())


def as_f32(tensor: Tensor) -> np.ndarray:
    """The values of an F32 or BF16 tensor."""
    if tensor.dtype == "F32":
        return np.frombuffer(tensor.data, "<f4").reshape(tensor.shape)
    return (tensor.bits16().astype("<u4") << 16).view("<f4")


def bf16(values: np.ndarray) -> Tensor:
    """F32 values rounded to BF16, to nearest even; NaNs become the quiet one."""
    bits = np.ascontiguousarray(values, "<f4").view("<u4").astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
    return from_bits16(np.where(np.isnan(values), 0x7FC0, rounded).astype("<u2"))


def decode_e4m3(codes: np.ndarray) -> np.ndarray:
    """OCP E4M3: no infinities, 0x7f and 0xff are NaN."""
    byte = np.asarray(codes, np.uint8).astype(np.int64)
    sign, exponent, mantissa = 1.0 - 2.0 * (byte >> 7), (byte >> 3) & 15, byte & 7
    tiny, normal = mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0)
    values = sign * np.where(exponent == 0, tiny, normal)
    return np.where((byte & 127) == 127, np.nan, values).astype("<f4")


def fp8_codes(tag: int, shape: Sequence[int]) -> Tensor:
    """E4M3 codes by a formula, without NaNs."""
    count = math.prod(shape)
    codes = (tag * 31 + np.arange(count, dtype=np.int64) * 37) & 0xFF
    codes = np.where((codes & 127) == 127, 1, codes).astype(np.uint8)
    return Tensor("F8_E4M3", tuple(shape), codes.tobytes())


def fp8_block_values(codes: Tensor, scales: Tensor, block: int = 128) -> np.ndarray:
    """One F32 product an element."""
    values = decode_e4m3(np.frombuffer(codes.data, np.uint8).reshape(codes.shape))
    rows, columns = np.indices(codes.shape)
    return (values * as_f32(scales)[rows // block, columns // block]).astype("<f4")


def mxfp4_values(blocks: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """[…, G, 16] bytes, low nibble first, and […, G] exponents: […, 32 G] values, exact in F32."""
    pairs = np.stack([blocks & 15, blocks >> 4], axis=-1)
    values = E2M1[pairs].astype(np.float64).reshape(*blocks.shape[:-1], 32)
    scaled = values * 2.0 ** (scales.astype(np.float64)[..., None] - 127)
    return scaled.reshape(*blocks.shape[:-2], -1).astype("<f4")
