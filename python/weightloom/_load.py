"""From a checkpoint to tensors in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union

from . import _core
from ._core import Checkpoint, Plan

PathLike = Union[str, "os.PathLike[str]"]
Source = Union[PathLike, Checkpoint]


def open(path: PathLike, *, threads: int | None = None) -> Checkpoint:
    """Reads the headers of a ``.safetensors`` file, a folder or an index."""
    return _core.open(os.fspath(path), threads or _core.default_threads())


def opened(source: Source, threads: int | None = None) -> Checkpoint:
    """`source` itself if it is a checkpoint, else what stands at that path."""
    return source if isinstance(source, Checkpoint) else open(source, threads=threads)


def dtype_name(dtype: Any) -> str | None:
    """A dtype of torch, NumPy or by name as safetensors spells it; None stays None."""
    if dtype is None or dtype in _core.DTYPES:
        return dtype
    name = str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")
    return _BY_NAME.get(name, name)


_BY_NAME = {
    "bfloat16": "BF16",
    "float16": "F16",
    "half": "F16",
    "float32": "F32",
    "float": "F32",
    "float64": "F64",
    "double": "F64",
}


def plan(
    source: Source,
    *,
    mapping: str = "auto",
    from_: str = "auto",
    to: str = "same",
    dtype: Any = None,
    keep_dtype: Iterable[str] = (),
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    architecture: str | None = None,
    rename: Mapping[str, str] | None = None,
    lenient: bool = False,
    threads: int | None = None,
) -> Plan:
    """Plans a conversion from headers alone; nothing moves."""
    return _core.plan(
        opened(source, threads),
        mapping=mapping,
        from_=from_,
        to=to,
        dtype=dtype_name(dtype),
        keep_dtype=list(keep_dtype),
        include=list(include),
        exclude=list(exclude),
        architecture=architecture or "",
        renames=list((rename or {}).items()),
        lenient=lenient,
        threads=threads or _core.default_threads(),
    )


def load(
    path: Source,
    mapping: str = "auto",
    dtype: Any = None,
    threads: int | None = None,
    memory_budget: int | None = None,
    progress: Callable[[int, int, str], object] | None = None,
    *,
    to: str = "runtime",
    framework: str = "numpy",
    complete: Callable[[str, Any], object] | None = None,
    **selection: Any,
) -> dict[str, Any]:
    """Loads a checkpoint into memory."""
    planned = plan(path, mapping=mapping, dtype=dtype, threads=threads, to=to, **selection)
    tensors, _ = planned.load(
        threads=threads,
        memory_budget=memory_budget,
        progress=progress,
        complete=complete,
        framework=framework,
    )
    return tensors
