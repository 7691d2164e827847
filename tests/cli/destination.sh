# DST is as it was after any refusal, and replaced only when asked.
make_checkpoint mixtral hub
make_checkpoint single out
run convert hub out --to runtime
ls out
run convert hub out --to runtime --overwrite --quiet
ls out
run convert hub absent/out --to runtime
cp -r hub same
run convert same same --overwrite --quiet
run verify hub same
ls -A
