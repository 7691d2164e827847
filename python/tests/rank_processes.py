"""Four processes of torch.distributed (gloo) that run the scenarios of a program for ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

RANKS = 4
PATIENCE_SECONDS = 240

Told = dict[str, Any]


def run_ranks(
    folder: Path, *scenarios: str, program: str = "trainer_ranks.py"
) -> dict[str, list[Told | None]]:
    """What each rank told of each scenario; None of a rank that died before."""
    path = str(Path(__file__).with_name(program))
    ranks = [
        subprocess.Popen(
            [sys.executable, path, str(rank), str(RANKS), str(folder), *scenarios],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(RANKS)
    ]
    try:
        printed = [rank.communicate(timeout=PATIENCE_SECONDS)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    print(*printed)
    return {
        scenario: [told_by(folder / f"{scenario}.{rank}.json") for rank in range(RANKS)]
        for scenario in scenarios
    }


def told_by(path: Path) -> Told | None:
    """What one rank told."""
    if not path.exists():
        return None
    told: Told = json.loads(path.read_text())
    assert "raised" not in told, told["raised"]
    return told


def refused_on_all(told: list[Told], kind: str, rank: int | None) -> str:
    """The message, which all ranks raised."""
    assert [each["class"] for each in told] == [kind] * RANKS
    assert {each["rank"] for each in told} == {rank}
    assert len({each["message"] for each in told}) == 1
    return str(told[0]["message"])
