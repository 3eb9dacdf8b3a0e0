#!/usr/bin/env bash
# Builds every fuzz target (tests/fuzz/README.md) with clang's libFuzzer and runs each for a while.
#
#   scripts/fuzz.sh [SECONDS]
#
#   SECONDS  for each target (default: 60)
#
# An input that showed a mistake is named, and stays in build-fuzz/found/TARGET. Exit codes: 0 nothing found,
# 1 an input that crashes or takes too much memory, 2 wrong usage.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

seconds=60
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) show_help && exit 0 ;;
    *) [[ $1 =~ ^[1-9][0-9]*$ ]] || wrong_usage "SECONDS is a whole number, not '$1'"
      seconds=$1 && shift ;;
  esac
done

"$repo/scripts/install_dependencies.sh" --tests
targets=()
for source in "$repo"/tests/fuzz/*_fuzz.cpp; do
  name=$(basename "$source" _fuzz.cpp)
  targets+=("$name")
done

folder=$repo/build-fuzz
say "building the fuzz targets into $folder"
configure release -B "$folder" -DCMAKE_CXX_COMPILER=clang++ -DROOKERY_FUZZ=ON -DROOKERY_TESTS=ON -DROOKERY_BENCH=OFF
export CCACHE_BASEDIR=$repo CCACHE_NOHASHDIR=1
cmake --build "$folder" --parallel "$(nproc)" --target "${targets[@]/#/fuzz_}" >"$folder/build.log" 2>&1 || {
  cat "$folder/build.log" >&2
  fail "the fuzz targets could not be built; the messages of the compiler are above"
}

bad=()
for name in "${targets[@]}"; do
  found=$folder/found/$name
  mkdir -p "$found"
  say "fuzz_$name for $seconds s"
  if ! "$folder/bin/fuzz_$name" -max_total_time="$seconds" -rss_limit_mb=2048 -malloc_limit_mb=256 -print_final_stats=1 \
    -artifact_prefix="$found/" "$found" "$repo/tests/fuzz/corpus/$name" >"$folder/$name.log" 2>&1; then
    tail -n 40 "$folder/$name.log" >&2
    bad+=("$name")
  fi
  grep -E '^stat::number_of_executed_units|^stat::peak_rss_mb' "$folder/$name.log" || true
done
[[ ${#bad[@]} -eq 0 ]] || fail "inputs that show mistakes were found by: ${bad[*]} (in $folder/found)"
