"""Quantisers of one's own: a made-up scheme adds rules to a model's, and rewrites them."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path
from typing import Any

import pytest
from safetensors_by_hand import Tensor, facts, read_folder, u16, write_sharded

import weightloom as wl

EXPERTS = 2
STEM = "model.layers.0.block_sparse_moe."
CONFIG = {
    "model_type": "mixtral",
    "num_local_experts": EXPERTS,
    "quantization_config": {"quant_method": "nine", "suffix": "codes9"},
}


def codes(tag: int, shape: tuple[int, ...]) -> Tensor:
    return Tensor("U8", shape, u16(tag, shape).data[: shape[0] * shape[1]])


def tensors(suffix: str = "codes9") -> dict[str, Tensor]:
    """Mixtral of two experts whose weights go by another name."""
    stored = {f"{STEM}gate.weight": u16(1, (EXPERTS, 4))}
    for expert in range(EXPERTS):
        for tag, (part, shape) in enumerate((("w1", (6, 4)), ("w2", (4, 6)), ("w3", (6, 4)))):
            stored[f"{STEM}experts.{expert}.{part}.{suffix}"] = codes(9 * expert + tag, shape)
    return stored


def folder_of(path: Path, config: dict[str, Any] | None = None) -> Path:
    write_sharded(path, tensors(), 2)
    (path / "config.json").write_text(json.dumps(CONFIG if config is None else config))
    return path


def renaming(config: dict[str, Any]) -> list[wl.WeightTransform]:
    """The suffix is what the scheme's config says."""
    suffix = config["quantization_config"]["suffix"]
    return [wl.WeightRenaming(rf"\.{suffix}$", ".weight")]


def packed_experts(
    transforms: list[wl.WeightTransform], config: dict[str, Any]
) -> list[wl.WeightTransform]:
    """Every converter gives names that tell what is in them; nothing is stacked along rows."""
    assert config["model_type"] == "mixtral"
    for transform in transforms:
        if isinstance(transform, wl.WeightConverter):
            transform.target_patterns = [f"{t}_packed" for t in transform.target_patterns]
    return transforms


def registry_with(*functions: Any) -> wl.Registry:
    registry = wl.Registry()
    wl.register_quantiser("nine", *functions, registry=registry)
    return registry


def names(plan: wl.Plan) -> list[str]:
    return [target.name for target in plan.targets]


def test_a_quantiser_s_conversions_go_with_the_model_s(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in")
    with pytest.raises(wl.PlanError):  # no rule knows the suffix: the experts are not stacked
        wl.load(source, from_="hub", expect={"model.layers.0.mlp.experts.down_proj": None})
    plan = wl.plan(source, from_="hub", to="runtime", registry=registry_with(renaming))
    stem = "model.layers.0.mlp."
    assert names(plan) == [
        f"{stem}experts.down_proj",
        f"{stem}experts.gate_up_proj",
        f"{stem}gate.weight",
    ]
    loaded, _ = plan.load(framework="numpy")
    down = [tensors()[f"{STEM}experts.{e}.w2.codes9"].data for e in range(EXPERTS)]
    assert loaded[f"{stem}experts.down_proj"].tobytes() == b"".join(down)


def test_a_quantiser_rewrites_the_whole_list(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in")
    plan = wl.plan(
        source, from_="hub", to="runtime", registry=registry_with(renaming, packed_experts)
    )
    assert names(plan)[:2] == [
        "model.layers.0.mlp.experts.down_proj_packed",
        "model.layers.0.mlp.experts.gate_up_proj_packed",
    ]


def test_the_list_that_is_rewritten_holds_all_there_is(tmp_path: Path) -> None:
    """The model's, old names that every model may have, and the quantiser's own, in this order."""
    seen: list[list[wl.WeightTransform]] = []

    def look(given: list[wl.WeightTransform], config: dict[str, Any]) -> Any:
        seen.append(given)
        return given

    wl.plan(
        folder_of(tmp_path / "in"),
        from_="hub",
        to="runtime",
        registry=registry_with(renaming, look),
    )
    model, old = wl.transforms_of("mixtral"), wl.transforms_of("legacy")
    assert [*model, *old, *renaming(CONFIG)] in seen


def test_there_and_back_with_a_record_that_needs_no_quantiser(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in")
    there, back = tmp_path / "there", tmp_path / "back"
    registry = registry_with(renaming, packed_experts)
    wl.convert(source, there, from_="hub", to="runtime", registry=registry, progress=False)
    wl.convert(there, back, to="hub", progress=False)
    assert facts(read_folder(back)) == facts(tensors())


def test_other_schemes_and_no_rules_are_left_alone(tmp_path: Path) -> None:
    other = {**CONFIG, "quantization_config": {"quant_method": "ten"}}
    source = folder_of(tmp_path / "in", other)

    def never(*_: Any) -> Any:
        raise AssertionError

    registry = registry_with(never)
    wl.plan(source, from_="hub", to="runtime", registry=registry)
    source = folder_of(tmp_path / "nine")
    assert names(wl.plan(source, mapping="none", registry=registry)) == sorted(tensors())


def test_what_a_quantiser_raises_is_raised(tmp_path: Path) -> None:
    def broken(config: dict[str, Any]) -> Any:
        raise LookupError("no such group")

    with pytest.raises(LookupError, match="no such group"):
        wl.plan(
            folder_of(tmp_path / "in"), from_="hub", to="runtime", registry=registry_with(broken)
        )


def test_names_are_taken_once_and_nothing_is_no_quantiser() -> None:
    registry = registry_with(renaming)
    with pytest.raises(wl.MappingError, match="'nine'"):
        wl.register_quantiser("nine", renaming, registry=registry)
    wl.register_quantiser("nine", renaming, overwrite=True, registry=registry)
    with pytest.raises(wl.UsageError, match="nothing to register"):
        wl.register_quantiser("ten", registry=registry)
    with pytest.raises(wl.UsageError, match="without a name"):
        wl.register_quantiser("", renaming, registry=registry)


def test_a_quantiser_goes_with_its_registry(tmp_path: Path) -> None:
    """Plans keep what they need; nobody keeps the functions longer."""

    class Get:
        def __call__(self, config: dict[str, Any]) -> list[wl.WeightTransform]:
            return renaming(config)

    get = Get()
    alive = weakref.ref(get)
    registry = registry_with(get)
    plan = wl.plan(folder_of(tmp_path / "in"), from_="hub", to="runtime", registry=registry)
    del get, registry
    gc.collect()
    assert alive() is None
    assert len(plan.load()[0]) == 3
