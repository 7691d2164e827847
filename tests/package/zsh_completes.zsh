#!/usr/bin/env -S zsh -f
# Types a line and two tabs into an interactive zsh, and prints what it then shows.
#
# usage: zsh_completes.zsh FOLDER-OF-COMPLETIONS LINE
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1='> '; fpath=(${(q)1} \$fpath); autoload -U compinit; compinit -u -D; print -r -- be'gin'"
zpty -r -m shell seen '*begin*'
zpty -w -n shell "$2"$'\t\t'
zpty -w shell ' ; print -r -- e"nd"'
zpty -r -m shell seen '*end*'
print -r -- "$seen"
zpty -d shell
