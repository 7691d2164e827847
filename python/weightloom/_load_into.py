"""Loading into tensors that exist: the work of `weightloom.torch.load_into`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

import torch

from . import _core, _load
from ._errors import error_of

PathLike = Union[str, "os.PathLike[str]"]
MOST_LISTED = 20


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
        Sentences on everything else: dtypes that differ, tied names with different values.
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
    path: PathLike,
    *,
    mapping: str = "auto",
    to: str | None = None,
    cast: bool = False,
    strict: bool = True,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    rename: Mapping[str, str] | None = None,
    threads: int | None = None,
    memory_budget: int | None = None,
    progress: Any = None,
) -> LoadReport:
    """Fill the tensors of a module, or of a dict, from a checkpoint; they stay the same objects.

    The values are written where the tensors lie: parameters keep their identity, so optimisers,
    hooks and views go on working. Everything is compared before the first byte moves. Tied names
    are one tensor: the checkpoint may give one of them, or all with the same values.

    Parameters
    ----------
    module_or_state_dict
        A module, whose parameters and persistent buffers are filled, or tensors by name. On the CPU
        and without gaps they are written into; elsewhere, and with strides of their own, they are
        copied into.
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
        What was missing, unexpected or of another shape; empty when `strict`.

    Raises
    ------
    weightloom.PlanError
        If `strict` and anything does not fit, or if the mapping cannot be applied whole. The
        tensors are as they were.
    """
    wanted = _tensors_of(module_or_state_dict)
    source = _load.opened(path, threads)
    plan = _load.plan(
        source,
        mapping=mapping,
        to=to or _layout_of(source, mapping),
        include=include,
        exclude=exclude,
        rename=rename,
        lenient=True,
        threads=threads,
    )
    plan.raise_if_refused()
    work = _Work(wanted, plan, cast)
    if strict and not work.report.is_clean:
        raise _refusal(source.path, work.report)
    run = {"threads": threads, "memory_budget": memory_budget, "progress": progress}
    work.run(run)
    return work.report


def _tensors_of(owner: torch.nn.Module | Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    if isinstance(owner, torch.nn.Module):
        owner = owner.state_dict(keep_vars=True)
    return {name: t.detach() for name, t in owner.items() if isinstance(t, torch.Tensor)}


def _layout_of(source: Any, mapping: str) -> str:
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

    def __init__(self, wanted: dict[str, torch.Tensor], plan: Any, cast: bool) -> None:
        self.report = LoadReport()
        self._wanted = wanted
        self._plan = plan
        self._cast = cast
        self._dtypes = {target.name: target.dtype for target in plan.targets}
        self._owner: dict[Any, str] = {}  # memory → the name that fills it
        self._taken: list[str] = []
        self._twins: dict[str, str] = {}  # name → the taken name with the same memory
        for target in plan.targets:
            self._sort(target)
        self._note_missing()

    def _sort(self, target: Any) -> None:
        name, tensor = target.name, self._wanted.get(target.name)
        if tensor is None:
            self.report.unexpected_keys.add(name)
        elif tuple(target.shape) != tuple(tensor.shape):
            shapes = (tuple(target.shape), tuple(tensor.shape))
            self.report.mismatched_keys.add((name, *shapes))
        elif not self._cast and target.dtype != _dtype_name(tensor.dtype):
            self.report.error_msgs.append(
                f"'{name}' is {target.dtype}, but the module wants {tensor.dtype}"
            )
        else:
            self._take(name, tensor)

    def _take(self, name: str, tensor: torch.Tensor) -> None:
        first = self._owner.setdefault(_memory_of(tensor, name), name)
        if first == name:
            self._taken.append(name)
        else:
            self._twins[name] = first

    def _note_missing(self) -> None:
        for name, tensor in self._wanted.items():
            if name not in self._dtypes and _memory_of(tensor, name) not in self._owner:
                self.report.missing_keys.add(name)

    @torch.no_grad()
    def run(self, options: dict[str, Any]) -> None:
        """Compares what is tied, then writes every taken tensor."""
        self._check_twins(options)
        direct = {n: self._wanted[n] for n in self._taken if self._is_direct(n)}
        if direct:
            self._plan.only(list(direct)).load_into(direct, **options)
        others = [n for n in self._taken if n not in direct]
        if others:
            for name, tensor in self._plan.only(others).stream(framework="torch", **options):
                self._wanted[name].copy_(tensor)

    def _is_direct(self, name: str) -> bool:
        tensor = self._wanted[name]
        same = _dtype_name(tensor.dtype) == self._dtypes[name]
        return tensor.device.type == "cpu" and tensor.is_contiguous() and same

    def _check_twins(self, options: dict[str, Any]) -> None:
        """Names that are one tensor of the module must have one value in the checkpoint."""
        for name, first in self._twins.items():
            loaded, _ = self._plan.only([name, first]).load(framework="torch", **options)
            if not torch.equal(_bits(loaded[name]), _bits(loaded[first])):
                raise _different_twins(name, first)


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


def _memory_of(tensor: torch.Tensor, name: str) -> Any:
    """Equal for names that are one tensor; memory of no bytes is nobody's."""
    if tensor.numel() == 0 or tensor.device.type == "meta":
        return name
    return (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride())


def _dtype_name(dtype: torch.dtype) -> str:
    return _TORCH_NAMES.get(dtype, str(dtype))


def _torch_names() -> dict[torch.dtype, str]:
    spelled = {
        "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16",
        "I32": "int32", "U32": "uint32", "I64": "int64", "U64": "uint64", "F16": "float16",
        "BF16": "bfloat16", "F32": "float32", "F64": "float64", "C64": "complex64",
        "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
        "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
        "F8_E8M0": "float8_e8m0fnu", "F4": "float4_e2m1fn_x2",
    }  # fmt: skip
    known = {name: getattr(torch, word, None) for name, word in spelled.items()}
    return {dtype: name for name, dtype in known.items() if dtype and name in _core.DTYPES}


_TORCH_NAMES = _torch_names()
