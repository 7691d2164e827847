"""Streams: tensors one by one, bounded in memory, and ended early without a trace."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from safetensors_by_hand import f32, write_file
from test_package_load import expected_runtime, mixtral

import weightloom as wl

__all__ = ["mixtral"]
SHAPE = (64, 1024)  # 256 KiB


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Forty tensors of 256 KiB, one without elements and one of 4 MiB."""
    tensors = {f"t{i:02}": f32(i, SHAPE) for i in range(40)}
    tensors["empty"] = f32(0, (0, 3))
    tensors["large"] = f32(41, (1024, 1024))
    write_file(tmp_path / "many.safetensors", tensors)
    return tmp_path / "many.safetensors"


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("budget", ["8MiB", "256MiB"])
def test_each_tensor_comes_once_and_whole(many: Path, threads: int, budget: str) -> None:
    stream = wl.stream(many, "none", threads=threads, memory_budget=budget)
    seen = {}
    for name, array in stream:
        assert name not in seen
        seen[name] = array
    assert len(seen) == 42
    for i in range(40):
        wanted = i * 4096 + np.arange(64 * 1024, dtype=np.float32)
        np.testing.assert_array_equal(seen[f"t{i:02}"].reshape(-1), wanted)
    assert seen["empty"].shape == (0, 3)
    assert seen["large"][-1, -1] == 41 * 4096 + (1 << 20) - 1
    assert stream.findings == []
    assert list(stream) == []


def test_a_stream_converts_as_a_load_does(mixtral: Path) -> None:
    streamed = {name: tensor.numpy(view="uint16") for name, tensor in wl.stream(mixtral, threads=3)}
    expected = expected_runtime()
    assert streamed.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(streamed[name], array)


@pytest.mark.parametrize("taken", [0, 1, 17])
def test_a_stream_that_is_forgotten_or_closed_stops_its_threads(many: Path, taken: int) -> None:
    before = threads_of_this_process()
    stream = wl.stream(many, "none", threads=4, memory_budget="8MiB")
    for _ in range(taken):
        next(stream)
    del stream
    gc.collect()
    assert threads_of_this_process() == before
    with wl.stream(many, "none", threads=4, memory_budget="8MiB") as stream:
        for _ in range(taken):
            next(stream)
    assert threads_of_this_process() == before
    with pytest.raises(StopIteration):
        next(stream)
    stream.close()


def threads_of_this_process() -> int:
    """How many threads the system counts."""
    return len(list(Path("/proc/self/task").iterdir()))


def test_what_breaks_while_streaming_is_raised(many: Path) -> None:
    plan = wl.plan(many, mapping="none")
    with many.open("r+b") as file:
        file.truncate(many.stat().st_size - 1)
    with pytest.raises(wl.CheckpointError, match="changed since"):
        list(plan.stream(memory_budget="8MiB"))


def test_a_budget_too_small_for_the_threads_is_refused(many: Path) -> None:
    with pytest.raises(wl.UsageError, match="memory budget"):
        wl.stream(many, "none", threads=4, memory_budget="2MiB")


def test_other_python_threads_run_while_a_stream_is_waited_for(many: Path) -> None:
    ran = threading.Event()
    worker = threading.Thread(target=ran.set)
    with wl.stream(many, "none", memory_budget="8MiB") as stream:
        worker.start()
        list(stream)
    worker.join()
    assert ran.is_set()


def test_a_stream_may_be_closed_from_another_thread(many: Path) -> None:
    stream = wl.stream(many, "none", threads=2, memory_budget="8MiB")
    next(stream)
    closer = threading.Thread(target=stream.close)
    closer.start()
    with contextlib.suppress(wl.CancelledError):
        assert len(list(stream)) <= 41
    closer.join()
    assert list(stream) == []


PEAK = """
import resource, sys
import weightloom as wl
list(wl.open(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
total = 0
for name, tensor in wl.stream(sys.argv[1], "none", framework="weightloom", threads=2,
                              memory_budget="32MiB"):
    total += tensor.nbytes
print(total >> 20, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_memory_stays_within_the_budget(tmp_path: Path) -> None:
    piece = np.zeros((8, 1 << 18), np.float32)
    wl.save_file({f"t{i}": piece + i for i in range(32)}, tmp_path / "x.safetensors")  # 32 of 8 MiB
    command = [sys.executable, "-c", PEAK, str(tmp_path / "x.safetensors")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    total, grown = map(int, done.stdout.split())
    assert total == 256
    assert grown < 32 + 16 + 8, "MiB: the budget, what the loop holds, and some for the process"
