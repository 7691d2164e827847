"""Casts of whole conversions against NumPy, torch, and a search among all values of the target."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Command
from safetensors_by_hand import Tensor, Tensors, facts, read_file, read_folder, write_file

NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
CASTABLE = ("F64", "F32", "F16", "BF16")
EXPONENT = {"F64": (11, 52), "F32": (8, 23), "F16": (5, 10), "BF16": (8, 7)}


def values(tensor: Tensor) -> np.ndarray:
    """What the elements stand for, in F64: exact for every castable dtype."""
    if tensor.dtype == "BF16":
        words = np.frombuffer(tensor.data, "<u2").astype("<u4") << 16
        with np.errstate(invalid="ignore"):
            return words.view("<f4").astype("<f8")
    with np.errstate(invalid="ignore"):
        return np.frombuffer(tensor.data, NUMPY[tensor.dtype]).astype("<f8")


def patterns(tensor: Tensor) -> np.ndarray:
    """The elements as unsigned integers."""
    return np.frombuffer(
        tensor.data, f"<u{2 if '16' in tensor.dtype else int(tensor.dtype[1:]) // 8}"
    )


def searched(numbers: np.ndarray, dtype: str) -> np.ndarray:
    """The 16-bit patterns nearest to the numbers, ties to even, found among all that there are.

    The halfway points between neighbours are exact in F64, so that no rounding decides.
    """
    exponent_bits, mantissa_bits = EXPONENT[dtype]
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    every = values(Tensor(dtype, (infinity,), np.arange(infinity, dtype="<u2").tobytes()))
    # What would come after the largest, were the range wider: it is infinity's place.
    steps = np.append(every, every[-1] + (every[-1] - every[-2]))
    halves = (steps[:-1] + steps[1:]) / 2
    size = np.abs(numbers)
    at = np.searchsorted(halves, size, side="left")  # a tie finds the lower neighbour
    tie = (at < halves.size) & (halves[np.minimum(at, halves.size - 1)] == size)
    at = at + (tie & (at % 2 == 1))
    return (at | (np.signbit(numbers) << 15)).astype("<u2")


def expect_cast(made: Tensor, source: Tensor, dtype: str) -> None:
    """`made` is `source` in another dtype, bit for bit; NaNs are quiet NaNs of the same sign."""
    assert (made.dtype, made.shape) == (dtype, source.shape)
    numbers = values(source)
    nan = np.isnan(numbers)
    exponent_bits, mantissa_bits = EXPONENT[dtype]
    got = patterns(made)
    if dtype in ("F16", "BF16"):
        expected = searched(np.where(nan, 0, numbers), dtype)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            cast = np.where(nan, 0, numbers).astype(NUMPY[dtype])
        expected = cast.view(f"<u{cast.itemsize}")
    np.testing.assert_array_equal(got[~nan], expected[~nan])
    quiet = ((1 << (exponent_bits + 1)) - 1) << (mantissa_bits - 1)
    top = got[nan] & np.array(quiet, got.dtype)
    assert (top == quiet).all()
    np.testing.assert_array_equal(got[nan] >> (8 * got.itemsize - 1), np.signbit(numbers[nan]))


def hard(dtype: str, seed: int) -> np.ndarray:
    """Patterns of a dtype at and around ties of narrower ones, all exponents, random others."""
    random = np.random.default_rng(seed)
    exponent_bits, mantissa_bits = EXPONENT[dtype]
    if mantissa_bits <= 10:
        return np.arange(65536, dtype="<u2")
    word = f"<u{(1 + exponent_bits + mantissa_bits) // 8}"
    exponents = np.arange(1 << exponent_bits, dtype=word) << mantissa_bits
    found = []
    for kept in (7, 10, 23):
        if kept >= mantissa_bits:
            continue
        tie = 1 << (mantissa_bits - kept - 1)
        for below in (tie - 1, tie, tie + 1):
            top = random.integers(0, 1 << kept, exponents.size, dtype=np.uint64)
            mantissa = (top << (mantissa_bits - kept)) + below
            found.append(exponents + mantissa.astype(word))
    one_sign = np.concatenate(found)
    # Exponents that narrow types have, and any number of bits kept: ties among their subnormals.
    bias = (1 << (exponent_bits - 1)) - 1
    for _ in range(4):
        exponent = random.integers(bias - 150, bias + 20, 20000).clip(0).astype(word)
        kept_bits = random.integers(0, mantissa_bits, 20000)
        mantissa = random.integers(0, 1 << mantissa_bits, 20000, dtype=np.uint64)
        mantissa = (mantissa >> kept_bits.astype(np.uint64)) << kept_bits.astype(np.uint64)
        mantissa = mantissa.astype(word) + random.integers(0, 2, 20000).astype(word)
        one_sign = np.append(one_sign, (exponent << mantissa_bits) + mantissa)
    anything = random.integers(0, np.iinfo(word).max, 50000, dtype=word, endpoint=True)
    sign = np.array(1, word) << np.array(exponent_bits + mantissa_bits, word)
    return np.concatenate([one_sign, one_sign | sign, anything])


def tensor_of(words: np.ndarray, dtype: str) -> Tensor:
    return Tensor(dtype, words.shape, np.ascontiguousarray(words).tobytes())


@pytest.mark.parametrize("target", CASTABLE)
def test_every_hard_pattern_is_rounded_once(
    weightloom: Command, tmp_path: Path, target: str
) -> None:
    source = {dtype: tensor_of(hard(dtype, 3), dtype) for dtype in CASTABLE}
    write_file(tmp_path / "in.safetensors", source)
    result = weightloom(
        "convert", tmp_path / "in.safetensors", tmp_path / "out", "--dtype", target, "--json"
    ).done()
    made = read_folder(tmp_path / "out")
    lost = {}
    for dtype, tensor in source.items():
        if dtype == target:
            assert made[dtype] == tensor
            continue
        expect_cast(made[dtype], tensor, target)
        lost[dtype] = int(np.isinf(values(made[dtype])).sum() - np.isinf(values(tensor)).sum())
    told = {
        finding["tensor"]: int(finding["message"].split(": ")[1].split(" of ")[0])
        for finding in result.json["findings"]
        if finding["code"] == "cast_not_finite"
    }
    assert told == {dtype: count for dtype, count in lost.items() if count > 0}
    assert all(finding["severity"] == "report" for finding in result.json["findings"])


def test_torch_and_numpy_agree_where_they_round_once(weightloom: Command, tmp_path: Path) -> None:
    single = tensor_of(hard("F32", 5), "F32")
    double = tensor_of(hard("F64", 5), "F64")
    write_file(tmp_path / "in.safetensors", {"single": single, "double": double})
    for dtype in ("F16", "BF16"):
        out = tmp_path / dtype
        weightloom("convert", tmp_path / "in.safetensors", out, "--dtype", dtype).done()
        made = read_folder(out)
        torch_type = torch.float16 if dtype == "F16" else torch.bfloat16
        numbers = np.frombuffer(single.data, "<f4")
        cast = torch.from_numpy(numbers.copy()).to(torch_type).view(torch.int16).numpy()
        nan = np.isnan(numbers)
        np.testing.assert_array_equal(patterns(made["single"])[~nan], cast.view("<u2")[~nan])
        if dtype == "F16":  # torch goes through F32 here, NumPy does not
            wide = np.frombuffer(double.data, "<f8")
            with np.errstate(over="ignore", invalid="ignore"):
                halves = wide.astype("<f2").view("<u2")
            nan = np.isnan(wide)
            np.testing.assert_array_equal(patterns(made["double"])[~nan], halves[~nan])


# ---- through a mapping ---------------------------------------------------------------------------

HIDDEN, INNER, EXPERTS = 24, 40, 3


def mixtral_like(seed: int) -> dict[str, Tensor]:
    """One layer as published: experts, a router and its F32 bias, a table of integers."""
    random = np.random.default_rng(seed)

    def floats(*shape: int) -> Tensor:
        return Tensor("F32", shape, random.normal(0, 0.05, shape).astype("<f4").tobytes())

    layer = "model.layers.0."
    moe = layer + "block_sparse_moe."
    tensors = {
        "model.norm.weight": floats(HIDDEN),
        moe + "gate.weight": floats(EXPERTS, HIDDEN),
        moe + "gate.e_score_correction_bias": floats(EXPERTS),
        layer + "routing_table": Tensor("I64", (5,), np.arange(-2, 3, dtype="<i8").tobytes()),
    }
    for expert in range(EXPERTS):
        tensors[f"{moe}experts.{expert}.w1.weight"] = floats(INNER, HIDDEN)
        tensors[f"{moe}experts.{expert}.w2.weight"] = floats(HIDDEN, INNER)
        tensors[f"{moe}experts.{expert}.w3.weight"] = floats(INNER, HIDDEN)
    return tensors


def write_model(folder: Path, tensors: Tensors) -> None:
    write_file(folder / "model.safetensors", tensors, {"format": "pt"})
    config = '{"model_type": "mixtral",\n "num_local_experts": 3, "limit": Infinity,\n'
    config += ' "torch_dtype": "float32", "text_config": {"dtype": "float32"}}\n'
    (folder / "config.json").write_text(config, encoding="utf-8")


def runtime_of(tensors: Tensors) -> dict[str, Tensor]:
    """The runtime layout, made with NumPy."""
    moe = "model.layers.0.block_sparse_moe."

    def array(name: str) -> np.ndarray:
        return np.frombuffer(tensors[name].data, "<f4").reshape(tensors[name].shape)

    made = {
        name.replace("block_sparse_moe", "mlp"): tensor
        for name, tensor in tensors.items()
        if ".experts." not in name
    }
    gate_up = [
        np.concatenate([array(f"{moe}experts.{e}.w{w}.weight") for w in (1, 3)])
        for e in range(EXPERTS)
    ]
    down = [array(f"{moe}experts.{e}.w2.weight") for e in range(EXPERTS)]
    for name, parts in {"gate_up_proj": gate_up, "down_proj": down}.items():
        stacked = np.stack(parts)
        made[f"model.layers.0.mlp.experts.{name}"] = Tensor("F32", stacked.shape, stacked.tobytes())
    return made


def expect_all_cast(made: Tensors, source: Tensors, dtype: str, kept: set[str]) -> None:
    assert set(made) == set(source)
    for name, tensor in source.items():
        if name in kept or tensor.dtype not in CASTABLE or tensor.dtype == dtype:
            assert made[name] == tensor, name
        else:
            expect_cast(made[name], tensor, dtype)


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F64"])
def test_a_cast_goes_through_a_mapping_and_back(
    weightloom: Command, tmp_path: Path, dtype: str
) -> None:
    """Field reports: a router bias that is kept stays F32, a table of integers stays what it is."""
    source = mixtral_like(11)
    write_model(tmp_path / "hub", source)
    bias = "*e_score_correction_bias"
    runtime, back = tmp_path / "runtime", tmp_path / "back"
    weightloom(
        "convert", tmp_path / "hub", runtime, "--to", "runtime", "--dtype", dtype,
        "--keep-dtype", bias,
    ).done()  # fmt: skip
    kept = {"model.layers.0.mlp.gate.e_score_correction_bias"}
    expect_all_cast(read_folder(runtime), runtime_of(source), dtype, kept)
    name = {"BF16": "bfloat16", "F16": "float16", "F64": "float64"}[dtype]
    config = (tmp_path / "hub" / "config.json").read_text(encoding="utf-8")
    changed = (runtime / "config.json").read_text(encoding="utf-8")
    assert changed == config.replace("float32", name)

    told = weightloom("convert", runtime, back, "--to", "hub", "--json").done().json
    assert [f["code"] for f in told["findings"]] == ["dtype_changed"]
    kept = {"model.layers.0.block_sparse_moe.gate.e_score_correction_bias"}
    expect_all_cast(read_folder(back), source, dtype, kept)
    same = ("--dtype", dtype, "--keep-dtype", bias)
    weightloom("verify", runtime, tmp_path / "hub", *same).done()
    weightloom("verify", back, tmp_path / "hub", *same).done()
    weightloom("verify", back, runtime).done()


def test_a_widening_cast_comes_all_the_way_back(weightloom: Command, tmp_path: Path) -> None:
    source = mixtral_like(12)
    write_model(tmp_path / "hub", source)
    wide, back = tmp_path / "wide", tmp_path / "back"
    weightloom("convert", tmp_path / "hub", wide, "--to", "runtime", "--dtype", "F64").done()
    weightloom("convert", wide, back, "--to", "hub", "--dtype", "F32").done()
    for name in ("model.safetensors", "config.json"):
        assert (back / name).read_bytes() == (tmp_path / "hub" / name).read_bytes()
    weightloom("verify", tmp_path / "hub", wide, "--dtype", "F32").done()


def test_without_a_dtype_nothing_is_cast(weightloom: Command, tmp_path: Path) -> None:
    """Field report: small F32 tensors beside BF16 ones were downcast on load."""
    source = mixtral_like(13)
    words = np.frombuffer(source["model.norm.weight"].data, "<f4").view("<u4") >> 16
    source["model.norm.weight"] = Tensor("BF16", (HIDDEN,), words.astype("<u2").tobytes())
    write_model(tmp_path / "hub", source)
    for flags in ((), ("--dtype", "keep")):
        out = tmp_path / f"out{len(flags)}"
        weightloom("convert", tmp_path / "hub", out, *flags).done()
        assert facts(read_folder(out)) == facts(source)
        config = "config.json"
        assert (out / config).read_bytes() == (tmp_path / "hub" / config).read_bytes()


def test_sources_of_different_floats_need_a_cast(weightloom: Command, tmp_path: Path) -> None:
    source = mixtral_like(14)
    odd = "model.layers.0.block_sparse_moe.experts.1.w3.weight"
    tensor = source[odd]
    halves = np.frombuffer(tensor.data, "<f4").astype("<f2")
    mixed = {**source, odd: Tensor("F16", tensor.shape, halves.tobytes())}
    write_model(tmp_path / "hub", mixed)
    to_runtime = ("convert", tmp_path / "hub", tmp_path / "out", "--to", "runtime")
    refused = weightloom(*to_runtime)
    assert refused.code == 3
    assert "is F16" in refused.said
    assert "--dtype" in refused.said
    weightloom(*to_runtime, "--dtype", "F32").done()
    exact = {**source, odd: Tensor("F32", tensor.shape, halves.astype("<f4").tobytes())}
    assert facts(read_folder(tmp_path / "out")) == facts(runtime_of(exact))


def test_a_large_transposed_tensor_is_cast_in_tiles(weightloom: Command, tmp_path: Path) -> None:
    rows, columns = 1500, 1111
    words = np.random.default_rng(2).normal(0, 1, (rows, columns)).astype("<f4")
    source = {"x.weight": Tensor("F32", words.shape, words.tobytes())}
    write_file(tmp_path / "in.safetensors", source)
    transform = {
        "type": "WeightConverter", "source_patterns": ["x.weight"], "target_patterns": ["y.weight"],
        "operations": [{"op": "Transpose", "dim0": 0, "dim1": 1}],
    }  # fmt: skip
    mapping = {"format": "weightloom.mapping/1", "name": "turn", "transforms": [transform]}
    (tmp_path / "turn.json").write_text(json.dumps(mapping), encoding="utf-8")
    for budget, threads in (("1MiB", 1), ("64MiB", 3)):
        out = tmp_path / f"out-{threads}.safetensors"
        weightloom(
            "convert", tmp_path / "in.safetensors", out, "--mapping", tmp_path / "turn.json",
            "--from", "hub", "--to", "runtime", "--dtype", "BF16", "--memory-budget", budget,
            "--threads", threads,
        ).done()  # fmt: skip
        turned = np.ascontiguousarray(words.T)
        expect_cast(
            read_file(out)["y.weight"], Tensor("F32", turned.shape, turned.tobytes()), "BF16"
        )


def test_f32_to_f32_onto_itself_changes_nothing(weightloom: Command, tmp_path: Path) -> None:
    """Field case: output file = input file, cast to the dtype that it has."""
    file = tmp_path / "single" / "model.safetensors"
    source = {
        f"layers.{i}.weight": Tensor(
            "F32", (64, 64), (np.arange(4096) + 4096 * (10 + i)).astype("<f4").tobytes()
        )
        for i in range(8)
    }
    write_file(file, source)
    assert weightloom("convert", file, file, "--dtype", "F32").code == 3
    assert facts(read_file(file)) == facts(source)
    weightloom("convert", file, file, "--dtype", "F32", "--overwrite").done()
    assert facts(read_file(file)) == facts(source)


def test_a_scalar_and_an_empty_tensor_are_cast(weightloom: Command, tmp_path: Path) -> None:
    one = np.array(math.pi, "<f4")
    source = {"e": Tensor("F32", (0, 3), b""), "s": Tensor("F32", (), one.tobytes())}
    write_file(tmp_path / "in.safetensors", source)
    weightloom("convert", tmp_path / "in.safetensors", tmp_path / "out", "--dtype", "BF16").done()
    made = read_folder(tmp_path / "out")
    assert made["e"] == Tensor("BF16", (0, 3), b"")
    assert made["s"] == Tensor("BF16", (), b"\x49\x40")


def test_the_rules_of_a_mapping_hold_dtypes_against_a_cast(
    weightloom: Command, tmp_path: Path
) -> None:
    """NVIDIA-NeMo/Automodel#2553: a router's bias stays F32 because its mapping says so."""
    rules = {
        "format": "weightloom.mapping/1",
        "name": "router",
        "dtype_rules": [{"pattern": "gate.*bias", "dtype": "F32", "when": ["F16", "BF16"]}],
        "transforms": [
            {
                "type": "WeightRenaming",
                "source_patterns": ["^m\\."],
                "target_patterns": ["model."],
            }
        ],
    }
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    small = np.array([1.0000001, -3.14159265, 65504.0], "<f4")
    hub = {
        "m.gate.e_bias": Tensor("F32", (3,), small.tobytes()),
        "m.gate.wide_bias": Tensor("F64", (3,), small.astype("<f8").tobytes()),
        "m.up.weight": Tensor("F32", (3,), small.tobytes()),
    }
    write_model(tmp_path / "hub", hub)
    ways = ("--mapping", tmp_path / "rules.json", "--dtype", "BF16")
    out, back = tmp_path / "out", tmp_path / "back"
    weightloom("convert", tmp_path / "hub", out, "--to", "runtime", *ways).done()
    made = read_folder(out)
    assert {name: tensor.dtype for name, tensor in made.items()} == {
        "model.gate.e_bias": "F32",
        "model.gate.wide_bias": "F32",
        "model.up.weight": "BF16",
    }
    assert made["model.gate.e_bias"].data == hub["m.gate.e_bias"].data
    expect_cast(made["model.gate.wide_bias"], hub["m.gate.wide_bias"], "F32")
    expect_cast(made["model.up.weight"], hub["m.up.weight"], "BF16")
    weightloom("verify", out, tmp_path / "hub", "--to", "runtime", *ways).done()
    weightloom("convert", out, back, "--to", "hub").done()
    assert set(read_folder(back)) == set(hub)
