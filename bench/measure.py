"""Runs commands in turn and tells how long they took and how much memory they held."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One run of a command."""

    wall_seconds: float
    peak_rss_bytes: int
    output: str

    @property
    def json(self) -> Any:
        """What the command printed, read as JSON."""
        return json.loads(self.output)

    @property
    def told_seconds(self) -> float:
        """The seconds that the command itself printed: as JSON, or as its first number."""
        try:
            return float(self.json["seconds"])
        except (ValueError, KeyError, TypeError):
            found = re.search(r"\d+\.\d+(e-?\d+)?", self.output)
            if found is None:
                raise ValueError(f"no seconds in {self.output!r}") from None
            return float(found[0])


def run_once(command: Sequence[object]) -> Sample:
    """Runs a command to its end; its peak is what wait4 says of it and its children."""
    with tempfile.TemporaryFile("w+") as output:
        start = time.perf_counter()
        words = [str(word) for word in command]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RuntimeError(f"exit code {process.returncode}: {' '.join(words)}")
        output.seek(0)
        return Sample(wall, usage.ru_maxrss * 1024, output.read())


@dataclass
class Row:
    """One line of a table: a command, what it writes, and the samples taken of it."""

    name: str
    command: Sequence[object]
    output: Path | None = None  # removed before each run
    told: bool = False  # count the seconds that the command prints, not the process's
    first: Sample | None = None
    samples: list[Sample] = field(default_factory=list)

    @property
    def possible(self) -> bool:
        """False where the program has not been built."""
        return shutil.which(str(self.command[0])) is not None

    def run(self) -> Sample:
        """One run, from a clean and synced disk."""
        if self.output is not None:
            shutil.rmtree(self.output, ignore_errors=True)
            subprocess.run(["sync", "-f", self.output.parent], check=True)
        return run_once(self.command)

    def run_pair(self) -> None:
        """An untimed run, whose memory may be new to this machine, and a timed one."""
        warm = self.run()
        self.first = self.first or warm
        self.samples.append(self.run())

    def seconds_of(self, sample: Sample) -> float:
        """The seconds that count."""
        return sample.told_seconds if self.told else sample.wall_seconds

    @property
    def seconds(self) -> float:
        """The median."""
        return statistics.median(self.seconds_of(sample) for sample in self.samples)

    @property
    def first_seconds(self) -> float:
        """The first run, in memory that is cold."""
        assert self.first is not None
        return self.seconds_of(self.first)

    @property
    def peak_rss_bytes(self) -> int:
        """The largest of all timed runs."""
        return max(sample.peak_rss_bytes for sample in self.samples)

    @property
    def json(self) -> Any:
        """What the last run printed, read as JSON."""
        return self.samples[-1].json


def measure(rows: Sequence[Row], rounds: int) -> dict[str, Row]:
    """Runs the rows in turn, `rounds` times, and gives those that could be run, by name."""
    rows = [row for row in rows if row.possible]
    for number in range(rounds):
        for row in rows:
            print(f"  round {number + 1} of {rounds}: {row.name}", flush=True)
            row.run_pair()
    return {row.name: row for row in rows}
