# Over ranks, to another mesh, and back: the same bytes; and what is refused.
make_checkpoint mixtral hub
cat >placements.json <<'END'
[{"pattern": "*.experts.*.w2.weight", "placements": [{"axis": "tp", "shard": 1}]},
 {"pattern": "*.experts.*", "placements": [{"axis": "tp", "shard": 0}, {"axis": "fsdp", "shard": 0}]},
 {"pattern": "*", "placements": []}]
END
run convert hub parts --mesh fsdp=2,tp=2 --placements placements.json
ls parts
run inspect parts
run_json inspect parts --json
run convert parts other --mesh fsdp=3
run convert other back
for file in hub/*; do cmp "$file" "back/${file#hub/}" && echo "${file#hub/} is the same"; done
run convert hub one --mesh fsdp=2,tp=2 --placements placements.json --rank 3
ls one
for rank in 3; do cmp "one/rank-0000$rank-of-00004.safetensors" "parts/rank-0000$rank-of-00004.safetensors" && echo 'the same file as with all ranks'; done

# Refused, and nothing is written.
run convert hub bad --mesh fsdp=2,tp=2
run convert hub bad --mesh fsdp=2 --rank 2
run convert hub bad --rank 0
run convert hub bad --mesh fsdp=0
[[ -e bad ]] || echo 'nothing was written'

# A sharded folder that is not whole.
cp -r parts holed && rm holed/rank-00002-of-00004.safetensors
run convert holed bad
cp -r other twisted && cp parts/rank-00000-of-00004.safetensors twisted/rank-00000-of-00003.safetensors
run convert twisted bad

# Replicas that differ: the last byte of rank 1's file is not rank 0's.
run convert hub copies --quiet --mesh dp=2 --include lm_head.weight
printf '\377' | dd of=copies/rank-00001-of-00002.safetensors bs=1 seek=$(($(stat -c %s copies/rank-00001-of-00002.safetensors) - 1)) conv=notrunc status=none
run convert copies bad
run convert copies trusted --trust-replicas
[[ -e bad ]] || echo 'nothing was written'
