# An index that disagrees with its files is made again, and nothing is guessed.
edit_index() {
  python3 - "$1" "$2" <<'PYTHON'
import json, pathlib, sys
path = pathlib.Path(sys.argv[1], "model.safetensors.index.json")
index = json.loads(path.read_text())
weights, metadata = index["weight_map"], index["metadata"]
exec(sys.argv[2])
path.write_text(json.dumps(index, indent=2) + "\n")
PYTHON
}
make_checkpoint mixtral hub
run repair-index hub
edit_index hub 'metadata["total_size"] = 1; metadata["format"] = "pt"; del weights["lm_head.weight"]
weights["model.layers.0.block_sparse_moe.gate.weight"] = "model-00001-of-00003.safetensors"'
run inspect hub --json | cut -c 1-60
run repair-index hub --dry-run
ls hub
run_json repair-index hub --json
run repair-index hub
run verify hub
ls hub
# A name that no file holds is not given up unasked.
edit_index hub 'weights["mtp.fc.weight"] = "model-00002-of-00003.safetensors"'
run repair-index hub
run repair-index hub --drop-missing
rm hub/model.safetensors.index.json.bak
run repair-index hub --drop-missing
# Missing and doubled.
rm hub/*.index.json* hub/model-00002-of-00003.safetensors
run repair-index hub
cp hub/model-00001-of-00003.safetensors hub/model-00002-of-00003.safetensors
run repair-index hub
run_json repair-index hub --json | head -n 6
make_checkpoint single one
run repair-index one
run repair-index one/model.safetensors
run repair-index absent
