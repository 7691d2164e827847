"""The library's answers about meshes and placements, through the build's `sharding_probe`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

Json = dict[str, Any]
# Of each dim the indices that a rank holds, in its order.
Indices = list[list[int]]


def ask(requests: list[Json]) -> list[Json]:
    """One answer per request; tests/sharding_probe.cc says which there are."""
    folder = Path(os.environ.get("WEIGHTLOOM_BUILD_DIR", ROOT / "build" / "release"))
    done = subprocess.run(
        [str(folder / "sharding_probe")],
        input="".join(json.dumps(request) + "\n" for request in requests),
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def parts_of(requests: list[tuple[str, list[Json], list[int]]]) -> list[list[Indices]]:
    """What each rank holds, of each (mesh, placements, shape)."""
    answers = ask(
        [
            {"mesh": mesh, "placements": placements, "shape": shape}
            for mesh, placements, shape in requests
        ]
    )
    return [[expanded(part) for part in answer["parts"]] for answer in answers]


def expanded(part: list[list[list[int]]]) -> Indices:
    """Indices of each dim, of its segments."""
    return [[i for begin, size in dim for i in range(begin, begin + size)] for dim in part]


def coordinates(mesh: str) -> list[dict[str, int]]:
    """Of each rank of a mesh without a name."""
    found: list[dict[str, int]] = [{}]
    for axis in mesh.split(","):
        name, size = axis.split("=")
        found = [{**at, name: rank} for at in found for rank in range(int(size))]
    return found
