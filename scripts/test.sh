#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests.
#
#   scripts/test.sh [--sanitize address,undefined|thread] [--targets A,B] [arguments of ctest...]
#
#   --sanitize  build with these sanitizers into a build folder of its own and test there
#   --targets   build and run these test programs only, of those in build/bin/test_*
#
# Examples:
#   scripts/test.sh -R Trainer                      tests whose name contains Trainer
#   scripts/test.sh --sanitize address,undefined
#   scripts/test.sh --sanitize thread --targets test_node,test_trainer
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

preset=release
benchmarks=ON
ctest_arguments=()
targets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --sanitize)
      case ${2-} in
        address,undefined) preset=asan-ubsan ;;
        thread) preset=tsan ;;
        *) wrong_usage "--sanitize takes 'address,undefined' or 'thread', not '${2-}'" ;;
      esac
      benchmarks=OFF  # which are for other times than these
      shift 2
      ;;
    --targets)
      [[ ${2-} =~ ^test_[a-z_]+(,test_[a-z_]+)*$ ]] || wrong_usage "--targets takes names as test_node,test_trainer, not '${2-}'"
      IFS=, read -ra targets <<<"$2"
      ctest_arguments+=(--label-regex "^(${2//,/|})\$")
      shift 2
      ;;
    -h | --help) show_help && exit 0 ;;
    *) ctest_arguments+=("$1") && shift ;;
  esac
done

"$repo/scripts/install_dependencies.sh" --tests
say "building ($preset)"
configure "$preset" -DROOKERY_TESTS=ON -DROOKERY_BENCH="$benchmarks"
build "$preset" "${targets[@]}"
say "testing ($preset)"
cd "$repo"
# A third of the time of all tests is waiting, in whole programs for each other: half as many again as there are
# processors are run at once.
exec ctest --preset "$preset" --parallel $((($(nproc) * 3 + 1) / 2)) "${ctest_arguments[@]}"
