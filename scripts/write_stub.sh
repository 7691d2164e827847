#!/usr/bin/env bash
# Writes python/weightloom/_core.pyi anew from the installed package. A test says when it is stale.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$(scripts/python_env.sh)
stub=$PWD/python/weightloom/_core.pyi
(cd / && "$python" -m nanobind.stubgen -q -m weightloom._core -o "$stub")
printf 'Wrote %s\n' "$stub"
