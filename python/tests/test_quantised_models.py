"""DeepSeek-V3 in FP8 and GPT-OSS in MXFP4: to values in the runtime layout and back, on every mesh.

Scales are powers of two and each block has its largest code, so that quantising the values again
gives the codes and scales that were there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Command
from quantised_by_hand import bf16, fp8_block_values, mxfp4_values
from safetensors_by_hand import Tensor, facts, read_file, read_folder, u16, write_sharded

HIDDEN, INNER, EXPERTS, VOCABULARY, HEADS = 256, 192, 4, 96, 2
MESHES = {
    "tp=2": ("--tp-plan", "auto"),
    "ep=2": ("--tp-plan", "auto"),
    "fsdp=3": (),
}


def fp8_pair(tag: int, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Codes with a 448 in every block, and scales that are powers of two."""
    rng = np.random.default_rng(tag)
    codes = rng.integers(0, 256, (rows, columns), dtype=np.uint8)
    codes = np.where((codes & 127) == 127, 0x7E, codes).astype(np.uint8)
    codes[::128, ::128] = 0x7E
    codes = np.where(codes == 0x80, 0, codes).astype(np.uint8)  # -0 * scale is +0 of no code
    grid = (-(-rows // 128), -(-columns // 128))
    scales = np.exp2(rng.integers(-12, -4, grid)).astype("<f4")
    return (
        Tensor("F8_E4M3", (rows, columns), codes.tobytes()),
        Tensor("F32", grid, scales.tobytes()),
    )


def deepseek_linears() -> dict[str, tuple[int, int]]:
    """Names and shapes of what is stored in FP8."""
    linears = {}
    for layer in range(2):
        attention = f"model.layers.{layer}.self_attn."
        linears |= {
            attention + "q_a_proj.weight": (64, HIDDEN),
            attention + "q_b_proj.weight": (HEADS * 48, 64),
            attention + "kv_a_proj_with_mqa.weight": (80, HIDDEN),
            attention + "kv_b_proj.weight": (HEADS * 64, 64),
            attention + "o_proj.weight": (HIDDEN, HEADS * 32),
        }
    projections = {
        "gate_proj": (INNER, HIDDEN),
        "up_proj": (INNER, HIDDEN),
        "down_proj": (HIDDEN, INNER),
    }
    places = ["model.layers.0.mlp.", "model.layers.1.mlp.shared_experts."]
    places += [f"model.layers.1.mlp.experts.{e}." for e in range(EXPERTS)]
    for place in places:
        linears |= {f"{place}{part}.weight": shape for part, shape in projections.items()}
    return linears


def deepseek_config() -> dict[str, Any]:
    return {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "torch_dtype": "bfloat16",
        "hidden_size": HIDDEN,
        "moe_intermediate_size": INNER,
        "intermediate_size": INNER,
        "n_routed_experts": EXPERTS,
        "num_hidden_layers": 2,
        "first_k_dense_replace": 1,
        "tie_word_embeddings": False,
        "quantization_config": {
            "activation_scheme": "dynamic",
            "fmt": "e4m3",
            "quant_method": "fp8",
            "weight_block_size": [128, 128],
        },
    }


def deepseek_plain() -> dict[str, Tensor]:
    """What is not quantised."""
    plain = {
        "model.embed_tokens.weight": u16(1, (VOCABULARY, HIDDEN)),
        "lm_head.weight": u16(2, (VOCABULARY, HIDDEN)),
        "model.norm.weight": u16(3, (HIDDEN,)),
        "model.layers.1.mlp.gate.weight": u16(4, (EXPERTS, HIDDEN)),
        "model.layers.1.mlp.gate.e_score_correction_bias": Tensor(
            "F32", (EXPERTS,), np.arange(EXPERTS, dtype="<f4").tobytes()
        ),
    }
    for layer in range(2):
        for norm, size in (("input_layernorm", HIDDEN), ("post_attention_layernorm", HIDDEN)):
            plain[f"model.layers.{layer}.{norm}.weight"] = u16(10 + layer, (size,))
        for norm, size in (("q_a_layernorm", 64), ("kv_a_layernorm", 64)):
            plain[f"model.layers.{layer}.self_attn.{norm}.weight"] = u16(20 + layer, (size,))
    return plain


def deepseek_hub() -> dict[str, Tensor]:
    tensors = dict(deepseek_plain())
    for tag, (name, (rows, columns)) in enumerate(deepseek_linears().items()):
        tensors[name], tensors[name + "_scale_inv"] = fp8_pair(tag, rows, columns)
    return tensors


def deepseek_values() -> dict[str, np.ndarray]:
    """The BF16 patterns of all quantised tensors, by hub name."""
    hub = deepseek_hub()
    return {
        name: bf16(fp8_block_values(hub[name], hub[name + "_scale_inv"])).bits16()
        for name in deepseek_linears()
    }


def deepseek_runtime() -> dict[str, Tensor]:
    """Experts stacked, gate over up; all of it in BF16."""
    values = deepseek_values()
    made = {n: v for n, v in values.items() if ".experts." not in n}
    prefix = "model.layers.1.mlp.experts."
    stack = {
        part: np.stack([values[f"{prefix}{e}.{part}.weight"] for e in range(EXPERTS)])
        for part in ("gate_proj", "up_proj", "down_proj")
    }
    made[prefix + "gate_up_proj"] = np.concatenate([stack["gate_proj"], stack["up_proj"]], axis=1)
    made[prefix + "down_proj"] = stack["down_proj"]
    return deepseek_plain() | {
        name: Tensor("BF16", bits.shape, np.ascontiguousarray(bits).tobytes())
        for name, bits in made.items()
    }


def write(folder: Path, tensors: dict[str, Tensor], config: dict[str, Any]) -> Path:
    folder.mkdir()
    write_sharded(folder, tensors, 3)
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    return folder


def config_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def said_to_be_left_out(config: dict[str, Any]) -> list[str]:
    return config["quantization_config"]["modules_to_not_convert"]


def test_deepseek_to_values_and_back(weightloom: Command, tmp_path: Path) -> None:
    hub = write(tmp_path / "hub", deepseek_hub(), deepseek_config())
    there, back = tmp_path / "runtime", tmp_path / "back"
    weightloom("convert", hub, there, "--to", "runtime", "--dequantize").done()
    assert facts(read_folder(there)) == facts(deepseek_runtime())
    assert "quantization_config" not in config_of(there)
    weightloom("convert", there, back, "--to", "hub", "--quantize", "fp8-block").done()
    assert facts(read_folder(back)) == facts(deepseek_hub())
    told = config_of(back)
    assert told["quantization_config"]["weight_block_size"] == [128, 128]
    assert told["quantization_config"]["quant_method"] == "fp8"
    assert "lm_head" in said_to_be_left_out(told)
    to_runtime = ("--dequantize", "--from", "hub", "--to", "runtime")
    assert "equal" in weightloom("verify", there, back, *to_runtime).done().said


@pytest.mark.parametrize("mesh", MESHES)
def test_deepseek_over_ranks_and_back(weightloom: Command, tmp_path: Path, mesh: str) -> None:
    hub = write(tmp_path / "hub", deepseek_hub(), deepseek_config())
    whole, ranks, back = tmp_path / "whole", tmp_path / "ranks", tmp_path / "back"
    runtime = ("--to", "runtime", "--dequantize")
    spread = ("--mesh", mesh, *MESHES[mesh])
    weightloom("convert", hub, ranks, *runtime, *spread).done()
    weightloom("convert", hub, whole, *runtime).done()
    same = tmp_path / "same"
    weightloom("convert", whole, same, *spread).done()
    for name in sorted(path.name for path in same.glob("rank-*.safetensors")):
        assert facts(read_file(ranks / name)) == facts(read_file(same / name)), name
    weightloom("convert", ranks, back, "--to", "hub", "--quantize", "fp8-block").done()
    assert facts(read_folder(back)) == facts(deepseek_hub())


@pytest.mark.parametrize("mesh", MESHES)
def test_values_quantised_over_ranks_merge_to_the_same(
    weightloom: Command, tmp_path: Path, mesh: str
) -> None:
    """Ranks hold FP8: what each wrote is a part of what one process writes."""
    hub = write(tmp_path / "hub", deepseek_hub(), deepseek_config())
    runtime, whole = tmp_path / "runtime", tmp_path / "whole"
    weightloom("convert", hub, runtime, "--to", "runtime", "--dequantize").done()
    weightloom("convert", runtime, whole, "--quantize", "fp8-block").done()
    ranks, merged = tmp_path / "ranks", tmp_path / "merged"
    spread = ("--mesh", mesh, *MESHES[mesh])
    made = weightloom("convert", runtime, ranks, "--quantize", "fp8-block", *spread)
    if mesh != "ep=2":  # parts that begin inside a block and leave it: no grid of scales says that
        assert made.code == 3
        assert ("[96, 192) of 192" if mesh == "tp=2" else "[86, 172) of 256") in made.said
        assert "blocks of 128" in made.said
        assert not ranks.exists()
        return
    made.done()
    weightloom("convert", ranks, merged).done()
    assert facts(read_folder(merged)) == facts(read_folder(whole))


def test_codes_that_cannot_be_joined_block_by_block_are_refused_with_the_way_out(
    weightloom: Command, tmp_path: Path
) -> None:
    """Gate over up: 192 rows each are no whole blocks of 128."""
    hub = write(tmp_path / "hub", deepseek_hub(), deepseek_config())
    made = weightloom("convert", hub, tmp_path / "out", "--to", "runtime")
    assert made.code == 3
    assert "192 along dim 1 are not whole blocks of 128" in made.said
    assert "--dequantize" in made.said
    assert not (tmp_path / "out").exists()


# ---- GPT-OSS -------------------------------------------------------------------------------------


def gpt_oss_config() -> dict[str, Any]:
    return {
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "torch_dtype": "bfloat16",
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_local_experts": 4,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "quantization_config": {
            "quant_method": "mxfp4",
            "modules_to_not_convert": [
                "model.layers.*.self_attn",
                "model.layers.*.mlp.router",
                "model.embed_tokens",
                "lm_head",
            ],
        },
    }


def mxfp4_pair(tag: int, experts: int, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Blocks with a 6 in each, so that the scale is told by the values."""
    rng = np.random.default_rng(tag)
    blocks = rng.integers(0, 256, (experts, rows, columns // 32, 16), dtype=np.uint8)
    blocks = np.where((blocks & 15) == 8, blocks ^ 8, blocks)  # -0 is a value of its own
    blocks = np.where((blocks >> 4) == 8, blocks ^ 0x80, blocks).astype(np.uint8)
    blocks[..., 3] = 0x77
    scales = rng.integers(110, 130, (experts, rows, columns // 32), dtype=np.uint8)
    return blocks, scales


def gpt_oss() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """As published, and as its values: experts [E, in, out] in BF16."""
    prefix = "model.layers.0."
    plain = {
        "model.embed_tokens.weight": u16(1, (32, 64)),
        "lm_head.weight": u16(2, (32, 64)),
        "model.norm.weight": u16(3, (64,)),
        prefix + "input_layernorm.weight": u16(4, (64,)),
        prefix + "post_attention_layernorm.weight": u16(5, (64,)),
        prefix + "self_attn.sinks": u16(6, (4,)),
        prefix + "mlp.router.weight": u16(7, (4, 64)),
        prefix + "mlp.router.bias": u16(8, (4,)),
        prefix + "mlp.experts.gate_up_proj_bias": u16(9, (4, 192)),
        prefix + "mlp.experts.down_proj_bias": u16(10, (4, 64)),
    }
    for tag, (part, rows, columns) in enumerate(
        (("q", 64, 64), ("k", 32, 64), ("v", 32, 64), ("o", 64, 64))
    ):
        plain[f"{prefix}self_attn.{part}_proj.weight"] = u16(20 + tag, (rows, columns))
        plain[f"{prefix}self_attn.{part}_proj.bias"] = u16(30 + tag, (rows,))
    hub, values = dict(plain), dict(plain)
    for tag, (part, rows, columns) in enumerate((("gate_up_proj", 192, 64), ("down_proj", 64, 96))):
        name = f"{prefix}mlp.experts.{part}"
        blocks, scales = mxfp4_pair(tag, 4, rows, columns)
        hub[name + "_blocks"] = Tensor("U8", blocks.shape, blocks.tobytes())
        hub[name + "_scales"] = Tensor("U8", scales.shape, scales.tobytes())
        values[name] = bf16(mxfp4_values(blocks, scales).transpose(0, 2, 1))
    return hub, values


def test_gpt_oss_to_values_and_back(weightloom: Command, tmp_path: Path) -> None:
    tensors, values = gpt_oss()
    hub = write(tmp_path / "hub", tensors, gpt_oss_config())
    there, back = tmp_path / "values", tmp_path / "back"
    weightloom("convert", hub, there, "--dequantize").done()
    assert facts(read_folder(there)) == facts(values)
    assert "quantization_config" not in config_of(there)
    weightloom("convert", there, back, "--quantize", "mxfp4").done()
    assert facts(read_folder(back)) == facts(tensors)
    assert config_of(back)["quantization_config"]["quant_method"] == "mxfp4"
    assert "lm_head" in said_to_be_left_out(config_of(back))


@pytest.mark.parametrize("mesh", MESHES)
def test_gpt_oss_over_ranks_and_back(weightloom: Command, tmp_path: Path, mesh: str) -> None:
    tensors, values = gpt_oss()
    hub = write(tmp_path / "hub", tensors, gpt_oss_config())
    plain = write(tmp_path / "plain", values, gpt_oss_config())
    ranks, same, back = tmp_path / "ranks", tmp_path / "same", tmp_path / "back"
    spread = ("--to", "runtime", "--mesh", mesh, *MESHES[mesh])
    weightloom("convert", hub, ranks, "--dequantize", *spread).done()
    weightloom("convert", plain, same, *spread).done()
    for name in sorted(path.name for path in same.glob("rank-*.safetensors")):
        assert facts(read_file(ranks / name)) == facts(read_file(same / name)), name
    weightloom("convert", ranks, back, "--to", "hub", "--quantize", "mxfp4").done()
    assert facts(read_folder(back)) == facts(tensors)


def test_what_is_quantised_stays_so_by_default(weightloom: Command, tmp_path: Path) -> None:
    tensors, _ = gpt_oss()
    hub = write(tmp_path / "hub", tensors, gpt_oss_config())
    weightloom("convert", hub, tmp_path / "out").done()
    assert facts(read_folder(tmp_path / "out")) == facts(tensors)
    assert config_of(tmp_path / "out") == gpt_oss_config()
