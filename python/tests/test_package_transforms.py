"""Mappings made by hand, operations of one's own, and the registry, in Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from transformers import core_model_loading as theirs

import weightloom as wl


def test_keys_are_renamed_as_transformers_renames_them() -> None:
    cases = [
        (["gamma"], ["weight"], ["norm.gamma", "gamma_x", "norm.gammas", "x"]),
        ([".experts.*.w1.weight", ".experts.*.w3.weight"], [".experts.gate_up_proj"],
         ["l.0.experts.3.w1.weight", "l.0.experts.12.w3.weight", "l.0.experts.w1.weight"]),
        (["^model.(.+)"], [r"\1"], ["model.a.b", "x.model.a"]),
        (["qkv"], ["q", "k", "v"], ["l.qkv.weight", "l.qk.weight"]),
    ]  # fmt: skip
    for sources, targets, keys in cases:
        kinds = [(wl.WeightConverter, theirs.WeightConverter)]
        if len(targets) == 1 and "*" not in "".join(sources):
            kinds.append((wl.WeightRenaming, theirs.WeightRenaming))
        for mine, their in kinds:
            operations: dict[str, Any] = (
                {"operations": [theirs.Chunk()]} if their is theirs.WeightConverter else {}
            )
            ours = mine(list(sources), list(targets))
            reference = their(list(sources), list(targets), **operations)
            assert not ours.was_used()
            for key in keys:
                name, pattern = reference.rename_source_key(key)
                assert ours.rename_source_key(key)[0] == name, (mine, key)
                assert (ours.rename_source_key(key)[1] is None) == (pattern is None)
            assert ours.was_used() == reference.was_used()


def test_a_transform_is_used_once_it_matched() -> None:
    transform = wl.WeightRenaming("a", "b")
    assert transform.rename_source_key("x.c") == ("x.c", None)
    assert not transform.was_used()
    assert transform.rename_source_key("x.a") == ("x.b", "a")
    assert transform.was_used()


def test_a_scope_restricts_names() -> None:
    transform = wl.WeightRenaming("^a", "b")
    transform.scope_prefix, transform.base_model_prefix = "vision", "model"
    assert transform.rename_source_key("vision.a.c") == ("vision.b.c", "^a")
    assert transform.rename_source_key("model.vision.a") == ("model.vision.b", "^a")
    assert transform.rename_source_key("a.c") == ("a.c", None)


def test_prefixes_are_added_and_removed() -> None:
    adds = wl.PrefixChange(prefix_to_add="model")
    assert adds.rename_source_key("x")[0] == "model.x"
    assert adds.rename_source_key("model.x") == ("model.x", None)
    removes = adds.reverse_transform()
    assert isinstance(removes, wl.PrefixChange)
    assert removes.rename_source_key("model.x")[0] == "x"
    with pytest.raises(wl.UsageError, match="both or neither"):
        wl.PrefixChange()


def merging() -> wl.WeightConverter:
    """Mixtral's gate and up projections."""
    return wl.WeightConverter(
        [".experts.*.w1.weight", ".experts.*.w3.weight"],
        ".experts.gate_up_proj",
        [wl.MergeModulelist(0), wl.Concatenate(1)],
    )


@pytest.mark.parametrize("kind", ["numpy", "torch", "future", "callable"])
def test_a_converter_makes_what_its_operations_say(kind: str) -> None:
    converter = merging()
    arrays = {}
    for expert in (0, 1, 10, 2):  # not in the order of their numbers
        for part in ("w1", "w3"):
            key = f"l.experts.{expert}.{part}.weight"
            arrays[key] = np.full((2, 3), expert + (0.5 if part == "w3" else 0), np.float32)
    del arrays["l.experts.10.w1.weight"], arrays["l.experts.10.w3.weight"]
    for key, array in arrays.items():
        name, pattern = converter.rename_source_key(key)
        assert pattern is not None
        converter.add_tensor(name, key, pattern, given(array, kind))
    assert {name: len(list_) for name, list_ in converter.collected_tensors.items()} == {
        ".experts.*.w1.weight": 3,
        ".experts.*.w3.weight": 3,
    }
    made = converter.convert()
    expected = np.stack(
        [np.concatenate([np.full((2, 3), e), np.full((2, 3), e + 0.5)]) for e in range(3)]
    )
    assert list(made) == ["l.experts.gate_up_proj"]
    found = made["l.experts.gate_up_proj"]
    assert isinstance(found, torch.Tensor if kind == "torch" else np.ndarray)
    np.testing.assert_array_equal(np.asarray(found), expected.astype(np.float32))


def given(array: np.ndarray, kind: str) -> Any:
    """An array, or what gives one."""
    if kind == "torch":
        return torch.from_numpy(array)
    if kind == "future":
        future: Future[np.ndarray] = Future()
        future.set_result(array)
        return future
    return (lambda: array) if kind == "callable" else array


def test_a_converter_that_lacks_a_source_says_which() -> None:
    converter = merging()
    converter.add_tensor("", "l.experts.0.w1.weight", "", np.zeros((2, 3)))
    with pytest.raises(wl.PlanError, match="w3"):
        converter.convert()


def test_the_reverse_undoes_a_converter() -> None:
    back = merging().reverse_transform()
    assert isinstance(back, wl.WeightConverter)
    assert [operation.name for operation in back.operations] == ["Chunk", "SplitModulelist"]
    assert back.reverse_transform() == merging()
    fused = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    back.add_tensor("", "l.experts.gate_up_proj", "", fused)
    made = back.convert()
    np.testing.assert_array_equal(made["l.experts.1.w3.weight"], fused[1, 2:])
    np.testing.assert_array_equal(made["l.experts.0.w1.weight"], fused[0, :2])


def test_numbers_are_looked_up_in_the_config() -> None:
    converter = wl.WeightConverter("qkv", ["q", "k"], [wl.Split(0, ("heads", 1))])
    converter.add_tensor("", "qkv", "", np.arange(4.0))
    made = converter.convert(config={"heads": 3})
    assert {name: array.tolist() for name, array in made.items()} == {"q": [0, 1, 2], "k": [3]}


def test_every_shipped_transform_is_read_and_written_alike() -> None:
    import json

    registry = wl.Registry()
    for name in registry.names():
        text = json.loads(registry.json(name) or "")["transforms"]
        assert [transform.to_json() for transform in wl.transforms_of(name)] == text, name


def test_a_mapping_is_registered_under_a_key(tmp_path: Path) -> None:
    registry = wl.Registry()
    transforms = [wl.WeightRenaming("^old", "new"), merging()]
    wl.register_checkpoint_conversion_mapping("my_model", transforms, registry=registry)
    assert wl.transforms_of("my_model", registry) == transforms
    with pytest.raises(wl.MappingError, match="my_model"):
        wl.register_checkpoint_conversion_mapping("my_model", [], registry=registry)
    memory = wl.in_memory({"old.x": np.ones(2)}, config={"model_type": "my_model"})
    assert list(wl.load(memory, registry=registry)) == ["new.x"]
    wl.register_checkpoint_conversion_mapping(
        "my_model", [wl.WeightRenaming("^old", "newer")], overwrite=True, registry=registry
    )
    assert list(wl.load(memory, registry=registry)) == ["newer.x"]
    with pytest.raises(wl.UsageError, match="no mapping is called 'my_model'"):
        wl.transforms_of("my_model")


@dataclass(frozen=True)
class Rotate(wl.LayoutOperation):
    """Rolls rows down by `rows`, and scales nothing."""

    rows: int = 1
    parameters: ClassVar[dict[str, type]] = {"rows": int}

    def apply(
        self, slots: Sequence[wl.Layout | Sequence[wl.Layout]], context: wl.OperationContext
    ) -> Sequence[wl.Layout | Sequence[wl.Layout]]:
        assert context.targets == len(context.target_patterns)
        return [self._rolled(slot) for slot in slots if isinstance(slot, wl.Layout)]

    def _rolled(self, layout: wl.Layout) -> wl.Layout:
        if layout.shape[0] < 2:
            raise ValueError(f"{layout.shape[0]} rows cannot be rolled")
        cut = -self.rows % layout.shape[0]
        head, tail = layout.split(0, [cut, layout.shape[0] - cut])
        return wl.Layout.concat([tail, head], 0)

    def reverse(self) -> Rotate:
        return Rotate(-self.rows)


def registry_with_rotate() -> wl.Registry:
    """The shipped registry, and a mapping that rolls."""
    registry = wl.Registry()
    wl.register_operation(Rotate, registry=registry)
    converter = wl.WeightConverter("w", "rolled", [Rotate(2), wl.Transpose(0, 1)])
    wl.register_checkpoint_conversion_mapping("rolling", [converter], registry=registry)
    return registry


def test_an_operation_of_ones_own_composes_with_others_and_is_reversed(tmp_path: Path) -> None:
    registry = registry_with_rotate()
    array = np.arange(15, dtype=np.int16).reshape(5, 3)
    memory = wl.in_memory({"w": array}, config={"model_type": "rolling"})
    there = wl.load(memory, registry=registry)
    np.testing.assert_array_equal(there["rolled"], np.roll(array, 2, axis=0).T)
    wl.save(
        there, tmp_path / "back", "rolling", to="hub", registry=registry,
        config={"model_type": "rolling"},
    )  # fmt: skip
    back = wl.load(tmp_path / "back", "none", registry=registry)
    np.testing.assert_array_equal(back["w"], array)
    wl.convert(memory, tmp_path / "runtime", to="runtime", registry=registry)
    assert wl.verify(memory, tmp_path / "runtime", registry=registry)


def test_what_an_operation_of_ones_own_refuses_is_a_finding() -> None:
    memory = wl.in_memory({"w": np.zeros((1, 3))}, config={"model_type": "rolling"})
    with pytest.raises(wl.PlanError, match="1 rows cannot be rolled") as refused:
        wl.load(memory, registry=registry_with_rotate())
    assert [finding.code for finding in refused.value.findings] == ["operation_refused"]


def test_a_fault_in_an_operation_of_ones_own_is_raised_as_it_is() -> None:
    @dataclass(frozen=True)
    class Faulty(wl.LayoutOperation):
        def apply(self, slots: Any, context: Any) -> Any:
            return 1 / 0

        def reverse(self) -> Any:
            return self

    registry = wl.Registry()
    wl.register_operation(Faulty, registry=registry)
    wl.register_checkpoint_conversion_mapping(
        "faulty", [wl.WeightConverter("w", "v", [Faulty()])], registry=registry
    )
    memory = wl.in_memory({"w": np.zeros(1)}, config={"model_type": "faulty"})
    with pytest.raises(ZeroDivisionError):
        wl.load(memory, registry=registry)


def test_operations_are_registered_once_and_with_known_kinds() -> None:
    registry = registry_with_rotate()
    with pytest.raises(wl.MappingError, match="'Rotate' already"):
        wl.register_operation(Rotate, registry=registry)

    class Odd(wl.LayoutOperation):
        parameters: ClassVar[dict[str, type]] = {"x": complex}

    with pytest.raises(wl.UsageError, match="'x'"):
        wl.register_operation(Odd, registry=registry)


def gathered(layout: wl.Layout, array: np.ndarray) -> np.ndarray:
    """What a layout of one tensor reads, by way of a mapping that gives just it."""

    class Given(wl.LayoutOperation):
        def apply(self, slots: Any, context: Any) -> Any:
            return [layout]

        def reverse(self) -> Any:
            return self

    registry = wl.Registry()
    wl.register_operation(Given, registry=registry)
    text = wl.mapping_text("given", [wl.WeightConverter("w", "v", [Given()])])
    memory = wl.in_memory({"w": array})
    return wl.load(memory, text, from_="hub", registry=registry, lenient=True)["v"]


def test_layouts_are_numpys_operations() -> None:
    array = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    whole = wl.Layout.identity(0, [2, 3, 4])
    assert whole.shape == (2, 3, 4)
    cases = [
        (whole.permute([2, 0, 1]), array.transpose(2, 0, 1)),
        (whole.transpose(0, 2), array.swapaxes(0, 2)),
        (whole.reshape([6, 4]), array.reshape(6, 4)),
        (wl.Layout.stack(whole.unstack(1)[::-1], 0), array.transpose(1, 0, 2)[::-1]),
        (whole.interleave(2, 2), array.reshape(2, 3, 2, 2).swapaxes(2, 3).reshape(2, 3, 4)),
        (whole.pad(1, 1, 0), np.pad(array, ((0, 0), (1, 0), (0, 0)))),
        (wl.Layout.concat([whole.slice(2, 2, 4), whole.slice(2, 0, 2)], 2), np.roll(array, 2, 2)),
    ]
    for layout, expected in cases:
        assert layout.shape == expected.shape
        np.testing.assert_array_equal(gathered(layout, array), expected)
    with pytest.raises(wl.UsageError):
        whole.reshape([5])


LEAK = """
import numpy, weightloom as wl
class Same(wl.LayoutOperation):
    def apply(self, slots, context):
        return slots
    def reverse(self):
        return self
wl.register_operation(Same)
wl.register_checkpoint_conversion_mapping("same", [wl.WeightConverter("w", "v", [Same()])])
memory = wl.in_memory({"w": numpy.ones(1)}, config={"model_type": "same"})
kept = wl.plan(memory, to="runtime")
print(list(wl.load(memory)))
"""


def test_operations_in_the_default_registry_do_not_leak_at_exit() -> None:
    done = subprocess.run([sys.executable, "-c", LEAK], capture_output=True, text=True, check=True)
    assert done.stdout == "['v']\n"
    assert done.stderr == ""
