# What a checkpoint holds.
make_checkpoint mixtral hub
run inspect hub
run inspect hub --all
run inspect hub/model-00002-of-00003.safetensors
make_checkpoint single one
run inspect one
run_json inspect one --json
make_checkpoint odd odd.safetensors
run inspect odd.safetensors
run_json inspect odd.safetensors --json
