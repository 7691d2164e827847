"""What a long run shows while it goes: a bar on a terminal, a line in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

Callback = Callable[[int, int, str], object]
Progress = bool | Callback | None

_PATIENCE_SECONDS = 0.5  # a shorter run shows nothing
_BAR_WIDTH = 24


def callback_for(progress: Progress, what: str) -> Callback | None:
    """What a run is to call.

    None shows a bar where somebody watches (a terminal on stderr, or a notebook), True shows one in
    any case, False none; a callable is called with bytes done, bytes in all, a tensor's name.
    """
    if callable(progress):
        return progress
    if progress is False:
        return None
    show = _notebook_line()
    if show is None and (progress or sys.stderr.isatty()):
        show = _terminal_line
    return None if show is None else Bar(what, show, patience=0 if progress else _PATIENCE_SECONDS)


class Bar:
    """One line that tells how far a run is, how fast, and how long it takes yet."""

    def __init__(self, what: str, show: Callable[[str, bool], None], patience: float) -> None:
        self._what = what
        self._show = show
        self._patience = patience
        self._began = time.monotonic()
        self._shown = 0.0

    def __call__(self, done: int, total: int, tensor: str) -> None:
        now = time.monotonic()
        elapsed = now - self._began
        ends = done >= total
        if elapsed < self._patience or (not ends and now - self._shown < 0.1):
            return
        self._shown = now
        self._show(_line(self._what, done, total, elapsed), ends)


def _line(what: str, done: int, total: int, seconds: float) -> str:
    share = done / total if total else 1.0
    filled = round(share * _BAR_WIDTH)
    bar = "█" * filled + "░" * (_BAR_WIDTH - filled)
    rate = done / seconds if seconds > 0 else 0.0
    left = (total - done) / rate if rate > 0 else 0.0
    return (
        f"{what} {bar} {share:4.0%}  {_size(done)} of {_size(total)}  {_size(rate)}/s  {left:.0f} s"
    )


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _terminal_line(text: str, ends: bool) -> None:
    sys.stderr.write(f"\r{text}\x1b[K" + ("\n" if ends else ""))
    sys.stderr.flush()


def _notebook_line() -> Callable[[str, bool], None] | None:
    """Shows a line in place in a notebook; None where there is none."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    if type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import display  # type: ignore[import-not-found]

    handle: Any = None

    def show(text: str, ends: bool) -> None:
        nonlocal handle
        content = {"text/plain": text}
        if handle is None:
            handle = display(content, raw=True, display_id=True)
        else:
            handle.update(content, raw=True)

    return show
