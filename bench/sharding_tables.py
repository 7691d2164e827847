"""Sharded folders and ranks: what is measured, and what it is held against."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from measure import Row
from place import Place, copy_command
from ratio import GIB, MIB, Ratio, at_least, at_most, read_ratio

RANKS = 8
# Mixtral's names in the hub's layout: what tensor parallelism cuts along dim 0, and along dim 1.
COLUMN_PARALLEL = (
    "*.q_proj.*",
    "*.k_proj.*",
    "*.v_proj.*",
    "*.w1.*",
    "*.w3.*",
    "*embed*",
    "lm_head*",
)
ROW_PARALLEL = ("*.o_proj.*", "*.w2.*")
NORMS = ("*norm*",)
# Bytes of a row's part, and how many parts the row has: most rows of the input have 4 KiB.
ROW_CUTS = ((1024, 4), (128, 32))

Rules = list[dict[str, Any]]


def rule(pattern: str, *cuts: tuple[str, int]) -> dict[str, Any]:
    """A placement: axes and the dims that they cut, in their order."""
    return {
        "pattern": pattern,
        "placements": [{"axis": axis, "shard": dim} for axis, dim in cuts],
    }


def tensor_parallel() -> Rules:
    """tp as a model's plan has it, then fsdp along dim 0 of what is left."""
    return [
        *(rule(pattern, ("tp", 0), ("fsdp", 0)) for pattern in COLUMN_PARALLEL),
        *(rule(pattern, ("tp", 1), ("fsdp", 0)) for pattern in ROW_PARALLEL),
        rule("*", ("fsdp", 0)),
    ]


def column_parallel() -> Rules:
    """tp along the rows of all tensors; of gate and up, which stand in one tensor, of each."""
    strided = {"axis": "tp", "strided_shard": {"dim": 1, "split_factor": 2}}
    return [
        {"pattern": "*.experts.gate_up_proj", "placements": [strided]},
        rule("*.experts.down_proj", ("tp", 1)),
        rule("*", ("tp", 0)),
    ]


def within_rows() -> Rules:
    """tp within the rows of all tensors that have rows."""
    return [*(rule(pattern, ("tp", 0)) for pattern in NORMS), rule("*", ("tp", 1))]


def placements(place: Place, name: str, rules: Rules) -> Path:
    """A placements file."""
    file = place.scratch / f"{name}.json"
    file.write_text(json.dumps(rules))
    return file


def flags(place: Place, mesh: str, name: str = "", rules: Rules | None = None) -> list[object]:
    """The flags of a mesh, with placements where there are some."""
    given = [] if rules is None else ["--placements", placements(place, name, rules)]
    return ["--mesh", mesh, *given]


def sharded(place: Place, source: Path, name: str, mesh: Sequence[object]) -> Path:
    """An input: the source in one file for each rank."""
    folder = place.scratch / f"{source.name}-{name}"
    command = [place.program("weightloom"), "convert", source, folder, *mesh, "--quiet"]
    if not folder.exists() and place.program("weightloom").exists():
        Row("", command, folder).run()
    return folder


# ---- folders -------------------------------------------------------------------------------------


def shard_rows(place: Place, source: Path) -> list[Row]:
    """From folder to folder, durable."""
    out = place.scratch / "out"
    fsdp = flags(place, f"fsdp={RANKS}")
    rows = flags(place, "tp=4", "within_rows", within_rows())
    tp2 = flags(place, "tp=2,fsdp=4", "tensor_parallel", tensor_parallel())
    tp4 = flags(place, "tp=4,fsdp=2", "tensor_parallel", tensor_parallel())
    dcp = place.make("make_dcp.py", [str(RANKS), str(source)], place.scratch / f"{source.name}-dcp")

    def convert(name: str, folder: Path, mesh: Sequence[object] = ()) -> Row:
        return Row(
            name, [place.program("weightloom"), "convert", folder, out, *mesh, "--json"], out
        )

    return [
        convert("shard, fsdp=8", source, fsdp),
        convert("shard within rows, tp=4", source, rows),
        convert("merge, fsdp=8", sharded(place, source, "fsdp8", fsdp)),
        convert("merge within rows, tp=4", sharded(place, source, "rows4", rows)),
        convert("reshard, tp=2,fsdp=4 to tp=4,fsdp=2", sharded(place, source, "tp2", tp2), tp4),
        convert("merge of DCP's files", dcp),
        Row("cp -r, sync -f", ["sh", "-c", copy_command(source, out)], out),
        Row(
            "consolidate_safetensors_files",
            place.script("peer_consolidate.py", dcp, out, source),
            out,
            True,
        ),
    ]


LIMITS = {
    "shard, fsdp=8": 1.2,
    "shard within rows, tp=4": 2.0,
    "merge, fsdp=8": 1.2,
    "merge within rows, tp=4": 2.0,
    "reshard, tp=2,fsdp=4 to tp=4,fsdp=2": 1.2,
    "merge of DCP's files": 1.2,
}


def shard_ratios(rows: Mapping[str, Row]) -> list[Ratio]:
    """Against a copy and against torch; memory and bytes."""
    copy, peer = rows["cp -r, sync -f"], rows["consolidate_safetensors_files"]
    ours = rows["merge of DCP's files"]
    ratios = [
        at_most(f"{name} / cp, sync", rows[name].seconds / copy.seconds, limit)
        for name, limit in LIMITS.items()
    ]
    ratios.append(at_least("consolidate / merge of DCP's files", peer.seconds / ours.seconds, 8))
    for name in LIMITS:
        ratios.append(at_most(f"bytes read / needed, {name}", *read_ratio(rows[name])))
    for name in LIMITS:
        above = (rows[name].peak_rss_bytes - GIB) / MIB
        ratios.append(at_most(f"peak above the budget in MiB, {name}", above, 100))
    return ratios


# ---- one rank ------------------------------------------------------------------------------------


def rank_rows(place: Place, source: Path) -> list[Row]:
    """What one rank holds, from the page cache into memory; the floors read as many bytes."""

    def load(name: str, mesh: Sequence[object], rank: int, *more: str) -> Row:
        command = [place.program("load_runtime"), source, *mesh, "--rank", rank, *more]
        return Row(name, command, told=True)

    def floor(run_bytes: int, ranks: int, way: str) -> Row:
        command = [place.program("row_parallel_floor"), source, run_bytes, ranks, way]
        return Row(f"floor, {run_bytes} of {run_bytes * ranks} bytes, {way}", command, told=True)

    experts = flags(place, f"ep={RANKS}", "by_expert", [rule("*", ("ep", 0))])
    columns = flags(place, f"tp={RANKS}", "column_parallel", column_parallel())
    rows = [
        load("load, fsdp=8", flags(place, f"fsdp={RANKS}"), RANKS // 2),
        load("load, ep=8", experts, RANKS // 2, "--to-runtime"),
        load("load, column-parallel, tp=8", columns, RANKS // 2, "--to-runtime"),
        floor(1024, RANKS, "contiguous"),
    ]
    for run_bytes, ranks in ROW_CUTS:
        mesh = flags(place, f"tp={ranks}", "within_rows", within_rows())
        rows.append(load(f"load within rows, tp={ranks}", mesh, ranks // 2))
        rows += [floor(run_bytes, ranks, way) for way in ("runs", "hull")]
    return rows


WHOLE_RUNS = ("load, fsdp=8", "load, ep=8", "load, column-parallel, tp=8")


def told_number(output: str, unit: str) -> float:
    """The number before a unit."""
    found = re.search(rf"([0-9.]+){unit}", output)
    if found is None:
        raise ValueError(f"no number of '{unit}' in {output!r}")
    return float(found[1])


def read_of_own(row: Row) -> float:
    """Bytes read per byte that the rank holds."""
    output = row.samples[-1].output
    return told_number(output, " bytes read") / told_number(output, " bytes, ")


def rank_ratios(rows: Mapping[str, Row]) -> list[Ratio]:
    """Against the better of the floors."""
    contiguous = rows[f"floor, 1024 of {1024 * RANKS} bytes, contiguous"]
    ratios = []
    for name in WHOLE_RUNS:
        ours = rows[name]
        ratios.append(
            at_most(f"{name} / floor, contiguous", ours.seconds / contiguous.seconds, 1.5)
        )
        ratios.append(at_most(f"bytes read / own bytes, {name}", read_of_own(ours), 1.02))
        planning = median(told_number(sample.output, " s to plan") for sample in ours.samples)
        ratios.append(at_most(f"ms of it to plan, {name}", 1000 * planning, float("inf")))
    for run_bytes, ranks in ROW_CUTS:
        floor = f"floor, {run_bytes} of {run_bytes * ranks} bytes"
        best = min(rows[f"{floor}, {way}"].seconds for way in ("runs", "hull"))
        ours = rows[f"load within rows, tp={ranks}"].seconds
        ratios.append(at_most(f"load within rows, tp={ranks} / better floor", ours / best, 1.3))
    return ratios


# ---- plans ---------------------------------------------------------------------------------------


def plan_rows(place: Place, source: Path) -> list[Row]:
    """Headers only: of the whole, and of all ranks that it is spread over."""
    plan = [place.program("weightloom"), "plan", source]
    return [
        Row("plan", plan),
        Row("plan of 8 ranks", [*plan, *flags(place, f"fsdp={RANKS}"), "--rank", "all"]),
        Row(
            "plan of 256 ranks, within rows",
            [
                *plan,
                *flags(place, "fsdp=64,tp=4", "tensor_parallel", tensor_parallel()),
                "--rank",
                "all",
            ],
        ),
    ]


PLAN_CUTS = {"ep=32,fsdp=8": "expert_rows", "fsdp=256": "rows"}


def expert_rows() -> Rules:
    """Experts by ep, and by fsdp along the rows of gate and up, but within the rows of down."""
    return [
        rule("*.experts.gate_up_proj", ("ep", 0), ("fsdp", 1)),
        rule("*.experts.down_proj", ("ep", 0), ("fsdp", 2)),
        rule("*", ("fsdp", 0)),
    ]


def planning_rows(place: Place, source: Path) -> list[Row]:
    """Headers of a real model for 256 ranks, against its one global layout and all regions."""
    plan = [place.program("weightloom"), "plan", source, "--to", "runtime"]
    rows = [Row("plan", plan)]
    for mesh, name in PLAN_CUTS.items():
        rules = expert_rows() if name == "expert_rows" else [rule("*", ("fsdp", 0))]
        cut = flags(place, mesh, name, rules)
        floor = [place.program("plan_ranks"), source, "--to-runtime", *cut]
        rows += [
            Row(f"the whole and all regions, {mesh}", floor, told=True),
            Row(f"plan --rank all, {mesh}", [*plan, *cut, "--rank", "all"]),
        ]
    return rows


def planning_ratios(rows: Mapping[str, Row]) -> list[Ratio]:
    """Time in proportion to the regions, memory of one global layout."""
    whole, ratios = rows["plan"], []
    for mesh in PLAN_CUTS:
        ours, floor = rows[f"plan --rank all, {mesh}"], rows[f"the whole and all regions, {mesh}"]
        for what in ("for the whole", "to emit"):
            seconds = median(told_number(each.output, f" s {what}") for each in floor.samples)
            ratios.append(at_most(f"seconds {what}, {mesh}", seconds, float("inf")))
        ratios += [
            at_most(f"plan --rank all / both, {mesh}", ours.seconds / floor.seconds, 4),
            at_most(
                f"its peak / that of plan, {mesh}",
                ours.peak_rss_bytes / whole.peak_rss_bytes,
                1.25,
            ),
        ]
    return ratios


def plan_ratios(rows: Mapping[str, Row]) -> list[Ratio]:
    """Against the plan of the whole."""
    whole = rows["plan"]
    return [
        at_most(f"{name} / plan", row.seconds / whole.seconds, float("inf"))
        for name, row in rows.items()
        if name != "plan"
    ]
