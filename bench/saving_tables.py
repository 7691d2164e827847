"""Four ranks save together: what is measured, and what it is held against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from measure import Row
from place import Place, copy_command
from ratio import MIB, Ratio, at_most
from sharding_tables import Rules, flags, rule

COPY = "cp -r, sync -f"
LAUNCH = ("mpirun", "--oversubscribe", "--allow-run-as-root", "-n", "4")
SPREADINGS = ("fsdp=4", "ep=2,tp=2", "ep=2,tp=2 within experts")
# Of a rank. The gathering save needs more: it holds the largest tensor whole, and its parts.
BUDGET, GATHER_BUDGET = "256MiB", "512MiB"


def within_experts() -> Rules:
    """ep between experts, tp within them: rows of the down projections are cut into short runs."""
    strided = {"axis": "tp", "strided_shard": {"dim": 1, "split_factor": 2}}
    by_expert = {"axis": "ep", "shard": 0}
    return [
        {"pattern": "*.experts.gate_up_proj", "placements": [by_expert, strided]},
        rule("*.experts.down_proj", ("ep", 0), ("tp", 2)),
        rule("*.o_proj.*", ("tp", 1)),
        rule("*norm*"),
        rule("*.gate.*"),
        rule("*", ("tp", 0)),
    ]


def spreading(place: Place, name: str) -> list[object]:
    """Its flags."""
    if name == "fsdp=4":
        return flags(place, name)
    if name == "ep=2,tp=2":
        return [*flags(place, name), "--tp-plan", "auto"]
    return flags(place, "ep=2,tp=2", "within_experts", within_experts())


def starters(place: Place) -> Iterator[tuple[str, list[object]]]:
    """How four ranks are started: a name, and the words before the program's arguments."""
    yield "threads", [place.program("save_ranks")]
    if place.program("save_ranks_mpi").exists():
        yield "MPI", [*LAUNCH, place.program("save_ranks_mpi")]


def saving_rows(place: Place, source: Path) -> list[Row]:
    """From the memory of four ranks to one hub checkpoint, durable, planning included."""
    out = place.scratch / "out"
    rows = [Row(COPY, ["sh", "-c", copy_command(source, out)], out)]
    ways = {"direct": ["--budget", BUDGET], "gather": ["--gather", "--budget", GATHER_BUDGET]}
    for way, more in ways.items():
        for name in SPREADINGS:
            for starter, words in starters(place):
                command = [*words, source, out, *spreading(place, name), *more]
                rows.append(Row(f"{way}, {name}, {starter}", command, out, told=True))
    return rows


def told(row: Row, key: str) -> float:
    """A number that the program prints: the median of the runs."""
    return median(sample.json[key] for sample in row.samples)


def saving_ratios(rows: Mapping[str, Row]) -> list[Ratio]:
    """Against a copy; memory of a process beyond its state, and what ranks sent."""
    copy, saves = rows[COPY], {name: row for name, row in rows.items() if name != COPY}
    ratios = []
    for name, row in saves.items():
        limit = 1.1 if name.startswith("direct") else float("inf")
        ratios.append(at_most(f"{name} / cp, sync", row.seconds / copy.seconds, limit))
    for name, row in saves.items():
        above = max(sample.json["extra_bytes"] for sample in row.samples)
        above -= row.json["budget_bytes"]
        ratios.append(at_most(f"MiB beyond state and budget, {name}", above / MIB, 100))
    for name, row in saves.items():
        if not name.startswith("direct"):
            continue
        working = told(row, "working_bytes") / told(row, "budget_bytes")
        ratios += [
            at_most(f"working memory / budget, {name}", working, 1),
            at_most(f"bytes sent / saved, {name}", told(row, "sent_bytes") / told(row, "bytes"), 1),
            at_most(f"ms of it to plan, {name}", 1000 * told(row, "plan_seconds"), float("inf")),
        ]
    return ratios
