"""What importing the package costs and brings along, and that nothing leaks at exit."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import weightloom as wl
from weightloom import _core

PACKAGE = Path(wl.__file__).parent
SYSTEM = re.compile(r"^(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so|ld-linux)")
STUB = Path(__file__).resolve().parents[1] / "weightloom" / "_core.pyi"


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Runs a fresh interpreter."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def seconds_of(code: str) -> float:
    """How long a fresh interpreter takes."""
    began = time.perf_counter()
    python(code)
    return time.perf_counter() - began


def test_importing_brings_neither_numpy_nor_torch() -> None:
    done = python("import sys, weightloom; print(*sys.modules)")
    modules = set(done.stdout.split())
    assert not modules & {"numpy", "torch", "transformers", "safetensors"}


def test_importing_takes_no_longer_than_importing_numpy() -> None:
    pairs = [(seconds_of("import weightloom"), seconds_of("import numpy")) for _ in range(5)]
    ours, numpys = (statistics.median(times) for times in zip(*pairs, strict=True))
    assert ours <= numpys


def needed_by(library: Path) -> list[str]:
    """The shared libraries that one names."""
    done = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", done.stdout)


def test_the_package_carries_every_library_that_the_system_may_lack() -> None:
    module = Path(_core.__file__)
    carried = {path.name for path in (PACKAGE / "_libs").iterdir()}
    named = {name for path in (module, *(PACKAGE / "_libs").iterdir()) for name in needed_by(path)}
    assert {name for name in named if not SYSTEM.match(name)} == carried
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["ldd", module], capture_output=True, text=True, check=True, env=environment
    )
    found = dict(re.findall(r"(\S+) => (\S+)", done.stdout))
    assert {Path(found[name]).parent for name in carried} == {PACKAGE / "_libs"}


USE_ALL = """
import gc, json, sys
import numpy, weightloom as wl
source, target = sys.argv[1], sys.argv[2]
tensors = wl.load(source, framework="numpy", complete=lambda *_: None, progress=lambda *_: None)
plan = wl.plan(source, to="runtime")
stream = plan.stream(framework="weightloom")
next(stream)
kept = plan.load(framework="weightloom")[0]
array = numpy.from_dlpack(wl.in_memory({"a": numpy.ones(3)}) and numpy.ones(3))
memory = wl.in_memory({"a": numpy.ones(3)})
wl.convert(source, target, to="runtime")
for call in (lambda: wl.open("absent"), lambda: wl.open(source)["absent"],
             lambda: wl.load(source, progress=lambda *_: 1 / 0)):
    try:
        call()
    except Exception as error:
        last = error
registry = wl.Registry()
"""


def test_nothing_is_reported_as_leaked_at_exit(tmp_path: Path) -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "mixtral-tiny"
    command = [sys.executable, "-c", USE_ALL, str(example), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "leak" not in done.stderr
    assert done.stderr == ""


def test_the_stub_is_what_nanobind_writes(tmp_path: Path) -> None:
    stubgen = pytest.importorskip("nanobind.stubgen")
    assert stubgen is not None
    written = tmp_path / "_core.pyi"
    subprocess.run(
        [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "weightloom._core", "-o", written],
        check=True,
    )
    assert written.read_text() == STUB.read_text(), "write it anew: scripts/write_stub.sh"


def test_version_and_dtypes() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", wl.__version__)
    assert len(_core.DTYPES) == 22
    assert np.dtype("float32").name == "float32"
