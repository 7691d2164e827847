# Wrong usage is one line, exit code 2, and where to read more.
run
run inspekt .
run inspect
run convert only-source
run plan here there
run plan . --lenint
run inspect . --to runtime
run plan . --to nowhere
run plan . --from same
run plan . --include
run plan . --to hub --to runtime
run convert . out --max-shard-size lots
run convert . out --memory-budget=-3
run convert . out --threads 0
run plan . --lenint --json
