"""An FP8 checkpoint is converted with its scales, bit for bit; the right answer is NumPy's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Command
from safetensors_by_hand import Tensor, f32, facts, read_folder, write_sharded

EXPERTS, HIDDEN, INNER, BLOCK = 3, 256, 128, 128
LAYER = "model.layers.1.mlp."
EXTRA = "model.layers.2."  # behind num_hidden_layers: a prediction layer


def fp8(tag: int, rows: int, columns: int) -> Tensor:
    """A weight of arbitrary bytes."""
    rng = np.random.default_rng(tag)
    return Tensor("F8_E4M3", (rows, columns), rng.integers(0, 256, rows * columns, "u1").tobytes())


def grid(tag: int, rows: int, columns: int, block: int = BLOCK) -> Tensor:
    """Scales of a weight's blocks, every one of another value."""
    return f32(tag, (-(-rows // block), -(-columns // block)))


def shapes(inner: int) -> dict[str, tuple[int, int]]:
    return {
        "gate_proj": (inner, HIDDEN),
        "up_proj": (inner, HIDDEN),
        "down_proj": (HIDDEN, inner),
    }


def expert_tensors(prefix: str, inner: int = INNER) -> dict[str, Tensor]:
    """Weights and scales of one layer's experts."""
    tensors = {}
    for expert in range(EXPERTS):
        for place, (part, (rows, columns)) in enumerate(shapes(inner).items()):
            name = f"{prefix}experts.{expert}.{part}.weight"
            tensors[name] = fp8(10 * expert + place, rows, columns)
            tensors[name + "_scale_inv"] = grid(10 * expert + place, rows, columns)
    return tensors


def deepseek(inner: int = INNER) -> dict[str, Tensor]:
    """One MoE layer, attention that no rule touches, and a prediction layer."""
    attention = "model.layers.0.self_attn.q_proj.weight"
    return {
        attention: fp8(900, 192, HIDDEN),  # 192 rows: the last block is ragged
        attention + "_scale_inv": grid(901, 192, HIDDEN),
        LAYER + "gate.e_score_correction_bias": f32(902, (EXPERTS,)),
        EXTRA + "eh_proj.weight": fp8(903, HIDDEN, 2 * HIDDEN),
        EXTRA + "eh_proj.weight_scale_inv": grid(904, HIDDEN, 2 * HIDDEN),
        **expert_tensors(LAYER, inner),
    }


def merged(hub: dict[str, Tensor]) -> dict[str, Tensor]:
    """Experts stacked, gate and up joined by rows; scales likewise."""
    runtime = {name: t for name, t in hub.items() if ".experts." not in name}
    for suffix, dtype in (("", "u1"), ("_scale_inv", "<f4")):
        stacks = {
            part: np.stack(
                [
                    np.frombuffer(t.data, dtype).reshape(t.shape)
                    for t in (
                        hub[f"{LAYER}experts.{e}.{part}.weight{suffix}"] for e in range(EXPERTS)
                    )
                ]
            )
            for part in ("gate_proj", "up_proj", "down_proj")
        }
        joined = np.concatenate([stacks["gate_proj"], stacks["up_proj"]], axis=1)
        name = "F32" if suffix else "F8_E4M3"
        for target, made in (("gate_up_proj", joined), ("down_proj", stacks["down_proj"])):
            key = f"{LAYER}experts.{target}{suffix}"
            runtime[key] = Tensor(name, made.shape, np.ascontiguousarray(made).tobytes())
    return runtime


def write(folder: Path, tensors: dict[str, Tensor], block: list[int] | None) -> Path:
    folder.mkdir()
    write_sharded(folder, tensors, 3)  # round robin: scales stand in other files than weights
    quantised = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": block}
    config = {
        "model_type": "deepseek_v3",
        "num_hidden_layers": 2,
        "n_routed_experts": EXPERTS,
        "quantization_config": quantised,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def test_weights_and_scales_are_merged_and_come_back(weightloom: Command, tmp_path: Path) -> None:
    hub = write(tmp_path / "hub", deepseek(), [BLOCK, BLOCK])
    there, back = tmp_path / "there", tmp_path / "back"
    weightloom("convert", hub, there, "--to", "runtime").done()
    assert facts(read_folder(there)) == facts(merged(deepseek()))
    weightloom("convert", there, back, "--to", "hub").done()
    assert facts(read_folder(back)) == facts(deepseek())
    for shard in hub.glob("*.safetensors"):
        assert (back / shard.name).read_bytes() == shard.read_bytes()


def test_they_come_back_by_the_rules_alone(weightloom: Command, tmp_path: Path) -> None:
    runtime = write(tmp_path / "runtime", merged(deepseek()), [BLOCK, BLOCK])
    back = tmp_path / "back"
    weightloom("convert", runtime, back, "--from", "runtime", "--to", "hub").done()
    assert facts(read_folder(back)) == facts(deepseek())


def test_a_dtype_leaves_fp8_and_its_scales_alone(weightloom: Command, tmp_path: Path) -> None:
    hub = write(tmp_path / "hub", deepseek(), [BLOCK, BLOCK])
    out = tmp_path / "out"
    keep = ("--dtype", "BF16", "--keep-dtype", "*_bias")
    weightloom("convert", hub, out, "--to", "runtime", *keep).done()
    assert facts(read_folder(out)) == facts(merged(deepseek()))
    weightloom("convert", out, tmp_path / "back", "--to", "hub").done()
    assert facts(read_folder(tmp_path / "back")) == facts(deepseek())


@pytest.mark.parametrize(
    ("inner", "block", "words"),
    [
        (96, [BLOCK, BLOCK], ["gate_up_proj", "96 along dim 1 are not whole blocks of 128"]),
        (INNER, None, ["gate_up_proj", "weight_block_size"]),
        (INNER, [64, 64], ["_scale_inv", "in blocks of [64, 64] needs [2, 4]"]),
    ],
    ids=["inside_a_block", "undeclared", "another_block"],
)
def test_what_would_make_noise_is_refused(
    weightloom: Command, tmp_path: Path, inner: int, block: list[int] | None, words: list[str]
) -> None:
    """vllm-project/vllm#52997: with the numbers, before a byte moves."""
    hub = write(tmp_path / "hub", deepseek(inner), block)
    result = weightloom("convert", hub, tmp_path / "out", "--to", "runtime")
    assert result.code == 3, result.said
    for word in words:
        assert word in result.said, (word, result.said)
    assert not (tmp_path / "out").exists()


def test_a_weight_without_its_scale_is_refused(weightloom: Command, tmp_path: Path) -> None:
    """leejet/stable-diffusion.cpp#1898: a scale that is not found is no scale of one."""
    tensors = deepseek()
    lost = f"{LAYER}experts.1.up_proj.weight_scale_inv"
    del tensors[lost]
    hub = write(tmp_path / "hub", tensors, [BLOCK, BLOCK])
    result = weightloom("convert", hub, tmp_path / "out", "--to", "runtime")
    assert result.code == 3
    assert lost in result.said
