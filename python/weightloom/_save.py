"""From tensors or a checkpoint to files, and comparisons."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _core
from ._arrays import dtype_name, held, written_once
from ._core import Checkpoint, ConvertReport, DiffReport, Registry, Selection, VerifyReport
from ._errors import UsageError, refusal
from ._load import (
    PathLike,
    Size,
    Source,
    default_registry,
    opened,
    plan,
    rename_pairs,
    size_in_bytes,
    texts,
)
from ._progress import Progress, callback_for

_DEFAULT_SHARD_BYTES = 50_000_000_000
_OTHER_SIDE = {"hub": "runtime", "runtime": "hub"}


def in_memory(
    tensors: Mapping[str, Any],
    *,
    config: Any = None,
    record: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Checkpoint:
    """A checkpoint of tensors in memory, which lends their memory and copies nothing.

    Parameters
    ----------
    tensors : mapping of str to array
        NumPy arrays, torch tensors on the CPU or `Tensor`, contiguous.
    config : dict, path or object with ``to_json_string``, optional
        What config.json is to say. A folder stands for the config.json in it.
    record : str, optional
        The text of weightloom.json: ``Plan.record`` of the plan that the tensors were loaded with.
    metadata : mapping of str to str, optional
        Of the header.

    Raises
    ------
    UsageError
        If a tensor has gaps, another device's memory or a dtype of no file, or if two share memory.
    """
    beside = [("config.json", config_text(config)), ("weightloom.json", record)]
    return _core.in_memory(
        [held(name, tensor) for name, tensor in tensors.items()],
        string_pairs({"format": "pt"} if metadata is None else metadata),
        [(name, text) for name, text in beside if text is not None],
    )


def string_pairs(metadata: Mapping[str, str]) -> list[tuple[str, str]]:
    """Header metadata as pairs; anything but text is refused."""
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise refusal(UsageError, f"metadata {key!r}: {value!r} is no text", "give str")
    return list(metadata.items())


def config_text(config: Any) -> str | None:
    """The text of a config: of a dict, of a file or folder, of a Transformers config."""
    if config is None:
        return None
    if isinstance(config, Mapping):
        return json.dumps(config, indent=2)
    if hasattr(config, "to_json_string"):
        return str(config.to_json_string())
    path = Path(config)
    return (path / "config.json" if path.is_dir() else path).read_text(encoding="utf-8")


def save(
    tensors: Mapping[str, Any],
    path: PathLike,
    mapping: str = "auto",
    *,
    config: Any = None,
    record: str | None = None,
    from_: str = "auto",
    to: str = "same",
    max_shard_size: Size = None,
    layout_from: PathLike | None = None,
    metadata: Mapping[str, str] | None = None,
    tied: Mapping[str, str] | None = None,
    overwrite: bool = False,
    checksums: bool = False,
    threads: int | None = None,
    memory_budget: Size = None,
    progress: Progress = None,
    **selection: Any,
) -> ConvertReport:
    """Writes tensors as a checkpoint: durable, in one step, read where they lie.

    Parameters
    ----------
    tensors : mapping of str to array
        NumPy arrays, torch tensors on the CPU or `Tensor`; contiguous. What has gaps is refused:
        copy it first, so that the memory it takes is yours to decide.
    path : path
        A folder, or one file if it ends in ``.safetensors``.
    mapping, from_, selection
        As `plan` takes them. With `to`, `from_` is the other side by default.
    config : dict, path or object with ``to_json_string``, optional
        Written as config.json, and says which mapping applies.
    record : str, optional
        ``Plan.record`` of the plan that the tensors were loaded with. With ``to="hub"`` the
        original files are made again, byte for byte where values are the same.
    to : {"same", "hub", "runtime"}
        In which layout they are written.
    max_shard_size : int or str, optional
        Bytes, or ``"5GB"``, of one file; 50 GB by default, or the original's files by `record`.
    layout_from : path, optional
        A folder or index whose split into files is copied.
    metadata : mapping of str to str, optional
        Of the headers; ``{"format": "pt"}`` by default.
    tied : mapping of str to str, optional
        Names that are another tensor's second name: written once where their bits are the same.
        Two tensors that share memory without being declared here are refused.
    overwrite : bool
        Replace what stands at `path`.
    checksums : bool
        Write digests of the tensors beside them.
    threads, memory_budget, progress
        As `load` takes them. Extra memory is at most the budget.

    Returns
    -------
    ConvertReport

    Raises
    ------
    UsageError, PlanError
        Before anything is written.
    ExistsError, NoSpaceError, AccessError, InputOutputError
        `path` is then as it was.
    """
    source = in_memory(
        written_once(tensors, tied or {}), config=config, record=record, metadata=metadata
    )
    if from_ == "auto" and record is None:
        from_ = _OTHER_SIDE.get(to, "auto")
    planned = plan(source, mapping=mapping, from_=from_, to=to, threads=threads, **selection)
    shard_bytes = size_in_bytes(max_shard_size)
    if shard_bytes is None and record is None:
        shard_bytes = _DEFAULT_SHARD_BYTES
    return planned.convert(
        os.fspath(path),
        max_shard_bytes=shard_bytes,
        layout_from=None if layout_from is None else os.fspath(layout_from),
        metadata=None if metadata is None else string_pairs(metadata),
        overwrite=overwrite,
        checksums=checksums,
        threads=threads,
        memory_budget=memory_budget,
        progress=callback_for(progress, "save"),
    )


def convert(
    src: Source,
    dst: PathLike,
    mapping: str = "auto",
    *,
    max_shard_size: Size = None,
    layout_from: PathLike | None = None,
    overwrite: bool = False,
    resume: bool = False,
    checksums: bool = False,
    drop_tied: bool = False,
    trust_replicas: bool = False,
    threads: int | None = None,
    memory_budget: Size = None,
    progress: Progress = None,
    **selection: Any,
) -> ConvertReport:
    """Converts a checkpoint to a folder or file in another layout, as the command does.

    With ``mesh``, to a sharded folder: one file for each rank, or for the one `rank`, and
    layout.json. A sharded folder as `src` is put together, or spread anew.

    Parameters
    ----------
    src : path or Checkpoint
        What is converted.
    dst : path
        A folder, or one file if it ends in ``.safetensors``.
    mapping, selection
        As `plan` takes them.
    resume : bool
        Go on with a run that was killed.
    drop_tied : bool
        Write tensors that config.json says are tied once, where their values are equal.
    trust_replicas : bool
        Of a sharded `src`: do not compare what several ranks hold alike.
    max_shard_size, layout_from, overwrite, checksums, threads, memory_budget, progress
        As `save` takes them.

    Returns
    -------
    ConvertReport

    Raises
    ------
    PlanError, UsageError, ExistsError, NoSpaceError, AccessError, InputOutputError
        `dst` is then as it was.
    KeyboardInterrupt
        At once; nothing is left behind.
    """
    planned = plan(src, mapping=mapping, threads=threads, **selection)
    return planned.convert(
        os.fspath(dst),
        max_shard_bytes=size_in_bytes(max_shard_size),
        layout_from=None if layout_from is None else os.fspath(layout_from),
        overwrite=overwrite,
        resume=resume,
        checksums=checksums,
        drop_tied=drop_tied,
        trust_replicas=trust_replicas,
        threads=threads,
        memory_budget=memory_budget,
        progress=callback_for(progress, "convert"),
    )


def verify(
    a: Source,
    b: Source | None = None,
    *,
    registry: Registry | None = None,
    threads: int | None = None,
    memory_budget: Size = None,
    progress: Progress = None,
    **selection: Any,
) -> VerifyReport:
    """Is `a` whole; with `b`, are the two the same, bit for bit?

    Parameters
    ----------
    a, b : path or Checkpoint
        `b` is brought to the layout of `a` first, wherever both are.
    registry, threads, memory_budget, progress
        As `load` takes them.
    selection
        As `plan` takes it, for bringing `b` to `a`.

    Returns
    -------
    VerifyReport
        True where nothing differs.
    """
    first = opened(a, threads)
    run = (threads, memory_budget, callback_for(progress, "verify"))
    if b is None:
        return _core.verify_one(first, *run)
    known = registry if registry is not None else default_registry
    return _core.verify_two(first, opened(b, threads), _selection(**selection), known, *run)


def diff(
    a: Source,
    b: Source,
    *,
    registry: Registry | None = None,
    threads: int | None = None,
    memory_budget: Size = None,
    progress: Progress = None,
    **selection: Any,
) -> DiffReport:
    """Tensor by tensor, how two checkpoints differ, in number too.

    Parameters
    ----------
    a, b : path or Checkpoint
    registry, threads, memory_budget, progress, selection
        As `verify` takes them.

    Returns
    -------
    DiffReport
        True where nothing differs.
    """
    known = registry if registry is not None else default_registry
    return _core.diff(
        opened(a, threads),
        opened(b, threads),
        _selection(**selection),
        known,
        threads,
        memory_budget,
        callback_for(progress, "diff"),
    )


def _selection(
    *,
    mapping: str = "auto",
    from_: str = "auto",
    to: str = "same",
    dtype: Any = None,
    keep_dtype: Any = (),
    include: Any = (),
    exclude: Any = (),
    architecture: str | None = None,
    rename: Any = None,
    lenient: bool = False,
    dequantize: bool = False,
    quantize: str = "keep",
) -> Selection:
    selection = Selection()
    selection.mapping, selection.from_, selection.to = mapping, from_, to
    selection.dtype, selection.keep_dtype = dtype_name(dtype), texts(keep_dtype, "keep_dtype")
    selection.include, selection.exclude = texts(include, "include"), texts(exclude, "exclude")
    selection.architecture, selection.renames = architecture or "", rename_pairs(rename)
    selection.lenient = lenient
    selection.dequantize, selection.quantize = dequantize, quantize
    return selection


@dataclass(frozen=True)
class CheckpointFacts:
    """What headers and config.json tell of a checkpoint.

    Attributes
    ----------
    files : list of str
        Names of its safetensors files.
    tensors, parameters, nbytes : int
        How many tensors, how many elements, how many bytes of data.
    dtypes : dict of str to int
        Bytes by dtype.
    mapping : str
        Name of the mapping that applies; ``"plain"``, ``"unknown"``.
    layout : str
        ``"hub"``, ``"runtime"`` or ``"unknown"``.
    findings : list of Finding
        Facts that only inform.
    """

    files: list[str]
    tensors: int
    parameters: int
    nbytes: int
    dtypes: dict[str, int]
    mapping: str
    layout: str
    findings: list[Any]


def inspect(path: Source, *, registry: Registry | None = None) -> CheckpointFacts:
    """What headers and config.json tell of a checkpoint; no data is read."""
    checkpoint = opened(path)
    planned = plan(checkpoint, registry=registry)
    dtypes: dict[str, int] = {}
    parameters = 0
    for info in checkpoint.values():
        dtypes[info.dtype] = dtypes.get(info.dtype, 0) + info.nbytes
        parameters += _elements(info.shape)
    return CheckpointFacts(
        files=checkpoint.files,
        tensors=len(checkpoint),
        parameters=parameters,
        nbytes=checkpoint.nbytes,
        dtypes=dtypes,
        mapping=planned.mapping,
        layout=planned.from_,
        findings=planned.findings,
    )


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
