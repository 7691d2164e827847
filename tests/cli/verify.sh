# Whole or not, equal or not.
make_checkpoint mixtral hub
run verify hub
run_json verify hub --json
cp -r hub other
run verify hub other
# The last byte of a shard belongs to its last tensor.
python3 - <<'PYTHON'
import pathlib
path = pathlib.Path("other/model-00002-of-00003.safetensors")
data = bytearray(path.read_bytes())
data[-1] ^= 1
path.write_bytes(data)
PYTHON
run verify hub other
run_json verify hub other --json
run verify hub other --quiet
run verify hub other --exclude '*.experts.*'
make_checkpoint single one
run verify hub one
run verify hub absent
head -c -1 hub/model-00003-of-00003.safetensors >short.safetensors
run verify short.safetensors
