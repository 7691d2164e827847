"""What programs for ranks are made of: they run scenarios in turn, and tell how each went.

usage: PROGRAM RANK RANKS FOLDER SCENARIO...

Each scenario is a function of the program; what it gives, or raised, stands in
FOLDER/SCENARIO.RANK.json when it is over. See rank_processes.py for who starts them.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import weightloom

Told = dict[str, Any]
Scenarios = Mapping[str, Callable[[Path], Told]]


def refused(work: Any) -> Told:
    """The exception that `work` raises, in words."""
    try:
        work()
    except (weightloom.Error, KeyboardInterrupt) as error:
        rank = getattr(error, "rank", None)
        return {"class": type(error).__name__, "message": str(error), "rank": rank}
    return {"class": "none", "message": "", "rank": None}


def run(scenarios: Scenarios, name: str, folder: Path) -> Told:
    """What the scenario gives, or what it raised."""
    mine = folder / name
    mine.mkdir(exist_ok=True)
    try:
        return scenarios[name](mine)
    except Exception:
        return {"raised": traceback.format_exc()}


def main(scenarios: Scenarios) -> None:
    """One rank."""
    rank, ranks, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
    )
    for scenario in sys.argv[4:]:
        told = run(scenarios, scenario, folder)
        (folder / f"{scenario}.{rank}.json").write_text(json.dumps(told))
    dist.destroy_process_group()
