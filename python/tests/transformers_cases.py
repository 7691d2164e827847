"""Tiny checkpoints of real classes, and all that two models of one class can differ in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from conftest import REPOSITORY
from torch import nn
from transformers import PreTrainedModel

sys.path.insert(0, str(REPOSITORY / "tools"))

import tiny_configs

SEED = 7

# One class for each way in which names and layouts change between checkpoint and model.
CLASSES = (
    "LlamaForCausalLM",  # nothing
    "BertForMaskedLM",  # tied weights, a decoder bias
    "T5ForConditionalGeneration",  # shared embeddings, modules kept in fp32
    "MixtralForCausalLM",  # renaming, stacked experts, fused gate and up
    "Qwen3MoeForCausalLM",  # experts alone
    "DeepseekV3ForCausalLM",  # a buffer that is kept in fp32
    "DeepseekV4ForCausalLM",  # 39 transforms
    "HrmTextForCausalLM",  # one tensor into four
    "KimiLinearForCausalLM",  # three convolutions into one
    "OlmoHybridForCausalLM",
    "Molmo2TextModel",  # parts of unequal size
    "Step3p7Model",  # a vision model in a scope, rotary order
    "Kimi_K25ForConditionalGeneration",  # renamings in a group
    "MistralLarge4ForConditionalGeneration",  # rotary order alone
    "MiniMaxM3VLModel",
    "Qwen3VLMoeForConditionalGeneration",  # a transposition that the shape decides
    "LlavaForConditionalGeneration",  # entries by class and by type
    "CLIPVisionModel",  # a prefix that is changed
    "RTDetrModel",  # counters of whole numbers
    "GteModel",
    "RfDetrForObjectDetection",  # an empty pattern
    "T5Gemma2ForConditionalGeneration",  # look-behind
    "BeitModel",
    "Ernie4_5_VLMoeForConditionalGeneration",  # many to many
    "Inkling2ForCausalLM",  # interleaved, numbers that shift
    "WhisperForConditionalGeneration",
)


# What the general recipe leaves large.
SMALLER: dict[str, dict[str, dict[str, Any]]] = {
    "Ernie4_5_VLMoeForConditionalGeneration": {
        "text_config": {
            "hidden_size": 512,
            "intermediate_size": 96,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "moe_intermediate_size": [48, 32],
        },
        "vision_config": {"hidden_size": 32, "num_heads": 4, "intermediate_size": 64},
    },
}


def tiny_model(name: str) -> PreTrainedModel:
    """A small model of the class, every float from a seed: constructors leave norms at one."""
    model_class = tiny_configs.class_named(name)
    assert model_class is not None, name
    values = tiny_configs.build_on_meta(model_class).config.to_dict()
    for part, smaller in SMALLER.get(name, {}).items():
        values[part].update(smaller)
    torch.manual_seed(SEED)
    model = model_class(model_class.config_class.from_dict(values))
    refill(model)
    return model


def refill(model: nn.Module) -> None:
    """Fills every float parameter and buffer from a seed."""
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator))


def bits(tensor: torch.Tensor) -> bytes:
    """The values, byte for byte."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def differences(one: PreTrainedModel, other: PreTrainedModel) -> list[str]:
    """What the two differ in: names, types, dtypes, bits, ties, mode, configs."""
    found = _tensor_differences(_state(one), _state(other))
    found += _tensor_differences(dict(one.named_buffers()), dict(other.named_buffers()))
    checks: dict[str, Any] = {
        "ties": _ties,
        "training mode": lambda model: [m.training for m in model.modules()],
        "config": lambda model: model.config.to_dict(),
        "generation config": _generation,
        "dtype": lambda model: model.dtype,
    }
    return found + [what for what, look in checks.items() if look(one) != look(other)]


def _state(model: PreTrainedModel) -> dict[str, Any]:
    return model.state_dict(keep_vars=True)


def _tensor_differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    if list(ours) != list(theirs):
        return [f"names: {sorted(set(ours) ^ set(theirs))[:5]}"]
    return [name for name in ours if _facts(ours[name]) != _facts(theirs[name])]


def _facts(tensor: Any) -> Any:
    if not isinstance(tensor, torch.Tensor):
        return tensor
    return (type(tensor), tensor.dtype, tuple(tensor.shape), tensor.requires_grad, bits(tensor))


def _ties(model: PreTrainedModel) -> set[frozenset[str]]:
    state = _state(model)
    return {frozenset(n for n in state if state[n] is value) for value in state.values()}


def _generation(model: PreTrainedModel) -> Any:
    config = getattr(model, "generation_config", None)
    return config.to_dict() if config else None


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def quiet() -> None:
    """No bars and no reports of Transformers in what a test prints."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
