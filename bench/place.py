"""Where the benchmark's programs and inputs are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Place:
    """Where programs and inputs are, and where outputs go."""

    build: Path
    scratch: Path

    def program(self, name: str) -> Path:
        """A program of the build."""
        return self.build / name

    def script(self, name: str, *arguments: object) -> list[object]:
        """A Python script of this folder, as a command."""
        return [sys.executable, HERE / name, *arguments]

    def make(self, script: str, arguments: Sequence[str], folder: Path) -> Path:
        """Makes an input, unless it is there already."""
        if not (folder / "config.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            kind, *sizes = arguments
            if os.spawnv(
                os.P_WAIT,
                sys.executable,
                [str(word) for word in self.script(script, kind, folder, *sizes)],
            ):
                sys.exit(f"{script} failed")
        return folder

    @property
    def filesystem(self) -> str:
        """Where outputs lie: the kind of filesystem, and its device."""
        command = ["df", "--output=fstype,source", self.scratch]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        kind, device = told.splitlines()[-1].split()
        return f"{kind} on {device}"


def copy_command(source: Path, out: Path) -> str:
    """What everyone does: a copy of the folder, on the disk when it ends."""
    return f'cp -r "{source}" "{out}" && sync -f "{out}"'
