"""What config.json declares where Transformers looks at a model's parameters, or checks nothing.

By registry key: first target pattern of a converter (`"*"`: every other) → operation → parameters,
in the form of mapping files. A number is one, a key of config.json, or an expression of them
(docs/mappings.md); one that ends in `|16` falls back on the default of the class, which is what
Transformers takes when config.json leaves the key out.

`python tools/export_transformers.py` writes them into `mappings/`; the tests compare the counts and
defaults with models that Transformers builds.
"""

from __future__ import annotations

from typing import Any

Declared = dict[str, dict[str, Any]]

# How many experts config.json says there are: the first of these that it tells.
EXPERTS = ["n_routed_experts", "num_experts", "num_local_experts"]
COUNTED: dict[str, Declared] = {"*": {"MergeModulelist": {"count": EXPERTS}}}
# Pixtral's, Kimi's and Step's vision towers have 16 heads unless their config says otherwise.
VISION_HEADS: Declared = {"PermuteForRope": {"num_heads": "num_attention_heads|16"}}

DECLARED: dict[str, dict[str, Declared]] = {
    # Its list is not that of the root config or the text config.
    "dots3_note_vision_encoder": {
        "*": {"MergeModulelist": {"count": ["vision_config.num_local_experts"]}}
    },
    "ernie4_5_moe": {"*": {"MergeModulelist": {"count": [*EXPERTS, "moe_num_experts"]}}},
    "gradium_phonon_tts": {"*": {"PermuteForRope": {"num_heads": "num_attention_heads|12"}}},
    "kimi_k25": {**COUNTED, "attn.q_proj": VISION_HEADS},
    # gate_up_proj also has the experts that do nothing, down_proj has not.
    "longcat_flash": {
        "mlp.experts.gate_up_proj": {},
        "mlp.experts.down_proj": {"MergeModulelist": {"count": ["n_routed_experts"]}},
    },
    "mistral_large4": {"*": VISION_HEADS},
    "mixtral": {"*": {"MergeModulelist": {"count": ["num_local_experts"]}}},
    "minimax": {"*": {"MergeModulelist": {"count": ["num_local_experts"]}}},
    "Molmo2TextModel": {
        "self_attn.q_proj": {
            "Split": {
                "sizes": [
                    "num_attention_heads*head_dim",
                    "num_key_value_heads*head_dim",
                    "num_key_value_heads*head_dim",
                ]
            }
        }
    },
    "qwen3_vl_moe": {
        "mlp.experts.gate_up_proj": {
            "Transpose": {
                "check_dims": [
                    "num_experts|num_local_experts",
                    "2*moe_intermediate_size",
                    "hidden_size",
                ]
            }
        },
        "mlp.experts.down_proj": {
            "Transpose": {
                "check_dims": [
                    "num_experts|num_local_experts",
                    "hidden_size",
                    "moe_intermediate_size",
                ]
            }
        },
    },
    "qwen4_exp_text": {
        **COUNTED,
        "ngram_embedding.weight": {
            "Concatenate": {"num_shards_attribute": "split_ngram_parts|512"}
        },
    },
    "step3p5_vision": {"*": VISION_HEADS},
}


def declared_for(key: str) -> dict[str, Declared]:
    """What is declared for the list of a registry key."""
    return DECLARED.get(key, COUNTED)
