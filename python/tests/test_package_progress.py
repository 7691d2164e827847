"""What long runs show: a bar on a terminal, a line in a notebook, or nothing."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import types
from pathlib import Path

import pytest
from test_package_load import mixtral

import weightloom as wl
from weightloom import _progress

__all__ = ["mixtral"]


class Terminal(io.StringIO):
    """A stderr that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_nothing_is_shown_where_nobody_watches(
    mixtral: Path, capsys: pytest.CaptureFixture
) -> None:
    wl.load(mixtral)
    wl.load(mixtral, progress=False)
    assert capsys.readouterr() == ("", "")


def test_a_bar_is_shown_where_it_is_asked_for(mixtral: Path, capsys: pytest.CaptureFixture) -> None:
    wl.load(mixtral, progress=True)
    shown = capsys.readouterr().err
    assert shown.startswith("\rload ")
    assert "100%" in shown
    assert shown.endswith("\n")


def test_a_short_run_shows_no_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, clock = Terminal(), [100.0]
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(_progress.time, "monotonic", lambda: clock[0])
    tell = _progress.callback_for(None, "load")
    assert tell is not None
    clock[0] += 0.2
    tell(1 << 20, 1 << 22, "a")
    assert terminal.getvalue() == ""
    clock[0] += 1.8
    tell(1 << 21, 1 << 22, "b")
    shown = terminal.getvalue()
    assert " 50%" in shown
    assert "2.0 MiB of 4.0 MiB" in shown
    assert "1.0 MiB/s" in shown
    assert "2 s" in shown
    tell((1 << 21) + 1, 1 << 22, "b")  # too soon after the last line
    assert terminal.getvalue() == shown


def test_callables_and_switches_are_told_apart() -> None:
    assert _progress.callback_for(False, "load") is None
    assert _progress.callback_for(print, "load") is print


def test_in_a_notebook_one_line_is_shown_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, str]] = []

    class ZMQInteractiveShell:
        """What a notebook's shell is called."""

    class Handle:
        def update(self, content: dict[str, str], raw: bool) -> None:
            shown.append(("update", content["text/plain"]))

    def display(content: dict[str, str], raw: bool, display_id: bool) -> Handle:
        shown.append(("display", content["text/plain"]))
        return Handle()

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = ZMQInteractiveShell  # type: ignore[attr-defined]
    ipython.display = types.ModuleType("IPython.display")  # type: ignore[attr-defined]
    ipython.display.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)  # type: ignore[attr-defined]
    tell = _progress.callback_for(True, "load")
    assert tell is not None
    tell(0, 0, "")
    tell(10, 10, "a")
    assert [kind for kind, _ in shown] == ["display", "update"]
    assert "100%" in shown[-1][1]


def test_a_real_terminal_gets_the_bar(mixtral: Path) -> None:
    main, other = pty.openpty()
    code = f"import weightloom as wl; wl.load({str(mixtral)!r}, progress=True)"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=other)
    os.close(other)
    assert process.wait() == 0
    assert b"100%" in os.read(main, 10_000)
    os.close(main)
