# A plan that cannot be: all that is wrong at once, exit code 1.
make_checkpoint holed hub
run plan hub --to runtime
run_json plan hub --to runtime --json
make_checkpoint mixtral whole
run plan whole --to runtime --include 'no.such.*'
run plan absent
run plan absent --json
