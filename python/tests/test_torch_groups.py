"""Process groups over torch.distributed: four processes of gloo, see group_ranks.py.

The tests of groups that threads and MPI run, compiled into the module comm_torch, run here too:
what ranks promise each other, unsharding, streams, every way to save. Others go through the
bindings.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from group_ranks import BUILD
from rank_processes import RANKS, refused_on_all, run_ranks

COMM = Path(__file__).resolve().parents[2] / "weightloom" / "comm"


def names_of_tests() -> set[str]:
    """Of all C++ tests that take a group, as their sources have them."""
    sources = [path.read_text(encoding="utf-8") for path in COMM.glob("*_test.cc")]
    return {
        f"{suite}.{name}"
        for source in sources
        if "on_every_rank(" in source
        for suite, name in re.findall(r"^TEST\((\w+),\s*(\w+)\)", source, re.MULTILINE)
    }


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Of all scenarios that go through the bindings."""
    folder = tmp_path_factory.mktemp("ranks")
    scenarios = ("gathering", "messages", "aborted", "two_sizes")
    return run_ranks(folder, *scenarios, program="group_ranks.py")


def test_every_test_of_groups_holds_on_ranks_of_torch(tmp_path: Path) -> None:
    assert list(BUILD.glob("comm_torch*.so")), (
        f"{BUILD} has no module comm_torch: configure it with -DWEIGHTLOOM_TEST_PYTHON=PYTHON, and "
        "build the target comm_torch"
    )
    told = run_ranks(tmp_path, "compiled", program="group_ranks.py")["compiled"]
    wanted = {name: ["RUN", "COMPLETED"] for name in names_of_tests()}
    assert len(wanted) > 40
    assert told == [wanted] * RANKS


def test_collectives_give_what_each_rank_gave(told: Any) -> None:
    for place, rank in enumerate(told["gathering"]):
        assert rank["gathered"] == [0, 1, 2, 3]
        assert rank["nothing"]
        assert rank["broadcast"] == ["00", "01", "02", "03"]
        assert rank["large"]
        assert rank["half"] == [[0, [0, 2]], [1, [3, 1]], [1, [0, 2]], [0, [3, 1]]][place]
        assert rank["alone"]


def test_values_are_reduced_one_by_one(told: Any) -> None:
    for place, rank in enumerate(told["gathering"]):
        assert rank["reduced"] == {
            "sum": [6, -60, 1 << 62],
            "min": [0, -30, 1 << 60],
            "max": [3, 0, 1 << 60],
        }
        assert rank["of_half"] == [4 if place % 2 else 2]
        assert rank["none"] == []


def test_a_sum_that_does_not_fit_is_refused_on_all_and_the_group_goes_on(told: Any) -> None:
    for rank in told["gathering"]:
        assert rank["too_large"]["class"] == "UsageError"
        assert "4611686018427387904" in rank["too_large"]["message"]
        assert rank["unknown"]["class"] == "UsageError"
        assert rank["unknown"]["message"] == ("reduction 'product', needed 'sum', 'min' or 'max'")
        assert rank["after"] == [RANKS]


def test_messages_with_one_tag_keep_their_order(told: Any) -> None:
    receiver = told["messages"][3]
    assert receiver["received"] == ["one", "", "three", "other"]
    assert receiver["large"]


def test_what_is_not_of_the_group_is_refused(told: Any) -> None:
    for rank in told["messages"]:
        assert {rank[what]["class"] for what in ("rank", "tag", "size")} == {"UsageError"}
        assert "rank 4 of a group of 4 ranks" in rank["rank"]["message"]
        assert "message tag 1024, needed one in [0, 1024)" in rank["tag"]["message"]
        assert "a message of -1 bytes" in rank["size"]["message"]


def test_an_abort_reaches_who_waits_and_who_comes_later(told: Any) -> None:
    for when in ("waiting", "later"):
        all_told = [rank[when] for rank in told["aborted"]]
        assert refused_on_all(all_told, "CancelledError", 1) == "rank 1: enough"


def test_a_message_of_another_size_is_an_error_on_all(told: Any) -> None:
    for rank in told["two_sizes"]:
        assert rank["class"] == "UsageError"
        assert "a message of 3 bytes from rank 0" in rank["message"]
        assert "needed 2 bytes" in rank["message"]
