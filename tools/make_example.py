"""Writes examples/mixtral-tiny: a Mixtral checkpoint by Transformers' own `save_pretrained`.

usage: python tools/make_example.py [OUT_DIR]      (needs torch and transformers; seeded)
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import MixtralConfig, MixtralForCausalLM

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "mixtral-tiny"


def make_model() -> MixtralForCausalLM:
    """Two layers of four experts, every parameter random."""
    config = MixtralConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=256,
    )
    model = MixtralForCausalLM(config).to(torch.bfloat16)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 8)
    return model


def main() -> None:
    """The command."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else EXAMPLE
    shutil.rmtree(folder, ignore_errors=True)
    make_model().save_pretrained(folder, max_shard_size="250KB")


if __name__ == "__main__":
    main()
