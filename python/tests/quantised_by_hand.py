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


# ---- packed integers -----------------------------------------------------------------------------


def pack_words(fields: np.ndarray, bits: int, axis: int) -> np.ndarray:
    """Unsigned fields along an axis into 32-bit words, the first in the lowest bits."""
    per_word = 32 // bits
    along = np.moveaxis(np.asarray(fields, np.uint64), axis, -1)
    rest = -along.shape[-1] % per_word
    along = np.pad(along, [(0, 0)] * (along.ndim - 1) + [(0, rest)])
    words = along.reshape(*along.shape[:-1], -1, per_word)
    shifts = np.arange(per_word, dtype=np.uint64) * np.uint64(bits)
    return np.moveaxis((words << shifts).sum(axis=-1).astype("<u4"), -1, axis)


def over_groups(grid: np.ndarray, shape: Sequence[int], group: int, axis: int) -> np.ndarray:
    """What stands beside each value, where so many along an axis share one."""
    return np.take(grid, np.arange(shape[axis]) // group, axis=axis)


def affine_values(fields: np.ndarray, zeros: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """(q - zero) * scale: one F32 product, since the difference is a small whole number."""
    difference = fields.astype(np.int64) - zeros.astype(np.int64)
    return (difference.astype("<f4") * scales.astype("<f4")).astype("<f4")


# ---- encoders ------------------------------------------------------------------------------------

E4M3_MAGNITUDES = decode_e4m3(np.arange(127, dtype=np.uint8)).astype(np.float64)
E2M1_MAGNITUDES = E2M1[:8].astype(np.float64)


def nearest_code(magnitudes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The place of the nearest magnitude; of two as near, the even place. All exact in F64."""
    above = np.clip(np.searchsorted(magnitudes, values), 1, len(magnitudes) - 1)
    below = above - 1
    up, down = magnitudes[above] - values, values - magnitudes[below]
    tie = np.where(above % 2 == 0, above, below)
    return np.where(up < down, above, np.where(down < up, below, tie))


def encode_fp8_blocks(values: np.ndarray, block: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Codes and stored scales of a matrix, each F32 operation on its own."""
    one, most = np.float32(1), np.float32(448)
    grid = tuple(-(-n // b) for n, b in zip(values.shape, block, strict=True))
    codes, scales = np.zeros(values.shape, np.uint8), np.zeros(grid, "<f4")
    for row, column in np.ndindex(grid):
        part = (
            slice(row * block[0], (row + 1) * block[0]),
            slice(column * block[1], (column + 1) * block[1]),
        )
        largest = np.abs(values[part]).max()
        scale = one if largest == 0 else min((one / largest) * most, np.finfo("<f4").max)
        scales[row, column] = one / scale
        scaled = np.clip(values[part] * scale, -most, most)
        sign = np.signbit(scaled).astype(np.uint8) << 7
        codes[part] = nearest_code(E4M3_MAGNITUDES, np.abs(scaled).astype(np.float64)) | sign
    return codes, scales


def encode_mxfp4(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[…, 32 G] finite values as [..., G, 16] blocks and [..., G] exponents."""
    groups = values.astype(np.float64).reshape(*values.shape[:-1], -1, 32)
    largest = np.abs(groups).max(axis=-1)
    exponents = np.frexp(np.where(largest == 0, 1, largest))[1] - 1 - 2
    exponents = np.where(largest == 0, -127, np.clip(exponents, -127, 127))
    scaled = groups / 2.0 ** exponents[..., None]
    codes = nearest_code(E2M1_MAGNITUDES, np.minimum(np.abs(scaled), 6))
    codes = codes | (np.signbit(scaled).astype(np.int64) << 3)
    pairs = codes.reshape(*codes.shape[:-1], 16, 2)
    blocks = pairs[..., 0] | (pairs[..., 1] << 4)
    return blocks.astype(np.uint8), (exponents + 127).astype(np.uint8)
