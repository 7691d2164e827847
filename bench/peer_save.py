"""Times from_pretrained followed by save_pretrained, synced to disk, after the imports.

usage: peer_save.py DIR OUT_DIR

Prints one JSON object: load_seconds, save_seconds, seconds, peak_rss_bytes.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import transformers
from transformers import AutoModelForCausalLM

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def main() -> None:
    """The command."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = sys.argv[1:]
    start = time.perf_counter()
    model = AutoModelForCausalLM.from_pretrained(source, dtype="auto")
    loaded = time.perf_counter()
    model.save_pretrained(target, max_shard_size="1GB")
    subprocess.run(["sync", "-f", target], check=True)
    saved = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    times = {"load_seconds": loaded - start, "save_seconds": saved - loaded}
    print(json.dumps({**times, "seconds": saved - start, "peak_rss_bytes": peak}))


if __name__ == "__main__":
    main()
