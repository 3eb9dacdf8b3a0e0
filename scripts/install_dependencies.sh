#!/usr/bin/env bash
# Installs with apt-get what Rookery is built from, as far as it is missing (Debian 12).
#
#   scripts/install_dependencies.sh [--tests]
#
#   --tests  also what tests, checks and benchmarks need (GoogleTest, PyTorch, clang-tidy, ...)
#
# Runs as root or through sudo. Says what it installs; says nothing when nothing is missing.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=(
  ccache cmake g++ ninja-build
  cppzmq-dev libarchive-dev libboost-program-options-dev libcereal-dev libcurl4-openssl-dev libdnnl-dev libeigen3-dev libfmt-dev libonnx-dev
  libpng-dev libprotobuf-dev librsvg2-bin libspdlog-dev libturbojpeg0-dev libvalijson-dev libwebp-dev libxxhash-dev libzmq3-dev nlohmann-json3-dev protobuf-compiler zlib1g-dev
)
test_packages=(
  clang clang-format clang-tidy iproute2 iptables libbenchmark-dev libclang-rt-14-dev libgmock-dev libgtest-dev libomp-dev libopenblas0-pthread librapidcheck-dev
  python3 python3-onnx python3-pil python3-torch shellcheck
)

for argument in "$@"; do
  case $argument in
    --tests) packages+=("${test_packages[@]}") ;;
    -h | --help) show_help && exit 0 ;;
    *) wrong_usage "unknown argument '$argument'" ;;
  esac
done

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [[ $status == ii* ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

command -v apt-get >/dev/null ||
  fail "this machine has no apt-get; install what Debian calls: ${missing[*]}"
as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null || fail "not root and no sudo; as root, run: apt-get install ${missing[*]}"
  as_root=(sudo)
fi

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@"
}
install() { apt install -y --no-install-recommends "${missing[@]}" >/dev/null; }

say "installing ${missing[*]}"
# The package lists are fetched when they do not know a package, or know only versions that the
# archive no longer has.
if ! apt install --simulate --no-install-recommends "${missing[@]}" >/dev/null 2>&1; then
  say "fetching the package lists"
  apt update
  install
elif ! install 2>/dev/null; then
  say "fetching newer package lists"
  apt update
  install
fi
