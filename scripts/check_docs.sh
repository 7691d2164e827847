#!/usr/bin/env bash
# Runs doxygen over the installed headers; fails if it warns of anything, such as what has no comment.
#
# usage: scripts/check_docs.sh [BUILD-FOLDER [OUTPUT-FOLDER]]
#   BUILD-FOLDER    a configured and built Release build (build/release)
#   OUTPUT-FOLDER   where the reference, html/, is left (nowhere)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath "${1:-build/release}")
doxyfile=$PWD/Doxyfile
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work" --component development >"$work/log"
(cd "$work" && doxygen "$doxyfile") || { cat "$work/warnings"; exit 1; }
if [[ -s $work/warnings ]]; then
  sed "s#^$work/##" "$work/warnings"
  printf 'scripts/check_docs.sh: doxygen has %d lines of warnings\n' "$(wc -l <"$work/warnings")" >&2
  exit 1
fi
if [[ -n ${2:-} ]]; then
  mkdir -p "$2"
  cp -r "$work/html" "$2/"
fi
printf 'the public headers are documented\n'
