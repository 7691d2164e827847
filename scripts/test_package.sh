#!/usr/bin/env bash
# Installs a finished build and holds the package to what it promises; see tests/package/README.md.
#
# usage: scripts/test_package.sh [BUILD-FOLDER]
#   BUILD-FOLDER   of the Release build, with the shared library (build/release)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
root=$PWD
build=${1:-build/release}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1

fail() {
  printf 'scripts/test_package.sh: %s\n' "$1" >&2
  exit 1
}

files_below() { (cd "$1" && find . -type f -o -type l) | LC_ALL=C sort; }

# The three components share no file, and together they are all that is installed.
install_components() {
  local component
  for component in command library development; do
    cmake --install "$build" --prefix "$work/$component" --component "$component" >"$work/log"
    files_below "$work/$component" >>"$work/by_component"
  done
  cmake --install "$build" --prefix "$work/first place" >"$work/log"
  diff <(LC_ALL=C sort "$work/by_component") <(files_below "$work/first place") ||
    fail 'the components are not what is installed as a whole'
  mv "$work/first place" "$prefix"
}

check_files() {
  local name
  for name in bin/weightloom lib/libweightloom.{a,so} lib/pkgconfig/weightloom.pc \
    lib/cmake/weightloom/weightloom-config.cmake include/weightloom/{weightloom,c_api,version}.h; do
    [[ -e $prefix/$name ]] || fail "$name is not installed"
  done
  ! files_below "$prefix" | grep -E '_(internal|testing)\.h$|/cli/' || fail 'private headers are installed'
  ! grep -rlF -e "$root" -e "$work" "$prefix" || fail 'installed files name a path of the build'
}

# Prints the exported symbols that are no part of the interface.
foreign_symbols() {
  nm --dynamic --demangle --defined-only "$1" | cut -d ' ' -f 3- |
    grep -vE '^((vtable|typeinfo|typeinfo name) for )?weightloom::|^wl_[a-z_]+$'
}

check_symbols() {
  local library
  for library in "$prefix"/lib/libweightloom*.so; do
    ! foreign_symbols "$library" || fail "$library exports what is not its own"
  done
  # What is declared in C is exported, all of it.
  diff <(grep -oE '\bwl_[a-z_]+\(' weightloom/c_api.h | tr -d '(' | LC_ALL=C sort -u) \
    <(nm --dynamic --defined-only "$prefix/lib/libweightloom.so" | grep -oE '\bwl_[a-z_]+$' | LC_ALL=C sort -u) ||
    fail 'c_api.h and the exported functions differ'
}

# Every header can be included first and alone, without any other package.
check_headers() {
  local include=$prefix/include
  (cd "$include" && find weightloom -name '*.h' | LC_ALL=C sort) |
    xargs -P "$(nproc)" -I '{}' sh -c 'printf "#include \"%s\"\n" "$1" |
      "${CXX:-g++}" -std=c++20 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ -I "$2" - ||
      exit 255' sh '{}' "$include" || fail 'a header does not stand alone'
}

# The manual page is sound, and the scripts complete words in the shells they are for. What bash
# completes is told in tests/cli/completion.sh.
check_manual_and_completions() {
  local share=$prefix/share
  mandoc -T lint -W warning "$share/man/man1/weightloom.1" || fail 'the manual page is not sound'
  local in_fish='source $argv[1]; complete --do-complete "weightloom plan --to r"'
  [[ $(fish --no-config -c "$in_fish" "$share/fish/vendor_completions.d/weightloom.fish") == runtime* ]] ||
    fail 'fish completes no words'
  [[ $(tests/package/zsh_completes.zsh "$share/zsh/site-functions" 'weightloom plan --to r') == *runtime* ]] ||
    fail 'zsh completes no words'
  [[ $(bash --norc -c 'source "$1"; complete -p weightloom' bash \
    "$share/bash-completion/completions/weightloom") == 'complete -F _weightloom weightloom' ]] ||
    fail 'bash completes nothing'
}

# build_project SOURCE NAME OPTIONS...
build_project() {
  local source=$1 name=$2
  shift 2
  cmake -G Ninja -S "$source" -B "$work/$name" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$prefix" "$@" >"$work/log" 2>&1 &&
    cmake --build "$work/$name" >>"$work/log" 2>&1 || { cat "$work/log"; fail "$name does not build"; }
}

use_from_c() {
  build_project tests/package "c_$1" -DKIND="$1" -DVERSION="$version"
  (cd "$work" && "c_$1/use_from_c" "$checkpoint" "$work/c_$1_out")
  [[ ! -e $work/stopped.safetensors ]] || fail 'a conversion that was stopped left a file'
}

use_from_cpp() {
  build_project examples/load_into_buffers "cpp_$1" -DBUILD_SHARED_LIBS="$2"
  "$work/cpp_$1/load_into_buffers" "$checkpoint" >"$work/cpp_$1/seen"
}

use_by_pkg_config() {
  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
  # shellcheck disable=SC2046
  eval "${CXX:-g++}" -std=c++20 examples/load_into_buffers/load_into_buffers.cc \
    -o "'$work/by_pkg_config'" "$(pkg-config --cflags --libs weightloom)"
  LD_LIBRARY_PATH=$prefix/lib "$work/by_pkg_config" "$checkpoint" >"$work/by_pkg_config.seen"
}

use_mpi() {
  local ranks=$work/mpi_$1/ranks
  build_project tests/package/mpi "mpi_$1" -DKIND="$1"
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none \
    mpirun --oversubscribe -n 2 "$work/mpi_$1/use_mpi" >"$ranks"
  [[ $(sort -u "$ranks") == '2 ranks; rank 1: the disk is full' ]] || fail 'use_mpi does not agree'
}

check_answers() {
  local seen
  grep -q '^model.layers.0.mlp.experts.gate_up_proj: [0-9]* bytes$' "$work/cpp_static/seen" ||
    fail 'load_into_buffers did not load the runtime layout'
  for seen in "$work/cpp_shared/seen" "$work/by_pkg_config.seen"; do
    diff "$work/cpp_static/seen" "$seen" || fail 'load_into_buffers differs by the kind of library'
  done
  [[ $(ldd "$work/cpp_shared/load_into_buffers") == *libweightloom.so* ]] || fail 'the shared example is not shared'
  [[ $(ldd "$work/cpp_static/load_into_buffers") != *libweightloom.so* ]] || fail 'the static example is not static'
}

prefix="$work/second place"
checkpoint=$root/examples/mixtral-tiny
version=$("$build/weightloom" --version | cut -d ' ' -f 2)
install_components
check_files
check_symbols
check_headers
check_manual_and_completions
use_from_c static
use_from_c shared
use_from_cpp static OFF
use_from_cpp shared ON
use_by_pkg_config
if [[ -e $prefix/lib/libweightloom_mpi.a ]]; then
  use_mpi static
  use_mpi shared
fi
check_answers
printf 'the installed package is as it should be\n'
