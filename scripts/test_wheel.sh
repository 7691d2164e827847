#!/usr/bin/env bash
# Builds the wheel, installs it in a fresh environment that has NumPy and nothing else, and runs the
# example of README.md there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  printf 'scripts/test_wheel.sh: %s\n' "$1" >&2
  exit 1
}

# The first block of Python in README.md.
example_of_readme() {
  sed -n '/^```python$/,/^```$/{/^```/d;p}' README.md
}

python=$(scripts/python_env.sh)
"$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  --wheel-dir "$work" .
wheels=("$work"/weightloom-*.whl)
((${#wheels[@]} == 1)) || fail 'not one wheel was built'

python3 -m venv "$work/fresh"
fresh=$work/fresh/bin/python
"$fresh" -m pip install --quiet --disable-pip-version-check numpy "${wheels[0]}"
installed=$(cd / && "$fresh" -c 'import weightloom; print(weightloom.__path__[0])')
[[ $installed == "$work/fresh"/* ]] || fail "the package was imported from $installed"
! grep -rlF "$root" "$installed" --include='*.so*' --include='*.py*' ||
  fail 'installed files name a path of the build'

mkdir "$work/place"
ln -s "$root/examples/mixtral-tiny" "$work/place/Mixtral-8x7B"
example_of_readme >"$work/place/example.py"
[[ -s $work/place/example.py ]] || fail 'README.md has no example in Python'
(cd "$work/place" && "$fresh" example.py >seen 2>told) || { cat "$work/place/told"; fail 'it failed'; }
[[ ! -s $work/place/told ]] || { cat "$work/place/told"; fail 'the example wrote to stderr'; }
grep -q 'experts.gate_up_proj' "$work/place/seen" || fail 'the example did not show the runtime layout'
"$root/build/release/weightloom" verify "$work/place/Mixtral-8x7B" "$work/place/back" >"$work/log" ||
  { cat "$work/log"; fail 'what the example saved is not the original'; }
printf 'the wheel is as it should be\n'
