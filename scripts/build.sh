#!/usr/bin/env bash
# Installs the Debian packages that are missing and builds Weightloom: build/release/weightloom.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

need_packages "${weightloom_build_packages[@]}"
cmake --preset release
cmake --build --preset release
printf 'Built %s\n' "$PWD/build/release/weightloom"
