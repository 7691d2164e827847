"""A tiny model of a class over several meshes: what ranks hold, and the way back.

    python python/tests/sharded_sweep.py --classes MixtralForCausalLM
    python python/tests/sharded_sweep.py                    # all that are registered or have a plan

Each rank's tensors are held against slices of the unsharded ones, which torch cuts as `layout.json`
says; that it says what Transformers does is held in test_parallel_plans.py. Going back to the hub's
layout gives the files that Transformers saved, byte for byte.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import class_sweep
import torch
from class_sweep import Mismatch, command, compare, stored
from safetensors import safe_open
from transformers import PreTrainedModel

PLANS = class_sweep.ROOT / "mappings" / "parallel_plans.json"
MESHES = ("tp=2", "ep=2", "fsdp=2", "fsdp=3", "ep=2,fsdp=2", "tp=2,fsdp=2")
# Of plans and bare weights, of experts stacked and apart, and of every mesh.
ALWAYS = (
    "DeepseekV3ForCausalLM",
    "GptOssForCausalLM",
    "HrmTextForCausalLM",
    "InklingModel",
    "LlamaForCausalLM",
    "MixtralForCausalLM",
    "Molmo2TextModel",
    "Phi3ForCausalLM",
    "Qwen3VLMoeForConditionalGeneration",
    "Step3p7Model",
)


def class_names() -> list[str]:
    """The classes with a registered mapping, and those with a plan beside their config's."""
    planned = json.loads(PLANS.read_text(encoding="utf-8"))["classes"]
    return sorted({*class_sweep.registered_classes(), *planned})


def some_of(names: list[str]) -> list[str]:
    """Every 16th class, and those of a kind of their own."""
    return sorted({*names[::16], *ALWAYS} & set(names))


def axes_of(mesh: str) -> dict[str, int]:
    """Size by name, outermost first."""
    return {name: int(size) for name, size in (axis.split("=") for axis in mesh.split(","))}


def meshes_of(model: PreTrainedModel, whole: dict[str, torch.Tensor]) -> list[str]:
    """The meshes with axes that its plan has rules for, which name a tensor that is there."""
    plans = {axis: getattr(model, f"{axis}_plan") for axis in ("tp", "ep")}
    lacking = {
        axis
        for axis, plan in plans.items()
        if not plan or not model._expand_parallel_plan(plan).keys() & whole.keys()
    }
    return [mesh for mesh in MESHES if not lacking & axes_of(mesh).keys()]


def chunk(tensor: torch.Tensor, dim: int, parts: int, part: int) -> torch.Tensor:
    """A part of a dim; empty where torch.chunk gives fewer parts."""
    size = -(-tensor.shape[dim] // parts)
    begin = min(part * size, tensor.shape[dim])
    return tensor.narrow(dim, begin, min(size, tensor.shape[dim] - begin))


def local(
    whole: torch.Tensor, placements: list[dict[str, Any]], place: dict[str, tuple[int, int]]
) -> torch.Tensor:
    """What the rank at a place of the mesh, `{axis: (size, coordinate)}`, holds of a tensor."""
    for step in placements:
        parts, part = place[step["axis"]]
        strided = step.get("strided_shard", {"dim": step.get("shard"), "split_factor": 1})
        dim, factor = strided["dim"], strided["split_factor"]
        groups = [chunk(whole, dim, factor, group) for group in range(factor)]
        whole = torch.cat([chunk(group, dim, parts, part) for group in groups], dim)
    return whole


def tensors_in(path: Path) -> dict[str, torch.Tensor]:
    """All tensors of a file."""
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in list(file.keys())}


def check_ranks(whole: dict[str, torch.Tensor], ranks: Path, mesh: str) -> None:
    """Each rank's file against slices of the whole tensors."""
    said = json.loads((ranks / "layout.json").read_text(encoding="utf-8"))["tensors"]
    axes = axes_of(mesh)
    places = list(itertools.product(*map(range, axes.values())))
    for rank, coordinates in enumerate(places):
        place = {
            axis: (size, at) for (axis, size), at in zip(axes.items(), coordinates, strict=True)
        }
        wanted = {
            name: local(tensor, said[name]["placements"], place) for name, tensor in whole.items()
        }
        file = ranks / f"rank-{rank:05d}-of-{len(places):05d}.safetensors"
        compare(f"{mesh}: rank {rank}", tensors_in(file), wanted)
    check_axes_cut(said, axes, mesh)


def check_axes_cut(said: dict[str, Any], axes: dict[str, int], mesh: str) -> None:
    """Along every axis something is cut."""
    used = {step["axis"] for tensor in said.values() for step in tensor["placements"]}
    if axes.keys() - used:
        raise Mismatch(f"{mesh}: nothing is cut along {sorted(axes.keys() - used)}")


def experts_divide(model: PreTrainedModel) -> bool:
    """False if the model has a number of experts that is not even."""
    styles = model.ep_plan or {}
    return all(
        parameter.shape[0] % 2 == 0
        for name, parameter in model.named_parameters()
        if styles.get(re.sub(r"\.\d+(?=\.|$)", ".*", name)) == "grouped_gemm"
    )


def check_mesh(
    model: PreTrainedModel, disk: Path, work: Path, mesh: str, whole: dict[str, torch.Tensor]
) -> None:
    """One mesh, there and back."""
    ranks, back = work / f"ranks-{mesh}", work / f"back-{mesh}"
    said = [] if mesh.startswith("fsdp") else ["--tp-plan", "auto"]
    said += ["--architecture", type(model).__name__]
    command("convert", disk, ranks, "--to", "runtime", "--mesh", mesh, *said, "--quiet")
    check_ranks(whole, ranks, mesh)
    command("convert", ranks, back, "--to", "hub", "--quiet")
    for file in disk.glob("*.safetensors*"):
        if file.read_bytes() != (back / file.name).read_bytes():
            raise Mismatch(f"{mesh}: going back does not give {file.name} byte for byte")


def check_meshes(model: PreTrainedModel, disk: Path, work: Path) -> Iterator[str]:
    """Every mesh that the model's plan has rules for."""
    command("convert", disk, work / "runtime", "--to", "runtime", "--quiet")
    whole = stored(work / "runtime")
    for mesh in meshes_of(model, whole):
        if "ep" in axes_of(mesh) and not experts_divide(model):
            continue
        check_mesh(model, disk, work, mesh, whole)
        yield mesh


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", help="names with commas between (default: all)")
    parser.add_argument("--jobs", type=int, default=2)
    flags = parser.parse_args()
    names = flags.classes.split(",") if flags.classes else class_names()

    def tell(outcome: class_sweep.Outcome) -> None:
        word = "right" if outcome.covered else ("WRONG" if outcome.built else "not built")
        done = ", ".join(outcome.checks)
        print(f"{outcome.name}: {word} [{done}] {outcome.reason[:400]}", flush=True)

    outcomes = class_sweep.sweep(names, flags.jobs, tell, (check_meshes,))
    print(f"{sum(each.covered for each in outcomes)} of {len(outcomes)} classes are right")
    return 1 if any(each.built and each.reason for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
