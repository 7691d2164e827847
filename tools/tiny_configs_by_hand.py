"""What the general recipe of tiny_configs.py cannot know: fields that a class asks for.

Some configs leave fields open that their model needs, and some defaults name a backbone of a
package that is not needed otherwise. `CHANGES` says, by class name or model type, what is put into
the shrunk config: path of attributes → value.
"""

from __future__ import annotations

from typing import Any

RESNET = {
    "model_type": "resnet",
    "embedding_size": 16,
    "hidden_sizes": [16, 24, 32, 40],
    "depths": [1, 1, 1, 1],
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}
ON_RESNET = {
    "use_timm_backbone": False,
    "backbone": None,
    "backbone_kwargs": None,
    "backbone_config": RESNET,
}
THREE_STAGES = {**RESNET, "out_features": ["stage2", "stage3", "stage4"]}
DEEPSEEK_EXPERTS = {
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
}
OCR2_TEXT = {
    "num_hidden_layers": 2,
    "mlp_layer_types": ["dense", "sparse"],
    **DEEPSEEK_EXPERTS,
}
DOTS3_TEXT = {"num_key_value_heads": 4, "head_dim": 32, "per_layer_config": {}}
QSA = {
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 256,
    "indexer_budget": 8,
    "indexer_compress_ratio": 4,
}
LAYERED_ROPE = {
    "full_attention": {"rope_type": "default", "rope_theta": 10000.0},
}
SAPIENS_HEAD = {
    "model_type": "sapiens2_head",
    "upsample_out_channels": [16, 16],
    "conv_out_channels": [16, 16],
}
SAPIENS_SCALED_HEAD = {
    **SAPIENS_HEAD,
    "scale_conv_out_channels": [16, 8],
    "scale_final_hidden_sizes": [16, 8],
}
PERCEIVER = {"num_self_attention_heads": 1, "num_cross_attention_heads": 1}
INTRACLASS = {
    "reduce_channel": [1, 1, 0],
    "return_channel": [1, 1, 0],
    "vertical_long_to_small_conv_longratio": [[7, 1], [1, 1], [3, 0]],
    "vertical_long_to_small_conv_midratio": [[5, 1], [1, 1], [2, 0]],
    "vertical_long_to_small_conv_shortratio": [[3, 1], [1, 1], [1, 0]],
    "horizontal_small_to_long_conv_longratio": [[1, 7], [1, 1], [0, 3]],
    "horizontal_small_to_long_conv_midratio": [[1, 5], [1, 1], [0, 2]],
    "horizontal_small_to_long_conv_shortratio": [[1, 3], [1, 1], [0, 1]],
    "symmetric_conv_long_longratio": [[7, 7], [1, 1], [3, 3]],
    "symmetric_conv_long_midratio": [[5, 5], [1, 1], [2, 2]],
    "symmetric_conv_long_shortratio": [[3, 3], [1, 1], [1, 1]],
}
TEXT_DETECTOR = {
    "intraclass_block_config": INTRACLASS,
    "kernel_list": [3, 2, 2],
    "scale_factor_list": [1, 2, 4, 8],
}

CHANGES: dict[str, dict[str, Any]] = {
    "BeitForSemanticSegmentation": {"num_hidden_layers": 4, "out_indices": [1, 2, 3, 4]},
    "BridgeTowerForContrastiveLearning": {
        "contrastive_hidden_size": 64,
        "logit_scale_init_value": 2.6,
    },
    "EsmForProteinFolding": {"is_folding_model": True, "vocab_size": 33},
    "HieraForPreTraining": {
        "decoder_hidden_size": 64,
        "decoder_depth": 1,
        "decoder_num_heads": 4,
    },
    "PerceiverForImageClassificationConvProcessing": PERCEIVER,
    "PerceiverForImageClassificationFourier": PERCEIVER,
    "PerceiverForMultimodalAutoencoding": PERCEIVER,
    "PerceiverForOpticalFlow": PERCEIVER,
    "Qwen3OmniMoeTalkerForConditionalGeneration": {
        "text_config.shared_expert_intermediate_size": 64,
        "spatial_merge_size": 2,
    },
    "ReformerModelWithLMHead": {"is_decoder": True},
    "Sapiens2ForImageMatting": {"head_config": SAPIENS_HEAD},
    "Sapiens2ForNormalEstimation": {"head_config": SAPIENS_HEAD},
    "Sapiens2ForPointmapEstimation": {"head_config": SAPIENS_SCALED_HEAD},
    "Sapiens2ForPoseEstimation": {"head_config": SAPIENS_HEAD},
    "Sapiens2ForSemanticSegmentation": {"head_config": SAPIENS_HEAD},
    "T5Gemma2Decoder": {"dropout_rate": 0.0},
    "T5Gemma2Encoder": {"text_config.dropout_rate": 0.0},
    "T5Gemma2TextEncoder": {"dropout_rate": 0.0},
    "T5GemmaEncoderModel": {"is_encoder_decoder": False},
    "ViltForImagesAndTextClassification": {"modality_type_vocab_size": 3, "num_images": 2},
    "chameleon": {"vocabulary_map": {"<image>": 5, "IMGIMGAZ": 6}},
    "cohere_compass": {"text_config.rope_parameters": LAYERED_ROPE},
    "cohere_compass_text": {"rope_parameters": LAYERED_ROPE},
    "conditional_detr": {**ON_RESNET, "d_model": 128},
    "dab-detr": {**ON_RESNET, "hidden_size": 128},
    "dbrx": {"attn_config.rope_theta": 10000.0},
    "deepseek_ocr2": {f"text_config.{name}": value for name, value in OCR2_TEXT.items()},
    "deepseek_ocr2_text": OCR2_TEXT,
    "deformable_detr": {**ON_RESNET, "backbone_config": THREE_STAGES, "d_model": 128},
    "detr": {**ON_RESNET, "d_model": 128},
    "dots1": {**DEEPSEEK_EXPERTS, "first_k_dense_replace": 1, "num_hidden_layers": 2},
    "dots3_note": {
        **{f"text_config.{name}": value for name, value in DOTS3_TEXT.items()},
        "vision_config.adapter_in_dim": 64,
        "vision_config.adapter_out_dim": 64,
        "audio_config.adapter_input_size": 64,
        "audio_config.adapter_out_dim": 64,
    },
    "dots3_note_audio_encoder": {"adapter_input_size": 64},
    "dots3_note_text": DOTS3_TEXT,
    "dots3_note_vision_encoder": {"adapter_in_dim": 64},
    "emu3": {"vocabulary_map": {"<image>": 5, "<|extra_200|>": 6, "<|visual token 000000|>": 7}},
    "ernie4_5_vl_moe": {
        "text_config.hidden_size": 512,
        "text_config.intermediate_size": 96,
        "text_config.num_attention_heads": 4,
        "text_config.num_key_value_heads": 2,
        "text_config.moe_intermediate_size": [48, 32],
        "vision_config.hidden_size": 32,
        "vision_config.intermediate_size": 64,
        "vision_config.num_heads": 4,
    },
    "falcon_h1": {"mamba_d_ssm": None, "mamba_n_heads": 4, "mamba_d_head": 32, "mamba_d_state": 16},
    "gemma4_assistant": {
        "text_config.hidden_size_per_layer_input": 0,
        "text_config.vocab_size_per_layer_input": 0,
    },
    # Some layers have keys and values of their own: where all share them, no model can be built.
    "gemma4_unified_assistant": {
        "text_config.num_hidden_layers": 4,
        "text_config.layer_types": ["sliding_attention", "full_attention"] * 2,
        "text_config.num_kv_shared_layers": 2,
        "text_config.per_layer_config": {},
    },
    "granite4_vision": {
        "downsample_rate": "1/2",
        "deepstack_layer_map": [[0, 0]],
        "spatial_target_layers": [1],
    },
    "hunyuan_v1_moe": {
        "head_dim": 16,
        "num_experts": 4,
        "moe_topk": 2,
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
    },
    "lfm2_moe": {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"]},
    "moonshine_streaming": {"num_key_value_heads": 4, "encoder_config.num_key_value_heads": 4},
    "pp_ocrv5_server_det": TEXT_DETECTOR,
    "pp_ocrv6_medium_det": TEXT_DETECTOR,
    "qwen3_omni_moe": {
        "talker_config.text_config.shared_expert_intermediate_size": 64,
        "talker_config.spatial_merge_size": 2,
    },
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 64},
    "qwen4_exp": {f"text_config.{name}": value for name, value in QSA.items()},
    "qwen4_exp_text": QSA,
    # Queries, keys and values that are stored as one tensor, of which a third is each.
    "nemo_speechlm": {
        "audio_config.asr_config.num_key_value_heads": 4,
        "audio_config.diarization_config.audio_config.num_key_value_heads": 4,
        "audio_config.diarization_config.head_config.audio_hidden_size": 64,
        "word_timestamp_config.num_key_value_heads": 4,
    },
    "perception_lm": {
        "vision_config.architecture": "vit_pe_core_large_patch14_336",
        "vision_config.model_args": {"embed_dim": 64, "img_size": [28, 28], "depth": 2},
    },
    "table-transformer": {**ON_RESNET, "d_model": 128},
    "timm_backbone": {"backbone": "resnet18"},
}


def changed(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy of a config's dict in which each path has its value."""
    result = dict(values)
    for path, value in changes.items():
        name, _, rest = path.partition(".")
        if rest:
            result[name] = changed(result.get(name) or {}, {rest: value})
        else:
            result[name] = value
    return result


def changes_for(class_name: str, model_type: str) -> dict[str, Any]:
    """What is changed for a class: what its model type asks for, then what it asks for itself."""
    return {**CHANGES.get(model_type, {}), **CHANGES.get(class_name, {})}
