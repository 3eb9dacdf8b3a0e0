# Sourced by the other scripts.
# shellcheck shell=bash
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '==> %s\n' "$*"; }

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

wrong_usage() {
  printf '%s: %s (see %s --help)\n' "$(basename "$0")" "$*" "$(basename "$0")" >&2
  exit 2
}

# The comment block at the head of the calling script, as its --help.
show_help() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

# configure PRESET [CMAKE_OPTION...]; what earlier calls set in the build folder stays.
configure() {
  local preset=$1 messages
  shift
  messages=$(cd "$repo" && cmake --preset "$preset" "$@" 2>&1) || {
    printf '%s\n' "$messages" >&2
    fail "the build could not be configured; the messages of cmake are above"
  }
}

# build PRESET [TARGET...]; copies of the repository share what ccache keeps, which is the case with precompiled headers
# if it need not look for __TIME__ in them.
build() {
  local preset=$1
  shift
  export CCACHE_BASEDIR=$repo CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
  (cd "$repo" && cmake --build --preset "$preset" --parallel "$(nproc)" ${1:+--target "$@"}) ||
    fail "the build failed; the messages of the compiler are above"
}
