# Each common mistake is one clear sentence and the next step.
mkdir notes && echo text >notes/readme.txt
run inspect notes
run inspect absent
run inspect notes/readme.txt
make_checkpoint pickled old
run convert old out
run_json inspect old --json
make_checkpoint mixtral hub
rm hub/model-00002-of-00003.safetensors
run convert hub out --to runtime
rm -r hub
make_checkpoint mixtral hub
run convert hub out --to runtime --mapping mixtrall
run convert hub out --to runtime --mapping rules.json
echo '{"model_type": "unheard_of"}' >hub/config.json
run convert hub out --to runtime
rm hub/config.json
run convert hub out --to runtime
run convert hub out --to runtime --mapping plain
make_checkpoint holed holed
run convert holed out --to runtime
ls
