# Which mappings there are, and one as a file.
# Of the list only what stays when mappings are added.
run mappings | grep -E 'weightloom|mixtral|need no' | sed -E 's/[0-9]+ (other)/# \1/; s/  +/  /g'
run mappings --json | grep -oE '\{"mappings":\[|\{"name":"mixtral"[^}]*\}|"plain_model_types":'
run mappings mixtral
run mappings minimax --json
run mappings mixtrall
run mappings llama
run mappings mixtral extra
make_checkpoint mixtral hub
"$binary" mappings mixtral >own.json
run plan hub --to runtime --mapping own.json
