# A digest of each tensor, made while it is written and checked by verify.
make_checkpoint mixtral hub
run convert hub summed --checksums
cat summed/weightloom.checksums.json
run verify summed
# The last byte of a shard belongs to its last tensor.
chmod u+w summed/*
cp summed/model-00002-of-00003.safetensors part && python3 - <<'PYTHON'
import pathlib
data = bytearray(pathlib.Path("part").read_bytes())
data[-1] ^= 1
pathlib.Path("part").write_bytes(data)
PYTHON
mv part summed/model-00002-of-00003.safetensors
run verify summed
run_json verify summed --json
# A copy does not take old digests along.
run convert summed copy --quiet
ls copy
run convert hub one.safetensors --checksums
