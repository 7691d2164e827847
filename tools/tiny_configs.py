"""Small configs of every model class of the installed Transformers, for exporter and sweeps.

    from tiny_configs import build_on_meta, model_classes, tiny_config

A config class is asked for its default, which is then shrunk: fewer layers, yet one of each kind
that the per-layer lists tell of; smaller dims, vocabularies and tables. What this general recipe
cannot know stands in `tiny_configs_by_hand.py`, as fields of such configs.

The recipe comes in six levels, since no single one builds everything: a class that checks its dims
against one another may refuse small dims but take few layers, and so on. `tiny_config` says which
level it takes; `build_on_meta` tries them in order.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from tiny_configs_by_hand import changed, changes_for
from transformers import PreTrainedConfig, PreTrainedModel

MANY_LAYERS = 10**6
MOST_LAYERS = 8
SECONDS_PER_CLASS = 60

LAYER_COUNTS = (
    "num_hidden_layers|num_layers|n_layers?|num_blocks|depth|num_hidden_layers_.*"
    "|.*_num_hidden_layers|num_nextn_predict_layers|num_mtp_layers"
    "|(num_)?(encoder|decoder|vision|text|transformer|mlp|attention|conv|query|perceiver|lstm"
    r"|resampler|kv_shared|nextn_predict|mtp|downsample|local|global|layers_per|head|hyper)_?\w*_layers"
    "|encoder_layers|decoder_layers"
)
WIDTHS = (
    "hidden_size|d_model|embed_dim|embedding_dim|embedding_size|n_embd|dim|model_dim|hidden_dim"
    "|encoder_hidden_dim|decoder_hidden_dim|word_embed_proj_dim|out_hidden_size|projection_dim"
    "|output_dim|vision_embed_dim|text_embed_dim|encoder_hidden_size|decoder_hidden_size"
    "|cross_attention_hidden_size|vision_hidden_size|text_hidden_size|mm_hidden_size"
    "|vision_output_dim|width|hidden_channels|d_ff_in|adapter_dim|intermediate_hidden_size"
)
INNER_WIDTHS = (
    r"\w*intermediate_size\w*|d_ff|\w*ffn_dim|n_inner|dim_feedforward|\w*ffn_hidden_size|mlp_dim"
    r"|ff_dim|intermediate_dim|\w*feedforward_dim|inner_size"
)
HEADS = (
    "num_attention_heads|num_heads|n_heads?|encoder_attention_heads|decoder_attention_heads"
    r"|attention_heads|num_query_heads|\w*_attention_heads|linear_num_\w+_heads|num_v_heads"
    "|num_k_heads|mamba_num_heads|mamba_n_heads"
)
GROUPED_HEADS = r"\w*num_key_value_heads|num_kv_heads"
HEAD_DIMS = r"head_dim|d_kv|\w*_head_dim|kv_channels"
EXPERTS = r"\w*num_experts|n_routed_experts|num_local_experts"
ROUTED = r"num_experts_per_tok(en)?|top_k|moe_topk|moe_k|num_selected_experts|\w*_top_k|router_topk"
VOCABULARIES = (
    r"vocab_size|\w+_vocab_size|vocab_size_\w+|codebook_size|num_codebook_vectors"
    r"|\w*num_embeddings|type_vocab_size"
)
POSITIONS = (
    r"max_position_embeddings|n_positions|max_source_positions|max_target_positions|max_seq_len\w*"
    "|n_ctx|max_2d_position_embeddings|position_embedding_size|num_position_embeddings|num_queries"
    r"|max_\w*positions?"
)
IMAGES = "image_size|img_size|input_image_size"
RANKS = r"\w*lora_rank\w*"

# Name pattern → most that is left of it: at every level, and at the levels that shrink dims.
CAPS = {
    VOCABULARIES: 256,
    EXPERTS: 4,
    "n_group|num_expert_group|topk_group|n_groups_router": 1,
    ROUTED: 2,
    POSITIONS: 64,
    IMAGES: 64,
    "first_k_dense_replace|moe_layer_start_index|num_dense_layers": 1,
}
DIM_CAPS = {WIDTHS: 64, INNER_WIDTHS: 96, HEADS: 4, GROUPED_HEADS: 2, HEAD_DIMS: 16, RANKS: 32}
# What an open field (None) gets at the level that fills them.
FILLED = {
    INNER_WIDTHS: 96,
    EXPERTS: 4,
    ROUTED: 2,
    VOCABULARIES: 256,
    HEADS: 4,
    GROUPED_HEADS: 4,
    "head_dim": 16,
    "prediction_length": 2,
}
# Dicts that are no sub-configs, and lists that follow from what is shrunk.
LEFT_ALONE = {
    "rope_parameters",
    "rope_scaling",
    "id2label",
    "label2id",
    "quantization_config",
    "text_rope",
}
DERIVED = {"out_features", "out_indices", "stage_names", "_out_features", "_out_indices"}
STAGES = re.compile(r"depths|layers_per_block|num_blocks|stage_repeat|layer_counts")


def cap_of(name: str, caps: dict[str, int]) -> int | None:
    """What the first pattern that is the whole name says."""
    return next((cap for pattern, cap in caps.items() if re.fullmatch(pattern, name)), None)


class Shrink:
    """Makes the dict of a config smaller, sub-configs included."""

    def __init__(self, level: int) -> None:
        self.dims = level in (0, 1, 2, 4)
        self.layers = level in (0, 1, 3, 4)
        self.equal_heads = level in (1, 4)
        self.fills = level == 4

    def __call__(self, values: dict[str, Any]) -> dict[str, Any]:
        """A smaller copy."""
        before, after = self.layer_counts(values)
        shrunk = {}
        for name, value in values.items():
            if self.layers and name in DERIVED:
                continue
            shrunk[name] = self.field(name, value, before, after)
        self.keep_tokens_in_vocabulary(shrunk)
        if self.dims:
            self.agree_on_heads(shrunk)
        return shrunk

    def layer_counts(self, values: dict[str, Any]) -> tuple[int | None, int]:
        """The number of layers, and of those that are left: one of each kind, if that is told."""
        names = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "depth")
        before = next((values[name] for name in names if type(values.get(name)) is int), None)
        if before is None:
            return None, 2 if self.layers else MANY_LAYERS
        after = 2
        for kinds in values.values():
            if isinstance(kinds, list) and len(kinds) == before > 2:
                after = max(after, self.places_of_all_kinds(kinds))
        return before, after if self.layers else before

    @staticmethod
    def places_of_all_kinds(kinds: list[Any]) -> int:
        """How many layers from the first on show every kind, if those are plain values."""
        if not all(isinstance(kind, str | int | bool) for kind in kinds):
            return 2
        last_first = max(kinds.index(kind) for kind in set(kinds))
        return min(last_first + 1, MOST_LAYERS)

    def field(self, name: str, value: Any, before: int | None, after: int) -> Any:
        """One field, shrunk as its kind is."""
        if not isinstance(name, str) or isinstance(value, bool):
            return value
        if isinstance(value, dict):
            return value if name in LEFT_ALONE else self.nested(value, before, after)
        if isinstance(value, list):
            return self.listed(name, value, before, after)
        if value is None:
            return cap_of(name, FILLED) if self.fills else None
        return self.number(name, value, after) if isinstance(value, int) else value

    def nested(self, value: dict[str, Any], before: int | None, after: int) -> dict[str, Any]:
        """A sub-config, or what is said of layers by number."""
        by_layer = before and value and all(str(key).isdigit() for key in value)
        if by_layer:
            return {key: each for key, each in value.items() if int(key) < after}
        return self(value)

    def listed(self, name: str, value: list[Any], before: int | None, after: int) -> list[Any]:
        """A list per layer is cut; stages get one layer each; sub-configs are shrunk."""
        whole = all(isinstance(item, int) for item in value)
        if before and len(value) == before > after and self.layers:
            return value[:after]
        if STAGES.search(name) and whole:
            return [1 if item else 0 for item in value] if self.layers else value
        if value and isinstance(value[0], dict):
            return [self(item) if isinstance(item, dict) else item for item in value]
        if re.search("image_size|input_size", name) and whole:
            return [min(item, 64) for item in value]
        return value

    def number(self, name: str, value: int, after: int) -> int:
        """A whole number, capped by what its name says it is."""
        if name == "num_kv_shared_layers":
            return 0 if self.layers else value
        if re.fullmatch(LAYER_COUNTS, name):
            return min(value, after) if self.layers else value
        cap = cap_of(name, CAPS)
        if cap is None and self.dims:
            cap = cap_of(name, DIM_CAPS)
        return value if cap is None else min(value, cap)

    @staticmethod
    def keep_tokens_in_vocabulary(values: dict[str, Any]) -> None:
        """Token numbers beyond a vocabulary that was cut are brought into it."""
        size = values.get("vocab_size")
        known = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
        for name, value in values.items():
            is_token = isinstance(name, str) and re.search("_id$|token_index$", name)
            if not is_token or type(value) is not int:
                continue
            if type(size) is int and value >= size:
                values[name] = known.get(name, value % size)
        if type(values.get("pad_token_id")) is int and values["pad_token_id"] > 250:
            values["pad_token_id"] = 0

    def agree_on_heads(self, values: dict[str, Any]) -> None:
        """What follows from the number of heads and the width is made to follow."""
        whole = {name: value for name, value in values.items() if type(value) is int}
        heads = next(
            (whole[n] for n in ("num_attention_heads", "num_heads", "n_head") if n in whole), None
        )
        width = next(
            (whole[n] for n in ("hidden_size", "d_model", "embed_dim", "n_embd") if n in whole),
            None,
        )
        if self.equal_heads and heads:
            for name in whole:
                if isinstance(name, str) and re.fullmatch(GROUPED_HEADS, name):
                    values[name] = heads
        self.fit_rotary_sections(
            values, whole.get("head_dim") or (width // heads if width and heads else 0)
        )
        if width and "mamba_expand" in whole and "mamba_n_heads" in values:
            values["mamba_d_head"] = width * whole["mamba_expand"] // values["mamba_n_heads"]

    @staticmethod
    def fit_rotary_sections(values: dict[str, Any], head_dim: int) -> None:
        """`mrope_section` adds up to half a head."""
        rope = values.get("rope_parameters")
        if not isinstance(rope, dict) or not head_dim:
            return
        for each in [rope, *(item for item in rope.values() if isinstance(item, dict))]:
            sections = each.get("mrope_section")
            if isinstance(sections, list):
                part = head_dim // 2 // len(sections)
                rest = head_dim // 2 - part * (len(sections) - 1)
                each["mrope_section"] = [rest] + [part] * (len(sections) - 1)


def tiny_config(model_class: type[PreTrainedModel], level: int) -> PreTrainedConfig:
    """A small config for the class. Level 5 is the default, but for what has to be changed."""
    config_class = model_class.config_class
    changes = changes_for(model_class.__name__, config_class.model_type)
    values = default_values(config_class)
    if level < 5:
        values = Shrink(level)(values)
    for name in ("transformers_version", "architectures", "_name_or_path"):
        values.pop(name, None)
    return config_class.from_dict(changed(values, changes))


def default_values(config_class: type[PreTrainedConfig]) -> dict[str, Any]:
    """The default config's fields; none where there is no default that is accepted."""
    try:
        return config_class().to_dict()
    except Exception:  # a config may check its fields against one another in any way
        return {}


def configs_to_try(
    model_class: type[PreTrainedModel], levels: tuple[int, ...]
) -> Iterator[tuple[str, PreTrainedConfig]]:
    """Each with the name of where it comes from."""
    for level in levels:
        try:
            yield f"level {level}", tiny_config(model_class, level)
        except Exception:  # see default_values
            continue


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the block after `seconds`."""

    def expire(signum: int, frame: object) -> None:
        raise TimeoutError(f"not built in {seconds} s")

    previous = signal.signal(signal.SIGALRM, expire)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


class NotBuilt(ValueError):
    """No config builds the class; the message says why each did not.

    Attributes
    ----------
    package
        What has to be installed, if that is the reason.
    """

    def __init__(self, reasons: list[str], package: str) -> None:
        self.package = package
        super().__init__(" | ".join(dict.fromkeys(reasons)) or "its default config is refused")


def on_meta(model_class: type[PreTrainedModel], config: PreTrainedConfig) -> PreTrainedModel:
    """The model without weights."""
    with time_limit(SECONDS_PER_CLASS), torch.device("meta"):
        return model_class(config)


def build_on_meta(
    model_class: type[PreTrainedModel],
    levels: tuple[int, ...] = (0, 3, 1, 2, 4, 5),
    prepare: Callable[[PreTrainedConfig], None] = lambda config: None,
) -> PreTrainedModel:
    """The model without weights, of the first config that builds it; `prepare` sees it first.

    Raises
    ------
    NotBuilt
        If none does.
    """
    reasons, package = [], ""
    for origin, config in configs_to_try(model_class, levels):
        try:
            prepare(config)
            return on_meta(model_class, config)
        except Exception as error:  # whatever a constructor raises
            first = next((line for line in str(error).splitlines() if line.strip()), "")
            reasons.append(f"{origin}: {type(error).__name__}: {first[:160]}")
            if isinstance(error, ImportError):
                package = missing_package(str(error))
    raise NotBuilt(reasons, package)


def missing_package(message: str) -> str:
    """The package that an ImportError asks for: what its message says to install."""
    found = re.search(r"requires the (\S+) library|No module named '(\w+)'", message)
    return next(filter(None, found.groups()), "a package") if found else "a package"


@functools.cache
def modules_of_classes() -> dict[str, str]:
    """The module of every class that a modeling file of Transformers defines, by class name."""
    root = Path(transformers.__file__).parent / "models"
    modules: dict[str, str] = {}
    for file in sorted(root.glob("*/modeling_*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                modules.setdefault(node.name, f"transformers.models.{file.parent.name}.{file.stem}")
    return modules


def class_named(name: str) -> type[PreTrainedModel] | None:
    """The model class of that name; None if there is none, or its module cannot be imported."""
    module = modules_of_classes().get(name)
    try:
        found = getattr(importlib.import_module(module), name, None) if module else None
    except Exception:  # a package that is not installed
        return None
    is_model = isinstance(found, type) and issubclass(found, PreTrainedModel)
    return found if is_model else None


def classes_not_imported() -> dict[str, str]:
    """Classes of modules that cannot be imported, by name, with the package that is missing."""
    missing: dict[str, str] = {}
    for module in sorted(set(modules_of_classes().values())):
        try:
            importlib.import_module(module)
        except Exception as error:  # see class_named
            missing[module] = missing_package(str(error))
    return {
        name: missing[module] for name, module in modules_of_classes().items() if module in missing
    }


def is_concrete(model_class: type[PreTrainedModel]) -> bool:
    """True unless the class is only there to be derived from."""
    if model_class.config_class is None or model_class.__name__.endswith("PreTrainedModel"):
        return False
    return "__init__" in {name for base in model_class.__mro__[:2] for name in vars(base)} or any(
        "__init__" in vars(base)
        for base in model_class.__mro__
        if base not in PreTrainedModel.__mro__
    )


def model_classes() -> list[str]:
    """Names of the concrete model classes, sorted."""
    names = []
    for name in modules_of_classes():
        found = class_named(name)
        if found is not None and is_concrete(found):
            names.append(name)
    return sorted(names)
