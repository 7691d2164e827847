# No room for the output: told, and nothing left behind. The limit of a file's size stands in for the disk's.
python3 - <<'PYTHON'
import json, pathlib, struct
header = json.dumps({"a": {"dtype": "U8", "shape": [1 << 20], "data_offsets": [0, 1 << 20]}}).encode()
pathlib.Path("large.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(1 << 20))
PYTHON
(ulimit -f 256 && run convert large.safetensors out --max-shard-size 4MiB)
ls -A
(ulimit -f 256 && run convert large.safetensors out.safetensors)
ls -A
# Too few descriptors, and a name that no filesystem takes.
make_checkpoint mixtral hub
# Which file meets the limit depends on what the test's runner left open.
(ulimit -n 12 && run convert hub out --max-shard-size 100) |
  sed -E 's/model-0000[0-9](.*): cannot (create|open[a-z ]*): Too/model-0000#\1: cannot #: Too/'
python3 - <<'PYTHON'
import json, pathlib
names = json.loads(pathlib.Path("hub/model.safetensors.index.json").read_text())["weight_map"]
index = {"weight_map": {name: 300 * "x" + ".safetensors" for name in names}}
pathlib.Path("long.json").write_text(json.dumps(index))
PYTHON
run convert hub out --layout-from long.json
ls -A
# Nobody hears of it, but the output is in place.
"$binary" convert hub out >/dev/full 2>told || echo "[exit $?]"
cat told
run verify hub out
