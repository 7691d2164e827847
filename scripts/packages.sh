# Debian packages that Weightloom needs, and their installation. Sourced by the other scripts.
# shellcheck shell=bash disable=SC2034

# Clones in other folders share what ccache knows: paths below this one do not count.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# To build and to run the C++ tests.
weightloom_build_packages=(
  g++ cmake ninja-build ccache pkg-config
  libsimdjson-dev nlohmann-json3-dev libpcre2-dev libcli11-dev libfmt-dev libhwy-dev libxxhash-dev
  libgtest-dev libgmock-dev libopenmpi-dev openmpi-bin
)

# For the checks on top: sanitizers, fuzzing, formatting, linting, the Python tests.
weightloom_check_packages=(
  python3-venv clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev libfuzzer-19-dev
  doxygen mandoc zsh fish binutils python3-dev chromium fonts-dejavu-core
)

# True if the command "cmake" is there and is 3.25 or later, wherever it came from.
have_cmake() {
  local version
  version=$(cmake --version 2>/dev/null | sed -n 's/^cmake version //p') || return 1
  [[ -n $version ]] && printf '3.25\n%s\n' "$version" | sort --version-sort --check=quiet
}

# True if python3 can make virtual environments, wherever it came from.
have_venv() {
  python3 -c 'import ensurepip, venv' 2>/dev/null
}

# True if modules can be compiled for python3, wherever it came from.
have_python_headers() {
  [[ -e $(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h ]]
}

# Prints those of the given packages that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    if [[ $package == cmake ]] && have_cmake; then continue; fi
    if [[ $package == python3-venv ]] && have_venv; then continue; fi
    if [[ $package == python3-dev ]] && have_python_headers; then continue; fi
    if [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
      printf '%s\n' "$package"
    fi
  done
}

# Installs the packages given, as root or by a sudo that asks for no password.
# Where neither is possible, prints the one line to run and exits with 3.
install_packages() {
  local as_root=()
  if [[ $(id -u) != 0 ]]; then
    if ! sudo -n true 2>/dev/null; then
      printf 'Some Debian packages are missing. Please run this line, then this script again:\n' >&2
      printf '  sudo apt-get install -y --no-install-recommends %s\n' "$*" >&2
      exit 3
    fi
    as_root=(sudo -n)
  fi
  "${as_root[@]}" apt-get update -q </dev/null
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "$@" </dev/null
}

# Makes sure that the packages given are installed.
need_packages() {
  if ! command -v dpkg-query >/dev/null; then
    printf 'This is no Debian system; these packages, or their like, must be there: %s\n' "$*" >&2
    return
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} > 0)); then
    printf 'Installing %s\n' "${missing[*]}"
    install_packages "${missing[@]}"
  fi
}
