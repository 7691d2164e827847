"""Faults met in the field: expert order, guessed transposes, indexes that lie, odd headers.

Each input is written by hand, and what is right is stated by name, dtype, shape and hash.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
from conftest import Command, Result
from safetensors_by_hand import (
    Tensor,
    Tensors,
    f32,
    facts,
    from_bits16,
    read_folder,
    u16,
    write_file,
    write_index,
    write_raw,
    write_sharded,
)


def refused(result: Result, names: Sequence[str] = ()) -> None:
    """The command refused, and what it said names all of `names`."""
    assert result.code == 3, result.said
    for name in names:
        assert re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", result.said), (name, result.said)


# ---- experts under decimal names, dealt over shards in string order ------------------------------

EXPERTS, LAYERS, HIDDEN, INNER = 12, 2, 6, 4
PROJECTIONS = {"gate": (INNER, HIDDEN), "up": (INNER, HIDDEN), "down": (HIDDEN, INNER)}


def moe_layer(layer: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """One layer per expert, and the same layer merged."""
    prefix, tag = f"model.layers.{layer}.mlp.", 100 + 1000 * layer
    part = {
        key: [u16(tag + 3 * e + j, shape) for e in range(EXPERTS)]
        for j, (key, shape) in enumerate(PROJECTIONS.items())
    }
    single = {
        f"{prefix}experts.{e}.{key}_proj.weight": part[key][e]
        for e in sorted(range(EXPERTS), key=str)  # 0 1 10 11 2 3 …: the order that tempts a reader
        for key in ("up", "down", "gate")
    }
    bits = {key: np.stack([t.bits16() for t in tensors]) for key, tensors in part.items()}
    merged = {
        prefix + "experts.gate_up_proj": from_bits16(np.concatenate([bits["gate"], bits["up"]], 1)),
        prefix + "experts.down_proj": from_bits16(bits["down"]),
    }
    common = {
        f"{prefix}shared_experts.{key}_proj.weight": u16(tag + 90 + j, shape)
        for j, (key, shape) in enumerate(PROJECTIONS.items())
    }
    common[prefix + "gate.weight"] = u16(tag + 95, (EXPERTS, HIDDEN))
    common[prefix + "gate.e_score_correction_bias"] = f32(tag + 96, (EXPERTS,))
    return single | common, merged | common


def moe() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The whole checkpoint per expert, and merged."""
    single: dict[str, Tensor] = {}
    merged: dict[str, Tensor] = {}
    for layer in range(LAYERS):
        one, other = moe_layer(layer)
        single |= one
        merged |= other
    return single, merged


def test_expert_10_does_not_land_before_expert_2(weightloom: Command, tmp_path: Path) -> None:
    single, merged = moe()
    write_sharded(tmp_path / "in", single, 3)
    arguments = ("--mapping", "deepseek_v3", "--to", "runtime")
    weightloom("convert", tmp_path / "in", tmp_path / "out", *arguments).done()
    assert facts(read_folder(tmp_path / "out")) == facts(merged)


def test_merged_experts_go_back_to_single_ones(weightloom: Command, tmp_path: Path) -> None:
    single, merged = moe()
    write_file(tmp_path / "in" / "model.safetensors", merged, {"format": "pt"})
    arguments = ("--mapping", "deepseek_v3", "--to", "hub")
    weightloom("convert", tmp_path / "in", tmp_path / "out", *arguments).done()
    assert facts(read_folder(tmp_path / "out")) == facts(single)


def test_a_missing_expert_is_named(weightloom: Command, tmp_path: Path) -> None:
    single = {n: t for n, t in moe()[0].items() if ".1.mlp.experts.7." not in n}
    write_sharded(tmp_path / "in", single, 3)
    arguments = ("--mapping", "deepseek_v3", "--to", "runtime")
    result = weightloom("convert", tmp_path / "in", tmp_path / "out", *arguments)
    refused(result, ["model.layers.1.mlp.experts.7"])
    assert not (tmp_path / "out").exists()


def test_twelve_experts_numbered_with_a_gap_are_not_twelve_experts(
    weightloom: Command, tmp_path: Path
) -> None:
    last = f".1.mlp.experts.{EXPERTS}."
    single = {n.replace(".1.mlp.experts.7.", last): t for n, t in moe()[0].items()}
    write_sharded(tmp_path / "in", single, 3)
    arguments = ("--mapping", "deepseek_v3", "--to", "runtime")
    result = weightloom("convert", tmp_path / "in", tmp_path / "out", *arguments)
    refused(result, [f"model.layers.1.mlp.experts.{number}" for number in (7, EXPERTS)])
    assert not (tmp_path / "out").exists()


# ---- a transposed expert layout whose swapped dimensions may be equal ----------------------------

LEGACY = {
    "format": "weightloom.mapping/1",
    "name": "legacy",
    "transforms": [
        {
            "type": "WeightConverter",
            "source_patterns": [f".experts.{name}"],
            "target_patterns": [f".experts.{name}"],
            "operations": [{"op": "Transpose", "dim0": 1, "dim1": 2}],
        }
        for name in ("gate_up_proj", "down_proj")
    ],
}
GEOMETRIES = {"gate_up_square": (3, 8, 4), "down_square": (3, 4, 4), "plain": (3, 6, 4)}


@pytest.fixture(params=GEOMETRIES)
def packed(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Tensor]:
    """A packed expert layer, written to `in`, without a config.json."""
    experts, hidden, inner = GEOMETRIES[request.param]
    tensors = {
        "layers.0.experts.gate_up_proj": u16(11, (experts, hidden, 2 * inner)),
        "layers.0.experts.down_proj": u16(12, (experts, inner, hidden)),
    }
    write_file(tmp_path / "in" / "model.safetensors", tensors)
    return tensors


def test_declared_legacy_is_transposed(
    weightloom: Command, tmp_path: Path, packed: dict[str, Tensor]
) -> None:
    (tmp_path / "legacy.json").write_text(json.dumps(LEGACY))
    arguments = ("--mapping", tmp_path / "legacy.json", "--from", "hub", "--to", "runtime")
    weightloom("convert", tmp_path / "in", tmp_path / "out", *arguments).done()
    turned = {n: from_bits16(t.bits16().swapaxes(1, 2)) for n, t in packed.items()}
    assert facts(read_folder(tmp_path / "out")) == facts(turned)


def test_declared_as_it_should_be_is_unchanged(
    weightloom: Command, tmp_path: Path, packed: dict[str, Tensor]
) -> None:
    arguments = ("--mapping", "none", "--to", "runtime")
    weightloom("convert", tmp_path / "in", tmp_path / "out", *arguments).done()
    assert facts(read_folder(tmp_path / "out")) == facts(packed)


@pytest.mark.usefixtures("packed")
def test_an_undeclared_layout_is_refused(weightloom: Command, tmp_path: Path) -> None:
    result = weightloom("convert", tmp_path / "in", tmp_path / "out", "--to", "runtime")
    refused(result, ["config.json", "--mapping"])
    assert not (tmp_path / "out").exists()


# ---- indexes that do not match what lies on disk -------------------------------------------------

A, B, C, OTHER = f32(1, (2, 2)), f32(2, (3,)), f32(3, (2,)), f32(9, (2, 2))
WHOLE = {"a": A, "b": B, "c": C}
S1, S2, S3 = (f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3))
SPLIT = {S1: {"a": A}, S2: {"b": B}, S3: {"c": C}}
LISTED = {S1: ["a"], S2: ["b"], S3: ["c"]}
INDEX = "model.safetensors.index.json"
Shards = dict[str, list[str]] | None

REFUSED_INDEXES: dict[str, tuple[dict[str, Tensors], Shards, list[str]]] = {
    "missing_shard": ({S1: {"a": A}, S3: {"c": C}}, LISTED, [S2, "b"]),
    "index_lies": (SPLIT, {**LISTED, S2: ["b", "mtp.fc.weight"]}, [S2, "mtp.fc.weight"]),
    "wrong_shard": (SPLIT, {S1: ["a"], S2: ["c"], S3: ["b"]}, ["b", "c"]),
    "no_index_gap": ({S1: {"a": A}, S3: {"c": C}}, None, [S2]),
    "no_index_duplicate": (
        {"x.safetensors": {"a": A}, "y.safetensors": {"a": OTHER, "b": B}},
        None,
        ["a", "x.safetensors", "y.safetensors"],
    ),
}
ODD = "quant_model_weights-1.safetensors"
# Files, shards, total_size, name of the index, what a finding names.
ACCEPTED_INDEXES: dict[str, tuple[dict[str, Tensors], Shards, int | None, str, list[str]]] = {
    "duplicate_resolved_by_index": (
        {S1: {"a": OTHER, "b": B}, S2: {"a": A}, S3: {"c": C}},
        {S1: ["b"], S2: ["a"], S3: ["c"]},
        36,
        INDEX,
        ["a", S1],
    ),
    "unindexed_tensor": (
        {**SPLIT, S1: {"a": A, "stale.extra": OTHER}},
        LISTED,
        36,
        INDEX,
        ["stale.extra"],
    ),
    "two_shard_sets": (
        {
            **SPLIT,
            "model-00001-of-00002.safetensors": {"a": OTHER},
            "consolidated.safetensors": {"tok_embeddings.weight": OTHER},
        },
        LISTED,
        36,
        INDEX,
        ["model-00001-of-00002.safetensors", "consolidated.safetensors"],
    ),
    "no_total_size": (SPLIT, LISTED, None, INDEX, []),
    "wrong_total_size": (SPLIT, LISTED, 1, INDEX, ["total_size", "1", "36"]),
    "subfolder": (
        {"weights/" + S1: {"a": A}, "weights/" + S2: {"b": B, "c": C}},
        {"weights/" + S1: ["a"], "weights/" + S2: ["b", "c"]},
        None,
        INDEX,
        [],
    ),
    "odd_names": (
        {ODD: {"a": A, "b": B}, "extra.safetensors": {"c": C}},
        {ODD: ["a", "b"], "extra.safetensors": ["c"]},
        36,
        "quant.safetensors.index.json",
        [],
    ),
}


def write_case(folder: Path, files: dict[str, Tensors], shards: Shards, *index: Any) -> None:
    """The files of a case, and its index where it has one."""
    for name, tensors in files.items():
        write_file(folder / name, tensors)
    if shards is not None:
        write_index(folder, shards, *index)


@pytest.mark.parametrize("case", REFUSED_INDEXES)
def test_an_index_that_lies_is_refused(weightloom: Command, tmp_path: Path, case: str) -> None:
    files, shards, names = REFUSED_INDEXES[case]
    write_case(tmp_path / "in", files, shards, 36)
    refused(weightloom("inspect", tmp_path / "in"), names)
    refused(weightloom("convert", tmp_path / "in", tmp_path / "out", "--mapping", "none"), names)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("case", ACCEPTED_INDEXES)
def test_an_odd_index_is_read_as_it_says(weightloom: Command, tmp_path: Path, case: str) -> None:
    files, shards, total_size, name, reported = ACCEPTED_INDEXES[case]
    write_case(tmp_path / "in", files, shards, total_size, name)
    seen = weightloom("inspect", tmp_path / "in", "--json").done().json
    assert [t["name"] for t in seen["tensors"]] == ["a", "b", "c"]
    arguments = ("--mapping", "none", "--json", "--max-shard-size", "1GB")
    told = weightloom("convert", tmp_path / "in", tmp_path / "out", *arguments).done().json
    assert facts(read_folder(tmp_path / "out")) == facts(WHOLE)
    weightloom("convert", tmp_path / "in", tmp_path / "kept", "--mapping", "none").done()
    weightloom("verify", tmp_path / "kept", tmp_path / "out", "--mapping", "none").done()
    findings = json.dumps([finding for finding in told["findings"]])
    for word in reported:
        assert re.search(rf"(?<![\w.]){re.escape(word)}(?!\w)", findings), (word, findings)


# ---- headers at the edge of the format and past it -----------------------------------------------

EIGHT = bytes(range(8))


def entry(dtype: Any = "F32", shape: Sequence[Any] = (2,), at: Sequence[int] = (0, 8)) -> Any:
    """One tensor's entry in a header."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(at)}


def text(value: Any) -> bytes:
    """A header's bytes."""
    return json.dumps(value, ensure_ascii=False).encode()


ONE = {"a": entry()}
LOW, HIGH = entry(shape=[1], at=[0, 4]), entry(shape=[1], at=[4, 8])
FLAT = b'{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'

ACCEPTED_HEADERS: dict[str, tuple[bytes, bytes]] = {
    "plain": (text(ONE), EIGHT),
    "no_tensors": (b"{}", b""),
    "only_metadata": (text({"__metadata__": {"k": "v"}}), b""),
    "metadata_empty": (text({"__metadata__": {}, **ONE}), EIGHT),
    "metadata_null": (text({"__metadata__": None, **ONE}), EIGHT),
    "padded_with_spaces": (text(ONE) + b"      ", EIGHT),
    "data_unaligned": (text(ONE) + b" " * ((3 - len(text(ONE))) % 8), EIGHT),
    "offsets_not_in_header_order": (text({"b": HIGH, "a": LOW}), EIGHT),
    "scalar": (text({"a": entry(shape=[], at=[0, 4])}), EIGHT[:4]),
    "zero_dim": (text({"z": entry(shape=[3, 0], at=[0, 0]), **ONE}), EIGHT),
    "zero_dim_between": (text({"a": LOW, "z": entry(shape=[0], at=[4, 4]), "b": HIGH}), EIGHT),
    "bool": (text({"a": entry("BOOL", [8])}), b"\0\1" * 4),
    "complex": (text({"a": entry("C64", [1])}), EIGHT),
    "f8_e8m0": (text({"a": entry("F8_E8M0", [8])}), EIGHT),
    "f4": (text({"a": entry("F4", [2, 8])}), EIGHT),
    "f6": (text({"a": entry("F6_E2M3", [4], [0, 3])}), EIGHT[:3]),
    "unicode_name": (text({"层.é": entry()}), EIGHT),
    "escaped_name": (b'{"a\\u00e9\\"b":' + FLAT + b"}", EIGHT),
    "name_like_path": (text({"../../etc/passwd": entry()}), EIGHT),
}

# Header, body, and the length to state where it is not the header's.
REFUSED_HEADERS: dict[str, tuple[bytes, bytes, int | None]] = {
    "length_past_end": (text(ONE), EIGHT, 1 << 20),
    "length_huge": (text(ONE), EIGHT, 1 << 63),
    "length_over_limit": (text(ONE), EIGHT, 100_000_001),
    "length_zero": (b"", EIGHT, None),
    "not_json": (b"{not json}", EIGHT, None),
    "json_array": (b"[1,2]", EIGHT, None),
    "truncated_json": (b'{"a":{"dtype":"F32","shape":[2],', EIGHT, None),
    "bom": (b"\xef\xbb\xbf" + text(ONE), EIGHT, None),
    "leading_space": (b" " + text(ONE), EIGHT, None),
    "bad_utf8": (b'{"\xff":' + FLAT + b"}", EIGHT, None),
    "deep_nesting": (b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", EIGHT, None),
    "duplicate_name": (
        b'{"a":' + FLAT + b',"a":' + FLAT.replace(b"F32", b"I32") + b"}",
        EIGHT,
        None,
    ),
    "duplicate_field": (b'{"a":' + FLAT.replace(b",", b',"dtype":"I32",', 1) + b"}", EIGHT, None),
    "metadata_number": (text({"__metadata__": {"k": 1}, **ONE}), EIGHT, None),
    "metadata_list": (text({"__metadata__": ["k"], **ONE}), EIGHT, None),
    "unknown_dtype": (text({"a": entry("F7")}), EIGHT, None),
    "empty_dtype": (text({"a": entry("", [], [0, 0])}), b"", None),
    "missing_shape": (b'{"a":{"dtype":"F32","data_offsets":[0,8]}}', EIGHT, None),
    "negative_dim": (text({"a": entry(shape=[-2])}), EIGHT, None),
    "float_dim": (text({"a": entry(shape=[2.0])}), EIGHT, None),
    "dim_overflow": (text({"a": entry(shape=[1 << 32, 1 << 32], at=[0, 0])}), b"", None),
    "dim_overflow_mul": (text({"a": entry(shape=[1 << 62], at=[0, 0])}), b"", None),
    "size_mismatch": (text({"a": entry(shape=[3])}), EIGHT, None),
    "end_before_begin": (text({"a": entry(shape=[0], at=[8, 0])}), EIGHT, None),
    "past_end": (text({"a": entry(shape=[4], at=[0, 16])}), EIGHT, None),
    "overlap": (text({"a": entry(), "b": entry()}), EIGHT, None),
    "hole": (text({"a": LOW, "b": entry(shape=[1], at=[8, 12])}), EIGHT + EIGHT[:4], None),
    "leading_hole": (text({"a": HIGH}), EIGHT, None),
    "trailing_bytes": (text(ONE), EIGHT + b"xyz", None),
    "f4_odd": (text({"a": entry("F4", [3], [0, 2])}), EIGHT[:2], None),
    "one_offset": (text({"a": entry(at=[0])}), EIGHT, None),
    "name_with_nul": (b'{"a\\u0000b":' + FLAT + b"}", EIGHT, None),
}
# What the safetensors package accepts and Weightloom does not.
STRICTER = {"duplicate_name", "leading_space", "name_with_nul"}


def package_accepts(path: Path) -> bool:
    """What the safetensors package says of a file."""
    try:
        safetensors.deserialize(path.read_bytes())
    except safetensors.SafetensorError:
        return False
    return True


@pytest.mark.parametrize("case", ACCEPTED_HEADERS)
def test_a_header_within_the_format_is_read(weightloom: Command, tmp_path: Path, case: str) -> None:
    header, body = ACCEPTED_HEADERS[case]
    path = tmp_path / f"{case}.safetensors"
    write_raw(path, header, body)
    seen = weightloom("inspect", path, "--json").done().json
    names = {name for name in json.loads(header) if name != "__metadata__"}
    assert {t["name"] for t in seen["tensors"]} == names
    assert package_accepts(path)


@pytest.mark.parametrize("case", REFUSED_HEADERS)
def test_a_header_past_the_format_is_refused(
    weightloom: Command, tmp_path: Path, case: str
) -> None:
    path = tmp_path / f"{case}.safetensors"
    write_raw(path, *REFUSED_HEADERS[case])
    result = weightloom("inspect", path, "--json", timeout=20)
    refused(result)
    assert path.name in result.json["error"]["message"]
    assert package_accepts(path) == (case in STRICTER)


def test_trailing_bytes_are_counted_and_not_called_truncation(
    weightloom: Command, tmp_path: Path
) -> None:
    path = tmp_path / "long.safetensors"
    write_raw(path, *REFUSED_HEADERS["trailing_bytes"])
    result = weightloom("inspect", path)
    refused(result, ["3"])
    assert "truncated" not in result.said


@pytest.mark.parametrize("data", [b"", b"\1\2\3"], ids=["empty", "three_bytes"])
def test_a_file_without_a_length_is_refused(
    weightloom: Command, tmp_path: Path, data: bytes
) -> None:
    path = tmp_path / "short.safetensors"
    path.write_bytes(data)
    refused(weightloom("inspect", path), ["short.safetensors", str(len(data))])
