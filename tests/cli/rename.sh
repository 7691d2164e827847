# Names changed by hand: what keeps its names is linked, what does not is written in the same split.
make_checkpoint mixtral hub
run plan hub --rename 'block_sparse_moe=mlp'
run convert hub moved --rename '^lm_head=head'
ls moved
run verify moved hub --rename '^lm_head=head'
run verify moved hub
for file in hub/*; do
  [[ moved/${file#hub/} -ef $file ]] && echo "${file#hub/} is one file with the source's"
done
run convert hub twice --rename 'experts\.(\d+)=block\1' --rename '\.w(\d)\.=.v\1.'
run inspect twice
run convert hub out --rename 'nowhere=x'
run convert hub out --rename 'experts\.\d+=expert'
run convert hub out --rename 'lm_head'
run convert hub out --rename '(lm_head=head'
ls
# A mapping works on the new names; back are the original files.
run convert hub wrapped --quiet --rename '^(.)=module.\1'
run convert wrapped runtime --to runtime --rename '^module\.='
run convert runtime back --quiet --to hub
for file in wrapped/*.safetensors; do cmp "$file" "back/${file#wrapped/}" && echo "${file#wrapped/} is the same"; done
