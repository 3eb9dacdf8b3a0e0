#!/usr/bin/python3
"""Compares what clusterize predicts of a training step with what the providers then measure.

    bench/predicted_steps.py [--pools walkthrough,threads,unequal] [--bar PERCENT] [--rounds N] [--seconds S] [--quiet PERCENT]
                             [--build DIR]

  threads       three providers on this machine of which one has two threads, training VGG-11 on computed images in one
                micro-batch, so that they take turns; skipped where there is only one processor
  walkthrough   the pool and the job of the README: three providers on this machine, over loopback
  unequal       five providers with unequal shares of a core (control groups) in network namespaces whose connections
                are unequal (tbf), training VGG-11 on computed images; needs root, cgroup v1 and the ip and tc commands,
                and is skipped with a reason where it may not

Nothing is guessed: for each pool, node_benchmark writes node_configs.json, every node in its own surroundings;
clusterize --profile plans; the providers train, and tell what was predicted and what they measured. All that follows
each other round by round, because a machine's speed changes from minute to minute. Prints a table of the round with
the median step for bench/README.md, and the steps of all rounds. Exits with 1 when the median step is off by more than
the bar. The machine has to be idle. The host of a virtual machine has others as well, and takes processors away for
them: what was measured or trained while more than --quiet percent were gone is done once more, and counted at the end.
"""

import argparse
import os
import pathlib
import sys
import tempfile

from machines import ROOT, Job, Machine, Quiet, Skipped, small_machines

sys.path.insert(0, str(ROOT / "tests" / "whole"))
from whole import free_ports  # noqa: E402


def rounds_of(job, options, plan_arguments, share_processors=False):
    """What train() tells, of every round."""
    for _ in range(options.rounds):
        job.measure(options.seconds, share_processors)
        plan = job.finish(Machine(""), "clusterize", "--profile", *plan_arguments)
        print(plan.strip().splitlines()[-2], file=sys.stderr)
        yield job.train()


def walkthrough(folder, programs, quiet, options):
    machines = [Machine(f"127.0.0.1:{port}") for port in free_ports(3)]
    arguments = ["--clusters", "1", "--min-nodes-per-cluster", "3"]
    yield from rounds_of(Job(folder, programs, machines, quiet, {}), options, arguments)


def threads(folder, programs, quiet, options):
    if len(os.sched_getaffinity(0)) < 2:
        raise Skipped("two threads need two processors")
    settings = {"model": "vgg11?image_size=32&classes=10&hidden=0", "data": "shapes?samples=1920",
                "loss": "cross_entropy", "train_fraction": 1, "epochs": 1, "batch_size": 64, "validate_every": 0}
    machines = [Machine(f"127.0.0.1:{port}") for port in free_ports(3)]
    arguments = ["--clusters", "1", "--min-nodes-per-cluster", "3"]
    yield from rounds_of(Job(folder, programs, machines, quiet, settings, threads=[1, 2, 1]), options, arguments)


def unequal(folder, programs, quiet, options):
    settings = {"model": "vgg11?image_size=32&classes=10&hidden=0", "data": "shapes?samples=2560",
                "loss": "cross_entropy", "train_fraction": 1, "epochs": 1, "batch_size": 128, "micro_batches": 4,
                "validate_every": 0}
    with small_machines([0.5, 0.45, 0.3, 0.3, 0.15], [400, 300, 200, 100, 50]) as machines:
        arguments = ["--clusters", "1", "--min-nodes-per-cluster", "5"]
        job = Job(folder, programs, machines, quiet, settings)
        yield from rounds_of(job, options, arguments, share_processors=True)


def off(nodes):
    """By how much the step is, of the node where that is the most."""
    steps = [end["times"]["step_ms"] for end in nodes.values()]
    return max((step["measured"] / step["predicted"] - 1 for step in steps), key=abs)


def print_table(pool, nodes):
    for node, end in sorted(nodes.items()):
        for name, time in end["times"].items():
            part_off = f"{100 * (time['measured'] / time['predicted'] - 1):+.0f} %" if time["predicted"] > 0 else ""
            print(f"| {pool} | {node} {end['role']} | {name.removesuffix('_ms')} | {time['predicted']:.3f} ms | "
                  f"{time['measured']:.3f} ms | {part_off} |")


def main():
    pools = {"walkthrough": walkthrough, "threads": threads, "unequal": unequal}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", default=",".join(pools), help="which of them")
    parser.add_argument("--bar", type=float, default=15, help="percent that a step may be off")
    parser.add_argument("--rounds", type=int, default=5, help="of measuring speeds, planning and training")
    parser.add_argument("--seconds", type=float, default=1, help="of node_benchmark, for each node and link")
    parser.add_argument("--quiet", type=float, default=3, help="percent of processor time that the host may take away")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder")
    options = parser.parse_args()
    missed = []
    print("| pool | node | part | predicted | measured | off |\n|---|---|---|---|---|---|")
    for pool in options.pools.split(","):
        quiet = Quiet(options.quiet)
        with tempfile.TemporaryDirectory(prefix="rookery-predicted-") as folder:
            try:
                rounds = list(pools[pool](pathlib.Path(folder), options.build.resolve() / "bin", quiet, options))
            except Skipped as reason:
                print(f"skipped {pool}: {reason}", file=sys.stderr)
                continue
        rounds.sort(key=off)
        median = rounds[len(rounds) // 2]
        print_table(pool, median)
        steps = ", ".join(f"{100 * off(nodes):+.0f} %" for nodes in rounds)
        print(f"{pool}: the step is off by {steps}", file=sys.stderr)
        print(f"{pool}: of {quiet.done} measurements and trainings {quiet.thrown_away} do not count: the host took more "
              f"than {options.quiet:g} % of the processor time away", file=sys.stderr)
        if abs(100 * off(median)) > options.bar:
            missed.append(pool)
    if missed:
        print(f"off by more than {options.bar:g} %: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
