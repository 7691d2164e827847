"""Times one peer's load of a checkpoint folder, after its imports.

usage: peer_load.py {transformers|weightloom|load_file|load_file_touch} DIR

Prints one JSON object: seconds, bytes, peak_rss_bytes.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
import transformers.modeling_utils  # which the first model would import: not what is timed
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def by_transformers(folder: Path) -> dict[str, torch.Tensor]:
    """from_pretrained: the runtime layout."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype="auto").state_dict()


def by_weightloom(folder: Path) -> dict[str, torch.Tensor]:
    """The same by weightloom.transformers."""
    load = sys.modules["weightloom.transformers"].from_pretrained
    return load(AutoModelForCausalLM, folder, dtype="auto").state_dict()


def by_load_file(folder: Path) -> dict[str, torch.Tensor]:
    """load_file of every shard: the stored layout, mapped and not yet read."""
    tensors: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(path)
    return tensors


def by_load_file_touch(folder: Path) -> dict[str, torch.Tensor]:
    """load_file, and a copy of every tensor out of the mapping: the real cost."""
    return {name: tensor.clone() for name, tensor in by_load_file(folder).items()}


PEERS: dict[str, Callable[[Path], dict[str, torch.Tensor]]] = {
    "transformers": by_transformers,
    "weightloom": by_weightloom,
    "load_file": by_load_file,
    "load_file_touch": by_load_file_touch,
}


def main() -> None:
    """The command."""
    if len(sys.argv) != 3 or sys.argv[1] not in PEERS:
        sys.exit(__doc__)
    if sys.argv[1] == "weightloom":
        importlib.import_module("weightloom.transformers")
    start = time.perf_counter()
    tensors = PEERS[sys.argv[1]](Path(sys.argv[2]))
    seconds = time.perf_counter() - start
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "bytes": size, "peak_rss_bytes": peak}))


if __name__ == "__main__":
    main()
