#!/usr/bin/env bash
# Measures Weightloom against its floors and peers and prints the tables as Markdown.
#
# usage: bench/run.sh [SCRATCH_DIR] [--rounds N] [--only TABLE]
#   TABLE         load models convert rename headers keys casts sharding saving planning
#   SCRATCH_DIR   a folder on the disk to measure; inputs are kept there, about 40 GB (build/bench)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

scratch=$here/build/bench
case "${1:-}" in
  --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit ;;
  '' | --*) ;;
  *) scratch=$1; shift ;;
esac
"$here/scripts/build.sh"
python=$("$here/scripts/python_env.sh")
exec "$python" "$here/bench/run_all.py" --build "$here/build/release" --scratch "$scratch" "$@"
