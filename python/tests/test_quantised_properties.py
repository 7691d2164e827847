"""Random models in random schemes through a mapping, over random meshes, and quantised again.

What each rank holds is what NumPy decodes, maps and cuts. WEIGHTLOOM_SEED chooses other models.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from conftest import Command
from quantised_by_hand import (
    bf16,
    decode_e4m3,
    encode_fp8_blocks,
    encode_mxfp4,
)
from quantised_models import (
    MAPPING,
    SCHEMES,
    Maker,
    Model,
    cut,
    gpt_oss_model,
    mapped,
    random_model,
    random_steps,
)
from safetensors_by_hand import Tensor, facts, from_bits16, read_file, read_folder, write_sharded

FIRST = int(os.environ.get("WEIGHTLOOM_SEED", "1"))
MESHES = ({"a": 2}, {"a": 3}, {"a": 2, "b": 2}, {"a": 2, "b": 3}, {"a": 2, "b": 2, "c": 2})


def write(folder: Path, model: Model, make: Maker) -> Path:
    folder.mkdir()
    write_sharded(folder, model.stored, make.draw.randint(1, 4))
    (folder / "config.json").write_text(json.dumps(model.config), encoding="utf-8")
    return folder


def settings(make: Maker) -> list[str]:
    """Any budget and threads give the same."""
    threads = make.draw.choice([1, 2, 4])
    budget = threads * make.draw.choice([2, 3, 64])
    return ["--memory-budget", f"{budget}MiB", "--threads", str(threads)]


def spread(
    weightloom: Command,
    source: Path,
    out: Path,
    make: Maker,
    whole: dict[str, Tensor],
    *more: object,
) -> None:
    """Over a random mesh: each rank's file against NumPy."""
    axes = make.draw.choice(MESHES)
    rules, held = [], {}
    for name, tensor in whole.items():
        steps, held[name] = random_steps(make, axes, tensor.shape)
        rules.append({"pattern": name, "placements": steps})
    placements = out.with_suffix(".json")
    placements.write_text(json.dumps(rules), encoding="utf-8")
    mesh = ",".join(f"{axis}={size}" for axis, size in axes.items())
    weightloom(
        "convert", source, out, "--mesh", mesh, "--placements", placements, *settings(make), *more
    ).done()
    ranks = sorted(out.glob("rank-*.safetensors"))
    assert len(ranks) == np.prod(list(axes.values()))
    for rank, file in enumerate(ranks):
        wanted = {
            name: from_bits16(cut(tensor.bits16(), held[name][rank]))
            for name, tensor in whole.items()
        }
        assert facts(read_file(file)) == facts(wanted), (file.name, mesh, rules)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + 6))
def test_ranks_hold_what_is_decoded_mapped_and_cut(
    weightloom: Command, tmp_path: Path, scheme: str, seed: int
) -> None:
    make = Maker(seed)
    model = random_model(make, scheme)
    hub = write(tmp_path / "hub", model, make)
    mapping = tmp_path / "mapping.json"
    mapping.write_text(json.dumps(MAPPING), encoding="utf-8")
    runtime = ("--dequantize", "--to", "runtime", "--mapping", mapping)
    plain = {name: array.bits16() for name, array in model.plain.items()}
    decoded = {name: bf16(array).bits16() for name, array in model.values.items()}
    whole = {name: from_bits16(bits) for name, bits in mapped(decoded | plain).items()}
    ranks = tmp_path / "ranks"
    spread(weightloom, hub, ranks, make, whole, *runtime)
    merged, back = tmp_path / "merged", tmp_path / "back"
    weightloom("convert", ranks, merged, "--mapping", mapping, *settings(make)).done()
    assert facts(read_folder(merged)) == facts(whole)
    weightloom("convert", ranks, back, "--to", "hub", "--mapping", mapping).done()
    values = {name: from_bits16(bits) for name, bits in (decoded | plain).items()}
    assert facts(read_folder(back)) == facts(values)
    check_quantised(weightloom, back, tmp_path / "again", make, values)
    spread(
        weightloom,
        tmp_path / "again",
        tmp_path / "ranks2",
        make,
        requantised(values),
        *("--dequantize", "--mapping", "none"),
    )


def f32_of(tensor: Tensor) -> np.ndarray:
    return (tensor.bits16().astype("<u4") << 16).view("<f4")


def is_quantised(name: str, tensor: Tensor) -> bool:
    return ".layers.0." in name and "norm" not in name and len(tensor.shape) == 2


def encoded(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """What --quantize fp8-block is to make of them."""
    made = {}
    for name, tensor in values.items():
        if not is_quantised(name, tensor):
            made[name] = tensor
            continue
        codes, scales = encode_fp8_blocks(f32_of(tensor), (128, 128))
        made[name] = Tensor("F8_E4M3", codes.shape, codes.tobytes())
        made[name + "_scale_inv"] = Tensor("F32", scales.shape, scales.tobytes())
    return made


def requantised(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """The values of those codes."""
    made = {}
    for name, tensor in values.items():
        made[name] = tensor
        if is_quantised(name, tensor):
            codes, scales = encode_fp8_blocks(f32_of(tensor), (128, 128))
            beside = scales.repeat(128, 0).repeat(128, 1)[: codes.shape[0], : codes.shape[1]]
            made[name] = bf16(decode_e4m3(codes) * beside)
    return made


def check_quantised(
    weightloom: Command, source: Path, out: Path, make: Maker, values: dict[str, Tensor]
) -> None:
    weightloom(
        "convert", source, out, "--quantize", "fp8-block", "--mapping", "none", *settings(make)
    ).done()
    assert facts(read_folder(out)) == facts(encoded(values))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + 6))
def test_mxfp4_over_ranks_and_again(weightloom: Command, tmp_path: Path, seed: int) -> None:
    make = Maker(seed)
    model = gpt_oss_model(make)
    hub = write(tmp_path / "hub", model, make)
    whole = model.plain | {name: bf16(array) for name, array in model.values.items()}
    ranks, again = tmp_path / "ranks", tmp_path / "again"
    spread(weightloom, hub, ranks, make, whole, "--dequantize", "--mapping", "none")
    weightloom(
        "convert", ranks, again, "--quantize", "mxfp4", "--mapping", "none", *settings(make)
    ).done()
    wanted = dict(model.plain)
    for name in model.values:
        blocks, scales = encode_mxfp4(f32_of(whole[name]).transpose(0, 2, 1))
        wanted[name + "_blocks"] = Tensor("U8", blocks.shape, blocks.tobytes())
        wanted[name + "_scales"] = Tensor("U8", scales.shape, scales.tobytes())
    assert facts(read_folder(again)) == facts(wanted)
