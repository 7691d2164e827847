"""One rank of torch.distributed, for tests of the groups over it; run as rank_program.py says."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from rank_program import Told, main, refused

from weightloom import _core
from weightloom._torch_group import TorchTransport

BUILD = Path(
    os.environ.get("WEIGHTLOOM_BUILD_DIR", Path(__file__).parents[2] / "build" / "release")
)


class Transports:
    """A new transport at each call; the one before is let go when all ranks have the new one."""

    def __init__(self) -> None:
        self._latest: TorchTransport | None = None

    def __call__(self) -> TorchTransport:
        before, self._latest = self._latest, TorchTransport()
        if before is not None:
            before.close()
        return self._latest


def compiled(folder: Path) -> Told:
    """The C++ tests of process groups: what became of each, with what a failure said."""
    sys.path.insert(0, str(BUILD))
    import comm_torch

    report = folder / f"report.{os.getpid()}.json"
    comm_torch.run(Transports(), ["comm_torch", f"--gtest_output=json:{report}"])
    suites = json.loads(report.read_text(encoding="utf-8"))["testsuites"]
    return {
        f"{suite['name']}.{test['name']}": [
            test["status"],
            test["result"],
            *(failure["failure"] for failure in test.get("failures", [])),
        ]
        for suite in suites
        for test in suite["testsuite"]
    }


def gathering(folder: Path) -> Told:
    """Collectives, of bytes and of values."""
    ranks = _core.python_group(TorchTransport())
    halves = ranks.sub_group([0, 2] if ranks.rank % 2 == 0 else [3, 1])
    return {
        "gathered": [len(bytes_) for bytes_ in ranks.all_gather(b"x" * ranks.rank)],
        "nothing": ranks.all_gather(b"") == [b""] * ranks.size,
        "broadcast": [ranks.broadcast(root, bytes([ranks.rank])).hex() for root in range(4)],
        "large": ranks.broadcast(1, bytes([ranks.rank]) * (5 << 20)) == bytes([1]) * (5 << 20),
        "half": [halves.rank, [int(b[0]) for b in halves.all_gather(bytes([ranks.rank]))]],
        "alone": halves.sub_group([halves.rank]).all_gather(b"me") == [b"me"],
        "reduced": {
            how: ranks.all_reduce(how, [ranks.rank, -10 * ranks.rank, 1 << 60])
            for how in ("sum", "min", "max")
        },
        "of_half": halves.all_reduce("sum", [ranks.rank]),
        "none": ranks.all_reduce("max", []),
        "too_large": refused(lambda: ranks.all_reduce("sum", [1 << 62])),
        "unknown": refused(lambda: ranks.all_reduce("product", [1])),
        "after": ranks.all_reduce("sum", [1]),
    }


def messages(folder: Path) -> Told:
    """From 1 to 3, of one tag and of another; and what no group takes."""
    ranks = _core.python_group(TorchTransport())
    told: Told = {}
    if ranks.rank == 1:
        for message in (b"one", b"", b"three", bytes(3 << 20)):
            ranks.send(3, 7, message)
        ranks.send(3, 8, b"other")
    if ranks.rank == 3:
        told["received"] = [ranks.recv(1, 7, size).decode() for size in (3, 0, 5)]
        told["large"] = ranks.recv(1, 7, 3 << 20) == bytes(3 << 20)
        told["received"].append(ranks.recv(1, 8, 5).decode())
    ranks.barrier()
    told["rank"] = refused(lambda: ranks.send(4, 0, b""))
    told["tag"] = refused(lambda: ranks.recv(0, 1024, 0))
    told["size"] = refused(lambda: ranks.recv(0, 0, -1))
    ranks.barrier()
    return told


def aborted(folder: Path) -> Told:
    """Rank 1 gives up; 3 waits for it, 0 for rank 2 only, which waits for 0 and 3 too."""
    ranks = _core.python_group(TorchTransport())
    halves = ranks.sub_group([0, 2] if ranks.rank % 2 == 0 else [3, 1])

    def give_up_or_wait() -> None:
        if ranks.rank == 1:
            ranks.abort("enough")
        (ranks if ranks.rank == 2 else halves).barrier()

    return {"waiting": refused(give_up_or_wait), "later": refused(ranks.barrier)}


def two_sizes(folder: Path) -> Told:
    """A message of another size than is wanted is an error, and no crash."""
    ranks: Any = _core.python_group(TorchTransport())
    return refused(lambda: ranks.broadcast(0, bytes(3 if ranks.rank == 0 else 2)))


if __name__ == "__main__":
    main(
        {
            function.__name__: function
            for function in (compiled, gathering, messages, aborted, two_sizes)
        }
    )
