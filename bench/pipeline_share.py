#!/usr/bin/python3
"""What part of their processors the stages of a pipeline on this machine use, by runs of one node on each at once.

    bench/pipeline_share.py [--stages N] [--rounds N] [--epochs N] [--free] [--quiet PERCENT] [--build DIR]

The deep MLP on MNIST's 10,000 images, a stage and a thread a processor, which shares its memory with the others as in the
runs of one node, that train the same at the same time. Round by round: node_benchmark measures the nodes, clusterize
--profile plans, the pipeline trains, then one node on each processor. A round's share is the samples a second of the
pipeline by the sum of those of the nodes. The bar is 0.95 of what a schedule allows where all stages are alike: M / (M +
S - 1) of `1f1b` with M micro-batches and S stages, 1 of `async`. The plan says how alike they are: the mean of the stages'
work by that of the largest, for a cut is between layers. What is simulated has to be within 5 % of what is measured.
Losses of `1f1b` have to be those of one node. --free lets the kernel choose processors. Prints a table for
bench/README.md; exits with 1 where losses differ or a bar is missed.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile

from machines import ROOT, Job, Machine, Quiet, train_together

sys.path.insert(0, str(ROOT / "tests" / "whole"))
from whole import free_ports  # noqa: E402

SHARE_BAR, SIMULATION_BAR = 0.95, 0.05
SETTINGS = {"model": "deep_mlp", "data": "idx:datasets/mnist", "loss": "cross_entropy", "train_fraction": 1,
            "validate_every": 0, "save": False, "tensorboard": False}
CASES = {  # what is trained, and what a pipeline of S stages may reach
    "`1f1b`, 8 micro-batches of 64": ({"batch_size": 512, "micro_batches": 8}, lambda stages: 8 / (7 + stages)),
    "`1f1b`, 16 micro-batches of 64": ({"batch_size": 1024, "micro_batches": 16}, lambda stages: 16 / (15 + stages)),
    "`async`, batches of 64": ({"batch_size": 64, "schedule": "async"}, lambda stages: 1),
    "`async`, batches of 256": ({"batch_size": 256, "schedule": "async"}, lambda stages: 1),
}


class Pinned(Machine):
    """A node that stays on one processor."""

    def __init__(self, address, processor):
        super().__init__(address)
        self.processor = processor

    def command(self, arguments):
        return ["taskset", "-c", str(self.processor), *super().command(arguments)]


def machines(options):
    processors = sorted(os.sched_getaffinity(0))
    addresses = [f"127.0.0.1:{port}" for port in free_ports(options.stages)]
    if options.free:
        return [Machine(address) for address in addresses]
    return [Pinned(address, processors[i]) for i, address in enumerate(addresses)]


def step_ms(end):
    return end["times"]["step_ms"]["measured"]


def losses(job):
    return (job.folder / "losses.txt").read_text()


def work(stage, micro_batches):
    predicted = stage["prediction"]
    return micro_batches * (predicted["forward_ms"] + predicted["backward_ms"]) + predicted["update_ms"]


class Case:
    """A pipeline, and the nodes that train alone."""

    def __init__(self, folder, settings, options):
        programs = options.build.resolve() / "bin"
        quiet = Quiet(options.quiet)
        self.micro_batches = settings.get("micro_batches", 1)
        settings = SETTINGS | settings | {"epochs": options.epochs}
        self.pipeline = Job(folder / "pipeline", programs, machines(options), quiet, settings,
                            threads=[1] * options.stages)
        self.alone = [Job(folder / f"alone_{i}", programs, [node], quiet, settings, threads=[1])
                      for i, node in enumerate(machines(options))]
        self.has_same_losses = True

    def round(self):
        """The share, what was measured by what was simulated, a step in ms, and how alike the stages are."""
        self.pipeline.measure(1, share_processors=True)
        plan = self.pipeline.plan("--profile", "--clusters", "1", "--min-nodes-per-cluster", str(len(self.alone)))
        for job in self.alone:
            job.plan("--clusters", "1", "--min-nodes-per-cluster", "1")
        pipeline = step_ms(max(train_together([self.pipeline]), key=lambda end: end["node"]))
        alone = [step_ms(end) for end in train_together(self.alone)]
        self.has_same_losses &= losses(self.pipeline) == losses(self.alone[0])
        [cluster] = plan["clusters"]
        works = [work(stage, self.micro_batches) for stage in cluster["stages"]]
        return (1 / pipeline / sum(1 / ms for ms in alone), pipeline / cluster["simulated_step_ms"], pipeline,
                statistics.mean(works) / max(works))


def measure(name, options):
    settings, possible = CASES[name]
    with tempfile.TemporaryDirectory(prefix="rookery-share-") as folder:
        case = Case(pathlib.Path(folder), settings, options)
        rounds = [case.round() for _ in range(options.rounds)]
    shares, by_simulation, steps, alike = zip(*rounds)
    ideal, share, simulated = possible(options.stages), statistics.median(shares), statistics.median(by_simulation)
    print(f"| {name} | {statistics.median(steps):.4g} ms | {share:.2f} ({min(shares):.2f}–{max(shares):.2f}) | {ideal:.2f} | "
          f"{share / ideal:.2f} | {statistics.median(alike):.2f} | {simulated:.2f} ({min(by_simulation):.2f}–{max(by_simulation):.2f}) |", flush=True)
    same = case.has_same_losses or "async" in name
    if not same:
        print(f"{name}: the losses of the pipeline are not those of one node", file=sys.stderr)
    return same and share >= SHARE_BAR * ideal and abs(simulated - 1) <= SIMULATION_BAR


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    processors = len(os.sched_getaffinity(0))
    parser.add_argument("--stages", type=int, default=min(3, processors))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=3, help="that each run trains, some seconds each")
    parser.add_argument("--free", action="store_true", help="nodes stay on no processor")
    parser.add_argument("--quiet", type=float, default=3, help="percent of processor time that the host may take away")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder")
    options = parser.parse_args()
    if options.stages > processors:
        parser.error(f"{options.stages} stages need as many processors; there are {processors}")
    print("| what | a step | share (min–max) | possible | of that | stages alike | by the simulator (min–max) |\n"
          "|---|---|---|---|---|---|---|")
    reached = [measure(name, options) for name in CASES]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
