# No room for the output: told, and nothing left behind. The limit of a file's size stands in for the disk's.
python3 - <<'PYTHON'
import json, pathlib, struct
header = json.dumps({"a": {"dtype": "U8", "shape": [1 << 20], "data_offsets": [0, 1 << 20]}}).encode()
pathlib.Path("large.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(1 << 20))
PYTHON
(ulimit -f 256 && run convert large.safetensors out)
ls -A
(ulimit -f 256 && run convert large.safetensors out.safetensors)
ls -A
