"""FP8 checkpoints as users meet them: ragged blocks, scales in another shard or under another name.

The right values are NumPy's: value = e4m3(code) * scale[row // 128, column // 128], one product in
F32, rounded once to BF16.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Command
from quantised_by_hand import bf16, decode_e4m3, fp8_block_values, fp8_codes, from_f32
from safetensors_by_hand import (
    Tensor,
    Tensors,
    facts,
    read_file,
    read_folder,
    u16,
    write_file,
    write_index,
)

ROWS, COLUMNS = 130, 200  # 2 x 2 blocks: the last row block has 2 rows, the last columns 72
LAYER = "model.layers.0.mlp.{}.weight"
UP, DOWN = LAYER.format("up_proj"), LAYER.format("down_proj")
SCALES = from_f32(np.array([[0.5, 3.0], [0.0078125, 1.1]], "<f4"))
PLAIN = {"model.norm.weight": u16(5, (COLUMNS,)), "lm_head.weight": u16(6, (4, COLUMNS))}
CONFIG = {
    "quantization_config": {
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
        "modules_to_not_convert": ["lm_head"],
    },
    "torch_dtype": "bfloat16",
    "model_type": "x",
}
CODES = {UP: fp8_codes(1, (ROWS, COLUMNS)), DOWN: fp8_codes(2, (ROWS, COLUMNS))}
VALUES = {name: fp8_block_values(codes, SCALES) for name, codes in CODES.items()}


def write(folder: Path, tensors: Tensors) -> Path:
    """One file, beside its config."""
    write_file(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return folder


def write_split(folder: Path, suffix: str) -> Path:
    """Weights and their scales in different shards."""
    shards = {
        "model-00001-of-00002.safetensors": {
            UP: CODES[UP],
            DOWN + suffix: SCALES,
            "model.norm.weight": PLAIN["model.norm.weight"],
        },
        "model-00002-of-00002.safetensors": {
            DOWN: CODES[DOWN],
            UP + suffix: SCALES,
            "lm_head.weight": PLAIN["lm_head.weight"],
        },
    }
    for name, tensors in shards.items():
        write_file(folder / name, tensors)
    total = sum(len(t.data) for tensors in shards.values() for t in tensors.values())
    write_index(folder, {name: list(tensors) for name, tensors in shards.items()}, total)
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return folder


def dequantize(weightloom: Command, source: Path, out: Path, *more: object) -> dict[str, Tensor]:
    """Converts with --dequantize, and gives what was written; the config no longer lies."""
    weightloom("convert", source, out, "--dequantize", "--mapping", "none", *more).done()
    config = json.loads((out / "config.json").read_text())
    assert config == {key: CONFIG[key] for key in ("torch_dtype", "model_type")} | (
        {"torch_dtype": "float32"} if "F32" in more else {}
    )
    return read_folder(out)


@pytest.mark.parametrize("suffix", ["_scale_inv", "_scale"])
def test_weights_meet_their_scales_wherever_these_lie(
    weightloom: Command, tmp_path: Path, suffix: str
) -> None:
    source = write_split(tmp_path / "in", suffix)
    made = dequantize(weightloom, source, tmp_path / "out")
    assert facts(made) == facts({n: bf16(v) for n, v in VALUES.items()} | PLAIN)


def test_values_in_f32_are_the_products(weightloom: Command, tmp_path: Path) -> None:
    source = write_split(tmp_path / "in", "_scale_inv")
    keep = ("--dtype", "F32", "--keep-dtype", "model.norm.*", "--keep-dtype", "lm_head*")
    made = dequantize(weightloom, source, tmp_path / "out", *keep)
    assert facts(made) == facts({n: from_f32(v) for n, v in VALUES.items()} | PLAIN)


def test_a_scale_beside_the_weight(weightloom: Command, tmp_path: Path) -> None:
    scale = UP.replace(".weight", ".scale")
    source = write(tmp_path / "in", {UP: CODES[UP], scale: SCALES, **PLAIN})
    made = dequantize(weightloom, source, tmp_path / "out")
    assert facts(made) == facts({UP: bf16(VALUES[UP])} | PLAIN)


def refused(weightloom: Command, source: Path, *names: str) -> None:
    """Refused, naming all of `names`; nothing is written."""
    out = source.parent / "out"
    result = weightloom("convert", source, out, "--dequantize", "--mapping", "none")
    assert result.code == 3, result.said
    assert all(name in result.said for name in names), result.said
    assert not out.exists()


def test_codes_without_a_scale_are_refused(weightloom: Command, tmp_path: Path) -> None:
    refused(weightloom, write(tmp_path / "in", {UP: CODES[UP], **PLAIN}), UP)


def test_a_scale_without_codes_is_refused(weightloom: Command, tmp_path: Path) -> None:
    source = write(tmp_path / "in", {UP + "_scale_inv": SCALES, **PLAIN})
    refused(weightloom, source, UP + "_scale_inv")


def test_a_grid_of_another_size_is_refused_with_both_shapes(
    weightloom: Command, tmp_path: Path
) -> None:
    bad = from_f32(np.ones((1, 2), "<f4"))
    source = write(tmp_path / "in", {UP: CODES[UP], UP + "_scale_inv": bad, **PLAIN})
    refused(weightloom, source, UP + "_scale_inv", "[1, 2]", "[2, 2]")


def test_ranks_that_cut_inside_a_block_take_the_scale_of_their_block(
    weightloom: Command, tmp_path: Path
) -> None:
    """64 columns a rank are half a block: two ranks use one column of scales."""
    codes = fp8_codes(3, (256, 256))
    scales = from_f32(np.array([[1.0, 2.0], [4.0, 8.0]], "<f4"))
    source = write(tmp_path / "in", {DOWN: codes, DOWN + "_scale_inv": scales})
    placements = tmp_path / "placements.json"
    placements.write_text('[{"pattern": "*", "placements": [{"axis": "tp", "shard": 1}]}]')
    out = tmp_path / "out"
    spread = ("--mesh", "tp=4", "--placements", placements)
    weightloom("convert", source, out, "--dequantize", "--mapping", "none", *spread).done()
    values = fp8_block_values(codes, scales)
    for rank in range(4):
        made = read_file(out / f"rank-{rank:05d}-of-00004.safetensors")
        assert facts(made) == facts({DOWN: bf16(values[:, 64 * rank : 64 * rank + 64])})


def test_ranks_that_keep_codes_inside_a_block_hold_the_scale_of_their_block(
    weightloom: Command, tmp_path: Path
) -> None:
    """The scales are not cut by four: ranks 0 and 1 hold one column of them, 2 and 3 the other."""
    codes = fp8_codes(3, (256, 256))
    scales = from_f32(np.array([[1.0, 2.0], [4.0, 8.0]], "<f4"))
    source = write(tmp_path / "in", {DOWN: codes, DOWN + "_scale_inv": scales})
    placements = tmp_path / "placements.json"
    placements.write_text('[{"pattern": "*", "placements": [{"axis": "tp", "shard": 1}]}]')
    spread = ("--mesh", "tp=4", "--placements", placements, "--mapping", "none")
    weightloom("convert", source, tmp_path / "out", *spread).done()
    values = fp8_block_values(codes, scales)
    for rank in range(4):
        made = read_file(tmp_path / "out" / f"rank-{rank:05d}-of-00004.safetensors")
        mine = fp8_block_values(made[DOWN], made[DOWN + "_scale_inv"])
        assert np.array_equal(mine, values[:, 64 * rank : 64 * rank + 64])
    weightloom("convert", tmp_path / "out", tmp_path / "merged").done()
    assert facts(read_folder(tmp_path / "merged")) == facts(read_folder(source))


def test_a_cut_that_no_grid_of_scales_can_say_is_refused_with_the_numbers(
    weightloom: Command, tmp_path: Path
) -> None:
    codes = fp8_codes(3, (256, 384))
    source = write(tmp_path / "in", {DOWN: codes, DOWN + "_scale_inv": from_f32(np.ones((2, 3)))})
    placements = tmp_path / "placements.json"
    placements.write_text('[{"pattern": "*", "placements": [{"axis": "tp", "shard": 1}]}]')
    spread = ("--mesh", "tp=2", "--placements", placements, "--mapping", "none")
    result = weightloom("convert", source, tmp_path / "out", *spread)
    assert result.code == 3
    assert "[192, 384) of 384" in result.said
    assert "blocks of 128" in result.said
    assert not (tmp_path / "out").exists()


def test_a_rank_reads_the_codes_of_its_part_only(weightloom: Command, tmp_path: Path) -> None:
    codes = fp8_codes(3, (1024, 1024))
    scales = from_f32(np.ones((8, 8), "<f4"))
    source = write(tmp_path / "in", {DOWN: codes, DOWN + "_scale_inv": scales})
    placements = tmp_path / "placements.json"
    placements.write_text('[{"pattern": "*", "placements": [{"axis": "tp", "shard": 0}]}]')
    spread = ("--mesh", "tp=8", "--placements", placements, "--rank", "3")
    plan = weightloom("plan", source, "--dequantize", "--mapping", "none", *spread, "--json")
    assert plan.done().json["bytes_read"] == 128 * 1024 + 8 * 4


def test_the_codes_decode_as_e4m3(weightloom: Command, tmp_path: Path) -> None:
    """All 256 codes under a scale of one: exact in F32, NaN where the format has one."""
    codes = Tensor("F8_E4M3", (2, 128), bytes(range(256)))
    one = from_f32(np.ones((1, 1), "<f4"))
    source = write(tmp_path / "in", {DOWN: codes, DOWN + "_scale_inv": one})
    out = tmp_path / "out"
    report = weightloom(
        "convert", source, out, "--dequantize", "--mapping", "none", "--dtype", "F32", "--json"
    )
    made = np.frombuffer(read_folder(out)[DOWN].data, "<f4")
    expected = decode_e4m3(np.arange(256, dtype=np.uint8))
    assert np.array_equal(made, expected, equal_nan=True)
    (lost,) = [f for f in report.done().json["findings"] if f["tensor"] == DOWN]
    assert "2 of 256" in lost["message"] or "2 values" in lost["message"], lost


def padded_spec(name: str) -> list[dict[str, object]]:
    """Rows padded so that each of three ranks holds one whole block."""
    return [
        {
            "name": name,
            "global_hf_keys": [UP],
            "global_shape": [384, COLUMNS],
            "origin_shape": [ROWS, COLUMNS],
            "shards": [{"dim": 0, "axis": "fsdp"}],
        }
    ]


@pytest.mark.parametrize("dequantized", [True, False])
def test_padding_for_whole_blocks_a_rank_is_zeros(
    weightloom: Command, tmp_path: Path, dequantized: bool
) -> None:
    """The checkpoint has 130 rows, the ranks 384: what is padded comes from nowhere."""
    source = write(tmp_path / "in", {UP: CODES[UP], UP + "_scale_inv": SCALES})
    specs = tmp_path / "specs.json"
    specs.write_text(json.dumps(padded_spec("up")), encoding="utf-8")
    flags = ["--mapping", "none", "--lenient", "--mesh", "fsdp=3", "--load-specs", specs]
    if dequantized:
        flags.append("--dequantize")
    weightloom("convert", source, tmp_path / "out", *flags).done()
    held = [
        read_file(tmp_path / "out" / f"rank-{rank:05d}-of-00003.safetensors")["up"]
        for rank in range(3)
    ]
    whole = bf16(VALUES[UP]).bits16() if dequantized else np.frombuffer(CODES[UP].data, np.uint8)
    whole = whole.reshape(ROWS, COLUMNS)
    padded = np.zeros((384, COLUMNS), whole.dtype)
    padded[:ROWS] = whole
    for rank, tensor in enumerate(held):
        part = padded[128 * rank : 128 * rank + 128]
        assert tensor.shape == part.shape
        assert tensor.data == part.tobytes()


def test_packed_codes_are_not_cut_into_parts_that_no_rank_can_decode(
    weightloom: Command, tmp_path: Path
) -> None:
    """GPTQ: 16 rows of 8 codes a word, in two groups; whole on every rank they may stay."""
    module = "model.layers.0.mlp.up_proj."
    tensors = {
        module + "qweight": Tensor("I32", (16, 8), bytes(16 * 8 * 4)),
        module + "qzeros": Tensor("I32", (2, 1), bytes(8)),
        module + "scales": Tensor("F16", (2, 8), bytes(32)),
    }
    source = tmp_path / "in"
    write_file(source / "model.safetensors", tensors)
    spread = ("--mapping", "none", "--mesh", "fsdp=2")
    made = weightloom("convert", source, tmp_path / "out", *spread)
    assert made.code == 3
    assert module + "qweight" in made.said
    assert "--dequantize" in made.said
    whole = tmp_path / "whole.json"
    whole.write_text('[{"pattern": "*", "placements": []}]')
    weightloom("convert", source, tmp_path / "out", *spread, "--placements", whole).done()
