"""What the ranks of a trainer hold, saved together: four processes of torch.distributed (gloo).

The scenarios are functions of trainer_ranks.py and lost_ranks.py. Processes take seconds to start,
so most scenarios run one after another in the same four; those in which a process is killed have
four of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from rank_processes import RANKS, Told, refused_on_all, run_ranks

import weightloom

SOUND = (
    "fsdp",
    "hybrid",
    "tensor_parallel",
    "fsdp_over_tp",
    "replicas",
    "rows_of_a_mesh",
    "stages",
    "distributed",
    "mixtral",
    "sharded",
    "some_ranks",
    "asynchronous",
    "too_small_a_budget",
    "changed",
    "unfit",
    "contradiction",
    "not_replaced",
    "raising",
    "interrupted",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the scenarios of one run of processes stand, each below its name."""
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, list[Told | None]]:
    """Of all scenarios in which nobody dies."""
    return run_ranks(folder, *SOUND)


@pytest.mark.parametrize(
    "scenario",
    [
        "fsdp",
        "hybrid",
        "tensor_parallel",
        "fsdp_over_tp",
        "replicas",
        "rows_of_a_mesh",
        "stages",
        "distributed",
    ],
)
def test_ranks_write_what_one_process_writes_of_the_whole(told: Any, scenario: str) -> None:
    assert told[scenario][0]["different"] == []
    written = sum(rank["bytes_written"] for rank in told[scenario])
    assert written == told[scenario][0]["target_bytes"]


def test_every_rank_has_its_share(told: Any) -> None:
    assert all(rank["bytes_written"] > 0 for rank in told["fsdp"])


def test_fused_experts_become_a_hubs_keys(told: Any) -> None:
    first = told["mixtral"][0]
    assert first["different"] == []
    assert first["files"] > 1
    assert "model.layers.1.block_sparse_moe.experts.11.w2.weight" in first["names"]


def test_a_sharded_folder_merges_to_the_whole_state(told: Any) -> None:
    first = told["sharded"][0]
    assert first["equal"]
    assert first["manifest"] == [["dp", 2], ["tp", 2]]
    assert first["files"] == [f"rank-0000{rank}-of-00004.safetensors" for rank in range(RANKS)]
    assert [rank["sent"] for rank in told["sharded"]] == [0] * RANKS


def test_any_layout_to_any_other_and_back_gives_the_published_bytes(tmp_path: Path) -> None:
    told = run_ranks(tmp_path, "round_trips", program="round_trip_ranks.py")["round_trips"]
    assert told == [{"different": []}] * RANKS


def test_a_group_of_some_ranks_saves_alone(told: Any) -> None:
    assert told["some_ranks"][1] == {"target_bytes": 1500, "names": 13}


def test_an_asynchronous_save_has_the_values_of_its_call(told: Any) -> None:
    for rank in told["asynchronous"]:
        assert rank["first_was_done"]
        expected = [10.0 * part + i for part in range(RANKS) for i in range(7)]
        assert rank["loaded"] == {"a": expected, "b": [-1.0] * 28, "c": [-2.0] * 28}


def test_copies_that_do_not_fit_the_budget_are_refused_with_both_figures(told: Any) -> None:
    message = refused_on_all(told["too_small_a_budget"], "UsageError", 0)
    assert "take 3145728 bytes" in message
    assert "memory_budget of 4194304" in message
    assert "give a memory_budget of 5242880 or more" in message


def test_a_changed_tensor_is_refused_with_both_and_the_saver_still_serves(told: Any) -> None:
    message = refused_on_all(told["changed"], "UsageError", 1)
    assert "was planned as [2] of F32 [8] on the mesh 'fsdp=4' as [Shard(0)]" in message
    assert "is [3] of F32 [9] on the mesh" in message
    assert not told["changed"][0]["exists"]
    assert told["changed"][3]["loaded"] == list(range(8))


def test_what_one_rank_cannot_save_is_refused_on_all(told: Any) -> None:
    message = refused_on_all(told["unfit"], "UsageError", 2)
    assert "redistribute it to Shard or Replicate first" in message


def test_ranks_that_contradict_each_other_are_named(told: Any) -> None:
    message = refused_on_all(told["contradiction"], "PlanError", None)
    assert message == ("tensor 'w': rank 0 holds F32 [2], whole, and rank 3 holds F32 [3], whole")


def test_a_destination_that_exists_is_refused_on_all(told: Any) -> None:
    refused_on_all(told["not_replaced"], "ExistsError", 0)
    refused_on_all([rank["async"] for rank in told["not_replaced"]], "ExistsError", 0)


def expect_old_checkpoint(folder: Path) -> None:
    """The values of the first save."""
    loaded = weightloom.load(folder / "out", mapping="none", framework="torch")["w"]
    assert torch.equal(loaded, torch.ones(400, 300))


def test_a_rank_that_raises_ends_the_save_on_all(told: Any, folder: Path) -> None:
    message = refused_on_all(told["raising"], "InputOutputError", 1)
    assert message == "rank 1: ValueError: out of order"
    refused_on_all([rank["again"] for rank in told["raising"]], "InputOutputError", 1)
    expect_old_checkpoint(folder / "raising")
    assert not (folder / "raising/.out.weightloom-work").exists()


def test_an_interrupted_rank_ends_the_save_on_all(told: Any, folder: Path) -> None:
    classes = [rank["class"] for rank in told["interrupted"]]
    assert classes == ["CancelledError"] * 3 + ["KeyboardInterrupt"]
    assert told["interrupted"][0]["message"] == "rank 3: cancelled by the caller"
    expect_old_checkpoint(folder / "interrupted")


@pytest.mark.parametrize(("scenario", "victim"), [("killed", 2), ("killed_leader", 0)])
def test_a_killed_rank_ends_the_save_on_all_others(
    tmp_path: Path, scenario: str, victim: int
) -> None:
    told = run_ranks(tmp_path, scenario)[scenario]
    assert told.pop(victim) is None
    for rank in told:
        assert rank is not None
        assert rank["class"] == "InputOutputError"
        assert rank["message"].startswith(f"rank {victim}: its connection to rank ")
    expect_old_checkpoint(tmp_path / scenario)
