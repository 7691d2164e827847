"""Makes the inputs of the benchmark, runs every row and prints the tables.

usage: run_all.py --build BUILD_DIR --scratch DIR [--rounds N] [--only NAME] [--small]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from measure import Row, measure
from place import Place, copy_command
from quantised_tables import (
    QUANTISED,
    SMALL_QUANTISED,
    quantised_ratios,
    quantised_rows,
)
from ratio import GIB, MIB, Ratio, at_least, at_most, read_ratio
from saving_tables import saving_ratios, saving_rows
from sharding_tables import (
    plan_ratios,
    plan_rows,
    planning_ratios,
    planning_rows,
    rank_ratios,
    rank_rows,
    shard_ratios,
    shard_rows,
)

CHECKPOINTS = {"mixtral": ["mixtral"], "qwen3moe": ["qwen3moe", "8", "1024", "512", "128"]}
SHARDED = {"mixtral": ["mixtral"]}
SMALL = {"mixtral_small": ["mixtral", "2", "2048", "1024", "4", "0.1"]}
KEY_SET = "deepseek_tiny"
TABLES = (
    "load",
    "models",
    "convert",
    "rename",
    "headers",
    "keys",
    "casts",
    "quantised",
    "sharding",
    "saving",
    "planning",
)
HEADER_SETS = ("deepseek_v3", "mixtral_92k")


# ---- what is measured ----------------------------------------------------------------------------


def load_rows(place: Place, source: Path) -> list[Row]:
    """Into memory, in the runtime layout."""
    return [
        Row("load_runtime", [place.program("load_runtime"), source], told=True),
        Row("read floor", [place.program("read_floor"), source], told=True),
        Row("from_pretrained", place.script("peer_load.py", "transformers", source), told=True),
    ]


def load_ratios(rows: Mapping[str, Row]) -> list[Ratio]:
    """The loader against its peers."""
    ours, floor, peer = (rows[n] for n in ("load_runtime", "read floor", "from_pretrained"))
    result_bytes = int(floor.samples[-1].output.split()[2])
    return [
        at_least("from_pretrained / load_runtime", peer.seconds / ours.seconds, 6),
        at_most("load_runtime / read floor", ours.seconds / floor.seconds, 1.25),
        at_most("peak of load_runtime / bytes loaded", ours.peak_rss_bytes / result_bytes, 1.10),
    ]


def convert_rows(place: Place, source: Path) -> list[Row]:
    """From folder to folder, durable."""
    out = place.scratch / "out"
    runtime = place.scratch / f"{source.name}-runtime"
    convert = [place.program("weightloom"), "convert"]
    to_runtime = [*convert, source, out, "--to", "runtime", "--json"]
    to_hub = [*convert, runtime, out, "--to", "hub", "--json"]
    if convert[0].exists() and not runtime.exists():
        Row("", [*convert, source, runtime, "--to", "runtime", "--quiet"], runtime).run()
    return [
        Row("convert --to runtime", to_runtime, out),
        Row("convert --to hub", to_hub, out),
        Row("convert, budget 256 MiB", [*to_runtime, "--memory-budget", "256MiB"], out),
        Row("cp -r, sync -f", ["sh", "-c", copy_command(source, out)], out),
        Row("copy floor", [place.program("copy_floor"), source, out], out),
        Row(
            "from_pretrained, save_pretrained",
            place.script("peer_save.py", "transformers", source, out),
            out,
            True,
        ),
    ]


def convert_ratios(rows: Mapping[str, Row]) -> list[Ratio]:
    """Both directions against a copy and against Transformers; memory and bytes."""
    copy, peer = rows["cp -r, sync -f"], rows["from_pretrained, save_pretrained"]
    ratios = []
    for name in ("convert --to runtime", "convert --to hub"):
        ours = rows[name]
        ratios += [
            at_most(f"{name} / cp, sync", ours.seconds / copy.seconds, 0.9),
            at_least(f"from_pretrained, save_pretrained / {name}", peer.seconds / ours.seconds, 4),
            at_most(f"bytes read / needed, {name}", *read_ratio(ours)),
        ]
    budgets = {"convert --to runtime": GIB, "convert, budget 256 MiB": 256 * MIB}
    for name, budget in budgets.items():
        above = (rows[name].peak_rss_bytes - budget) / MIB
        ratios.append(at_most(f"peak above the budget in MiB, {name}", above, 100))
    ratios.append(
        at_most("copy floor / cp, sync", rows["copy floor"].seconds / copy.seconds, float("inf"))
    )
    return ratios


def rename_rows(place: Place, source: Path) -> list[Row]:
    """Other names in the same files, durable: every tensor's, and those of one file alone."""
    out = place.scratch / "out"
    convert = [place.program("weightloom"), "convert", source, out, "--json"]
    return [
        Row("--rename of every tensor", [*convert, "--rename", "^=language_model."], out),
        Row("--rename of one tensor", [*convert, "--rename", "^lm_head=head"], out),
        Row("cp -r, sync -f", ["sh", "-c", copy_command(source, out)], out),
    ]


def rename_ratios(rows: Mapping[str, Row]) -> list[Ratio]:
    """Against a copy: a tenth where the filesystem moves the data by itself."""
    copy, ratios = rows["cp -r, sync -f"], []
    for name in ("--rename of every tensor", "--rename of one tensor"):
        ours = rows[name]
        limit = 0.1 if ours.json["files_copied"] > 0 else 1.1
        ratios.append(at_most(f"{name} / cp, sync", ours.seconds / copy.seconds, limit))
    return ratios


def header_rows(place: Place, source: Path) -> list[Row]:
    """Headers only, start of the process included."""
    command = place.program("weightloom")
    return [
        Row("header floor", [place.program("header_floor"), source]),
        Row("inspect", [command, "inspect", source]),
        Row("plan --to runtime", [command, "plan", source, "--to", "runtime"]),
    ]


def header_ratios(rows: Mapping[str, Row]) -> list[Ratio]:
    """Against plain parsing."""
    floor, ratios = rows["header floor"], []
    for name in ("inspect", "plan --to runtime"):
        ours = rows[name]
        ratios.append(at_most(f"{name} / header floor", ours.seconds / floor.seconds, 6))
        ratios.append(at_most(f"peak of {name} in MiB", ours.peak_rss_bytes / MIB, 600))
    return ratios


def key_rows(place: Place, source: Path) -> list[Row]:
    """Tensors so small that only their number counts: matched, renamed, planned."""
    return [
        Row("plan --to runtime", [place.program("weightloom"), "plan", source, "--to", "runtime"]),
        Row(
            "weightloom.transformers", place.script("peer_load.py", "weightloom", source), told=True
        ),
        Row("from_pretrained", place.script("peer_load.py", "transformers", source), told=True),
    ]


def key_ratios(rows: Mapping[str, Row]) -> list[Ratio]:
    """All take the same keys, so the quotient of times is that of the time per key."""
    peer = rows["from_pretrained"]
    return [
        at_most(f"{name} / from_pretrained, per key", rows[name].seconds / peer.seconds, 0.1)
        for name in ("plan --to runtime", "weightloom.transformers")
    ]


def model_rows(place: Place, source: Path) -> list[Row]:
    """A model loaded and saved again, in Python."""
    out = place.scratch / "out"
    return [
        Row(name, place.script("peer_save.py", name, source, out), out, True)
        for name in ("weightloom", "transformers")
    ]


def model_ratios(rows: Mapping[str, Row]) -> list[Ratio]:
    """weightloom.transformers against the original: times, and memory beyond the imports."""

    def told(name: str, key: str) -> float:
        return median(json.loads(sample.output)[key] for sample in rows[name].samples)

    def quotient(key: str) -> float:
        return told("transformers", key) / told("weightloom", key)

    ratios = [
        at_least("from_pretrained / weightloom's", quotient("load_seconds"), 5),
        at_least("… of a process's first, in new memory", quotient("first_load_seconds"), 0),
        at_least("save_pretrained / weightloom's", quotient("save_seconds"), 4),
    ]
    for name, limit in (("weightloom", 1.1), ("transformers", float("inf"))):
        weights, before = told(name, "weight_bytes"), told(name, "before_bytes")
        peak = told(name, "load_peak_bytes")
        ratios += [
            at_most(f"peak of {name}'s load / weights", peak / weights, limit),
            at_most(
                f"… without the imports, {before / MIB:.0f} MiB", (peak - before) / weights, limit
            ),
            at_most(
                f"{name}'s save, extra memory / weights",
                (told(name, "save_peak_bytes") - peak) / weights,
                limit - 1,
            ),
        ]
    return ratios


def cast_rows(place: Place) -> list[Row]:
    """One thread, from memory to memory."""
    return [Row("cast_speed", [place.program("cast_speed")])]


def cast_ratios(rows: Mapping[str, Row]) -> list[Ratio]:
    """Bytes read and written per second, against those of memcpy: the median of the rounds."""
    found: dict[str, list[float]] = {}
    for sample in rows["cast_speed"].samples:
        for line in sample.output.splitlines():
            source, target, _, _, ratio = line.split()
            found.setdefault(f"{source} to {target} / memcpy", []).append(float(ratio))
    return [at_least(text, median(ratios), 0.5) for text, ratios in found.items()]


# ---- tables --------------------------------------------------------------------------------------


def print_rows(title: str, rows: Mapping[str, Row]) -> None:
    """One table of times and peaks."""
    print(f"\n### {title}\n")
    print("| what | median s | first run s | peak MiB |")
    print("| --- | ---: | ---: | ---: |")
    for name, row in rows.items():
        peak = row.peak_rss_bytes / MIB
        print(f"| {name} | {row.seconds:.3f} | {row.first_seconds:.3f} | {peak:,.0f} |")


def print_ratios(ratios: Sequence[Ratio]) -> None:
    """One table of quotients."""
    print("\n| ratio | measured | wanted | |")
    print("| --- | ---: | ---: | --- |")
    for ratio in ratios:
        wanted, verdict = ratio.wanted, "" if ratio.good else "**missed**"
        if wanted == "≤ inf":
            wanted = "for comparison"
        print(f"| {ratio.text} | {ratio.value:.2f} | {wanted} | {verdict} |")


def bench(
    title: str,
    rows: Sequence[Row],
    ratios: Callable[[Mapping[str, Row]], list[Ratio]],
    rounds: int,
) -> None:
    """Measures the rows of one table and prints it; ratios only when every row could be run."""
    measured = measure(rows, rounds)
    print_rows(title, measured)
    absent = [row.name for row in rows if row.name not in measured]
    if absent:
        print(f"\nNot built, so not measured: {', '.join(absent)}")
    else:
        print_ratios(ratios(measured))


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, help="folder of the built programs")
    parser.add_argument("--scratch", type=Path, required=True, help="inputs and outputs; 40 GB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=TABLES)
    parser.add_argument(
        "--small",
        action="store_true",
        help="of sharding, saving and quantised: a small input, to see that all rows run",
    )
    return parser.parse_args()


def main() -> None:
    """The command."""
    options = parse_arguments()
    place = Place(options.build.resolve(), options.scratch.resolve())
    place.scratch.mkdir(parents=True, exist_ok=True)
    print(f"{os.cpu_count()} cores, {platform.system()} {platform.release()}")
    if options.only in (None, "load", "models", "convert", "rename"):
        for name, arguments in CHECKPOINTS.items():
            source = place.make("make_ckpt.py", arguments, place.scratch / name)
            if options.only in (None, "load"):
                bench(f"Load, {name}", load_rows(place, source), load_ratios, options.rounds)
            if options.only in (None, "models"):
                bench(f"Models, {name}", model_rows(place, source), model_ratios, options.rounds)
            if options.only in (None, "convert"):
                rows = convert_rows(place, source)
                bench(f"Convert, {name}", rows, convert_ratios, options.rounds)
            if options.only in (None, "rename"):
                bench(f"Rename, {name}", rename_rows(place, source), rename_ratios, options.rounds)
    if options.only in (None, "headers"):
        for name in HEADER_SETS:
            source = place.make("make_headers.py", [name], place.scratch / name)
            bench(f"Headers, {name}", header_rows(place, source), header_ratios, options.rounds)
    if options.only in (None, "keys"):
        source = place.make("make_headers.py", [KEY_SET], place.scratch / KEY_SET)
        bench(f"Keys, {KEY_SET}", key_rows(place, source), key_ratios, options.rounds)
    if options.only in (None, "casts"):
        bench("Casts, one thread", cast_rows(place), cast_ratios, options.rounds)
    if options.only in (None, "quantised"):
        for name, arguments in (SMALL_QUANTISED if options.small else QUANTISED).items():
            source = place.make("make_quantised.py", arguments, place.scratch / name)
            rows = quantised_rows(place, source)
            bench(f"Quantised, {name}", rows, quantised_ratios, options.rounds)
    if options.only in (None, "sharding"):
        for name, arguments in (SMALL if options.small else SHARDED).items():
            source = place.make("make_ckpt.py", arguments, place.scratch / name)
            for title, rows, ratios in (
                ("Shards", shard_rows, shard_ratios),
                ("A rank", rank_rows, rank_ratios),
                ("Plans of ranks", plan_rows, plan_ratios),
            ):
                bench(f"{title}, {name}", rows(place, source), ratios, options.rounds)
    if options.only in (None, "saving"):
        for name, arguments in (SMALL if options.small else CHECKPOINTS).items():
            source = place.make("make_ckpt.py", arguments, place.scratch / name)
            title = f"Saving by 4 ranks, {name}, to {place.filesystem}"
            bench(title, saving_rows(place, source), saving_ratios, options.rounds)
    if options.only in (None, "planning"):
        name = "deepseek_v3"
        source = place.make("make_headers.py", [name], place.scratch / name)
        rows = planning_rows(place, source)
        bench(f"Plans of 256 ranks, {name}", rows, planning_ratios, options.rounds)
    shutil.rmtree(place.scratch / "out", ignore_errors=True)


if __name__ == "__main__":
    main()
