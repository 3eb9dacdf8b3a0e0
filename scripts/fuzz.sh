#!/usr/bin/env bash
# Builds every fuzz target (tests/fuzz/README.md) with libFuzzer, in the build folder of the address sanitizer, and runs
# each for a while.
#
#   scripts/fuzz.sh [SECONDS]
#
#   SECONDS  for each target (default: 60)
#
# An input that showed a mistake is named, and stays in build-asan/found/TARGET. Exit codes: 0 nothing found,
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

folder=$repo/build-asan
say "building the fuzz targets into $folder"
configure asan-ubsan -DROOKERY_TESTS=ON -DROOKERY_BENCH=OFF
build asan-ubsan "${targets[@]/#/fuzz_}"

# Tells at once what it has found, since others run beside it.
run_target() {
  local name=$1 found=$folder/found/$1 code=0
  mkdir -p "$found"
  "$folder/bin/fuzz_$name" -max_total_time="$seconds" -rss_limit_mb=2048 -malloc_limit_mb=256 -print_final_stats=1 \
    -artifact_prefix="$found/" "$found" "$repo/tests/fuzz/corpus/$name" >"$folder/$name.log" 2>&1 || code=$?
  say "fuzz_$name for $seconds s
$(grep -E '^stat::number_of_executed_units|^stat::peak_rss_mb' "$folder/$name.log" || true)"
  [[ $code -eq 0 ]] || tail -n 40 "$folder/$name.log" >&2
  printf '%d\n' "$code" >"$folder/$name.code"
}
export -f say run_target
export folder seconds repo

rm -f "$folder"/*.code
# Each takes one processor.
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I NAME bash -c 'run_target NAME'

bad=()
for name in "${targets[@]}"; do
  [[ $(<"$folder/$name.code") -eq 0 ]] || bad+=("$name")
done
[[ ${#bad[@]} -eq 0 ]] || fail "inputs that show mistakes were found by: ${bad[*]} (in $folder/found)"
