# A checkpoint spread over ranks by the model's own plan, by a file, and what is refused.
make_checkpoint mixtral hub
run plan hub --to runtime --mesh tp=2
run convert hub ranks --to runtime --architecture MixtralForCausalLM --mesh tp=2 --tp-plan auto
ls ranks
run convert ranks back --to hub
cmp hub/model-00001-of-00003.safetensors back/model-00001-of-00003.safetensors && echo equal
echo '{"lm_head": "colwise", "model.layers.*.mlp.down": "rowwise"}' >plan.json
run convert hub by_file --to runtime --mesh tp=2 --tp-plan plan.json
echo '{"lm_head": "colwize"}' >wrong.json
run convert hub out --to runtime --mesh tp=2 --tp-plan wrong.json
run convert hub out --to runtime --mesh tp=2 --tp-plan auto --architecture MixtralModel --mapping mixtral
run convert hub out --to hub --mesh tp=2 --tp-plan auto
rm hub/config.json
run convert hub out --to runtime --mapping mixtral --mesh tp=2 --tp-plan auto
