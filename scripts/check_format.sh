#!/usr/bin/env bash
# Fails on every C++ file of the repository that clang-format would change.
#
#   scripts/check_format.sh [--fix]
#
#   --fix  changes them
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mode=(--dry-run -Werror)
case ${1-} in
  '') ;;
  --fix) mode=(-i) ;;
  -h | --help) show_help && exit 0 ;;
  *) wrong_usage "unknown argument '$1'" ;;
esac
cd "$repo"
git ls-files -z -- '*.hpp' '*.cpp' | xargs -0 -r clang-format "${mode[@]}"
