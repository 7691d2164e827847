"""Writes checkpoints that are all headers: real names, shapes and offsets over files without data.

usage: make_headers.py {deepseek_v3|deepseek_tiny|mixtral_92k} OUT_DIR

The data sections are holes (truncate), so that hundreds of gigabytes of tensors take no disk.
  deepseek_v3   the tensors of DeepSeek-V3 in BF16 by its published dimensions, 163 files
  deepseek_tiny the same tensors with a few elements each, so that a model of them can be loaded
  mixtral_92k   Mixtral's names and shapes at 92 thousand tensors, 163 files
"""

from __future__ import annotations

import json
import math
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SHARDS = 163
Named = tuple[str, str, tuple[int, ...]]  # name, dtype, shape

DEEPSEEK: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_nextn_predict_layers": 1,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "n_group": 8,
    "topk_group": 4,
    "first_k_dense_replace": 3,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
}
TINY = {
    "hidden_size": 8,
    "intermediate_size": 4,
    "moe_intermediate_size": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "q_lora_rank": 4,
    "kv_lora_rank": 4,
    "qk_nope_head_dim": 4,
    "qk_rope_head_dim": 2,
    "v_head_dim": 4,
    "vocab_size": 32,
    "max_position_embeddings": 64,
}
MIXTRAL: dict[str, Any] = {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 1024,
    "num_hidden_layers": 60,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_local_experts": 510,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
}


def bf16(name: str, *shape: int) -> Named:
    """A BF16 tensor."""
    return name, "BF16", shape


def gated_mlp(prefix: str, keys: tuple[str, str, str], hidden: int, inner: int) -> Iterator[Named]:
    """Gate, up and down projections."""
    gate, up, down = keys
    yield bf16(f"{prefix}{gate}.weight", inner, hidden)
    yield bf16(f"{prefix}{up}.weight", inner, hidden)
    yield bf16(f"{prefix}{down}.weight", hidden, inner)


PROJECTIONS = ("gate_proj", "up_proj", "down_proj")


def latent_attention(prefix: str) -> Iterator[Named]:
    """DeepSeek's attention with low-rank queries, keys and values."""
    c = DEEPSEEK
    hidden, heads = c["hidden_size"], c["num_attention_heads"]
    query = c["qk_nope_head_dim"] + c["qk_rope_head_dim"]
    value = c["qk_nope_head_dim"] + c["v_head_dim"]
    compressed = c["kv_lora_rank"] + c["qk_rope_head_dim"]
    yield bf16(f"{prefix}q_a_proj.weight", c["q_lora_rank"], hidden)
    yield bf16(f"{prefix}q_a_layernorm.weight", c["q_lora_rank"])
    yield bf16(f"{prefix}q_b_proj.weight", heads * query, c["q_lora_rank"])
    yield bf16(f"{prefix}kv_a_proj_with_mqa.weight", compressed, hidden)
    yield bf16(f"{prefix}kv_a_layernorm.weight", c["kv_lora_rank"])
    yield bf16(f"{prefix}kv_b_proj.weight", heads * value, c["kv_lora_rank"])
    yield bf16(f"{prefix}o_proj.weight", hidden, heads * c["v_head_dim"])


def deepseek_experts(prefix: str) -> Iterator[Named]:
    """A layer's router, routed and shared experts."""
    hidden, inner = DEEPSEEK["hidden_size"], DEEPSEEK["moe_intermediate_size"]
    experts = DEEPSEEK["n_routed_experts"]
    yield bf16(f"{prefix}gate.weight", experts, hidden)
    yield f"{prefix}gate.e_score_correction_bias", "F32", (experts,)
    for expert in range(experts):
        yield from gated_mlp(f"{prefix}experts.{expert}.", PROJECTIONS, hidden, inner)
    yield from gated_mlp(f"{prefix}shared_experts.", PROJECTIONS, hidden, inner)


def deepseek_layer(layer: int) -> Iterator[Named]:
    """One layer; the last is the one that predicts a further token."""
    hidden, prefix = DEEPSEEK["hidden_size"], f"model.layers.{layer}."
    yield bf16(f"{prefix}input_layernorm.weight", hidden)
    yield from latent_attention(f"{prefix}self_attn.")
    yield bf16(f"{prefix}post_attention_layernorm.weight", hidden)
    if layer < DEEPSEEK["first_k_dense_replace"]:
        inner = DEEPSEEK["intermediate_size"]
        yield from gated_mlp(f"{prefix}mlp.", PROJECTIONS, hidden, inner)
    else:
        yield from deepseek_experts(f"{prefix}mlp.")
    if layer == DEEPSEEK["num_hidden_layers"]:
        yield bf16(f"{prefix}embed_tokens.weight", DEEPSEEK["vocab_size"], hidden)
        yield bf16(f"{prefix}enorm.weight", hidden)
        yield bf16(f"{prefix}hnorm.weight", hidden)
        yield bf16(f"{prefix}eh_proj.weight", hidden, 2 * hidden)
        yield bf16(f"{prefix}shared_head.norm.weight", hidden)
        yield bf16(f"{prefix}shared_head.head.weight", DEEPSEEK["vocab_size"], hidden)


def deepseek_v3() -> Iterator[Named]:
    """The whole of DeepSeek-V3."""
    hidden, vocabulary = DEEPSEEK["hidden_size"], DEEPSEEK["vocab_size"]
    yield bf16("model.embed_tokens.weight", vocabulary, hidden)
    for layer in range(DEEPSEEK["num_hidden_layers"] + DEEPSEEK["num_nextn_predict_layers"]):
        yield from deepseek_layer(layer)
    yield bf16("model.norm.weight", hidden)
    yield bf16("lm_head.weight", vocabulary, hidden)


def deepseek_tiny() -> Iterator[Named]:
    """DeepSeek-V3's names over tiny shapes."""
    DEEPSEEK.update(TINY)
    return deepseek_v3()


def mixtral_layer(layer: int) -> Iterator[Named]:
    """One layer."""
    c, prefix = MIXTRAL, f"model.layers.{layer}."
    hidden = c["hidden_size"]
    for key, heads in {"q": c["num_attention_heads"], "k": 8, "v": 8}.items():
        yield bf16(f"{prefix}self_attn.{key}_proj.weight", heads * c["head_dim"], hidden)
    yield bf16(f"{prefix}self_attn.o_proj.weight", hidden, hidden)
    yield bf16(f"{prefix}input_layernorm.weight", hidden)
    yield bf16(f"{prefix}post_attention_layernorm.weight", hidden)
    moe = f"{prefix}block_sparse_moe."
    yield bf16(f"{moe}gate.weight", c["num_local_experts"], hidden)
    for expert in range(c["num_local_experts"]):
        keys = ("w1", "w3", "w2")
        yield from gated_mlp(f"{moe}experts.{expert}.", keys, hidden, c["intermediate_size"])


def mixtral_92k() -> Iterator[Named]:
    """Mixtral with very many experts."""
    yield bf16("model.embed_tokens.weight", MIXTRAL["vocab_size"], MIXTRAL["hidden_size"])
    for layer in range(MIXTRAL["num_hidden_layers"]):
        yield from mixtral_layer(layer)
    yield bf16("model.norm.weight", MIXTRAL["hidden_size"])
    yield bf16("lm_head.weight", MIXTRAL["vocab_size"], MIXTRAL["hidden_size"])


def size_of(tensor: Named) -> int:
    """Bytes of data."""
    return math.prod(tensor[2]) * (4 if tensor[1] == "F32" else 2)


def write_shard(path: Path, tensors: list[Named]) -> None:
    """A header and a hole."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, dtype, shape in tensors:
        end = at + size_of((name, dtype, shape))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)


def write(folder: Path, tensors: list[Named], config: dict[str, Any]) -> None:
    """The whole checkpoint, equally many tensors in each file."""
    folder.mkdir(parents=True, exist_ok=True)
    weight_map: dict[str, str] = {}
    for number in range(SHARDS):
        begin, end = (len(tensors) * n // SHARDS for n in (number, number + 1))
        file = f"model-{number + 1:05d}-of-{SHARDS:05d}.safetensors"
        write_shard(folder / file, tensors[begin:end])
        weight_map |= {name: file for name, _, _ in tensors[begin:end]}
    total = sum(size_of(tensor) for tensor in tensors)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    print(f"{folder}: {len(tensors)} tensors, {total / 2**30:.2f} GiB, {SHARDS} files")


SETS = {
    "deepseek_v3": (deepseek_v3, DEEPSEEK),
    "deepseek_tiny": (deepseek_tiny, DEEPSEEK),
    "mixtral_92k": (mixtral_92k, MIXTRAL),
}


def main() -> None:
    """The command."""
    if len(sys.argv) != 3 or sys.argv[1] not in SETS:
        sys.exit(__doc__)
    tensors, config = SETS[sys.argv[1]]
    write(Path(sys.argv[2]), list(tensors()), config)


if __name__ == "__main__":
    main()
