"""Quantised checkpoints: decoding and encoding against copies of what is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from measure import Row
from place import Place, copy_command
from ratio import GIB, MIB, Ratio, at_least, at_most, read_ratio

# The first argument of make_quantised.py, and of a small input the layers.
QUANTISED = {"fp8": ["fp8"], "mxfp4": ["mxfp4"]}
SMALL_QUANTISED = {"fp8_small": ["fp8", "2"], "mxfp4_small": ["mxfp4", "1"]}
ENCODINGS = {"fp8": "fp8-block", "mxfp4": "mxfp4"}
PEER = "from_pretrained, save_pretrained"


def quantised_rows(place: Place, source: Path) -> list[Row]:
    """To values and back, durable; copies of what either writes; Transformers where it can."""
    kind = source.name.removesuffix("_small")
    out, values = place.scratch / "out", place.scratch / f"{source.name}-values"
    command = [place.program("weightloom"), "convert"]
    decode = [*command, source, out, "--dequantize", "--json"]
    encode = [*command, values, out, "--quantize", ENCODINGS[kind], "--json"]
    if command[0].exists() and not values.exists():
        Row("", [*command, source, values, "--dequantize", "--quiet"], values).run()
    rows = [
        Row("--dequantize", decode, out),
        Row("--dequantize, budget 256 MiB", [*decode, "--memory-budget", "256MiB"], out),
        Row("cp -r of the values, sync -f", ["sh", "-c", copy_command(values, out)], out),
        Row("--quantize", encode, out),
        Row("cp -r of the codes, sync -f", ["sh", "-c", copy_command(source, out)], out),
    ]
    if kind == "fp8":
        peer = place.script("peer_save.py", "transformers", source, out)
        rows.append(Row(PEER, peer, out, True))
    return rows


def quantised_ratios(rows: Mapping[str, Row]) -> list[Ratio]:
    """Either way against a copy of its output; memory; bytes; the peer."""
    decode, encode = rows["--dequantize"], rows["--quantize"]
    values, codes = rows["cp -r of the values, sync -f"], rows["cp -r of the codes, sync -f"]
    ratios = [
        at_most("--dequantize / cp of the values, sync", decode.seconds / values.seconds, 1.2),
        at_most("--quantize / cp of the codes, sync", encode.seconds / codes.seconds, float("inf")),
        at_most("--quantize / cp of the values, sync", encode.seconds / values.seconds, 1.2),
        at_most("bytes read / needed, --dequantize", *read_ratio(decode)),
        at_most("bytes read / needed, --quantize", *read_ratio(encode)),
    ]
    if PEER in rows:
        ratios.append(at_least(f"{PEER} / --dequantize", rows[PEER].seconds / decode.seconds, 8))
    budgets = {"--dequantize": GIB, "--dequantize, budget 256 MiB": 256 * MIB, "--quantize": GIB}
    for name, budget in budgets.items():
        above = (rows[name].peak_rss_bytes - budget) / MIB
        ratios.append(at_most(f"peak above the budget in MiB, {name}", above, 100))
    return ratios
