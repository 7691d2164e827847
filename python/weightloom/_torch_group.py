"""Ranks of `torch.distributed` that exchange bytes: the transport below parallel saving.

It is a gloo group of its own, so that it shares no order and no tags with what a trainer sends, and
may be used from another thread.

gloo knows no abort, and a wait that runs into its time limit closes all connections of its group.
So a rank that fails writes why into the group's store and closes its connections just so. Whoever
waits for it finds the connection closed, and the reason in the store. Whoever waits for another
rank looks into the store from time to time, on a thread of its own, and does likewise.
"""

from __future__ import annotations

import contextlib
import json
import threading
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ._errors import UsageError, refusal

Message = tuple[int, int, torch.Tensor]
Reason = tuple[int, str, str, str]

_NO_TAG = 2**31 - 1  # of no message
_FAILURES = (RuntimeError, ValueError)  # of torch; a ValueError where a group was destroyed
_REASON = "weightloom/ended"
# A rank that lives may write for hours before it answers: only a closed connection is a failure.
_PATIENCE = timedelta(days=7)
_AT_ONCE = timedelta(milliseconds=1)
_FIRST_LOOK_SECONDS, _LAST_LOOK_SECONDS = 0.1, 2.0


class TorchTransport:
    """What `_core.python_group` asks of a transport, over `torch.distributed`.

    Making one is a collective call of the ranks of `group`, as `torch.distributed.new_group` is.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise refusal(
                UsageError,
                "torch.distributed is not initialised, so there are no ranks that could save",
                "call torch.distributed.init_process_group() first, or use weightloom.save",
            )
        if group == dist.GroupMember.NON_GROUP_MEMBER:
            raise refusal(
                UsageError, "this rank is not of the group that saves", "call it on its ranks only"
            )
        self.ranks = sorted(dist.get_process_group_ranks(group or dist.group.WORLD))
        self._group = dist.new_group(
            self.ranks, backend="gloo", use_local_synchronization=group is not None
        )
        self.rank = dist.get_rank(self._group)
        self.size = len(self.ranks)
        self._line = _Line(self._group, self.rank, self.size)
        self._watcher = _Watcher(self._line)
        self._end = weakref.finalize(self, self._watcher.close)

    def exchange(self, outgoing: Sequence[Message], incoming: Sequence[Message]) -> Reason | None:
        """Sends and receives all messages; the reason, if the group has ended."""
        with self._watcher.looking_out():
            return self._exchange(outgoing, incoming)

    def _exchange(self, outgoing: Sequence[Message], incoming: Sequence[Message]) -> Reason | None:
        line, group = self._line, self._group
        if line.reason is not None:
            return line.reason
        peer = self.rank
        works: list[tuple[int, Any]] = []
        try:
            for peer, tag, memory in incoming:
                works.append((peer, dist.irecv(memory, group_src=peer, group=group, tag=tag)))
            for peer, tag, memory in outgoing:
                works.append((peer, dist.isend(memory, group_dst=peer, group=group, tag=tag)))
            for begun in works:
                peer = begun[0]
                begun[1].wait(_PATIENCE)
        except _FAILURES as error:
            return line.lost(peer, str(error))
        return None

    def abort(self, reason: Reason) -> Reason:
        """Ends the group on all ranks; gives the reason that counts."""
        return self._line.end(reason)

    def close(self) -> None:
        """Lets go of the connections. Not while another thread is in `exchange`."""
        self._end()
        with contextlib.suppress(Exception):  # the program may have ended its groups before
            dist.destroy_process_group(self._group)


class _Line:
    """How a group ends: the first reason is told to all ranks, and connections are closed."""

    def __init__(self, group: dist.ProcessGroup, rank: int, size: int) -> None:
        self.reason: Reason | None = None
        self._group, self._rank, self._size = group, rank, size
        self._store = dist.distributed_c10d._get_process_group_store(group)

    def look(self) -> Reason | None:
        """The reason that some rank told, if one did; connections are closed then."""
        with contextlib.suppress(*_FAILURES):  # who keeps the store is gone: connections tell
            if self.reason is None and self._store.check([_REASON]):
                self._take(self._store.get(_REASON))
                self._close_connections()
        return self.reason

    def end(self, reason: Reason) -> Reason:
        """Ends the group for `reason`, unless it has ended."""
        if self.reason is None:
            try:
                self._take(self._store.compare_set(_REASON, "", json.dumps(reason)))
            except _FAILURES:
                self.reason = reason
            self._close_connections()
        return self.reason or reason

    def lost(self, peer: int, error: str) -> Reason:
        """Ends the group because a message to or from `peer` failed, unless a rank told why."""
        why = error.splitlines()[0].split(". This is typically", 1)[0]
        message = f"rank {peer}: its connection to rank {self._rank} is lost: {why}"
        return self.look() or self.end((peer, "io", message, ""))

    def _take(self, told: bytes) -> None:
        rank, code, message, next_step = json.loads(told)
        self.reason = (rank, code, message, next_step)

    def _close_connections(self) -> None:
        """All at once, by a wait for what nobody sends; on a closed one it fails, and does not."""
        for other in range(self._size):
            if other == self._rank:
                continue
            with contextlib.suppress(*_FAILURES):
                nothing = torch.empty(1, dtype=torch.uint8)
                work = dist.irecv(nothing, group_src=other, group=self._group, tag=_NO_TAG)
                work.wait(_AT_ONCE)


class _Watcher:
    """A thread that, while this rank waits, looks whether another has ended the group."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self._changed = threading.Condition()
        self._steps = 0  # a wait begins, a wait ends, …; odd: this rank waits
        self._sleeps = True
        self._closed = False
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def looking_out(self) -> Any:
        """While this is held, the thread looks."""
        self._step()
        try:
            yield
        finally:
            self._step()

    def close(self) -> None:
        """Ends the thread, and waits until it has."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _step(self) -> None:
        with self._changed:
            self._steps += 1
            if self._sleeps and self._steps % 2:
                self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="weightloom-watcher", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while self._wake():
            if self._watch() is not None:
                return

    def _wake(self) -> bool:
        """Sleeps until this rank waits; false if that is all."""
        with self._changed:
            self._sleeps = True
            self._changed.wait_for(lambda: self._closed or self._steps % 2)
            self._sleeps = False
            return not self._closed

    def _watch(self) -> Reason | None:
        """Looks until this wait is over, less and less often."""
        now, pause = self._steps, _FIRST_LOOK_SECONDS
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._closed, pause) or self._steps != now:
                    return None
            if (reason := self._line.look()) is not None:
                return reason
            pause = min(2 * pause, _LAST_LOOK_SECONDS)
