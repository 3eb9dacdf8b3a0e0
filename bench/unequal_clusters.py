#!/usr/bin/python3
"""What two clusters train together of which one is slower, by what each trains alone.

    bench/unequal_clusters.py [--slower FACTOR] [--share CORES] [--rate MBPS] [--batch SAMPLES] [--runs N]
                              [--epochs N] [--bar PART] [--build DIR]

Each cluster is one machine: a network namespace with --rate Mbit/s and a control group with --share of a core, the second
one --slower times less. node_benchmark measures both; clusterize plans with what it found, so that samples are shared by
predicted speed. The job is that of bench/scalability.py. In turns the first trains alone, the second alone, and both
together. Prints the shares of a step, samples a second while training (connecting and saving apart), and the part that the
two together make of the sum of both alone. Ends with 1 when that of the medians is below
--bar. Needs root.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

from machines import ROOT, Job, Quiet, Skipped, small_machines
from scalability import SORTER


SAMPLES = 19200  # that train, of an epoch


def throughput(options, cores):
    """Samples a second of clusters with these shares of a core, and how many of a step each takes."""
    settings = SORTER | {"batch_size": options.batch, "epochs": options.epochs, "validate_every": 0, "save": False}
    with tempfile.TemporaryDirectory(prefix="rookery-unequal-") as folder, \
            small_machines(cores, [options.rate] * len(cores)) as machines:
        job = Job(pathlib.Path(folder), options.build.resolve() / "bin", machines, Quiet(100), settings)
        job.measure(1, share_processors=True)
        job.plan("--profile", "--clusters", str(len(cores)), "--min-nodes-per-cluster", "1")
        node = json.loads((job.folder / "node_data" / "nodes" / "node_0.json").read_text())
        seconds = max(float(end["text"].split(" steps in ")[1].split()[0]) for end in job.train().values())
    return SAMPLES * options.epochs / seconds, node.get("shares", [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slower", type=float, default=3, help="times that the second cluster is")
    parser.add_argument("--share", type=float, default=0.45, help="of a core, for the first cluster")
    parser.add_argument("--rate", type=int, default=1000, help="Mbit/s of each")
    parser.add_argument("--batch", type=int, default=256, help="samples of a step of the first cluster")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--bar", type=float, default=0.9)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder")
    options = parser.parse_args()
    fast, slow = options.share, options.share / options.slower
    runs = []
    print("| run | first alone | second alone | both | of the sum | shares of a step |\n|---|---|---|---|---|---|", flush=True)
    try:
        for run in range(options.runs):
            (first, _), (second, _), (both, shares) = (throughput(options, cores) for cores in ([fast], [slow], [fast, slow]))
            runs.append((first, second, both))
            print(f"| {run + 1} | {first:.0f}/s | {second:.0f}/s | {both:.0f}/s | {100 * both / (first + second):.1f} % | "
                  f"{', '.join(map(str, shares))} |", flush=True)
    except Skipped as reason:
        sys.exit(f"unequal_clusters: {reason}")
    first, second, both = (statistics.median(of_runs) for of_runs in zip(*runs))
    print(f"| medians | {first:.0f}/s | {second:.0f}/s | {both:.0f}/s | {100 * both / (first + second):.1f} % | |")
    return 0 if both >= options.bar * (first + second) else 1


if __name__ == "__main__":
    sys.exit(main())
