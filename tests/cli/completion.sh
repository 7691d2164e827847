# What bash completes, with the words that are typed as it gives them to a completion.
"$binary" completion bash >weightloom.bash
typed() {
  printf '$ %s<TAB>\n' "$*"
  bash --norc -c 'source ./weightloom.bash
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _weightloom
    ((${#COMPREPLY[@]} == 0)) || printf "  %s\n" "${COMPREPLY[@]}"' bash "$@"
}
bash --norc -c 'source ./weightloom.bash; complete -p weightloom'
typed weightloom ''
typed weightloom in
typed weightloom --v
typed weightloom plan --to ''
typed weightloom plan --to h
typed weightloom plan --to = run
typed weightloom plan --to =
typed weightloom convert --over
typed weightloom convert --threads ''
typed weightloom mappings mixt
make_checkpoint mixtral 'a model'
typed weightloom inspect a
typed weightloom plan --mapping mixt
typed weightloom plan --mapping weight
# Every flag that help tells of is completed, and in the manual page.
"$binary" man >weightloom.1
for verb in inspect plan convert verify diff mappings repair-index; do
  for flag in $("$binary" "$verb" --help | grep -oE '^ +(-h,)?--[a-z-]+' | grep -oE -e '--[a-z-]+'); do
    typed weightloom "$verb" "$flag" | grep -qxF -e "  $flag" || echo "$verb $flag is not completed"
    grep -qF -e "${flag//-/\\-}" weightloom.1 || echo "$verb $flag is not in the manual page"
  done
done
run completion tcsh
run completion
run man extra
