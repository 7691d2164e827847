# What a conversion would do, and that nothing is moved.
make_checkpoint mixtral hub
ls -R . >before
run plan hub --to runtime
run plan hub
run plan hub --to runtime --include '*.mlp.*' --exclude '*.gate.*'
run_json plan hub --to runtime --json
run plan hub --to runtime --dump
ls -R . | grep -v '^before$' | diff <(grep -v '^before$' before) - && echo 'nothing was written'
