#!/usr/bin/env bash
# What several clusters gain: the same job on one to five workers, three times each; times, speed-up and efficiency.
# Builds what it needs. Needs root, for machines with a network and a share of a core each.
#
#   scripts/scalability.sh [--workers 5] [--runs 3] [--job FILE] [--share 0.3] [--rate 1000] [--json] [--svg FILE]
#
#   --job    another job: a train.json, whose data is looked for in node_data/datasets
#   --share  of a core, for each worker; --rate  Mbit/s of each
#   --json   one object instead of a table; --svg  draw it
#
# bench/scalability.py --help says more.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case ${1-} in -h | --help) show_help && exit 0 ;; esac
configure release >&2
build release provider clusterize >&2
exec python3 "$repo/bench/scalability.py" "$@"
