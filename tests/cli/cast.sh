# Casts: planned, made, told, recorded, and compared.
make_checkpoint floats in.safetensors
run plan in.safetensors --dtype F16 --keep-dtype '*.bias'
run plan in.safetensors --dtype F16 --keep-dtype '*.bias' --dump
run convert in.safetensors half.safetensors --dtype F16 --keep-dtype '*.bias'
run inspect half.safetensors --all
run verify half.safetensors in.safetensors --dtype F16 --keep-dtype '*.bias'
run verify half.safetensors in.safetensors
run convert in.safetensors out.safetensors --dtype int8
make_checkpoint mixtral hub
sed -i 's/"num_local/"torch_dtype": "bfloat16",\n  "num_local/' hub/config.json
run_json convert hub runtime --to runtime --dtype F32 --json
diff hub/config.json runtime/config.json
grep casts runtime/weightloom.json
run convert runtime back --to hub --quiet
run inspect back
run convert runtime same --to hub --dtype BF16
for file in hub/*; do cmp "$file" "same/${file#hub/}" && echo "${file#hub/} is the same"; done
run verify hub runtime --dtype BF16
