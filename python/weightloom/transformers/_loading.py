"""What stands in for Transformers' mover of weights during a load of ours."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from transformers import PreTrainedModel

from . import _engine, _outcome, _quantised, _refusals, _rules, _values
from ._placing import Offload, Placer, warm_up
from ._seam import Request
from ._wanted import Devices, Wanted, wanted_tensors


def load_pretrained_model(
    request: Request,
    model: PreTrainedModel,
    state_dict: dict[str, Any] | None,
    checkpoint_files: list[str] | None,
    load_config: Any,
    expected_keys: list[str] | None = None,
    **_: Any,
) -> tuple[Any, Any]:
    """Fills a model that stands on the meta device, or adds an adapter's weights to one.

    Returns
    -------
    tuple
        Transformers' report of a load, and the index of tensors that stay on disk.
    """
    files = _refusals.supported_files(state_dict, checkpoint_files, load_config)
    names = expected_keys if expected_keys is not None else list(model.state_dict())
    source = _engine.open_checkpoint(files, load_config.sharded_metadata)
    return _Load(request, model, source, load_config, names).run()


def load_files(
    request: Request,
    model: PreTrainedModel,
    path: str,
    load_config: Any,
    check: Callable[[Any], None],
) -> Any:
    """Fills a model from a path that the core resolves; `check` may refuse the report of it."""
    source = _engine.open_path(path)
    load = _Load(request, model, source, load_config, list(model.state_dict()), check)
    return load.run()[0]


def _accept(info: Any) -> None:
    """Every report."""


class _Load:
    """One load: planned whole, refused or run."""

    def __init__(
        self,
        request: Request,
        model: PreTrainedModel,
        source: _engine.Source,
        config: Any,
        names: list[str],
        check: Callable[[Any], None] = _accept,
    ) -> None:
        self._request = request
        self._model = model
        self._source = source
        self._files = source.files
        self._config = config
        self._names = names
        self._check = check
        self._decoding: dict[str, Any] = {}
        self._limits = _outcome.Limits(
            request.lenient, config.ignore_mismatched_sizes, not request.adapter
        )

    def run(self) -> tuple[Any, Any]:
        """All of it."""
        quantiser = self._config.hf_quantizer
        if quantiser is not None:
            if not _quantised.is_decoded(quantiser):
                return self._run_by_value()
            self._decode(quantiser)
        transforms = self._config.weight_mapping or []
        self._rules = _rules.translate(transforms, self._model)
        self._wanted = wanted_tensors(self._model, self._config.dtype_plan or {})
        by_value = _values.ByValue()
        if self._rules.untranslated and self._decoding:
            raise _refusals.undecodable(self._source.path, self._rules.untranslated[0].reason)
        if self._rules.untranslated:
            prefix, names = self._model.base_model_prefix, self._source.names()
            by_value = _values.by_value(self._rules, transforms, names, prefix, self._wanted)
        return self._run_by_value() if by_value.everything else self._run(by_value)

    def _decode(self, quantiser: Any) -> None:
        """From here on the load is that of a model that is not quantised."""
        mapping = self._config.weight_mapping or []
        plain = _quantised.without_quantiser(mapping, quantiser, self._model)
        folder = self._source.checkpoint.folder
        declared = _quantised.config_of(folder, self._model, quantiser)
        self._decoding = {"dequantize": True, "config_json": declared}
        self._config = dataclasses.replace(self._config, weight_mapping=plain, hf_quantizer=None)

    def _run(self, by_value: _values.ByValue) -> tuple[Any, Any]:
        """By the core's program; what only Transformers can convert is added after it."""
        plan = self._plan({n: w for n, w in self._wanted.items() if n not in by_value.seen_as})
        outcome = _outcome.compare(plan.targets, plan.unexpected - by_value.seen_as, self._wanted)
        info = outcome.info()
        self._refuse_unfit(info)
        if not by_value.names:
            self._check(info)
        index = self._move(plan, outcome.taken)
        if by_value.names:
            index = self._add_by_value(info, by_value.names, index)
        self._remember(plan)
        self._refuse_nothing_taken(info)
        return info, index

    def _plan(self, wanted: dict[str, Wanted]) -> _engine.LoadPlan:
        return _engine.plan_load(
            self._source,
            self._rules.text,
            wanted,
            base_model_prefix=self._model.base_model_prefix,
            threads=self._request.workers,
            **self._decoding,
        )

    @torch.no_grad()
    def _move(self, plan: _engine.LoadPlan, taken: list[str]) -> Any:
        """Every tensor to where it is to lie; the only place where bytes move."""
        devices = Devices.of(self._config.device_map, self._wanted)
        offload = Offload(self._model, self._files, self._config)
        warm_up(self._model, self._names, self._config)
        on_disk = {name for name in taken if offload.takes(name, devices)}
        stored = {name for name in on_disk if offload.has(name, plan.verbatim_of(name))}
        placer = Placer(self._model)
        for name, tensor in self._tensors(plan, [n for n in taken if n not in stored], devices):
            if name in on_disk:
                offload.keep(name, tensor)
            else:
                placer.put(name, tensor)
        return offload.index

    def _tensors(
        self, plan: _engine.LoadPlan, names: list[str], devices: Devices
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """In memory: all in one arena. To devices and disk: each as soon as it is complete."""
        run = _engine.Run(
            self._request.workers, self._request.memory_budget, self._request.progress
        )
        if devices.all_cpu:
            for name, tensor in plan.load(names, run):
                yield name, tensor.to(self._wanted[name].dtype)
            return
        for name, tensor in plan.stream(names, run):
            device = devices[name] if devices[name] != "disk" else "cpu"
            yield name, tensor.to(device=device, dtype=self._wanted[name].dtype)

    def _add_by_value(self, info: Any, names: frozenset[str], index: Any) -> Any:
        more, index = self._load_by_value(names, index)
        _outcome.merge(info, more)
        self._refuse_unfit(info)
        self._check(info)
        return index

    def _run_by_value(self) -> tuple[Any, Any]:
        """By Transformers' own loop, which gets tensors that Weightloom reads."""
        offload = Offload(self._model, self._files, self._config)
        warm_up(self._model, self._names, self._config)
        info, index = self._load_by_value(None, offload.index)
        self._refuse_unfit(info)
        self._check(info)
        return info, index

    def _load_by_value(self, names: frozenset[str] | None, index: Any) -> tuple[Any, Any]:
        """What the model's transforms were before an adapter's, they are after."""
        before = getattr(self._model, "_weight_conversions", None)
        result = _values.load_by_value(self._model, self._files, self._config, names, index)
        if self._request.adapter:
            self._model._weight_conversions = before
        return result

    def _refuse_unfit(self, info: Any) -> None:
        _outcome.refuse_unfit(info, self._model, self._source.path, self._limits)

    def _remember(self, plan: _engine.LoadPlan) -> None:
        """Saving reverses the transforms that fired, and no others; an adapter's are not saved."""
        for place in plan.fired:
            self._rules.transforms[place]._was_used = True
        if not self._request.adapter:
            used = [t for t in self._config.weight_mapping or [] if t.was_used()]
            self._model._weight_conversions = used

    def _refuse_nothing_taken(self, info: Any) -> None:
        if self._wanted and len(info.missing_keys) == len(self._wanted):
            raise _refusals.nothing_taken(self._source.path, type(self._model).__name__)
