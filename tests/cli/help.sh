# Help teaches: the program's whole, and how a verb's begins.
run --version
run --help
run inspect --help
run plan --help
run convert --help
run verify --help
run diff --help
run mappings --help
run completion --help
run repair-index --help
