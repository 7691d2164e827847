"""What a plan makes of a model's tensors, against the models that Transformers spreads itself.

Models are built on the meta device and spread over a process group that only says how large it is.
All classes with a plan with `WEIGHTLOOM_ALL_CLASSES=1`; else chosen ones and every 20th.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tiny_configs
import torch
import torch.distributed as dist
from spread_probe import Indices, Json, ask, coordinates, parts_of
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.distributed import DistributedConfig
from transformers.distributed.parallel_utils import (
    ALL_PARALLEL_STYLES,
    replace_layer_number_by_wildcard,
)
from transformers.distributed.utils import initialize_distributed_mesh

ROOT = Path(__file__).resolve().parents[2]
MODELS = json.loads((ROOT / "mappings" / "models.json").read_text(encoding="utf-8"))["classes"]
PLANS = json.loads((ROOT / "mappings" / "parallel_plans.json").read_text(encoding="utf-8"))
ALL_CLASSES = bool(os.environ.get("WEIGHTLOOM_ALL_CLASSES"))
# Our meshes, and what Transformers calls the same.
MESHES = {
    "tp=2": {"tp_size": 2},
    "tp=3": {"tp_size": 3},
    "dense: fsdp=2; expert: ep=2": {"fsdp_size": 2, "ep_size": 2},
    "dense: tp=2; expert: ep=2": {"tp_size": 2, "ep_size": 2},
    "dense: fsdp=2,tp=2; expert: efsdp=2,ep=2": {"fsdp_size": 2, "tp_size": 2, "ep_size": 2},
    "fsdp=3": {"fsdp_size": 3},
    "fsdp=2,tp=2": {"fsdp_size": 2, "tp_size": 2},
}
# Each style at least once, composites, embeddings of several kinds, rules of a head.
CHOSEN = [
    "AriaForConditionalGeneration",
    "DeepseekV3ForCausalLM",
    "DeepseekV4ForCausalLM",
    "DiffusionGemmaForBlockDiffusion",
    "Gemma3ForConditionalGeneration",
    "Gemma4ForConditionalGeneration",
    "GptOssForCausalLM",
    "LlamaForCausalLM",
    "LlavaForConditionalGeneration",
    "LongcatFlashForCausalLM",
    "MixtralForCausalLM",
    "MixtralModel",
    "MuseSparkForConditionalGeneration",
    "Phi3ForCausalLM",
    "Qwen3VLMoeForConditionalGeneration",
    "Step3p7Model",
    "T5GemmaForConditionalGeneration",
]


def has_plan(name: str) -> bool:
    """True if the class, its config or a model in it has rules."""
    entry = MODELS[name]
    models = [name, *(sub.get("class", "") for sub in entry.get("submodels", []))]
    types = [
        entry.get("model_type"),
        *(s.get("model_type", "") for s in entry.get("submodels", [])),
    ]
    return any(model in PLANS["classes"] for model in models) or any(
        model_type in PLANS["configs"] for model_type in types
    )


def class_names() -> list[str]:
    """The classes to compare."""
    every = [name for name in sorted(MODELS) if has_plan(name)]
    if ALL_CLASSES:
        return every
    return sorted({*every[::20], *(name for name in CHOSEN if name in MODELS)})


def as_read(config: PreTrainedConfig) -> PreTrainedConfig:
    """The config as its config.json makes it; a few refuse what they have written."""
    try:
        return type(config).from_dict(json.loads(config.to_json_string()))
    except Exception:
        return config


def build(name: str) -> PreTrainedModel:
    """The model on meta."""
    model_class = tiny_configs.class_named(name)
    if model_class is None:
        pytest.skip("its module cannot be imported")
    try:
        model = tiny_configs.build_on_meta(model_class)
    except tiny_configs.NotBuilt as failure:
        pytest.skip(f"no small config builds it: {failure}"[:200])
    return tiny_configs.on_meta(model_class, as_read(model.config))


@contextmanager
def group_of(ranks: int) -> Iterator[None]:
    """A process group in which nothing is sent."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    try:
        yield
    finally:
        dist.destroy_process_group()


def spread_by_transformers(model: PreTrainedModel, sizes: dict[str, int]) -> PreTrainedModel:
    """The model with its parameters as DTensors."""
    config = DistributedConfig(**sizes)
    _, meshes = initialize_distributed_mesh(config)
    return type(model).maybe_distribute_model(model, config, meshes)


def held_by_torch(parameter: DTensor) -> list[tuple[dict[str, int], Indices]]:
    """What each rank of the parameter's mesh holds, by its coordinates: per dim the indices."""
    names = parameter.device_mesh.mesh_dim_names
    found: list[tuple[dict[str, int], list[torch.Tensor]]] = [
        ({}, [torch.arange(size) for size in parameter.shape])
    ]
    for name, size, placement in zip(
        names, parameter.device_mesh.shape, parameter.placements, strict=True
    ):
        found = [
            ({**at, name: rank}, part)
            for at, whole in found
            for rank, part in enumerate(split(whole, placement, size))
        ]
    return [(at, [each.tolist() for each in part]) for at, part in found]


def split(indices: list[torch.Tensor], placement: Any, ranks: int) -> list[list[torch.Tensor]]:
    """Indices of each dim, cut by one placement."""
    if placement.is_replicate():
        return [indices] * ranks
    dim = placement.dim % len(indices)
    onto_first = type(placement)(
        0,
        **({"split_factor": placement.split_factor} if hasattr(placement, "split_factor") else {}),
    )
    parts, _ = onto_first._split_tensor(indices[dim], ranks, with_padding=False)
    return [[*indices[:dim], part, *indices[dim + 1 :]] for part in parts]


def shapes_of(model: PreTrainedModel) -> list[tuple[str, list[int]]]:
    """Name and shape of each tensor of the model."""
    return [(name, list(tensor.shape)) for name, tensor in model.state_dict().items()]


def mesh_called(meshes: str, name: str) -> str:
    """The text of one mesh of several; the first, if it has no name."""
    named = dict(each.strip().split(": ") for each in meshes.split(";") if ":" in each)
    return named.get(name) or next(iter(named.values()), meshes)


def request_for(model: PreTrainedModel, meshes: str, tensors: list[Any]) -> Json:
    """What the probe is asked about a model."""
    return {
        "mesh": meshes,
        "architecture": type(model).__name__,
        "config": json.loads(model.config.to_json_string()),
        "tensors": tensors,
    }


def held_by_us(model: PreTrainedModel, meshes: str) -> dict[str, Any]:
    """By name: what each rank holds; or {"error": text}."""
    tensors = shapes_of(model)
    (answer,) = ask([request_for(model, meshes, tensors)])
    if "error" in answer:
        return answer
    assert answer["findings"] == []
    spread = [
        (mesh_called(meshes, each["mesh"]), each["placements"], shape)
        for each, (_, shape) in zip(answer["shardings"], tensors, strict=True)
    ]
    return {name: parts for (name, _), parts in zip(tensors, parts_of(spread), strict=True)}


def differences(ours: Json, model: PreTrainedModel, meshes: str) -> Iterator[str]:
    """Names of parameters that some rank holds another part of."""
    places = coordinates_in_all(meshes)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        for at, part in zip(places, ours[name], strict=True):
            if part != wanted_part(parameter, at):
                yield f"{name} at {at}"
                break


def coordinates_in_all(meshes: str) -> list[dict[str, int]]:
    """Of each rank, in every mesh that it is in."""
    each = [coordinates(part.split(": ")[-1]) for part in meshes.split("; ")]
    return [{k: v for at in of_rank for k, v in at.items()} for of_rank in zip(*each, strict=True)]


def wanted_part(parameter: torch.Tensor, at: dict[str, int]) -> Indices:
    """What Transformers leaves of a parameter to the rank at these coordinates."""
    if not isinstance(parameter, DTensor):
        return [list(range(size)) for size in parameter.shape]
    for coordinate, part in held_by_torch(parameter):
        if all(at.get(axis, 0) == rank for axis, rank in coordinate.items()):
            return part
    raise AssertionError(at)


def ranks_of(sizes: dict[str, int]) -> int:
    """Number of ranks of a config."""
    return sizes.get("fsdp_size", 1) * sizes.get("tp_size", 1)


def untied(model: PreTrainedModel) -> PreTrainedModel:
    """The model with a parameter of its own for each name, as it is until weights are loaded."""
    seen: set[int] = set()
    for name, parameter in list(model.named_parameters(remove_duplicate=False)):
        if id(parameter) in seen:
            module, _, last = name.rpartition(".")
            own = torch.nn.Parameter(torch.empty_like(parameter), parameter.requires_grad)
            model.get_submodule(module).register_parameter(last, own)
        seen.add(id(parameter))
    return model


def spread_or_reason(model: PreTrainedModel, sizes: dict[str, int]) -> PreTrainedModel | str:
    """The model as Transformers spreads it, or why it does not."""
    try:
        return spread_by_transformers(untied(model), sizes)
    except Exception as error:  # what the original cannot spread is no measure
        return f"{type(error).__name__}: {error}"


def has_experts(model: PreTrainedModel) -> bool:
    """True if a rule dispatches to some module: else Transformers leaves the EP plan unapplied."""
    dispatched = {pattern for pattern, style in model.ep_plan.items() if "dispatch" in style}
    modules = {replace_layer_number_by_wildcard(name) for name, _ in model.named_modules()}
    return not dispatched.isdisjoint(modules)


@pytest.mark.parametrize("name", class_names())
def test_parameters_are_spread_as_transformers_does(name: str) -> None:
    compared, reasons = 0, []
    for meshes, sizes in MESHES.items():
        model = build(name)
        if "ep_size" in sizes and model.ep_plan and not has_experts(model):
            continue
        ours = held_by_us(model, meshes)
        with group_of(ranks_of(sizes)):
            spread = spread_or_reason(model, sizes)
            if isinstance(spread, PreTrainedModel):
                wrong = list(differences(ours, spread, meshes))
                assert wrong == [], (meshes, wrong)
                compared += 1
            elif "was requested, but" in spread:
                assert "the plan has no rules for it" in ours["error"], (meshes, spread)
            else:
                reasons.append(f"{meshes}: {spread}"[:200])
    if not compared:
        pytest.skip(f"Transformers spreads it over no mesh: {reasons}")


# Of all shapes and names that make a difference to some style.
PARAMETERS = {
    "weight": [6, 5],
    "bias": [7],
    "scale": [5],
    "experts": [4, 6, 5],
    "kernel": [2, 3, 4, 5],
}


@pytest.mark.parametrize("style", sorted(ALL_PARALLEL_STYLES.keys()))
def test_styles_cut_as_transformers_does(style: str) -> None:
    mesh = "ep=2" if style == "grouped_gemm" else "tp=2"
    for name, shape in PARAMETERS.items():
        request = {"mesh": mesh, "plan": {"a": style}, "tensors": [(f"a.{name}", shape)]}
        (answer,) = ask([request])
        if style == "ep_dispatch_experts":
            assert "no rules" in answer["error"]
            continue
        with group_of(2):
            try:
                wanted = cut_by_transformers(style, name, shape)
            except (AssertionError, IndexError, RuntimeError, ValueError) as error:
                uneven = "Cannot evenly shard" in str(error)
                assert ("do not divide" if uneven else "cuts dim") in answer["findings"][0]
                continue
            (ours,) = parts_of([(mesh, answer["shardings"][0]["placements"], shape)])
            assert ours == [wanted_part(wanted, {"group": rank}) for rank in range(2)]


def cut_by_transformers(style: str, name: str, shape: list[int]) -> torch.Tensor:
    """What a style makes of one parameter."""
    module = torch.nn.Module()
    module.num_experts = shape[0]
    module.register_parameter(name, torch.nn.Parameter(torch.empty(shape, device="meta")))
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("group",))
    ALL_PARALLEL_STYLES[style].shard_param(module, name, mesh)
    return getattr(module, name)
