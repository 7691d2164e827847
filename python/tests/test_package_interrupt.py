"""Ctrl-C, and being killed: a run ends at once and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import weightloom as wl

SIZE_MIB = 512
LONGEST_SECONDS = 2.0

RUN = """
import sys
import weightloom as wl

def tell(done, total, name):
    if done and done < total:
        print("runs", flush=True)  # the signal comes while bytes move

source, target, what = sys.argv[1:4]
try:
    if what == "load":
        wl.load(source, "none", progress=tell, threads=1, memory_budget="2MiB", dtype="F64")
    elif what == "convert":
        wl.convert(source, target, "none", progress=tell, threads=1, memory_budget="2MiB",
                   dtype="F64")
    elif what == "save":
        tensors = wl.load(source, "none", progress=False)
        wl.save(tensors, target, "none", progress=tell, threads=1, memory_budget="2MiB",
                dtype="F64")
    else:
        for name, tensor in wl.stream(source, "none", threads=1, memory_budget="4MiB"):
            print("runs", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
print("finished", flush=True)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 512 MiB."""
    path = tmp_path_factory.mktemp("large") / "large.safetensors"
    piece = np.zeros(1 << 22, np.float32)
    wl.save_file({f"t{i}": piece + i for i in range(SIZE_MIB // 16)}, path)
    return path


@pytest.mark.parametrize("what", ["load", "convert", "save", "stream"])
def test_ctrl_c_ends_a_run_at_once(large: Path, tmp_path: Path, what: str) -> None:
    target = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(large), str(target), what],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "runs\n"
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    rest = process.stdout.read()
    code = process.wait()
    took = time.monotonic() - began
    assert (code, rest.splitlines()[-1]) == (7, "interrupted")
    assert took < LONGEST_SECONDS
    assert list(tmp_path.iterdir()) == []


def test_a_kill_leaves_no_destination(large: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(large), str(tmp_path / "out"), "convert"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "runs\n"
    process.kill()
    process.wait()
    assert not (tmp_path / "out").exists()
    assert os.listdir(tmp_path) == [".out.weightloom-work"]
    wl.convert(large, tmp_path / "out", "none", dtype="F16", progress=False)
    assert os.listdir(tmp_path) == ["out"]
