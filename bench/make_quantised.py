"""Writes a synthetic quantised checkpoint of a dense model, as hubs publish it.

usage: make_quantised.py {fp8|mxfp4} OUT_DIR [LAYERS]

fp8: a Llama of hidden size 3072 and inner size 8192 in blocks of 128 x 128, 3.0 GiB with the 28
layers that are the default. mxfp4: the experts of GPT-OSS, hidden size 2880, 32 experts; 3.2 GiB
with 8 layers. Codes and scales are random; files hold about 1 GiB.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import save_file

SHARD_BYTES = 1 << 30
GENERATOR = torch.Generator().manual_seed(0)
Named = Iterator[tuple[str, torch.Tensor]]


def random_bytes(*shape: int) -> torch.Tensor:
    """Any codes."""
    return torch.randint(0, 256, shape, generator=GENERATOR, dtype=torch.uint8)


def noise(*shape: int) -> torch.Tensor:
    """What is not quantised."""
    return torch.randn(shape, generator=GENERATOR).to(torch.bfloat16)


def fp8(name: str, rows: int, columns: int) -> Named:
    """A matrix without NaN, and one F32 scale a block."""
    codes = random_bytes(rows, columns)
    codes[(codes & 127) == 127] = 0
    yield name, codes.view(torch.float8_e4m3fn)
    grid = (-(-rows // 128), -(-columns // 128))
    yield name + "_scale_inv", torch.rand(grid, generator=GENERATOR) / 4096


def fp8_model(layers: int) -> Named:
    """A Llama."""
    hidden, inner, key_value, vocabulary = 3072, 8192, 1024, 32000
    yield "model.embed_tokens.weight", noise(vocabulary, hidden)
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        for part, rows in (("q", hidden), ("k", key_value), ("v", key_value), ("o", hidden)):
            yield from fp8(f"{prefix}self_attn.{part}_proj.weight", rows, hidden)
        for part, rows, columns in (
            ("gate", inner, hidden),
            ("up", inner, hidden),
            ("down", hidden, inner),
        ):
            yield from fp8(f"{prefix}mlp.{part}_proj.weight", rows, columns)
        yield prefix + "input_layernorm.weight", noise(hidden)
        yield prefix + "post_attention_layernorm.weight", noise(hidden)
    yield "model.norm.weight", noise(hidden)
    yield "lm_head.weight", noise(vocabulary, hidden)


def mxfp4_model(layers: int) -> Named:
    """The experts of GPT-OSS, with an embedding."""
    hidden, experts = 2880, 32
    yield "model.embed_tokens.weight", noise(32000, hidden)
    for layer in range(layers):
        prefix = f"model.layers.{layer}.mlp.experts."
        for part, rows in (("gate_up_proj", 2 * hidden), ("down_proj", hidden)):
            groups = hidden // 32
            scales = torch.randint(110, 130, (experts, rows, groups), generator=GENERATOR)
            yield f"{prefix}{part}_blocks", random_bytes(experts, rows, groups, 16)
            yield f"{prefix}{part}_scales", scales.to(torch.uint8)


CONFIGS = {
    "fp8": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "num_attention_heads": 24,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 32000,
        "tie_word_embeddings": False,
        "quantization_config": {
            "activation_scheme": "dynamic",
            "fmt": "e4m3",
            "quant_method": "fp8",
            "weight_block_size": [128, 128],
            "modules_to_not_convert": ["lm_head"],
        },
    },
    "mxfp4": {
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "quantization_config": {"quant_method": "mxfp4"},
    },
}
MODELS = {"fp8": (fp8_model, 28), "mxfp4": (mxfp4_model, 8)}


def write_shards(tensors: Named, folder: Path) -> None:
    """Fills files in order, and writes their index."""
    shards: list[dict[str, torch.Tensor]] = [{}]
    names, size, total = [], 0, 0
    for name, tensor in tensors:
        if size + tensor.nbytes > SHARD_BYTES and shards[-1]:
            save_file(shards[-1], folder / f"part-{len(names)}")
            names.append(list(shards[-1]))
            shards, size = [{}], 0
        shards[-1][name] = tensor
        size, total = size + tensor.nbytes, total + tensor.nbytes
    save_file(shards[-1], folder / f"part-{len(names)}")
    names.append(list(shards[-1]))
    weight_map = {}
    for place, held in enumerate(names):
        file = f"model-{place + 1:05d}-of-{len(names):05d}.safetensors"
        (folder / f"part-{place}").rename(folder / file)
        weight_map |= dict.fromkeys(held, file)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))


def main() -> None:
    """Makes the checkpoint that the arguments name."""
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in MODELS:
        sys.exit(__doc__)
    kind, folder = sys.argv[1], Path(sys.argv[2])
    model, layers = MODELS[kind]
    layers = int(sys.argv[3]) if len(sys.argv) == 4 else layers
    folder.mkdir(parents=True, exist_ok=True)
    write_shards(model(layers), folder)
    config = {**CONFIGS[kind], "num_hidden_layers": layers, "torch_dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config, indent=2))


if __name__ == "__main__":
    main()
