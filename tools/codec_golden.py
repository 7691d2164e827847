"""Quantised tensors as other packages read them, for the tests of the block codecs.

    codec_golden.py tests/data/codec_golden.json

Each case holds a codec, its operands, and the values that a package made of them, or the values and
the operands that it made of those. Made with torch 2.13.0, transformers 5.23.0,
compressed-tensors 0.20.1, gguf 0.19.0 and bitsandbytes 0.50.2; run it again when one of them says
otherwise. AutoGPTQ and AutoAWQ have no release for current processors: their cases are packed here,
field by field, from integers whose values follow from what those packages define.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from bitsandbytes import functional as bnb
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from transformers.integrations.finegrained_fp8 import Fp8Quantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

Case = dict[str, Any]
DTYPES = {
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.float32: "F32",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int32: "I32",
}
RANDOM = np.random.default_rng(7)


def raw(tensor: torch.Tensor | np.ndarray) -> str:
    """The bytes of a tensor."""
    if isinstance(tensor, np.ndarray):
        return np.ascontiguousarray(tensor).tobytes().hex()
    return tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes().hex()


def case(
    name: str,
    codec: Case,
    values: torch.Tensor | np.ndarray,
    *operands: torch.Tensor | np.ndarray,
) -> Case:
    """A case; operands in the order of OperandRole."""
    values = torch.from_numpy(values) if isinstance(values, np.ndarray) else values
    rows, cols = values.reshape(-1, values.shape[-1]).shape
    return {
        "name": name,
        "codec": codec,
        "rows": rows,
        "cols": cols,
        "dtype": DTYPES[values.dtype],
        "values": raw(values),
        "operands": [raw(operand) for operand in operands],
    }


def halves(*shape: int) -> np.ndarray:
    """F16 of ordinary size, as bytes."""
    return RANDOM.normal(size=shape).astype("<f2")[..., None].view(np.uint8)


def gguf_cases() -> Iterator[Case]:
    """Random blocks; what of a block is an F16 is of ordinary size."""
    places = {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,)}
    places |= {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
    for kind in [
        "Q4_0",
        "Q4_1",
        "Q5_0",
        "Q5_1",
        "Q8_0",
        "Q2_K",
        "Q3_K",
        "Q4_K",
        "Q5_K",
        "Q6_K",
        "IQ4_NL",
    ]:
        quant = GGMLQuantizationType[kind]
        values, size = GGML_QUANT_SIZES[quant]
        blocks = RANDOM.integers(0, 256, (1 if values == 256 else 3, size), dtype=np.uint8)
        for place in places.get(kind, (0,)):
            blocks[:, place : place + 2] = halves(len(blocks))
        made = quants.dequantize(blocks.reshape(1, -1), quant)
        yield case(f"gguf {kind}", {"format": kind.lower()}, made, blocks)


def scheme(**args: Any) -> QuantizationScheme:
    """A scheme of compressed-tensors for weights."""
    return QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args))


def decompressed(compressor: str, state: dict[str, torch.Tensor], how: QuantizationScheme) -> Any:
    """The weight that compressed-tensors makes."""
    return BaseCompressor.get_value_from_registry(compressor).decompress(dict(state), how)["weight"]


def floats(*shape: int) -> torch.Tensor:
    """Ordinary numbers."""
    return torch.from_numpy(RANDOM.normal(size=shape).astype(np.float32))


def integers(low: int, high: int, *shape: int) -> torch.Tensor:
    """Integers in [low, high)."""
    return torch.from_numpy(RANDOM.integers(low, high, shape).astype(np.int64))


def words(*shape: int) -> torch.Tensor:
    """Random words."""
    return torch.from_numpy(RANDOM.integers(-(2**31), 2**31, shape).astype(np.int32))


def packed_cases() -> Iterator[Case]:
    """pack-quantized: groups and channels, with zero points and without."""
    shapes = [
        ("group", 4, True, torch.bfloat16, 8),
        ("group", 4, False, torch.float16, 16),
        ("group", 8, False, torch.float32, 16),
        ("channel", 4, False, torch.float32, None),
        ("channel", 8, True, torch.bfloat16, None),
    ]
    for strategy, width, symmetric, dtype, group in shapes:
        rows, cols = 11, 48
        groups = cols // group if group else 1
        how = scheme(
            num_bits=width, type="int", strategy=strategy, symmetric=symmetric, group_size=group
        )
        state = {
            "weight_packed": words(rows, cols * width // 32),
            "weight_scale": floats(rows, groups).to(dtype),
            "weight_shape": torch.tensor([rows, cols]),
        }
        operands = [state["weight_packed"], state["weight_scale"]]
        if not symmetric:
            state["weight_zero_point"] = words(-(-rows * width // 32), groups)
            operands.append(state["weight_zero_point"])
        codec = {
            "format": "packed",
            "code_dtype": "I32",
            "bits": width,
            "scale_dtype": DTYPES[dtype],
            "block_cols": group or 0,
            "zero_points": not symmetric,
        }
        made = decompressed("pack-quantized", state, how).to(dtype)
        yield case(f"compressed-tensors {strategy} int{width}", codec, made, *operands)


def whole_byte_cases() -> Iterator[Case]:
    """int-quantized and float-quantized; a ragged last block of FP8."""
    codes = integers(-128, 128, 5, 9).to(torch.int8)
    scales = floats(5, 1).to(torch.bfloat16)
    zeros = integers(-128, 128, 5, 1).to(torch.int8)
    how = scheme(num_bits=8, type="int", strategy="channel", symmetric=False)
    state = {"weight": codes, "weight_scale": scales, "weight_zero_point": zeros}
    codec = {"format": "int8", "code_dtype": "I8", "scale_dtype": "BF16", "block_cols": 0}
    made = decompressed("int-quantized", state, how).to(torch.bfloat16)
    yield case("compressed-tensors int8", codec | {"zero_points": True}, made, codes, scales, zeros)

    fp8 = torch.from_numpy(RANDOM.integers(0, 127, (6, 12), dtype=np.uint8))
    fp8 = (fp8 | torch.from_numpy(RANDOM.integers(0, 2, (6, 12), dtype=np.uint8) * 128)).view(
        torch.float8_e4m3fn
    )
    scales = floats(2, 2)
    how = scheme(num_bits=8, type="float", strategy="block", block_structure=[4, 8])
    made = decompressed("float-quantized", {"weight": fp8, "weight_scale": scales}, how)
    codec = {"format": "fp8", "block_rows": 4, "block_cols": 8}
    yield case("compressed-tensors fp8 block", codec, made.to(torch.float32), fp8, scales)


def four_bit_float_cases() -> Iterator[Case]:
    """NVFP4 and MXFP4; GPT-OSS as Transformers reads it."""
    codes = torch.from_numpy(RANDOM.integers(0, 256, (3, 24), dtype=np.uint8))
    scales = floats(3, 3).abs().to(torch.float8_e4m3fn)
    top = torch.tensor([1234.5])
    how = scheme(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True)
    state = {"weight_packed": codes, "weight_scale": scales, "weight_global_scale": top}
    codec = {"format": "e2m1", "code_dtype": "U8", "scale_dtype": "F8_E4M3", "block_cols": 16}
    made = decompressed("nvfp4-pack-quantized", state, how)
    yield case(
        "compressed-tensors nvfp4", codec | {"global_scale": "divides"}, made, codes, scales, top
    )

    codes = torch.from_numpy(RANDOM.integers(0, 256, (1, 2, 4, 16), dtype=np.uint8))
    scales = torch.from_numpy(RANDOM.integers(100, 140, (1, 2, 4), dtype=np.uint8))
    made = convert_moe_packed_tensors(codes, scales, dtype=torch.bfloat16)[0].T.contiguous()
    codec = {"format": "e2m1", "code_dtype": "U8", "scale_dtype": "U8", "block_cols": 32}
    yield case("transformers mxfp4", codec, made, codes, scales)


def bitsandbytes_cases() -> Iterator[Case]:
    """int8 rows, NF4 and FP4, nested scales."""
    codes = integers(-127, 128, 5, 7).to(torch.int8)
    stats = floats(5).abs()
    codec = {"format": "int8", "code_dtype": "I8", "block_cols": 0, "factor": 7.874015718698502e-3}
    made = torch.ops.bitsandbytes.int8_vectorwise_dequant.default(codes, stats)
    yield case("bitsandbytes int8", codec, made, codes, stats)

    packed = torch.from_numpy(RANDOM.integers(0, 256, (96,), dtype=np.uint8))
    scales = floats(3).abs()
    for kind in ("nf4", "fp4"):
        for dtype in (torch.float32, torch.bfloat16):
            made = torch.ops.bitsandbytes.dequantize_4bit.default(
                packed.view(-1, 1), scales, 64, kind, (1, 192), dtype
            )
            codec = {"format": "table4", "code_dtype": "U8", "block_cols": 64}
            table = bnb.get_4bit_type(kind, device="cpu")
            name = f"bitsandbytes {kind} {DTYPES[dtype]}"
            yield case(name, codec, made.reshape(1, -1), packed, scales, table)

    nested = torch.from_numpy(RANDOM.integers(0, 256, (300,), dtype=np.uint8))
    scales = floats(2).abs()
    table = bnb.create_dynamic_map()
    offset = torch.tensor(0.4375)
    made = bnb.dequantize_blockwise(nested, absmax=scales, code=table, blocksize=256) + offset
    codec = {"format": "table8", "code_dtype": "U8", "block_cols": 256, "offset": 0.4375}
    yield case("bitsandbytes nested", codec, made.reshape(1, -1), nested, scales, table)


def shifted(fields: np.ndarray, width: int, axis: int) -> np.ndarray:
    """Packs fields into words along an axis, the first lowest."""
    per_word = 32 // width
    moved = np.moveaxis(fields.astype(np.uint64), axis, -1)
    parts = moved.reshape(*moved.shape[:-1], -1, per_word)
    shifts = np.arange(per_word, dtype=np.uint64) * np.uint64(width)
    packed = (parts << shifts).sum(-1).astype(np.uint32)
    return np.ascontiguousarray(np.moveaxis(packed, -1, axis))


def gptq_cases() -> Iterator[Case]:
    """[in, out], zero points stored less one; and in the order of an index of groups."""
    rows, cols, group = 32, 16, 8
    for width in (4, 8):
        numbers = RANDOM.integers(0, 2**width, (rows, cols))
        zeros = RANDOM.integers(0, 2**width, (rows // group, cols))
        scales = RANDOM.normal(size=(rows // group, cols)).astype("<f2")
        stored = shifted((zeros - 1) % 2**width, width, 1)
        codec = {"format": "gptq", "code_dtype": "I32", "scale_dtype": "F16", "bits": width}
        codec |= {"block_rows": group, "zero_points": True, "zero_bias": 1}
        for is_ordered in (True, False):
            index = np.arange(rows, dtype="<i4") // group
            if not is_ordered:
                index = RANDOM.permutation(index).astype("<i4")
            made = (numbers - zeros[index]).astype(np.float32) * scales[index].astype(np.float32)
            operands = [shifted(numbers, width, 0), scales, stored]
            extra = {} if is_ordered else {"group_index": True, "groups": rows // group}
            if not is_ordered:
                operands.append(index)
            yield case(f"gptq int{width} {is_ordered}", codec | extra, made, *operands)


def awq_cases() -> Iterator[Case]:
    """[in, out], eight columns to a word in the order of the format."""
    rows, cols, group = 16, 24, 8
    order = np.array([0, 2, 4, 6, 1, 3, 5, 7])
    numbers = RANDOM.integers(0, 16, (rows, cols))
    zeros = RANDOM.integers(0, 16, (rows // group, cols))
    scales = RANDOM.normal(size=(rows // group, cols)).astype("<f2")
    index = np.arange(rows) // group
    made = (numbers - zeros[index]).astype(np.float32) * scales[index].astype(np.float32)
    columns = (np.arange(cols).reshape(-1, 8)[:, order]).reshape(-1)
    codec = {"format": "awq", "code_dtype": "I32", "scale_dtype": "F16", "bits": 4}
    codec |= {"block_rows": group, "zero_points": True}
    packed = [shifted(part[:, columns], 4, 1) for part in (numbers, zeros)]
    yield case("awq", codec, made, packed[0], scales, packed[1])


def encoded_cases() -> Iterator[Case]:
    """What Transformers makes of values in FP8, and gguf of values in MXFP4."""
    values = floats(8, 32).to(torch.bfloat16).to(torch.float32)
    values[0:4, 0:8] = 0
    for scale_format, dtype in (("float", "F32"), ("ue8m0", "F8_E8M0")):
        config = SimpleNamespace(weight_block_size=[4, 8], scale_fmt=scale_format)
        quantizer = Fp8Quantize(SimpleNamespace(quantization_config=config))
        made = quantizer._quantize_one("x.weight", values)
        codec = {"format": "fp8", "scale_dtype": dtype, "block_rows": 4, "block_cols": 8}
        operands = made["x.weight"], made["x.weight_scale_inv"]
        yield case(f"transformers fp8 {scale_format}", codec, values, *operands)

    values = floats(4, 64) * 3
    blocks = quants.MXFP4.quantize(values.numpy()).reshape(4, 2, 17)
    split = blocks[..., 1:]
    codes = np.concatenate([split & 15, split >> 4], -1).reshape(4, 64)
    # Its table has one zero; ours keeps the sign of what was rounded to it.
    codes[(codes == 0) & (values.numpy() < 0)] = 8
    packed = codes[:, ::2] | (codes[:, 1::2] << 4)
    codec = {"format": "e2m1", "code_dtype": "U8", "scale_dtype": "U8", "block_cols": 32}
    yield case("gguf mxfp4", codec, values, packed, blocks[..., 0])


def main() -> None:
    """Writes all cases."""
    torch.manual_seed(7)
    decoded = [
        *gguf_cases(),
        *packed_cases(),
        *whole_byte_cases(),
        *four_bit_float_cases(),
        *bitsandbytes_cases(),
        *gptq_cases(),
        *awq_cases(),
    ]
    lines = [json.dumps(c | {"encode": False}) for c in decoded]
    lines += [json.dumps(c | {"encode": True}) for c in encoded_cases()]
    Path(sys.argv[1]).write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
