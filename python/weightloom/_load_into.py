"""Loading into tensors that exist: the work of `weightloom.torch.load_into`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from . import _core, _load
from ._arrays import dtype_name
from ._errors import error_of
from ._load import PathLike, Rename, Size, Source
from ._places import Place, places_of
from ._progress import Progress, callback_for

MOST_LISTED = 20
CASTABLE = {"F64", "F32", "F16", "BF16"}


@dataclass(frozen=True)
class LoadReport:
    """What a load found; the fields that ``from_pretrained(output_loading_info=True)`` gives.

    Attributes
    ----------
    missing_keys
        Names of the module that the checkpoint does not give.
    unexpected_keys
        Names that the checkpoint gives, and the module does not have.
    mismatched_keys
        (name, shape in the checkpoint, shape in the module).
    error_msgs
        Sentences on everything else: dtypes that differ, tied names with different values,
        DTensors that hold other parts than their placements say.
    """

    missing_keys: set[str] = field(default_factory=set)
    unexpected_keys: set[str] = field(default_factory=set)
    mismatched_keys: set[tuple[str, tuple[int, ...], tuple[int, ...]]] = field(default_factory=set)
    error_msgs: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return dict(vars(self))

    @property
    def is_clean(self) -> bool:
        """True if everything found its place."""
        return not any(vars(self).values())

    def sentences(self) -> list[str]:
        """One for each thing that is wrong."""
        return [
            *(f"'{name}' is missing" for name in sorted(self.missing_keys)),
            *(f"'{name}' has no place in the module" for name in sorted(self.unexpected_keys)),
            *(
                f"'{name}' is {list(found)}, but the module wants {list(wanted)}"
                for name, found, wanted in sorted(self.mismatched_keys)
            ),
            *self.error_msgs,
        ]


def load_into(
    module_or_state_dict: torch.nn.Module | Mapping[str, torch.Tensor],
    path: Source,
    *,
    mapping: PathLike = "auto",
    to: str | None = None,
    cast: bool = False,
    strict: bool = True,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    rename: Rename = None,
    threads: int | None = None,
    memory_budget: Size = None,
    progress: Progress = None,
) -> LoadReport:
    """Fill the tensors of a module, or of a dict, from a checkpoint; they stay the same objects.

    The values are written where the tensors lie: parameters keep their identity, so optimisers,
    hooks and views go on working. Everything is compared before the first byte moves. Tied names
    are one tensor: the checkpoint may give one of them, or all with the same values.

    Of a DTensor (``fully_shard``, ``parallelize_module``, ``distribute_tensor``) this rank's part
    is filled: its own bytes of the checkpoint are read, through any mapping, and no others. Ranks
    do not communicate, and need not all call this; what is wrong with the part of one rank only is
    told on that rank only. A plain tensor is filled whole.

    Parameters
    ----------
    module_or_state_dict
        A module, whose parameters and persistent buffers are filled, or tensors by name; DTensors
        on any meshes among them. On the CPU and without gaps they, or their local parts, are
        written into; elsewhere, and with strides of their own, they are copied into.
    path
        A safetensors file, a folder or an index.
    mapping
        As for `weightloom.load`: ``"auto"``, ``"none"``, a name, a file or the text of one.
    to
        The layout that the module has, ``"runtime"`` or ``"same"``; by default ``"runtime"`` where
        a config.json or a mapping tells what that is, else ``"same"``.
    cast
        Cast to the dtype of each tensor. Otherwise another dtype is reported.
    strict
        Refuse whatever the report would tell. With False the rest is loaded.
    include, exclude, rename, threads, memory_budget, progress
        As for `weightloom.load`.

    Returns
    -------
    LoadReport
        What was missing, unexpected or of another shape (of whole tensors, also where DTensors are
        filled); empty when `strict`.

    Raises
    ------
    weightloom.PlanError
        If `strict` and anything does not fit, or if the mapping cannot be applied whole. The
        tensors are as they were.
    UsageError
        For a DTensor whose sums are pending (``Partial``).
    """
    wanted = places_of(module_or_state_dict)
    source = _load.opened(path, threads)
    plan = _load.plan(
        source,
        mapping=mapping,
        to=to or _layout_of(source, mapping),
        include=include,
        exclude=exclude,
        rename=rename,
        expect=_expected(module_or_state_dict, wanted, cast),
        lenient=True,
        threads=threads,
    )
    plan.raise_if_refused()
    work = _Work(wanted, plan, cast)
    if strict and not work.report.is_clean:
        raise _refusal(source.path, work.report)
    budget = _load.size_in_bytes(memory_budget)
    work.run({"threads": threads, "memory_budget": budget}, callback_for(progress, "load"))
    return work.report


def _expected(owner: Any, wanted: dict[str, Place], cast: bool) -> _core.Expected:
    """The names; of a model the base model's prefix too; and the dtypes to cast to."""
    dtypes = {name: dtype_name(place.tensor.dtype) for name, place in wanted.items()}
    expected = _core.Expected(
        [(name, d if cast and d in CASTABLE else None, None) for name, d in dtypes.items()]
    )
    expected.base_model_prefix = getattr(owner, "base_model_prefix", "")
    expected.may_miss = True
    expected.cast = cast
    return expected


def _layout_of(source: Any, mapping: PathLike) -> str:
    told = mapping not in ("auto", "none")
    return "runtime" if told or (mapping == "auto" and _has_config(source)) else "same"


def _has_config(source: Any) -> bool:
    return os.path.exists(os.path.join(source.folder, "config.json"))


def _refusal(path: str, report: LoadReport) -> Exception:
    wrong = report.sentences()
    more = f"; and {len(wrong) - MOST_LISTED} more" if len(wrong) > MOST_LISTED else ""
    return error_of(
        "plan",
        f"{path}: the checkpoint does not fit: {'; '.join(wrong[:MOST_LISTED])}{more}",
        "give the mapping or the renames that lead to the module's names, pass cast=True for other "
        "dtypes, or strict=False to load what fits",
        [],
    )


class _Work:
    """What goes where, and what the report says; nothing moves before `run`."""

    def __init__(self, wanted: dict[str, Place], plan: Any, cast: bool) -> None:
        self.report = LoadReport()
        self._wanted = wanted
        self._plan = plan
        self._cast = cast
        self.report.unexpected_keys.update(
            f.tensor for f in plan.findings if f.code == "unexpected"
        )
        self._dtypes = {target.name: target.dtype for target in plan.targets}
        self._owner: dict[Any, str] = {}  # memory → the name that fills it
        self._taken: list[str] = []
        self._twins: dict[str, str] = {}  # name → the taken name with the same memory
        for target in plan.targets:
            self._sort(target)
        self._note_missing()
        self._note_overlaps()
        self._take_parts()

    def _sort(self, target: Any) -> None:
        name, place = target.name, self._wanted[target.name]
        dtype = place.tensor.dtype
        if tuple(target.shape) != place.shape:
            self.report.mismatched_keys.add((name, tuple(target.shape), place.shape))
        elif place.is_elsewhere:
            pass
        elif place.local.device.type == "meta":
            self.report.error_msgs.append(
                f"'{name}' has no memory (meta device): module.to_empty(device='cpu') gives it some"
            )
        elif not self._can_hold(target.dtype, dtype_name(dtype)):
            self.report.error_msgs.append(
                f"'{name}' is {target.dtype}, but the module wants {dtype}"
            )
        else:
            self._take(place)

    def _can_hold(self, stored: str, wanted: str | None) -> bool:
        """True for equal dtypes, and, where casts are asked for, floats of 16 bits or more."""
        return stored == wanted or (self._cast and {stored, wanted} <= set(CASTABLE))

    def _note_overlaps(self) -> None:
        """Tensors that share a part of their memory would overwrite one another."""
        taken = [self._wanted[name] for name in self._taken]
        places = sorted((str(p.local.device), *p.extent, p.name) for p in taken if p.local.numel())
        for (device, _, end, name), (other, begin, _, second) in itertools.pairwise(places):
            if device == other and begin < end:
                self.report.error_msgs.append(f"'{name}' and '{second}' share memory in part")

    def _take(self, place: Place) -> None:
        first = self._owner.setdefault(place.memory, place.name)
        if first == place.name:
            self._taken.append(place.name)
        else:
            self._twins[place.name] = first

    def _note_missing(self) -> None:
        for name, place in self._wanted.items():
            if name in self._dtypes or place.is_elsewhere or place.memory in self._owner:
                continue
            self.report.missing_keys.add(name)

    def _take_parts(self) -> None:
        """Where there are DTensors, goes on with a plan for what this rank holds of the wholes."""
        places = [self._wanted[name] for name in (*self._taken, *self._twins)]
        if not any(place.is_dtensor for place in places):
            return
        self._plan, findings = self._plan.held([place.held for place in places])
        self.report.error_msgs.extend(finding.message for finding in findings)
        left_out = {finding.tensor for finding in findings}
        self._taken = [name for name in self._taken if name not in left_out]
        self._twins = {
            name: first for name, first in self._twins.items() if not left_out & {name, first}
        }

    @torch.no_grad()
    def run(self, options: dict[str, Any], progress: Any) -> None:
        """Compares what is tied, then writes every taken tensor."""
        self._check_twins(options)
        direct = {n: self._wanted[n].local for n in self._taken if self._is_direct(n)}
        if direct:
            part = self._plan.only(list(direct))
            part.load_into(_buffers(direct), progress=progress, **options)
        others = [n for n in self._taken if n not in direct]
        if others:
            for name, tensor in self._plan.only(others).stream(framework="torch", **options):
                self._wanted[name].local.copy_(tensor)

    def _is_direct(self, name: str) -> bool:
        tensor = self._wanted[name].local
        same = dtype_name(tensor.dtype) == self._dtypes[name]
        return tensor.device.type == "cpu" and tensor.is_contiguous() and same

    def _check_twins(self, options: dict[str, Any]) -> None:
        """Names that are one tensor of the module must have one value in the checkpoint."""
        for name, first in self._twins.items():
            loaded, _ = self._plan.only([name, first]).load(framework="torch", **options)
            if not torch.equal(_bits(loaded[name]), _bits(loaded[first])):
                raise _different_twins(name, first)


def _buffers(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The memory of contiguous tensors, whatever their dtype."""
    return {name: _bits(tensor) for name, tensor in tensors.items()}


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def _different_twins(name: str, first: str) -> Exception:
    return error_of(
        "plan",
        f"'{name}' and '{first}' are one tensor of the module, but the checkpoint has different "
        "values for them",
        "untie them, or leave one out with exclude=",
        [],
    )
