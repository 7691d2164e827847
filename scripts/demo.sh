#!/usr/bin/env bash
# Shows Weightloom's main job, from a fresh machine on: a checkpoint goes to the runtime layout and back.
#
# usage: scripts/demo.sh [CHECKPOINT]
#   CHECKPOINT   a folder with config.json and safetensors files (examples/mixtral-tiny)
# Works in a temporary folder below TMPDIR and removes it; the checkpoint is only read.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

bold='' green='' dim='' plain=''
if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
  bold=$'\e[1m' green=$'\e[32m' dim=$'\e[2m' plain=$'\e[0m'
fi

# heading TEXT EXPLANATION
heading() {
  printf '\n%s%s%s\n%s\n' "$bold" "$1" "$plain" "$2"
}

# Prints a command, runs it and shows the first lines of what it said.
show() {
  local most=24 said=$work/said lines code=0
  printf '%s  $ weightloom %s%s\n' "$dim" "$*" "$plain"
  (cd "$work" && "$weightloom" "$@") >"$said" 2>&1 || code=$?
  lines=$(wc -l <"$said")
  head -n "$most" "$said" | sed 's/^/  /'
  if ((lines > most)); then printf '  … %d more lines\n' "$((lines - most))"; fi
  if ((code != 0)); then
    printf '\nThe demo stopped: weightloom %s ended with exit code %d.\n' "$1" "$code" >&2
    exit "$code"
  fi
}

# Compares the weights of two folders, file by file.
compare() {
  local from=$1 to=$2 path count=0
  shopt -s nullglob
  for path in "$from"/*.safetensors "$from"/*.safetensors.index.json; do
    cmp -- "$path" "$to/${path##*/}"
    printf '  %ssame bytes%s  %s\n' "$green" "$plain" "${path##*/}"
    count=$((count + 1))
  done
  if ((count == 0)); then
    printf 'No safetensors files in %s\n' "$from" >&2
    return 1
  fi
}

# On a terminal, shows what it reads in one line that is written over; elsewhere shows nothing.
follow() {
  local line
  while IFS= read -r line; do
    if [[ -t 1 ]]; then printf '\r\e[K  %.90s' "$line"; fi
  done
  if [[ -t 1 ]]; then printf '\r\e[K'; fi
}

prepare() {
  local log=$work/build.log code=0
  heading 'Building' 'Debian packages that are missing are installed, then the Release build is made.'
  "$root/scripts/build.sh" </dev/null 2>&1 | tee "$log" | follow || code=$?
  if ((code != 0)); then
    tail -n 40 "$log" >&2
    exit "$code"
  fi
  printf '  %s\n' "$(tail -n 1 "$log")"
}

case "${1:-}" in
  -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit ;;
esac
source=${1:-$root/examples/mixtral-tiny}
if [[ ! -d $source ]]; then
  printf '%s is no folder; give the folder of a checkpoint, with config.json and *.safetensors.\n' \
    "$source" >&2
  exit 2
fi
source=$(cd "$source" && pwd)
weightloom=$root/build/release/weightloom
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$source" "$work/hub"

printf '%sWeightloom%s moves model weights between the layout they are stored in and the layout a program\n' \
  "$bold" "$plain"
printf 'runs them in, and back, bit for bit. Here the checkpoint is\n  %s\nand is called "hub" below.\n' \
  "$source"
prepare

heading '1. What is it?' 'inspect reads headers only: tensors, dtypes, files, the model, the mapping that applies.'
show inspect hub
heading '2. What would happen?' 'plan compiles the conversion from the headers, checks all of it, and moves nothing.'
show plan hub --to runtime
heading '3. To the runtime layout' 'convert runs the plan: names as the model has them, experts merged into one tensor.'
show convert hub runtime --to runtime
heading '4. Is it right?' 'verify brings the original to the new layout and compares every bit.'
show verify hub runtime
heading '5. And back' 'The way back is derived by inverting the plan; weightloom.json remembers the original files.'
show convert runtime back --to hub
heading '6. The same files?' 'cmp compares each file of the original with the one that came back.'
compare "$source" "$work/back"

printf '\n%sDone: to the runtime layout and back, and every byte is the same.%s\n' "$green" "$plain"
