"""Times a model's load followed by its save, synced to disk, after the imports.

usage: peer_save.py {transformers|weightloom} DIR OUT_DIR

The load comes after an untimed one in the same process. Prints one JSON object: first_load_seconds
(the untimed one), load_seconds, save_seconds, seconds; weight_bytes; resident bytes: before
(the imports alone), the peak up to the end of the load, and to the end of the save.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import transformers
import transformers.modeling_utils  # which the first model would import: not what is timed
from transformers import AutoModelForCausalLM

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


class Transformers:
    """The original."""

    def load(self, folder: str) -> Any:
        """A model of what is in the folder."""
        return AutoModelForCausalLM.from_pretrained(folder, dtype="auto")

    def save(self, model: Any, folder: str) -> None:
        """In files of 1 GB."""
        model.save_pretrained(folder, max_shard_size="1GB")


class Weightloom:
    """The same calls of weightloom.transformers."""

    def __init__(self) -> None:
        import weightloom.transformers

        self._calls = weightloom.transformers

    def load(self, folder: str) -> Any:
        """A model of what is in the folder."""
        return self._calls.from_pretrained(AutoModelForCausalLM, folder, dtype="auto")

    def save(self, model: Any, folder: str) -> None:
        """In files of 1 GB."""
        self._calls.save_pretrained(model, folder, max_shard_size="1GB")


PEERS = {"transformers": Transformers, "weightloom": Weightloom}


def peak_bytes() -> int:
    """The most that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def seconds_of_load(peer: Transformers | Weightloom, source: str) -> float:
    """A load whose model is dropped: its memory may be new to this machine, and then clearing it is
    most of what a load takes. The loads after it get that memory again.
    """
    start = time.perf_counter()
    peer.load(source)
    seconds = time.perf_counter() - start
    gc.collect()
    return seconds


def main() -> None:
    """The command."""
    if len(sys.argv) != 4 or sys.argv[1] not in PEERS:
        sys.exit(__doc__)
    kind, source, target = sys.argv[1:]
    peer = PEERS[kind]()
    told: dict[str, float] = {"before_bytes": peak_bytes()}
    told["first_load_seconds"] = seconds_of_load(peer, source)
    start = time.perf_counter()
    model = peer.load(source)
    loaded = time.perf_counter()
    told["load_peak_bytes"] = peak_bytes()
    peer.save(model, target)
    subprocess.run(["sync", "-f", target], check=True)
    saved = time.perf_counter()
    told["save_peak_bytes"] = peak_bytes()
    told["weight_bytes"] = sum(p.numel() * p.element_size() for p in model.parameters())
    times = {"load_seconds": loaded - start, "save_seconds": saved - loaded}
    print(json.dumps({**times, "seconds": saved - start, **told}))


if __name__ == "__main__":
    main()
