"""Saving what the ranks of `torch.distributed` hold together, each its own bytes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from . import _core
from ._core import ParallelSaveReport, Registry
from ._errors import Error
from ._load import PathLike, Size, default_registry, size_in_bytes
from ._progress import Progress, callback_for
from ._rank_tensors import Part, State, parts_of
from ._save import _DEFAULT_SHARD_BYTES, _OTHER_SIDE, _selection, config_text
from ._torch_group import TorchTransport

Fault = tuple[str, str] | None


class Saver:
    """A save of what ranks hold together, planned once, made as often as it is wanted.

    All ranks of the group make it, and call `save`, together and alike.

    Parameters
    ----------
    module_or_state_dict : torch.nn.Module or mapping of str to torch.Tensor
        What this rank holds: DTensors of any mesh (fully_shard, parallelize_module,
        distribute_tensor), and plain tensors, which are replicas of one another. Two names of one
        tensor are written once, under the first. A module is asked for its state at each save.
    sharded : bool
        Write a sharded folder, one file a rank, in place of an ordinary checkpoint.
    config : dict, path or object with ``to_json_string``, optional
        Written as config.json, and says which mapping applies; a module's ``config`` by default.
    mapping : str
        As `weightloom.plan` takes it.
    group : torch.distributed.ProcessGroup, optional
        The ranks that save; all by default. It is not used itself: a gloo group of the same ranks
        is made, so that saving does not mix with what the trainer sends.
    record : str, optional
        ``Plan.record`` of the plan that the tensors were loaded with.
    from_, to, selection
        As `weightloom.save` takes them; `to` is ``"hub"``, or ``"same"`` for a sharded folder.
    max_shard_size, layout_from, overwrite
        As `weightloom.save` takes them.
    async_ : bool
        `save` copies the tensors, gives a `SaveHandle`, and the rest is done on a thread.
    registry : Registry, optional
        `weightloom.default_registry` by default.
    threads : int, optional
        Of each rank.
    memory_budget : int or str, optional
        Of each rank, for the copies of its tensors (all with `async_`; else those that are not on
        the CPU or have gaps) and for working memory. By default the copies take what they take,
        beside the library's own working memory.

    Raises
    ------
    UsageError, PlanError
        On all ranks, if one rank cannot save what it is given, if ranks contradict each other, or
        if the budget is too small.
    """

    def __init__(
        self,
        module_or_state_dict: State,
        *,
        sharded: bool = False,
        config: Any = None,
        mapping: str = "auto",
        group: dist.ProcessGroup | None = None,
        record: str | None = None,
        from_: str = "auto",
        to: str | None = None,
        max_shard_size: Size = None,
        layout_from: PathLike | None = None,
        overwrite: bool = False,
        async_: bool = False,
        registry: Registry | None = None,
        threads: int | None = None,
        memory_budget: Size = None,
        **selection: Any,
    ) -> None:
        self._state, self._async = module_or_state_dict, async_
        self._staged: dict[str, torch.Tensor] = {}
        self._latest: SaveHandle | None = None
        self._transport = TorchTransport(group)
        asked, fault, cause = _attempted(
            lambda: {
                **self._described(self._parts(module_or_state_dict)),
                **_sides(mapping, from_, to or ("same" if sharded else "hub"), record, selection),
                "texts": _side_texts(module_or_state_dict, config, record),
                "max_shard_bytes": _shard_bytes(max_shard_size, record),
                "layout_from": None if layout_from is None else os.fspath(layout_from),
                "memory_budget": size_in_bytes(memory_budget),
            },
            _NOTHING_ASKED,
        )
        try:
            self._saver = _core.ParallelSave(
                _core.python_group(self._transport),
                **asked,
                sharded=sharded,
                overwrite=overwrite,
                fault=fault,
                registry=registry if registry is not None else default_registry,
                threads=threads,
            )
        except BaseException as error:
            self._transport.close()
            raise error from cause

    @property
    def tied(self) -> dict[str, str]:
        """Second names of tensors, with the names that they are written under."""
        return dict(self._saver.tied)

    @property
    def mapping(self) -> str:
        """Name of the mapping that applies."""
        return str(self._saver.mapping)

    @property
    def findings(self) -> list[_core.Finding]:
        """All that the plan found, of every severity."""
        return self._saver.findings

    def save(
        self,
        path: PathLike,
        module_or_state_dict: State | None = None,
        *,
        progress: Progress = None,
    ) -> Any:
        """Writes what the ranks hold now; durable, and put in place in one step.

        A save that is under way is waited for first; what went wrong with it is raised then, unless
        its handle has raised it.

        Parameters
        ----------
        path : path
            A folder, on a filesystem that all ranks share.
        module_or_state_dict : optional
            In place of what the saver was made of: the same names, dtypes, shapes and placements.
        progress : bool or callable, optional
            As `weightloom.load` takes it. By default only the first rank shows a bar, and none
            with ``async_``.

        Returns
        -------
        ParallelSaveReport or SaveHandle
            With ``async_`` the handle, when the tensors are copied: they may be changed then.

        Raises
        ------
        UsageError
            On all ranks, if a tensor is not what was planned.
        ExistsError, NoSpaceError, AccessError, NotFoundError, InputOutputError, CancelledError
            On all ranks; ``rank`` says which one met it. `path` is then as it was. After a rank was
            lost or interrupted the saver is of no more use.
        """
        self._settle()
        state = self._state if module_or_state_dict is None else module_or_state_dict
        callback = callback_for(self._suited(progress), "save")
        (parts, buffers), fault, cause = _attempted(lambda: self._staged_parts(state), ([], {}))

        def run() -> ParallelSaveReport:
            try:
                return self._saver.save(
                    [part.described for part in parts], buffers, os.fspath(path), fault, callback
                )
            except Error as error:
                raise error from cause

        if not self._async:
            return run()
        self._latest = SaveHandle(run)
        return self._latest

    def close(self) -> None:
        """Waits for what is under way, and lets go of the connections."""
        try:
            self._settle()
        finally:
            self._transport.close()

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _settle(self) -> None:
        latest, self._latest = self._latest, None
        if latest is not None:
            latest.settle()

    def _suited(self, progress: Progress) -> Progress:
        silent = self._async or self._transport.rank != 0
        return False if progress is None and silent else progress

    def _parts(self, state: State) -> list[Part]:
        return parts_of(state, self._transport.ranks)

    def _described(self, parts: list[Part]) -> dict[str, Any]:
        return {
            "tensors": [part.described for part in parts],
            "staged_bytes": sum(part.nbytes for part in parts if self._is_staged(part)),
        }

    def _is_staged(self, part: Part) -> bool:
        return self._async or not part.lies_ready

    def _staged_parts(self, state: State) -> tuple[list[Part], dict[str, torch.Tensor]]:
        parts = self._parts(state)
        return parts, {part.name: _bytes_of(self._ready(part)) for part in parts}

    def _ready(self, part: Part) -> torch.Tensor:
        """The part where it lies, or its copy, in memory that is kept from save to save."""
        if not self._is_staged(part):
            return part.local
        kept = self._staged.get(part.name)
        if kept is None or kept.shape != part.local.shape or kept.dtype != part.local.dtype:
            pinned = part.local.device.type == "cuda"  # so that the device writes it by itself
            kept = torch.empty(part.local.shape, dtype=part.local.dtype, pin_memory=pinned)
            self._staged[part.name] = kept
        return kept.copy_(part.local)


class SaveHandle:
    """A save on its way; made by `save_hub`, `save_sharded` and `Saver.save` with ``async_``."""

    def __init__(self, run: Callable[[], ParallelSaveReport]) -> None:
        self._report: ParallelSaveReport | None = None
        self._error: BaseException | None = None
        self._told = False
        self._at_end: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, args=(run,), name="weightloom-save")
        self._thread.start()

    def done(self) -> bool:
        """True if the save has ended, well or not."""
        return not self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> ParallelSaveReport:
        """Waits until the save has ended, and gives its report.

        Raises
        ------
        TimeoutError
            If it has not ended after so many seconds; it goes on.
        Error
            What went wrong with it, as `Saver.save` raises it.
        """
        self._thread.join(timeout)
        if not self.done():
            raise TimeoutError(f"the save has not ended after {timeout} seconds; it goes on")
        if self._at_end is not None:
            self._at_end()
            self._at_end = None
        self._told = True
        if self._error is not None:
            raise self._error
        assert self._report is not None
        return self._report

    def settle(self) -> None:
        """Waits; raises only what `wait` has not raised before."""
        if not self._told:
            self.wait()

    def _run(self, run: Callable[[], ParallelSaveReport]) -> None:
        try:
            self._report = run()
        except BaseException as error:
            self._error = error


def save_hub(
    module_or_state_dict: State,
    path: PathLike,
    *,
    progress: Progress = None,
    async_: bool = False,
    **options: Any,
) -> Any:
    """Writes what the ranks of a trainer hold as an ordinary checkpoint, without gathering it.

    Every rank calls it. Each writes its own bytes of the final files; nothing is gathered, and no
    second pass is made. The result is, byte for byte, what `weightloom.save` makes of the whole
    tensors. For saves that recur, a `Saver` keeps the plan.

    Parameters
    ----------
    module_or_state_dict : torch.nn.Module or mapping of str to torch.Tensor
        What this rank holds; see `Saver`.
    path : path
        A folder, on a filesystem that all ranks share.
    progress
        As `Saver.save` takes it.
    async_ : bool
        Return when the tensors are copied. The save before it is waited for first.
    options
        As `Saver` takes them: ``config=``, ``mapping=``, ``group=``, ``max_shard_size=``,
        ``overwrite=``, ``dtype=``, ``memory_budget=``, …

    Returns
    -------
    ParallelSaveReport or SaveHandle

    Raises
    ------
    Error
        As `Saver` and `Saver.save` raise it, on all ranks; `path` is then as it was.
    """
    return _save_once(module_or_state_dict, path, progress, async_=async_, **options)


def save_sharded(
    module_or_state_dict: State,
    path: PathLike,
    *,
    progress: Progress = None,
    async_: bool = False,
    **options: Any,
) -> Any:
    """Writes what the ranks of a trainer hold as a sharded folder: ``layout.json``, a file a rank.

    Every rank calls it, and writes its own file; the folder is put in place in one step when all
    are written. `weightloom.convert` and the command read it, whatever mesh they are to write.

    Parameters, results and errors are those of `save_hub`.
    """
    return _save_once(module_or_state_dict, path, progress, sharded=True, async_=async_, **options)


_latest: SaveHandle | None = None


def _save_once(state: State, path: PathLike, progress: Progress, **options: Any) -> Any:
    global _latest
    earlier, _latest = _latest, None
    if earlier is not None:
        earlier.settle()
    saver = Saver(state, **options)
    if not options["async_"]:
        with saver:
            return saver.save(path, progress=progress)
    handle: SaveHandle = saver.save(path, progress=progress)
    handle._at_end = saver._transport.close
    _latest = handle
    return handle


_NOTHING_ASKED: dict[str, Any] = {
    "tensors": [],
    "texts": [],
    "selection": _core.Selection(),
    "max_shard_bytes": None,
    "layout_from": None,
    "staged_bytes": 0,
    "memory_budget": None,
}


def _sides(
    mapping: str, from_: str, to: str, record: str | None, selection: dict[str, Any]
) -> dict[str, Any]:
    """The selection; the state is on the other side than what is written, as `save` takes it."""
    if from_ == "auto" and record is None:
        from_ = _OTHER_SIDE.get(to, "auto")
    return {"selection": _selection(mapping=mapping, from_=from_, to=to, **selection)}


def _side_texts(state: State, config: Any, record: str | None) -> list[tuple[str, str]]:
    """What is to stand beside the tensors; a model's own config, if none is given."""
    if config is None and isinstance(state, torch.nn.Module):
        own = getattr(state, "config", None)
        config = own if hasattr(own, "to_json_string") else None
    beside = [("config.json", config_text(config)), ("weightloom.json", record)]
    return [(name, text) for name, text in beside if text is not None]


def _shard_bytes(max_shard_size: Size, record: str | None) -> int | None:
    """None: as the record tells."""
    given = size_in_bytes(max_shard_size)
    return _DEFAULT_SHARD_BYTES if given is None and record is None else given


def _attempted(work: Callable[[], Any], otherwise: Any) -> tuple[Any, Fault, Exception | None]:
    """What `work` gives; or what went wrong, for all ranks to hear of it together."""
    try:
        return work(), None, None
    except Error as error:
        return otherwise, (error.message, error.next_step), error
    except Exception as error:
        return otherwise, (f"{type(error).__name__}: {error}", ""), error


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().reshape(-1).view(torch.uint8)
