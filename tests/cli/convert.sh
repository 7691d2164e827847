# There and back: the same bytes.
make_checkpoint mixtral hub
run convert hub runtime --to runtime
ls -A runtime
run verify hub runtime
run convert runtime back --to hub
for file in hub/*; do cmp "$file" "back/${file#hub/}" && echo "${file#hub/} is the same"; done
run verify hub back --quiet
run_json convert hub again --to runtime --json
cmp runtime/model.safetensors again/model.safetensors && echo 'equal input gives equal bytes'
run convert hub small --quiet --max-shard-size 100
ls small
run convert small split --quiet --layout-from hub
ls split
run convert hub one.safetensors --quiet
run inspect one.safetensors
