"""Small random models in random schemes, with their values, and random meshes, all by NumPy."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from quantised_by_hand import (
    affine_values,
    decode_e4m3,
    from_f32,
    mxfp4_values,
    over_groups,
    pack_words,
)
from safetensors_by_hand import Tensor, u16

Stored = dict[str, Tensor]
Linear = Callable[[str, int, int], tuple[Stored, np.ndarray]]
SCALE_NAMES = ("weight_scale_inv", "weight_scale", "scale", "scale_weight")


@dataclass
class Model:
    """What is stored, what config.json says, and what its quantised tensors are worth."""

    config: dict[str, Any]
    stored: Stored = field(default_factory=dict)
    values: dict[str, np.ndarray] = field(default_factory=dict)  # F32, by hub name
    plain: Stored = field(default_factory=dict)


class Maker:
    """Random numbers of one seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.numbers = np.random.default_rng(seed)

    def fp8(self, rows: int, columns: int) -> tuple[Tensor, np.ndarray]:
        """Codes without NaNs, and what they are."""
        codes = self.numbers.integers(0, 256, (rows, columns), dtype=np.uint8)
        codes = np.where((codes & 127) == 127, 3, codes).astype(np.uint8)
        return Tensor("F8_E4M3", codes.shape, codes.tobytes()), decode_e4m3(codes)

    def scales(self, shape: tuple[int, ...], dtype: str) -> tuple[Tensor, np.ndarray]:
        """Random scales of a dtype, and what they are in F32."""
        if dtype in ("F8_E8M0", "U8"):
            exponents = self.numbers.integers(115, 131, shape, dtype=np.uint8)
            return Tensor(dtype, shape, exponents.tobytes()), np.exp2(exponents.astype("<f4") - 127)
        values = (self.numbers.random(shape) * 0.1 + 0.001).astype("<f4")
        if dtype == "BF16":
            patterns = (values.view("<u4") >> 16).astype("<u2")
            return Tensor(dtype, shape, patterns.tobytes()), (patterns.astype("<u4") << 16).view(
                "<f4"
            )
        if dtype == "F16":
            return Tensor(dtype, shape, values.astype("<f2").tobytes()), values.astype(
                "<f2"
            ).astype("<f4")
        return from_f32(values), values

    def fields(self, shape: tuple[int, ...], bits: int) -> np.ndarray:
        return self.numbers.integers(0, 2**bits, shape, dtype=np.int64)


def words(array: np.ndarray) -> Tensor:
    """32-bit words as I32."""
    return Tensor("I32", array.shape, np.ascontiguousarray(array, "<u4").tobytes())


# ---- schemes: (config, how a Linear [rows, columns] is stored) -----------------------------------


def fp8_blocks(make: Maker) -> tuple[dict[str, Any], Linear]:
    block = make.draw.choice([[128, 128], [16, 32], [5, 7], [1, 32], [64, 3]])
    dtype = make.draw.choice(["F32", "BF16", "F8_E8M0", "U8", "F16"])
    scale_name = make.draw.choice(SCALE_NAMES)

    def linear(module: str, rows: int, columns: int) -> tuple[Stored, np.ndarray]:
        codes, decoded = make.fp8(rows, columns)
        scale, scales = make.scales((-(-rows // block[0]), -(-columns // block[1])), dtype)
        beside = over_groups(over_groups(scales, (rows,), block[0], 0), (0, columns), block[1], 1)
        stored = {f"{module}.weight": codes, f"{module}.{scale_name}": scale}
        return stored, (decoded * beside).astype("<f4")

    return {"quant_method": "fp8", "weight_block_size": block}, linear


def fp8_single(make: Maker) -> tuple[dict[str, Any], Linear]:
    """One scale for a tensor or for a row, told by its shape."""

    def linear(module: str, rows: int, columns: int) -> tuple[Stored, np.ndarray]:
        codes, decoded = make.fp8(rows, columns)
        shape = make.draw.choice([(), (1,), (1, 1), (rows, 1), (rows,)])
        scale, scales = make.scales(shape, make.draw.choice(["F32", "BF16", "F16"]))
        beside = scales.reshape(-1, 1)
        stored = {f"{module}.weight": codes, f"{module}.weight_scale": scale}
        if make.draw.random() < 0.3:
            stored[f"{module}.input_scale"] = from_f32(np.ones((1,)))
        return stored, (decoded * beside).astype("<f4")

    return {"quant_method": "fp8"}, linear


def compressed(form: str, weights: dict[str, Any]) -> dict[str, Any]:
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
    }


def packed(make: Maker) -> tuple[dict[str, Any], Linear]:
    """compressed-tensors' integers in words."""
    bits, group = make.draw.choice([4, 8]), make.draw.choice([None, 8, 32])
    symmetric = make.draw.random() < 0.5
    dtype = make.draw.choice(["F32", "BF16", "F16"])

    def linear(module: str, rows: int, columns: int) -> tuple[Stored, np.ndarray]:
        size = group or columns
        fields = make.fields((rows, columns), bits)
        scale, scales = make.scales((rows, -(-columns // size)), dtype)
        zeros = np.full(scales.shape, 2 ** (bits - 1))
        name = f"{module}.weight"
        stored = {
            name + "_packed": words(pack_words(fields, bits, 1)),
            name + "_scale": scale,
            name + "_shape": Tensor("I64", (2,), np.array([rows, columns], "<i8").tobytes()),
        }
        if not symmetric:
            zeros = make.fields(scales.shape, bits)
            stored[name + "_zero_point"] = words(pack_words(zeros, bits, 0))
        shape = (rows, columns)
        return stored, affine_values(
            fields, over_groups(zeros, shape, size, 1), over_groups(scales, shape, size, 1)
        )

    weights = {
        "num_bits": bits,
        "type": "int",
        "symmetric": symmetric,
        "strategy": "group" if group else "channel",
        "group_size": group,
    }
    return compressed("pack-quantized", weights), linear


def int8(make: Maker) -> tuple[dict[str, Any], Linear]:
    """compressed-tensors' I8."""
    strategy, symmetric = make.draw.choice(["tensor", "channel"]), make.draw.random() < 0.5

    def linear(module: str, rows: int, columns: int) -> tuple[Stored, np.ndarray]:
        codes = make.numbers.integers(-128, 128, (rows, columns), dtype=np.int8)
        shape = (rows, 1) if strategy == "channel" else (1,)
        scale, scales = make.scales(shape, make.draw.choice(["F32", "BF16"]))
        name = f"{module}.weight"
        stored = {name: Tensor("I8", codes.shape, codes.tobytes()), name + "_scale": scale}
        zeros = np.zeros(shape, np.int8)
        if not symmetric:
            zeros = make.numbers.integers(-128, 128, shape, dtype=np.int8)
            stored[name + "_zero_point"] = Tensor("I8", shape, zeros.tobytes())
        return stored, affine_values(codes, zeros.reshape(-1, 1), scales.reshape(-1, 1))

    weights = {"num_bits": 8, "type": "int", "symmetric": symmetric, "strategy": strategy}
    return compressed("int-quantized", weights), linear


def gptq(make: Maker) -> tuple[dict[str, Any], Linear]:
    bits, group = make.draw.choice([4, 8]), make.draw.choice([-1, 8, 16])
    order, second = make.draw.random() < 0.5, make.draw.random() < 0.3

    def linear(module: str, rows: int, columns: int) -> tuple[Stored, np.ndarray]:
        size = columns if group == -1 else group
        groups = -(-columns // size)
        fields, zeros = make.fields((columns, rows), bits), make.fields((groups, rows), bits)
        scale, scales = make.scales((groups, rows), "F16")
        index = np.arange(columns) // size
        if order:
            index = make.numbers.permutation(index)
        stored = {
            f"{module}.qweight": words(pack_words(fields, bits, 0)),
            f"{module}.qzeros": words(pack_words(zeros, bits, 1)),
            f"{module}.scales": scale,
        }
        if order or make.draw.random() < 0.5:
            stored[f"{module}.g_idx"] = words(index)
        real = zeros if second else (zeros + 1) % 2**bits
        return stored, affine_values(fields, real[index], scales[index]).T

    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": order}
    return config | {"checkpoint_format": "gptq_v2" if second else "gptq"}, linear


AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def awq(make: Maker) -> tuple[dict[str, Any], Linear]:
    group = make.draw.choice([-1, 8, 16])

    def in_order(fields: np.ndarray) -> Tensor:
        eights = fields.reshape(fields.shape[0], -1, 8)[..., AWQ_ORDER]
        return words(pack_words(eights.reshape(fields.shape), 4, 1))

    def linear(module: str, rows: int, columns: int) -> tuple[Stored, np.ndarray]:
        size = columns if group == -1 else group
        shape, groups = (columns, rows), -(-columns // size)
        fields, zeros = make.fields(shape, 4), make.fields((groups, rows), 4)
        scale, scales = make.scales((groups, rows), "F16")
        stored = {
            f"{module}.qweight": in_order(fields),
            f"{module}.qzeros": in_order(zeros),
            f"{module}.scales": scale,
        }
        beside = over_groups(zeros, shape, size, 0), over_groups(scales, shape, size, 0)
        return stored, affine_values(fields, *beside).T

    return {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm"}, linear


SCHEMES = {
    "fp8_blocks": fp8_blocks,
    "fp8_single": fp8_single,
    "packed": packed,
    "int8": int8,
    "gptq": gptq,
    "awq": awq,
}

# ---- a model and its mapping ---------------------------------------------------------------------

LAYER = "model.layers.0."
EXPERT = LAYER + "moe.experts.{}.{}.weight"
MAPPING = {
    "format": "weightloom.mapping/1",
    "name": "random",
    "transforms": [
        {
            "type": "WeightRenaming",
            "source_patterns": [r"\.attn\."],
            "target_patterns": [".self_attn."],
        },
        {
            "type": "WeightConverter",
            "source_patterns": [".experts.*.w1.weight", ".experts.*.w3.weight"],
            "target_patterns": [".experts.gate_up_proj"],
            "operations": [{"op": "MergeModulelist", "dim": 0}, {"op": "Concatenate", "dim": 1}],
        },
        {
            "type": "WeightConverter",
            "source_patterns": [".experts.*.w2.weight"],
            "target_patterns": [".experts.down_proj"],
            "operations": [
                {"op": "MergeModulelist", "dim": 0},
                {"op": "Transpose", "dim0": 1, "dim1": 2},
            ],
        },
        {
            "type": "WeightConverter",
            "source_patterns": [".self_attn.o.weight"],
            "target_patterns": [".self_attn.o_t.weight"],
            "operations": [{"op": "Transpose", "dim0": 0, "dim1": 1}],
        },
    ],
}


def random_model(make: Maker, scheme: str) -> Model:
    """A layer of attention and experts; sizes that words divide, and no blocks."""
    settings, linear = SCHEMES[scheme](make)
    model = Model({"model_type": "x", "torch_dtype": "bfloat16", "quantization_config": settings})
    hidden, inner = 8 * make.draw.randint(2, 17), 8 * make.draw.randint(1, 12)
    shapes = {LAYER + f"attn.{part}.weight": (hidden, hidden) for part in "qo"}
    shapes[LAYER + "attn.k.weight"] = (inner, hidden)
    for expert in range(make.draw.randint(2, 4)):
        for part, shape in {
            "w1": (inner, hidden),
            "w3": (inner, hidden),
            "w2": (hidden, inner),
        }.items():
            shapes[EXPERT.format(expert, part)] = shape
    for name, (rows, columns) in shapes.items():
        stored, model.values[name] = linear(name.removesuffix(".weight"), rows, columns)
        model.stored |= stored
    model.plain = {
        "model.embed.weight": u16(1, (9, hidden)),
        LAYER + "norm.weight": u16(2, (hidden,)),
    }
    model.stored |= model.plain
    names = list(model.stored)
    make.draw.shuffle(names)
    model.stored = {name: model.stored[name] for name in names}
    return model


def mapped(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What MAPPING makes of them."""
    made = {
        name.replace(".attn.", ".self_attn."): array
        for name, array in values.items()
        if ".experts." not in name
    }
    made[LAYER + "self_attn.o_t.weight"] = made.pop(LAYER + "self_attn.o.weight").T
    count = sum(name.endswith(".w1.weight") for name in values)
    stack = {
        part: np.stack([values[EXPERT.format(e, part)] for e in range(count)])
        for part in ("w1", "w2", "w3")
    }
    prefix = LAYER + "moe.experts."
    made[prefix + "gate_up_proj"] = np.concatenate([stack["w1"], stack["w3"]], axis=1)
    made[prefix + "down_proj"] = stack["w2"].transpose(0, 2, 1)
    return made


def gpt_oss_model(make: Maker) -> Model:
    """Experts in MXFP4, as that model has them."""
    model = Model(
        {
            "model_type": "gpt_oss",
            "torch_dtype": "bfloat16",
            "quantization_config": {"quant_method": "mxfp4"},
        }
    )
    experts, hidden, inner = make.draw.randint(1, 4), 32 * make.draw.randint(1, 3), 32
    prefix = LAYER + "mlp.experts."
    for part, shape in {
        "gate_up_proj": (experts, 2 * inner, hidden),
        "down_proj": (experts, hidden, inner),
    }.items():
        grid = (*shape[:2], shape[2] // 32)
        blocks = make.numbers.integers(0, 256, (*grid, 16), dtype=np.uint8)
        scales = make.numbers.integers(100, 150, grid, dtype=np.uint8)
        model.stored[prefix + part + "_blocks"] = Tensor("U8", blocks.shape, blocks.tobytes())
        model.stored[prefix + part + "_scales"] = Tensor("U8", scales.shape, scales.tobytes())
        model.values[prefix + part] = mxfp4_values(blocks, scales).transpose(0, 2, 1)
    model.plain = {LAYER + "input_layernorm.weight": u16(3, (hidden,))}
    model.stored |= model.plain
    return model


# ---- meshes --------------------------------------------------------------------------------------


def chunks(rows: np.ndarray, parts: int) -> list[np.ndarray]:
    size = -(-len(rows) // parts)
    return [rows[part * size : (part + 1) * size] for part in range(parts)]


def parts_of(rows: np.ndarray, step: Mapping[str, Any], size: int) -> list[np.ndarray]:
    """What each coordinate of an axis of a size gets of the rows."""
    if "strided_shard" in step:
        groups = np.split(rows, step["strided_shard"]["split_factor"])
        return [
            np.concatenate(each) for each in zip(*(chunks(g, size) for g in groups), strict=True)
        ]
    if step.get("rule") == "balanced":
        return np.array_split(rows, size)
    if step.get("rule") == "round_robin":
        return [rows[part::size] for part in range(size)]
    copies = step.get("copies", 1)
    parts = chunks(rows, size // copies)
    return [parts[at // copies] for at in range(size)]


def random_steps(
    make: Maker, axes: Mapping[str, int], shape: tuple[int, ...]
) -> tuple[list[dict[str, Any]], list[list[np.ndarray]]]:
    """Placements of a tensor, and which rows of each dim each rank then holds."""
    steps: list[dict[str, Any]] = []
    held = {
        place: [np.arange(size) for size in shape]
        for place in itertools.product(*(range(size) for size in axes.values()))
    }
    for axis in make.draw.sample(list(axes), len(axes)):
        if not shape or make.draw.random() < 0.15:
            continue
        dim = make.draw.randrange(len(shape))
        kind = make.draw.choice(["chunk", "chunk", "balanced", "round_robin", "strided", "copies"])
        step: dict[str, Any] = {"axis": axis, "shard": dim}
        if kind in ("balanced", "round_robin"):
            step["rule"] = kind
        if kind == "copies" and axes[axis] % 2 == 0:
            step["copies"] = 2
        even = all(len(rows[dim]) % 2 == 0 for rows in held.values())
        if kind == "strided" and even:
            step = {"axis": axis, "strided_shard": {"dim": dim, "split_factor": 2}}
        coordinate = list(axes).index(axis)
        for place, rows in held.items():
            rows[dim] = parts_of(rows[dim], step, axes[axis])[place[coordinate]]
        steps.append(step)
    return steps, list(held.values())


def cut(array: np.ndarray, rows: list[np.ndarray]) -> np.ndarray:
    return array[np.ix_(*rows)] if rows else array
