"""Times torch's consolidation of a folder that make_dcp.py wrote, synced, after the imports.

usage: peer_consolidate.py SHARDED_DIR OUT_DIR SRC_DIR

Tensors go into as many files as SRC_DIR has, each made by a thread of its own, up to the cores
there are. Prints one JSON object: seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files


def numbers_of_files(folder: Path) -> dict[str, int]:
    """The number of each tensor's file, from 1."""
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    files = sorted(set(index["weight_map"].values()))
    return {name: files.index(file) + 1 for name, file in index["weight_map"].items()}


def main() -> None:
    """The command."""
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sharded, out, source = sys.argv[1:]
    numbers = numbers_of_files(Path(source))
    start = time.perf_counter()
    os.mkdir(out)
    consolidate_safetensors_files(sharded, out, numbers, num_threads=os.cpu_count() or 1)
    subprocess.run(["sync", "-f", out], check=True)
    print(json.dumps({"seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
