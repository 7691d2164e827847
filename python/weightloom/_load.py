"""From a checkpoint to a plan, and from a plan to tensors in memory."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _core
from ._arrays import dtype_name
from ._core import Checkpoint, Expected, Plan, Registry, Stream
from ._errors import TiedValuesWarning, UnlistedTensorsWarning, UsageError, refusal
from ._progress import Progress, callback_for
from ._ranks import Mesh, Rules, spread_request

PathLike = str | os.PathLike[str]
Source = PathLike | Checkpoint
Size = int | str | None
Complete = Callable[[str, Any], object]
Rename = Mapping[str, str] | Iterable[tuple[str, str]] | None

Expect = Mapping[str, Any] | PathLike | Checkpoint | Expected | None

default_registry = Registry()
"""The registry that counts where none is given: the shipped mappings, and what is registered."""


def open(path: PathLike, *, threads: int | None = None) -> Checkpoint:
    """Reads the headers of a checkpoint; data is left where it is.

    Parameters
    ----------
    path : str or os.PathLike
        A ``.safetensors`` file, a folder that holds some, or an index.
    threads : int, optional
        How many read headers; as many as the machine has cores, or 4, by default.

    Returns
    -------
    Checkpoint
        A mapping of names, sorted, to `TensorInfo` (dtype, shape, file, offset, nbytes).

    Raises
    ------
    NotFoundError, AccessError
        If there is nothing at `path`, or it may not be read.
    FormatError, CheckpointError
        If headers, or the set of files, are broken; ``findings`` lists all of what is wrong.
    UnsupportedError
        For pickled weights.
    """
    return _core.open(os.fspath(path), thread_count(threads))


def thread_count(threads: int | None) -> int:
    """The number given, or the library's own."""
    return _core.default_threads() if threads is None else threads


def opened(source: Source, threads: int | None = None) -> Checkpoint:
    """`source` itself if it is a checkpoint, else what stands at that path."""
    return source if isinstance(source, Checkpoint) else open(source, threads=threads)


def size_in_bytes(size: Size) -> int | None:
    """A size as a number of bytes: ``"1GiB"``, ``2**30``; None for None."""
    return _core.parse_byte_size(size) if isinstance(size, str) else size


def rename_pairs(rename: Rename) -> list[tuple[str, str]]:
    """Renames as pairs, in their order."""
    pairs = rename.items() if isinstance(rename, Mapping) else rename or ()
    return [(pattern, text) for pattern, text in pairs]


def expected_of(expect: Expect) -> Expected | None:
    """What a runtime expects, however it was said."""
    if expect is None or isinstance(expect, Expected):
        return expect
    if isinstance(expect, Checkpoint):
        return Expected([(name, *_kind_of(expect[name])) for name in expect])
    if not isinstance(expect, Mapping):
        return _core.read_expected(os.fspath(expect))
    return Expected([(name, *_kind_of(wanted)) for name, wanted in expect.items()])


def _kind_of(wanted: Any) -> tuple[str | None, list[int] | None]:
    if wanted is None:
        return None, None
    if isinstance(wanted, Mapping):  # as the command's --expect FILE has it
        wanted = (wanted.get("dtype"), wanted.get("shape"))
    dtype, shape = (
        (wanted.dtype, wanted.shape) if hasattr(wanted, "dtype") else (wanted[0], wanted[1])
    )
    return dtype_name(dtype), None if shape is None else list(shape)


def texts(globs: Iterable[str] | str, argument: str) -> list[str]:
    """A list of globs; a lone string, which would be taken letter by letter, is refused."""
    if isinstance(globs, str):
        raise refusal(UsageError, f"{argument}='{globs}'", f"give a list: {argument}=['{globs}']")
    return list(globs)


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
    rename: Rename = None,
    expect: Expect = None,
    lenient: bool = False,
    mesh: Mesh = None,
    rank: int | None = None,
    tp_plan: Rules = None,
    placements: Rules = None,
    load_specs: Rules = None,
    dequantize: bool = False,
    quantize: str = "keep",
    registry: Registry | None = None,
    config_json: str | None = None,
    threads: int | None = None,
) -> Plan:
    """Plans a conversion from headers alone; nothing moves.

    Parameters
    ----------
    source : path or Checkpoint
        What is to be converted.
    mapping : str
        ``"auto"``: by the record beside the tensors, else by config.json; ``"none"``: names stay; a
        registered name; a path that ends in ``.json``, or a folder of such files; or the text of a
        mapping file.
    from_ : {"auto", "hub", "runtime"}
        Which layout the source holds. Found out by default.
    to : {"same", "hub", "runtime"}
        Which layout is wanted: as published, or as a program runs it.
    dtype : str, torch.dtype or numpy.dtype, optional
        What tensors of F64, F32, F16 and BF16 become.
    keep_dtype : iterable of str
        Globs over target names that `dtype` does not touch.
    include, exclude : iterable of str
        Globs over target names; `exclude` wins.
    architecture : str, optional
        The class that is to hold the model; config.json's by default.
    rename : mapping or pairs of str, optional
        Regular expressions and texts, run on the source's names before anything else.
    expect : mapping of str, Expected or path, optional
        The tensors that a runtime has places for: by name, with arrays, pairs of dtype and shape
        (either may be None), or None for any; or a file, or a checkpoint, that says so. What is
        missing, unexpected or does not fit is found.
    lenient : bool
        Let pass source tensors that no target uses.
    mesh : str, mapping or DeviceMesh, optional
        The ranks that tensors are spread over: ``"fsdp=4,tp=2"``, ``{"fsdp": 4, "tp": 2}``, torch's
        DeviceMesh, or several of one size by name. The axis fsdp cuts dim 0, dp holds replicas,
        others need `tp_plan` or `placements`.
    rank : int, optional
        The rank whose parts are wanted. A DeviceMesh tells its own. Without it a plan makes whole
        tensors into one file a rank, and loads nothing.
    tp_plan : "auto", path or mapping, optional
        The parallel plan of the model's class; or styles by pattern:
        ``{"layers.*.mlp.up_proj": "colwise"}``.
    placements : path, mapping or list, optional
        How tensors are spread, by glob: ``{"*.weight": [{"axis": "tp", "shard": 0}]}``. What comes
        before `tp_plan`; the first that matches wins.
    load_specs : path or list, optional
        LoadSpecs: keys, fused dim, shards.
    dequantize : bool
        Quantised tensors (FP8, MXFP4, GPTQ, ...: docs/quantisation.md) become values before any
        rule, of `dtype`, else of config.json's dtype, else BF16. By default codes and scales stay.
    quantize : {"keep", "fp8-block", "mxfp4"}
        What weights are quantised to after all rules, but for those that `keep_dtype` or
        config.json's modules_to_not_convert names.
    registry : Registry, optional
        Where mappings are looked up; `default_registry` by default.
    config_json : str, optional
        Text that counts in place of the config.json beside the tensors.
    threads : int, optional
        For matching names.

    Returns
    -------
    Plan
        With ``targets``, ``findings``, ``mapping``, and the ways to run it: ``load``,
        ``load_into``, ``stream``, ``convert``. What is wrong with the tensors stands in
        ``findings``; a plan that they refuse raises `PlanError` when it is run.

    Raises
    ------
    UsageError, MappingError, FormatError
        For what is wrong with the request itself.
    """
    return _core.plan(
        opened(source, threads),
        mapping=os.fspath(mapping),
        from_=from_,
        to=to,
        dtype=dtype_name(dtype),
        keep_dtype=texts(keep_dtype, "keep_dtype"),
        include=texts(include, "include"),
        exclude=texts(exclude, "exclude"),
        architecture=architecture or "",
        renames=rename_pairs(rename),
        lenient=lenient,
        registry=registry if registry is not None else default_registry,
        config_json=config_json,
        expected=expected_of(expect),
        dequantize=dequantize,
        quantize=quantize,
        **spread_request(mesh, rank, tp_plan, placements, load_specs),
        threads=thread_count(threads),
    )


def load(
    path: Source,
    mapping: str = "auto",
    dtype: Any = None,
    threads: int | None = None,
    memory_budget: Size = None,
    progress: Progress = None,
    *,
    to: str = "runtime",
    framework: str = "numpy",
    complete: Complete | None = None,
    tied: Mapping[str, str] | None = None,
    trust_replicas: bool = False,
    **selection: Any,
) -> dict[str, Any]:
    """Loads a checkpoint into memory, in the layout that a program runs.

    With ``mesh`` and ``rank``, what one rank of a parallel program holds of it: only the bytes that
    belong to the rank are read, through any conversion.

    All tensors lie in one arena of huge pages, and each keeps it alive. Nothing is copied on the
    way: bytes are read to where they stay.

    Parameters
    ----------
    path : path or Checkpoint
        A ``.safetensors`` file, a folder, an index.
    mapping, dtype, to, selection
        As `plan` takes them.
    threads : int, optional
        Workers: as many as cores, or 4. 1: synchronous, in order.
    memory_budget : int or str, optional
        Bytes, or ``"1GiB"``: staging and tiles of all workers; results are not counted.
    progress : bool or callable, optional
        None: a bar where somebody watches. True, False: always, never. A callable gets bytes done,
        bytes in all, and a tensor's name, and stops the load with what it raises.
    framework : {"numpy", "torch", "weightloom"}
        What tensors are. NumPy has no BF16, FP8 and narrower; such a tensor is a `Tensor`, which
        never passes for numbers of another type.
    complete : callable, optional
        Called with name and tensor as soon as each is whole, while others are still read.
    tied : mapping of str to str, optional
        Names that are the tensor of another name where the checkpoint does not have them, besides
        those that config.json and the model's class tell of.
    trust_replicas : bool
        Of a sharded folder: take the first rank's where several hold the same part, rather than
        compare them first.

    Returns
    -------
    dict of str to array
        By name; shapes as the plan's targets have them. Names that are tied are one object.

    Warns
    -----
    UnlistedTensorsWarning
        If a shard holds tensors that the index does not list: they are not part of the checkpoint.
    TiedValuesWarning
        If config.json says that two tensors are tied, but their values differ: both are as stored.

    Raises
    ------
    PlanError
        If names, shapes or coverage are wrong; before the first byte is read.
    InputOutputError, NotFoundError, NoSpaceError
        From the system; nothing is left behind.
    KeyboardInterrupt
        At once; nothing is left behind.
    """
    source = opened(path, threads)
    planned = plan(source, mapping=mapping, dtype=dtype, threads=threads, to=to, **selection)
    if not trust_replicas:
        planned.check_replicas(threads=threads, memory_budget=memory_budget)
    tensors, _ = planned.load(
        threads=threads,
        memory_budget=memory_budget,
        progress=callback_for(progress, "load"),
        complete=complete,
        framework=framework,
    )
    for finding in planned.findings:
        if finding.code == "unindexed_tensor" and finding.tensor not in source:
            warnings.warn(finding.message, UnlistedTensorsWarning, stacklevel=2)
    for finding in planned.tied_findings(threads=threads, memory_budget=memory_budget):
        warnings.warn(finding.message, TiedValuesWarning, stacklevel=2)
    for alias, name in (tied or {}).items():
        if alias not in tensors and name not in tensors:
            raise refusal(
                UsageError,
                f"tied: '{alias}' is to be '{name}', but the checkpoint has neither",
                "name a tensor that is loaded",
            )
    for alias, name in (*planned.tied, *(tied or {}).items()):
        if alias not in tensors and name in tensors:
            tensors[alias] = tensors[name]
    return tensors


def stream(
    path: Source,
    mapping: str = "auto",
    dtype: Any = None,
    threads: int | None = None,
    memory_budget: Size = None,
    *,
    to: str = "runtime",
    framework: str = "numpy",
    **selection: Any,
) -> Stream:
    """Loads a checkpoint tensor by tensor: each is handed over as soon as it is complete.

    What is done with one tensor, such as its upload to a device, overlaps with reading the next.
    Each has memory of its own, freed with it. Closing the stream early stops the work.

    Parameters
    ----------
    path, mapping, dtype, threads, to, framework, selection
        As `load` takes them.
    memory_budget : int or str, optional
        Bytes held in working memory and in tensors that were not taken yet, together. A tensor
        larger than half of it comes alone.

    Returns
    -------
    Stream
        An iterator of name and tensor, in the order in which they are complete; also a context
        manager.

    Examples
    --------
    >>> with weightloom.stream("Mixtral-8x7B", framework="torch") as tensors:
    ...     for name, tensor in tensors:
    ...         model[name] = tensor.to("cuda")
    """
    planned = plan(path, mapping=mapping, dtype=dtype, threads=threads, to=to, **selection)
    return planned.stream(threads=threads, memory_budget=memory_budget, framework=framework)
