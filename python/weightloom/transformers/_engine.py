"""The one place that calls the core: a checkpoint, a plan for a model, its tensors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import weightloom
from weightloom import _core
from weightloom._arrays import dtype_name
from weightloom._errors import refusal
from weightloom._load import Size, size_in_bytes
from weightloom._progress import Progress, callback_for

from . import _refusals
from ._rules import ModelRules
from ._wanted import Wanted


@dataclass(frozen=True)
class Source:
    """A checkpoint whose headers are read."""

    checkpoint: Any

    @property
    def path(self) -> str:
        """As messages name it."""
        return self.checkpoint.path

    @property
    def files(self) -> list[str]:
        """Paths of its safetensors files."""
        return [os.path.join(self.checkpoint.folder, name) for name in self.checkpoint.files]

    def names(self) -> list[str]:
        """Of its tensors."""
        return self.checkpoint.keys()


def open_path(path: str) -> Source:
    """What stands at a path."""
    return Source(weightloom.open(path))


def open_checkpoint(files: list[str], sharded_metadata: dict[str, Any] | None) -> Source:
    """The checkpoint that files make, which Transformers resolved.

    Raises
    ------
    weightloom.Error
        With code ``unsupported`` if no index holds them together; and what reading headers raises.
    """
    if len(files) == 1:
        return open_path(files[0])
    names = {Path(file).name for file in files}
    indexes = sorted(Path(files[0]).parent.glob("*.index*.json"))
    told = {} if sharded_metadata is None else sharded_metadata.get("weight_map", {})
    if len(indexes) == 1 and set(told.values()) == names:
        return open_path(str(indexes[0]))
    for index in indexes:
        if set(_weight_map(index).values()) == names:
            return open_path(str(index))
    raise _refusals.unsupported(
        f"several files without an index that names exactly them ({', '.join(sorted(names))})"
    )


def _weight_map(index: Path) -> dict[str, str]:
    return json.loads(index.read_text(encoding="utf-8")).get("weight_map", {})


@dataclass(frozen=True)
class Run:
    """How to move bytes."""

    threads: int | None = None
    memory_budget: Size = None
    progress: Progress = None
    what: str = "load"

    def quiet(self) -> dict[str, Any]:
        """As the core takes them, where it tells of no progress."""
        budget = size_in_bytes(self.memory_budget)
        return {"threads": self.threads, "memory_budget": budget}

    def options(self) -> dict[str, Any]:
        """As the core takes them."""
        return {**self.quiet(), "progress": callback_for(self.progress, self.what)}


def refuse_unlisted(plan: Any, source: Source) -> None:
    """A tensor that stands in a shard but not in the index would be left out in silence.

    Of one that stands in two shards the index says which counts.
    """
    listed = set(source.names())
    unlisted = [f for f in plan.findings if f.code == "unindexed_tensor" and f.tensor not in listed]
    if unlisted:
        raise refusal(
            weightloom.PlanError,
            unlisted[0].message,
            "repair the index with 'weightloom repair-index', then load again",
        )


class LoadPlan:
    """What a checkpoint gives a model, planned from headers."""

    def __init__(self, plan: Any) -> None:
        plan.raise_if_refused()
        self._plan = plan
        self.fired: list[int] = plan.fired
        self.targets = plan.targets
        self.unexpected = {f.tensor for f in plan.findings if f.code == "unexpected"}

    def verbatim_of(self, name: str) -> str | None:
        """The stored tensor that a target is, unchanged but for its name."""
        return self._plan.verbatim_of(name)

    def load(self, names: list[str], run: Run) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors of these names, all in one arena."""
        tensors, _ = self._only(names).load(framework="torch", **run.options())
        yield from tensors.items()

    def stream(self, names: list[str], run: Run) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors of these names, each as it is complete."""
        with self._only(names).stream(framework="torch", **run.quiet()) as tensors:
            yield from tensors

    def _only(self, names: list[str]) -> Any:
        return self._plan if len(names) == len(self.targets) else self._plan.only(names)


def plan_load(
    source: Source,
    mapping: str,
    wanted: dict[str, Wanted],
    *,
    base_model_prefix: str,
    threads: int | None,
    dequantize: bool = False,
    config_json: str | None = None,
) -> LoadPlan:
    """Plans what the model wants, cast to the dtypes that it wants where the core casts.

    What is missing or unexpected is no refusal here, and shapes are not compared: that is told to
    the model's user in the model's words. With `dequantize`, codes become values before the mapping
    sees names, as config.json, or `config_json` in its place, declares.

    Raises
    ------
    weightloom.PlanError
        With all findings, if the mapping cannot be applied whole.
    """
    expected = _core.Expected([(name, _cast_to(t.dtype), None) for name, t in wanted.items()])
    expected.base_model_prefix = base_model_prefix
    expected.may_miss = True
    expected.cast = True
    plan = _core.plan(
        source.checkpoint,
        mapping=mapping,
        from_="hub",
        to="runtime",
        expected=expected,
        lenient=True,
        dequantize=dequantize,
        config_json=config_json,
        threads=threads or _core.default_threads(),
    )
    refuse_unlisted(plan, source)
    return LoadPlan(plan)


_CASTABLE = {torch.float64, torch.float32, torch.float16, torch.bfloat16}


def _cast_to(dtype: torch.dtype) -> str | None:
    """What the core casts to; other dtypes are torch's to change."""
    return dtype_name(dtype) if dtype in _CASTABLE else None


class SavePlan:
    """The stored tensors that a model's become, planned; nothing is written yet."""

    def __init__(self, plan: Any) -> None:
        plan.raise_if_refused()
        self._plan = plan
        self.targets = plan.targets

    def write(self, file: Path, names: list[str], run: Run) -> None:
        """Makes one file of the tensors of these names, in one step."""
        part = self._plan if len(names) == len(self.targets) else self._plan.only(names)
        part.convert(str(file), overwrite=True, metadata=METADATA, **run.options())


METADATA = [("format", "pt")]
RECORD = "weightloom.json"


def plan_save(
    tensors: dict[str, torch.Tensor],
    rules: ModelRules,
    base_model_prefix: str,
    threads: int | None,
) -> SavePlan:
    """Plans the way back of the rules, from where the tensors lie.

    Raises
    ------
    weightloom.PlanError
        If the rules do not lead back, each tensor named.
    """
    workers = threads or _core.default_threads()
    held = [_held(name, tensor) for name, tensor in tensors.items()]
    if not rules.forms:
        plain = _core.in_memory(held, METADATA, [])
        return SavePlan(_core.plan(plain, mapping="none", to="same", threads=workers))
    record = _record(rules.text, base_model_prefix, workers)
    source = _core.in_memory(held, METADATA, [(RECORD, record)])
    return SavePlan(_core.plan(source, from_="runtime", to="hub", threads=workers))


def _held(name: str, tensor: torch.Tensor) -> tuple[str, str, list[int], Any]:
    """A tensor as the core borrows it."""
    flat = tensor.reshape(-1).view(torch.uint8)
    return (name, dtype_name(tensor.dtype), list(tensor.shape), flat)


def _record(mapping: str, base_model_prefix: str, threads: int) -> str:
    """The record of a load in which every rule fired, in the core's own words."""
    empty = _core.in_memory([], METADATA, [])
    record = json.loads(_core.plan(empty, mapping=mapping, to="same", threads=threads).record)
    places = range(len(record["mapping"]["transforms"]))
    names = {"base_model_prefix": base_model_prefix, "unknown": [], "edited": 0}
    facts = {"layout": "runtime", "fired": list(places), "model_names": names}
    return json.dumps({**record, **facts})
