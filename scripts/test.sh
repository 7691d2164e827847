#!/usr/bin/env bash
# Installs what is needed and runs every check; stops at the first that fails.
#
# usage: scripts/test.sh [--quick]
#   --quick   only the Release build and its C++ tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

jobs=$(nproc)
step='start'

heading() {
  step=$1
  printf '\n=== %s (%d s) ===\n' "$step" "$SECONDS"
}

report_failure() {
  local code=$?
  if ((code != 0)); then
    printf '\nscripts/test.sh: FAILED in the step "%s" (exit code %d)\n' "$step" "$code"
  fi
}

build() {
  cmake --preset "$1" >"build/$1.configure.log" 2>&1 || { cat "build/$1.configure.log"; return 1; }
  cmake --build --preset "$1" -j "$jobs"
}

run_ctest() {
  ctest --test-dir "build/$1" --output-on-failure -j "$jobs" --no-tests=error
}

check_format() {
  git ls-files -z -- '*.h' '*.cc' | xargs -0 -r clang-format-19 --dry-run -Werror
}

# The library and the command; tests are held to format and warnings only.
check_tidy() {
  run-clang-tidy-19 -p build/clang-sanitize -quiet -j "$jobs" \
    'weightloom/(?!.*_(test|testing|fuzz)\.cc$).*\.cc$' >build/tidy.log 2>&1 ||
    { grep -E '(warning|error):' build/tidy.log | sort -u || tail -n 50 build/tidy.log; return 1; }
}

fuzz_smoke() {
  local target targets corpus
  mapfile -t targets < <(find build/clang-fuzz -maxdepth 1 -name '*_fuzz' -type f | sort)
  ((${#targets[@]} > 0)) || { printf 'there are no fuzz targets\n'; return 1; }
  for target in "${targets[@]}"; do
    corpus=$(mktemp -d)
    printf '%s: ' "$(basename "$target")"
    "$target" -runs=20000 -max_total_time=20 -seed=1 "$corpus" >build/fuzz.log 2>&1 ||
      { cat build/fuzz.log; return 1; }
    tail -n 1 build/fuzz.log
    rm -r "$corpus"
  done
}

# What nanobind reports as leaked at exit is a failure.
run_pytest() {
  HF_HUB_OFFLINE=1 WEIGHTLOOM_BUILD_DIR=$PWD/build/release \
    "$python" -m pytest -q -ra -p no:cacheprovider python/tests 2>build/pytest.stderr ||
    { cat build/pytest.stderr; return 1; }
  ! grep 'nanobind: leaked' build/pytest.stderr
}

quick=false
case "${1:-}" in
  '') ;;
  --quick) quick=true ;;
  *) sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
trap report_failure EXIT
exec </dev/null
mkdir -p build

heading 'Debian packages'
need_packages "${weightloom_build_packages[@]}"
$quick || need_packages "${weightloom_check_packages[@]}"

heading 'Release build'
build release
if $quick; then
  heading 'C++ tests'
  run_ctest release
  exit
fi

heading 'Arrows between rooms, file names, public headers'
python3 scripts/check_arrows.py
heading 'clang-format'
check_format
heading 'Documentation of the public headers'
scripts/check_docs.sh build/release
heading 'Build with AddressSanitizer and UndefinedBehaviorSanitizer'
build clang-sanitize
heading 'clang-tidy'
check_tidy
heading 'C++ tests with the sanitizers'
run_ctest clang-sanitize
heading 'Fuzz targets, a short run each'
build clang-fuzz
fuzz_smoke
heading 'Python environment and package'
python=$(scripts/python_env.sh)
heading 'The tests of process groups, for ranks of torch.distributed'
cmake --preset release -DWEIGHTLOOM_TEST_PYTHON="$python" >build/release.configure.log
cmake --build --preset release -j "$jobs" --target comm_torch
heading 'C++ tests'
run_ctest release
heading 'The installed package, from C++ and C'
scripts/test_package.sh build/release
heading 'The Python package, in a fresh environment'
scripts/test_wheel.sh
heading 'Python tests'
run_pytest
