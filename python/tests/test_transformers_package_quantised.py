"""Pre-quantised checkpoints into Transformers' models: the bits of Transformers where it is right.

FP8 and MXFP4 become values on a CPU, which the core makes. Where Transformers takes the wrong
blocks the reference is NumPy's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from quantised_by_hand import bf16, decode_e4m3
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers_cases import bits, differences, quiet, refill

import weightloom as wl
import weightloom.transformers as ours

BLOCK = 128
Tensors = dict[str, torch.Tensor]


@pytest.fixture(autouse=True)
def _quiet() -> None:
    quiet()


def llama(**sizes: int) -> PreTrainedModel:
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=sizes.get("hidden", 128),
        intermediate_size=sizes.get("inner", 256),
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        dtype="bfloat16",
    )
    return refilled(transformers.LlamaForCausalLM(config))


def deepseek() -> PreTrainedModel:
    """Experts of a stack, compressed projections, one dense layer."""
    config = transformers.DeepseekV3Config(
        vocab_size=64,
        hidden_size=256,
        intermediate_size=256,
        moe_intermediate_size=128,
        num_hidden_layers=2,
        first_k_dense_replace=1,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        q_lora_rank=128,
        kv_lora_rank=64,
        qk_rope_head_dim=64,
        qk_nope_head_dim=64,
        v_head_dim=64,
        dtype="bfloat16",
    )
    return refilled(transformers.DeepseekV3ForCausalLM(config))


def refilled(model: PreTrainedModel) -> PreTrainedModel:
    model = model.to(torch.bfloat16)
    refill(model)
    return model


def fp8_scheme(**more: Any) -> dict[str, Any]:
    return {"quant_method": "fp8", "weight_block_size": [BLOCK, BLOCK], **more}


def edited(folder: Path, edit: Callable[[Tensors], Tensors], scheme: dict[str, Any]) -> Path:
    """Other tensors in a folder, and a scheme in its config."""
    tensors = edit(load_file(folder / "model.safetensors"))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    text = json.loads((folder / "config.json").read_text())
    text["quantization_config"] = scheme
    (folder / "config.json").write_text(json.dumps(text))
    return folder


def grid_of(tensor: torch.Tensor) -> tuple[int, int]:
    rows, columns = tensor.shape
    return math.ceil(rows / BLOCK), math.ceil(columns / BLOCK)


def in_fp8(tensors: Tensors, scale_name: str = "weight_scale_inv") -> Tensors:
    """Every projection as codes with scales of blocks; ratios that are no powers of two."""
    generator = torch.Generator().manual_seed(5)
    for name in [n for n in tensors if n.endswith("proj.weight") or n.endswith("mqa.weight")]:
        scales = torch.rand(grid_of(tensors[name]), generator=generator) + 0.5
        tensors[name.removesuffix("weight") + scale_name] = scales
        tensors[name] = tensors[name].to(torch.float8_e4m3fn)
    return tensors


def fp8_checkpoint(folder: Path, model: PreTrainedModel, **more: Any) -> Path:
    model.save_pretrained(folder)
    return edited(folder, in_fp8, fp8_scheme(**more))


def both(folder: Path, **kwargs: Any) -> tuple[PreTrainedModel, PreTrainedModel]:
    """Loaded by us, and by the original."""
    own = ours.from_pretrained(AutoModelForCausalLM, folder, dtype="auto", **kwargs)
    return own, AutoModelForCausalLM.from_pretrained(folder, dtype="auto", **kwargs)


def quantisation_of(model: PreTrainedModel) -> dict[str, Any]:
    """All that a quantiser leaves on a model."""
    names = ("hf_quantizer", "quantization_method", "is_quantized")
    return {name: getattr(model, name, "not there") for name in names} | {
        "config": getattr(model.config, "quantization_config", "not there")
    }


@pytest.mark.parametrize("make", [llama, deepseek])
def test_fp8_in_whole_blocks_gives_the_bits_of_transformers(
    tmp_path: Path, make: Callable[[], PreTrainedModel]
) -> None:
    own, theirs = both(fp8_checkpoint(tmp_path, make()))
    assert theirs.model.layers[0].mlp.up_proj.weight.dtype == torch.bfloat16
    assert differences(own, theirs) == []
    assert quantisation_of(own) == quantisation_of(theirs)


@pytest.mark.parametrize("name", ["scale", "qscale_weight"])
def test_scales_by_other_names(tmp_path: Path, name: str) -> None:
    llama().save_pretrained(tmp_path)
    own, theirs = both(edited(tmp_path, lambda t: in_fp8(t, name), fp8_scheme()))
    assert differences(own, theirs) == []


def test_key_mapping_renames_what_the_core_decoded(tmp_path: Path) -> None:
    def renamed(tensors: Tensors) -> Tensors:
        return {n.replace("model.layers", "net.blocks"): t for n, t in in_fp8(tensors).items()}

    llama().save_pretrained(tmp_path)
    edited(tmp_path, renamed, fp8_scheme())
    own, theirs = both(tmp_path, key_mapping={r"^net\.blocks": "model.layers"})
    assert differences(own, theirs) == []


def test_rows_that_are_no_whole_blocks_have_the_scales_of_the_declared_blocks(
    tmp_path: Path,
) -> None:
    """192 rows are a block of 128 and one of 64; the original takes two of 96."""
    folder = fp8_checkpoint(tmp_path, llama(inner=192))
    stored = load_file(folder / "model.safetensors")
    own, theirs = both(folder)
    name = "model.layers.1.mlp.up_proj.weight"
    codes = decode_e4m3(stored[name].view(torch.uint8).numpy())
    scales = stored[f"{name}_scale_inv"].numpy()
    rows, columns = np.indices(codes.shape)
    wanted = bf16((codes * scales[rows // BLOCK, columns // BLOCK]).astype("<f4"))
    assert bits(own.get_parameter(name)) == wanted.data
    assert bits(theirs.get_parameter(name)) != wanted.data
    differ = differences(own, theirs)
    assert sorted(differ) == sorted(n for n in stored if "mlp" in n and n.endswith("weight"))


def test_what_is_not_quantised_gets_the_dtype_that_is_asked_for(tmp_path: Path) -> None:
    """The original leaves every `weight` of an FP8 checkpoint as it is stored."""
    folder = fp8_checkpoint(tmp_path, llama())
    own = ours.from_pretrained(AutoModelForCausalLM, folder, dtype=torch.float32)
    assert {t.dtype for t in own.state_dict().values()} == {torch.float32}
    stored = load_file(folder / "model.safetensors")
    name = "model.layers.0.self_attn.q_proj.weight"
    codes = decode_e4m3(stored[name].view(torch.uint8).numpy())
    wanted = codes * stored[f"{name}_scale_inv"].numpy()
    assert np.array_equal(own.get_parameter(name).detach().numpy(), wanted)
    norm = "model.norm.weight"
    assert torch.equal(own.get_parameter(norm), stored[norm].to(torch.float32))


def gpt_oss(folder: Path) -> Path:
    """Experts in MXFP4, made here: Transformers saves none on a CPU."""
    config = transformers.GptOssConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=96,
        num_local_experts=4,
        num_experts_per_tok=2,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        dtype="bfloat16",
    )
    refilled(transformers.GptOssForCausalLM(config)).save_pretrained(folder)

    def packed(tensors: Tensors) -> Tensors:
        generator = torch.Generator().manual_seed(6)
        for name in [n for n in tensors if n.endswith(("gate_up_proj", "down_proj"))]:
            experts, columns, rows = tensors.pop(name).shape
            blocks = (experts, rows, columns // 32, 16)
            any_byte = torch.randint(0, 256, blocks, dtype=torch.uint8, generator=generator)
            tensors[f"{name}_blocks"] = any_byte
            scales = torch.randint(100, 140, blocks[:3], dtype=torch.uint8, generator=generator)
            tensors[f"{name}_scales"] = scales
        return tensors

    return edited(folder, packed, {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]})


def test_mxfp4_gives_the_bits_of_transformers(tmp_path: Path) -> None:
    own, theirs = both(gpt_oss(tmp_path))
    assert theirs.model.layers[0].mlp.experts.gate_up_proj.dtype == torch.bfloat16
    assert differences(own, theirs) == []
    assert quantisation_of(own) == quantisation_of(theirs)


Checkpoint = Callable[[Path], Path]
CHECKPOINTS: dict[str, Checkpoint] = {
    "fp8": lambda folder: fp8_checkpoint(folder, llama()),
    "fp8 experts": lambda folder: fp8_checkpoint(folder, deepseek()),
    "mxfp4": gpt_oss,
}
LOADERS: dict[str, Callable[[Path], PreTrainedModel]] = {
    "ours": lambda path: ours.from_pretrained(AutoModelForCausalLM, path, dtype="auto"),
    "theirs": lambda path: AutoModelForCausalLM.from_pretrained(path, dtype="auto"),
}


def assert_the_same(model: PreTrainedModel, folder: Path) -> None:
    """Transformers loads from a folder what the model is; configs know where they are from."""
    again = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    again.config.name_or_path = model.config.name_or_path
    assert differences(model, again) == []


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_what_became_values_is_saved_as_values(tmp_path: Path, kind: str, loader: str) -> None:
    """Whoever loads it again has the same model: no scale, no config of a scheme is left."""
    model = LOADERS[loader](CHECKPOINTS[kind](tmp_path / "hub"))
    ours.save_pretrained(model, tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert "quantization_config" not in config
    stored = load_file(tmp_path / "out" / "model.safetensors")
    assert not [n for n in stored if "scale" in n or "blocks" in n]
    assert {t.dtype for t in stored.values()} <= {torch.bfloat16, torch.float32}
    assert_the_same(model, tmp_path / "out")


def test_transformers_own_save_of_what_we_loaded_is_true_too(tmp_path: Path) -> None:
    model = LOADERS["ours"](fp8_checkpoint(tmp_path / "hub", deepseek()))
    model.save_pretrained(tmp_path / "out")
    assert_the_same(model, tmp_path / "out")


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(wl.PlanError) as caught:
        LOADERS["ours"](folder)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_codes_without_their_scale_are_refused(tmp_path: Path) -> None:
    """The original takes the codes for values."""
    name = "model.layers.0.mlp.up_proj.weight"

    def without(tensors: Tensors) -> Tensors:
        tensors = in_fp8(tensors)
        del tensors[f"{name}_scale_inv"]
        return tensors

    llama().save_pretrained(tmp_path)
    refused(edited(tmp_path, without, fp8_scheme()), name)


def test_scales_of_other_blocks_than_declared_are_refused(tmp_path: Path) -> None:
    """The original takes whatever blocks the grid of scales makes."""
    llama().save_pretrained(tmp_path)
    edited(tmp_path, in_fp8, {"quant_method": "fp8", "weight_block_size": [64, 64]})
    refused(tmp_path, "model.layers.0.mlp.down_proj.weight_scale_inv", "[1, 2]", "[2, 4]")


# ---- compressed-tensors --------------------------------------------------------------------------


def int4_checkpoint(folder: Path) -> Path:
    """Weights of four bits in groups of 32, by the package."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import (
        QuantizationArgs,
        QuantizationConfig,
        QuantizationScheme,
    )

    weights = QuantizationArgs(num_bits=4, type="int", strategy="group", group_size=32)
    scheme = QuantizationScheme(targets=["Linear"], weights=weights, format="pack-quantized")
    compressor = BaseCompressor.get_value_from_registry("pack-quantized")

    def packed(tensors: Tensors) -> Tensors:
        for name in [n for n in tensors if n.endswith("proj.weight")]:
            weight = tensors.pop(name)
            peaks = weight.reshape(len(weight), -1, 32).abs().amax(dim=-1)
            given = {"weight": weight, "weight_scale": (peaks / 7).to(torch.bfloat16)}
            made = compressor.compress(given, scheme)
            tensors |= {name.removesuffix("weight") + part: t for part, t in made.items()}
        return tensors

    llama().save_pretrained(folder)
    config = QuantizationConfig(
        config_groups={"group_0": scheme},
        format="pack-quantized",
        quantization_status="compressed",
        ignore=["lm_head"],
    )
    return edited(folder, packed, json.loads(config.model_dump_json()))


@pytest.mark.parametrize("dequantize", [False, True])
def test_compressed_tensors_gives_the_bits_of_transformers(
    tmp_path: Path, dequantize: bool
) -> None:
    """Kept packed by the package's modules, or made values, which the core does."""
    pytest.importorskip("compressed_tensors")
    folder = int4_checkpoint(tmp_path)
    scheme = transformers.CompressedTensorsConfig(dequantize=True) if dequantize else None
    own, theirs = both(folder, **({"quantization_config": scheme} if scheme else {}))
    dense = "model.layers.0.mlp.up_proj.weight" in theirs.state_dict()
    assert dense == dequantize
    assert [d for d in differences(own, theirs) if d != "config"] == []
    tokens = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        assert torch.equal(own(tokens).logits, theirs(tokens).logits)
