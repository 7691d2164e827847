"""Writes a synthetic checkpoint of a real architecture: hub layout, random BF16, sharded, indexed.

usage: make_ckpt.py {mixtral|qwen3moe|llama} OUT_DIR [layers [hidden [inter [experts [shard_gib]]]]]
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

HEAD_DIM, VOCABULARY = 128, 32000
ARCHITECTURES = {
    "llama": ("LlamaForCausalLM", "llama"),
    "mixtral": ("MixtralForCausalLM", "mixtral"),
    "qwen3moe": ("Qwen3MoeForCausalLM", "qwen3_moe"),
}
Named = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class Model:
    """The dimensions that a checkpoint's shapes follow from."""

    kind: str
    layers: int = 8
    hidden: int = 2048
    inner: int = 4096
    experts: int = 8

    @property
    def heads(self) -> int:
        """Query heads."""
        return max(self.hidden // 128, 2)

    @property
    def kv_heads(self) -> int:
        """Key and value heads."""
        return max(self.hidden // 512, 1)

    def tensors(self) -> Iterator[Named]:
        """Names and shapes in the order of a hub checkpoint."""
        yield "model.embed_tokens.weight", (VOCABULARY, self.hidden)
        for layer in range(self.layers):
            prefix = f"model.layers.{layer}."
            yield from self._attention(prefix)
            yield from self._feed_forward(prefix)
        yield "model.norm.weight", (self.hidden,)
        yield "lm_head.weight", (VOCABULARY, self.hidden)

    def _attention(self, prefix: str) -> Iterator[Named]:
        rows = {"q": self.heads, "k": self.kv_heads, "v": self.kv_heads}
        for key, heads in rows.items():
            yield f"{prefix}self_attn.{key}_proj.weight", (heads * HEAD_DIM, self.hidden)
        yield f"{prefix}self_attn.o_proj.weight", (self.hidden, self.heads * HEAD_DIM)
        yield f"{prefix}input_layernorm.weight", (self.hidden,)
        yield f"{prefix}post_attention_layernorm.weight", (self.hidden,)
        if self.kind == "qwen3moe":
            yield f"{prefix}self_attn.q_norm.weight", (HEAD_DIM,)
            yield f"{prefix}self_attn.k_norm.weight", (HEAD_DIM,)

    def _feed_forward(self, prefix: str) -> Iterator[Named]:
        keys = ("gate_proj", "up_proj", "down_proj")
        if self.kind == "llama":
            yield from self._projections(f"{prefix}mlp.", keys)
            return
        if self.kind == "mixtral":
            prefix, keys = f"{prefix}block_sparse_moe.", ("w1", "w3", "w2")
        else:
            prefix = f"{prefix}mlp."
        yield f"{prefix}gate.weight", (self.experts, self.hidden)
        for expert in range(self.experts):
            yield from self._projections(f"{prefix}experts.{expert}.", keys)

    def _projections(self, prefix: str, keys: tuple[str, str, str]) -> Iterator[Named]:
        gate, up, down = keys
        yield f"{prefix}{gate}.weight", (self.inner, self.hidden)
        yield f"{prefix}{up}.weight", (self.inner, self.hidden)
        yield f"{prefix}{down}.weight", (self.hidden, self.inner)

    def config(self) -> dict[str, Any]:
        """The config.json."""
        architecture, model_type = ARCHITECTURES[self.kind]
        config: dict[str, Any] = {
            "architectures": [architecture],
            "model_type": model_type,
            "hidden_size": self.hidden,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": HEAD_DIM,
            "vocab_size": VOCABULARY,
            "dtype": "bfloat16",
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False,
            "max_position_embeddings": 4096,
        }
        if self.kind == "mixtral":
            config |= {"num_local_experts": self.experts, "num_experts_per_tok": 2}
        if self.kind == "qwen3moe":
            config |= {"num_experts": self.experts, "num_experts_per_tok": 2}
            config |= {"moe_intermediate_size": self.inner, "decoder_sparse_step": 1}
            config |= {"mlp_only_layers": []}
        return config


def split(tensors: list[Named], shard_bytes: float) -> list[list[Named]]:
    """Fills shards greedily in order."""
    shards: list[list[Named]] = [[]]
    size = 0
    for name, shape in tensors:
        more = 2 * math.prod(shape)
        if shards[-1] and size + more > shard_bytes:
            shards.append([])
            size = 0
        shards[-1].append((name, shape))
        size += more
    return shards


class Noise:
    """Random BF16 tensors, cut from one block at random places."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(0)
        self.block = torch.randn(1 << 24, generator=self.generator).to(torch.bfloat16)

    def tensor(self, shape: tuple[int, ...]) -> torch.Tensor:
        """One tensor."""
        count = math.prod(shape)
        at = int(torch.randint(0, 1 << 20, (1,), generator=self.generator))
        copies = (at + count) // self.block.numel() + 1
        block = self.block if copies == 1 else self.block.repeat(copies)
        return block[at : at + count].clone().reshape(shape)


def write(model: Model, folder: Path, shard_bytes: float) -> None:
    """The whole checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    shards, noise = split(list(model.tensors()), shard_bytes), Noise()
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        tensors = {name: noise.tensor(shape) for name, shape in shard}
        save_file(tensors, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(tensors, file)
    total = sum(2 * math.prod(shape) for _, shape in model.tensors())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))
    (folder / "config.json").write_text(json.dumps(model.config(), indent=1))
    print(f"{folder}: {total / 2**30:.2f} GiB, {len(shards)} shards, {len(weight_map)} tensors")


def main() -> None:
    """The command."""
    if len(sys.argv) < 3 or sys.argv[1] not in ARCHITECTURES:
        sys.exit(__doc__)
    sizes = [int(text) for text in sys.argv[3:7]]
    shard_gib = float(sys.argv[7]) if len(sys.argv) > 7 else 1.0
    write(Model(sys.argv[1], *sizes), Path(sys.argv[2]), shard_gib * 2**30)


if __name__ == "__main__":
    main()
