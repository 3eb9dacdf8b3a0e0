#!/usr/bin/python3
"""What several clusters gain: the same job on one worker, on two and so on, each a cluster of one node.

    scripts/scalability.sh [--workers N] [--runs N] [--job FILE] [--share CORES] [--rate MBPS] [--json] [--svg FILE]
                           [--quiet PERCENT] [--build DIR]

Each worker is a machine of its own as far as this one can make it: a network namespace with a connection of --rate Mbit/s
(tbf) and a control group with --share of a core, which is less than all of them together could have. So a step takes each
worker the same time whatever the others do, as on machines of their own. (A share is dealt out in pieces of a tick, 4 ms on
many systems: who has had his waits, at a share of 0.3 for 9 ms, at 0.15 for 23, and a message to him waits along. So the
larger the share, the nearer to a machine of its own.) Needs root; where something is missing, it says what, and ends with 1.

The job is the sorter of docs/jobs.md with ten digits and 19,200 samples to train, parameters averaged every 16 steps, or the train.json --job. Every
number of workers trains the same samples as often; each worker takes the job's batch_size of every step, so that there are
fewer steps. The time is from the start of all providers to the end of the last one, with connecting, reading, averaging,
validation and saving. The runs of all numbers of workers take turns. Prints every time, median, mean, speed-up and
efficiency (both of medians), and the accuracy of the last run; with --json as one object. --svg draws them.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

from machines import ROOT, Job, Quiet, Skipped, small_machines
from pictures import Picture

SORTER = json.loads((ROOT / "node_data" / "jobs" / "sorter.json").read_text()) | {
    "model": "gpt?length=19", "data": "sorter?length=10&samples=20000", "train_fraction": 0.96, "micro_batches": 1,
    "epochs": 6, "validate_every": 6,
    "averaging": {"mode": "parameters", "every": 16}, "checkpoint_every": "never",
}


def train(folder, options, settings, workers):
    """Seconds, and the accuracy."""
    quiet = Quiet(options.quiet)
    with small_machines([options.share] * workers, [options.rate] * workers) as machines:
        benchmarks = [{"ram": 8, "bandwidth": options.rate}] * workers
        job = Job(folder, options.build.resolve() / "bin", machines, quiet, settings | {"shares": "equal"}, benchmarks)
        job.plan("--clusters", str(workers), "--min-nodes-per-cluster", "1")
        seconds = job.train()["node_0"]["wall_seconds"]
    accuracies = folder / "val_accuracies.txt"
    return seconds, float(accuracies.read_text().split()[-1]) if accuracies.exists() else None


def measure(options, settings):
    """By number of workers, from 1: the seconds of all runs, and an accuracy."""
    seconds = {workers: [] for workers in range(1, options.workers + 1)}
    accuracies = {}
    for run in range(options.runs):
        for workers in seconds:
            with tempfile.TemporaryDirectory(prefix="rookery-scalability-") as folder:
                time, accuracies[workers] = train(pathlib.Path(folder), options, settings, workers)
            print(f"run {run + 1}, {workers} workers: {time:.2f} s", file=sys.stderr)
            seconds[workers].append(time)
    return seconds, accuracies


def rows_of(seconds, accuracies):
    alone = statistics.median(seconds[1])
    for workers, times in seconds.items():
        median = statistics.median(times)
        yield {"workers": workers, "seconds": times, "median": median, "mean": statistics.mean(times),
               "speed_up": alone / median, "efficiency": alone / median / workers, "accuracy": accuracies[workers]}


def print_table(rows):
    print("| workers | seconds of each run | median | mean | speed-up | efficiency | accuracy |\n|---|---|---|---|---|---|---|")
    for row in rows:
        times = ", ".join(f"{time:.1f}" for time in row["seconds"])
        accuracy = "" if row["accuracy"] is None else f"{row['accuracy']:.2f} %"
        print(f"| {row['workers']} | {times} | {row['median']:.2f} s | {row['mean']:.2f} s | {row['speed_up']:.2f} | "
              f"{100 * row['efficiency']:.1f} % | {accuracy} |")


def picture(rows, about):
    """Times on the left, with a point for each run; on the right what they come to, and what would be perfect."""
    drawn = Picture(760, 380, "Seconds and speed-up by number of workers")
    drawn.text(380, 24, about, "middle", bold=True)
    workers = [row["workers"] for row in rows]
    times = drawn.axes(60, 50, 290, 270, workers, max(max(row["seconds"]) for row in rows), "seconds, start to end")
    times.line([(row["workers"], row["median"]) for row in rows], "#2f6f9f")
    times.line([(n, rows[0]["median"] / n) for n in workers], "#8a939c", dashed=True)
    for row in rows:
        for seconds in row["seconds"]:
            times.point(row["workers"], seconds, "#2f6f9f")
    gains = drawn.axes(440, 50, 290, 270, workers, workers[-1], "speed-up, and efficiency")
    gains.line([(n, n) for n in workers], "#8a939c", dashed=True)
    gains.line([(row["workers"], row["speed_up"]) for row in rows], "#b5562c")
    for row in rows:
        gains.point(row["workers"], row["speed_up"], "#b5562c")
        gains.note(row["workers"], row["speed_up"], f"{100 * row['efficiency']:.0f} %")
    drawn.text(380, 368, "Points: runs. Lines: their medians. Dashed: as many times as fast as there are workers.", "middle")
    return drawn.document()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=5, help="at most")
    parser.add_argument("--runs", type=int, default=3, help="with each number of workers")
    parser.add_argument("--job", type=pathlib.Path, help="a train.json; its data is looked for in node_data/datasets")
    parser.add_argument("--share", type=float, default=0.3, help="of a core, for each worker")
    parser.add_argument("--rate", type=int, default=1000, help="Mbit/s of each worker")
    parser.add_argument("--json", action="store_true", help="print one object instead of a table")
    parser.add_argument("--svg", type=pathlib.Path, help="draw it")
    parser.add_argument("--quiet", type=float, default=100, help="percent of processor time that the host may take away: a "
                        "run that lost more is done once more")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder")
    options = parser.parse_args()
    settings = json.loads(options.job.read_text()) if options.job else SORTER
    try:
        rows = list(rows_of(*measure(options, settings)))
    except Skipped as reason:
        sys.exit(f"scalability: {reason}")
    if options.json:
        print(json.dumps({"job": settings, "share": options.share, "rate_mbps": options.rate, "workers": rows}, indent=1))
    else:
        print_table(rows)
    if options.svg:
        model = settings.get("model", "cnn_net")
        about = f"{model}, workers with {options.share:g} of a core and {options.rate} Mbit/s each"
        options.svg.write_text(picture(rows, about))


if __name__ == "__main__":
    main()
