# What ranks would do: in numbers, as JSON, as a page; and what is refused before anything runs.
make_checkpoint mixtral hub
cat >placements.json <<'END'
[{"pattern": "*.experts.gate_up_proj", "placements": [{"axis": "ep", "shard": 0},
    {"pad": {"dim": 1, "multiple": 3, "groups": 2}},
    {"axis": "fsdp", "strided_shard": {"dim": 1, "split_factor": 2}}]},
 {"pattern": "*.experts.down_proj", "placements": [{"axis": "ep", "shard": 0}, {"axis": "fsdp", "shard": 2}]},
 {"pattern": "lm_head.weight", "placements": [{"axis": "fsdp", "shard": 0}]},
 {"pattern": "*", "placements": []}]
END
run plan hub --mesh fsdp=3
run plan hub --to runtime --mesh ep=2,fsdp=2 --placements placements.json
run plan hub --to runtime --mesh ep=2,fsdp=2 --placements placements.json --rank 3
run_json plan hub --mesh fsdp=2 --json --include lm_head.weight
run_json plan hub --mesh fsdp=2 --json --include lm_head.weight --rank 1
run plan hub --mesh fsdp=2 --dump --include lm_head.weight
run plan hub --mesh fsdp=2 --rank 2
run plan hub --rank 0

# Placements that do not fit: all of them, before anything is read.
echo '[{"pattern": "*", "placements": [{"axis": "tp", "shard": 2}]}]' >bad.json
run plan hub --mesh tp=2 --placements bad.json --include '*.w2.weight'
echo '[{"pattern": "*.gate.*", "placements": []}]' >few.json
run plan hub --mesh tp=2 --placements few.json --include '*.weight' --exclude '*.experts.*'

run plan hub --to runtime --mesh ep=2,fsdp=2 --placements placements.json --html page.html | head -1
size=$(stat -c %s page.html)
((size > 10000 && size < 60000)) && echo 'a page of some ten thousand bytes'
grep -c '<details' page.html
run plan hub --html none/page.html | tail -2
