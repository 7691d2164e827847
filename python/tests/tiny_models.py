"""Tiny random models of the shipped families: small configurations, every float from a seed.

Constructors leave norms at one and biases at zero, where a wrong permutation would not show; so
every float parameter and buffer is filled anew.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel

COMMON = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {**COMMON, "num_key_value_heads": 2}
EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24}


def _mixtral() -> PreTrainedConfig:
    return transformers.MixtralConfig(**GROUPED, num_local_experts=12, num_experts_per_tok=2)


def _qwen2_moe() -> PreTrainedConfig:
    return transformers.Qwen2MoeConfig(**GROUPED, **EXPERTS, shared_expert_intermediate_size=40)


def _qwen3_moe() -> PreTrainedConfig:
    return transformers.Qwen3MoeConfig(**GROUPED, **EXPERTS, head_dim=8)


def _deepseek_v3() -> PreTrainedConfig:
    latent = {"q_lora_rank": 16, "kv_lora_rank": 16, "v_head_dim": 8}
    heads = {"qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "num_key_value_heads": 4}
    experts = {"n_routed_experts": 12, "n_shared_experts": 1, "num_experts_per_tok": 2}
    groups = {"n_group": 2, "topk_group": 1, "first_k_dense_replace": 1}
    return transformers.DeepseekV3Config(
        **COMMON, **latent, **heads, **experts, **groups, moe_intermediate_size=24
    )


def _olmoe() -> PreTrainedConfig:
    return transformers.OlmoeConfig(**GROUPED, num_experts=11, num_experts_per_tok=2)


def _llama(tied: bool = False) -> PreTrainedConfig:
    return transformers.LlamaConfig(**GROUPED, tie_word_embeddings=tied)


def _bert() -> PreTrainedConfig:
    return transformers.BertConfig(**COMMON)


# Name of the case → (class, its configuration).
FAMILIES: dict[str, tuple[type[PreTrainedModel], Callable[[], PreTrainedConfig]]] = {
    "mixtral": (transformers.MixtralForCausalLM, _mixtral),
    "qwen2_moe": (transformers.Qwen2MoeForCausalLM, _qwen2_moe),
    "qwen3_moe": (transformers.Qwen3MoeForCausalLM, _qwen3_moe),
    "deepseek_v3": (transformers.DeepseekV3ForCausalLM, _deepseek_v3),
    "olmoe": (transformers.OlmoeForCausalLM, _olmoe),
    "llama": (transformers.LlamaForCausalLM, _llama),
    "llama_tied": (transformers.LlamaForCausalLM, lambda: _llama(tied=True)),
    "bert": (transformers.BertModel, _bert),
    "bert_masked_lm": (transformers.BertForMaskedLM, _bert),
}


def refill(model: PreTrainedModel, seed: int) -> None:
    """Fills every float parameter and buffer from a seed."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator))


def make_tiny(family: str, dtype: torch.dtype, seed: int = 0) -> PreTrainedModel:
    """A tiny model; DeepSeek's score correction stays in F32, as its checkpoints have it."""
    model_class, config = FAMILIES[family]
    model = model_class(config()).to(dtype)
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.data = buffer.data.float()
    refill(model, seed)
    return model
