#!/usr/bin/env bash
# Runs one story of the command line and compares what is seen with what is expected.
#
# usage: tests/cli/run_story.sh BINARY STORY.sh [--update]
set -euo pipefail

binary=$(realpath "$1")
story=$(realpath "$2")
expected=${story%.sh}.expected
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT

show_stderr() {
  sed 's/^/2> /' "$folder/stderr"
}

# Runs the command with "$@", its stdout through the filter $filter.
run_filtered() {
  local code=0
  printf '$ weightloom'
  (($# == 0)) || printf ' %s' "${@@Q}" | sed "s/'\([a-zA-Z0-9_.,=/-]*\)'/\1/g"
  printf '\n'
  "$binary" "$@" >"$folder/stdout" 2>"$folder/stderr" || code=$?
  "$filter" <"$folder/stdout"
  show_stderr
  ((code == 0)) || printf '[exit %d]\n' "$code"
}

run() { filter=cat run_filtered "$@"; }
run_json() { filter=indent_json run_filtered "$@"; }

indent_json() { python3 -m json.tool --no-ensure-ascii --indent 1; }
make_checkpoint() { python3 "$here/make_checkpoint.py" "$@"; }

hide_what_varies() {
  sed -E \
    -e 's/^(  (memory|time) +).*/\1#/' \
    -e 's/, [0-9.]+ s, /, # s, /' \
    -e 's/ copied by the kernel/ written/' \
    -e 's/^(  disk .* needed, ).* free/\1# free/' \
    -e 's/^( *"(seconds|peak_memory_bytes|disk_bytes_free)": )[0-9.e+-]+/\1#/'
}

export NO_COLOR=1 LC_ALL=C.UTF-8
mkdir "$folder/work"
seen=$(cd "$folder/work" && set +e && source "$story" 2>&1 | hide_what_varies)

if [[ ${3:-} == --update ]]; then
  printf '%s\n' "$seen" >"$expected"
else
  diff -u "$expected" <(printf '%s\n' "$seen") --label expected --label seen
fi
