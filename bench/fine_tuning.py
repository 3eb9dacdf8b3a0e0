#!/usr/bin/python3
"""Training the head of a ResNet-18 whose body is frozen, by the step of training all of it.

    bench/fine_tuning.py [--bin build/bin] [--rounds 5]

Both are exported by PyTorch with models/rookery_export.py and train on images of 64 x 64 in batches of 12. First the
losses of both are compared with PyTorch's, and nothing is timed where they differ by more than rounding. Then they train
in turns, one provider each; a round's ratio is head by all. Ends with 1 when a bar is missed.
"""

import argparse
import os
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "whole"))
COMPARED_STEPS, STEPS = 5, 40  # with PyTorch's; of a round
BARS = {"step": 0.45, "memory": 0.60}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "build" / "bin", type=pathlib.Path)
    parser.add_argument("--rounds", default=5, type=int)
    return parser.parse_args()


def measured(job):
    """{step in ms, memory in MB} of one run of its provider."""
    done = job.start("provider", "--name", "node_0")
    if done.wait(600) != 0:
        raise SystemExit(done.errors())
    told = done.output()
    step = re.search(r"^step +[\d.]+ ms +([\d.]+) ms", told, re.MULTILINE)
    memory = re.search(r"^peak memory: ([\d.]+) MB", told, re.MULTILINE)
    return {"step": float(step.group(1)), "memory": float(memory.group(1))}


def main():
    arguments = parse_arguments()
    os.environ["ROOKERY_BIN_DIR"] = str(arguments.bin.resolve())
    import exported
    import torch
    from torch_modules import SAMPLES, case_of, traps

    exported.STEPS, exported.ORDERS = COMPARED_STEPS, 2

    class Job(exported.ExportedTest):
        def runTest(self):
            pass

    case = case_of(traps.FineTuned)
    inputs = {"x": torch.randn(SAMPLES, 3, 64, 64, generator=torch.Generator().manual_seed(8))}
    jobs = {}
    for name in ("all", "head"):
        def make(name=name):
            module = case.module()
            return module.requires_grad_(True) if name == "all" else module

        job = jobs[name] = Job()
        job.setUp()
        exported.rookery_export.export(make(), inputs, job.node_data / "net.onnx")
        job.write_data(inputs, case.targets())
        losses, _, _ = job.train_here(1)
        reference = exported.Reference(make, inputs, case.targets())
        off = reference.difference(losses)
        print(f"{name}: losses differ from float64 by {off:.2f} times what PyTorch's do", flush=True)
        if off > exported.TIMES:
            raise SystemExit(f"{losses}\nPyTorch: {reference.losses}")
        exported.STEPS = STEPS
        job.write_job(1, checkpoint_every="never", save=False)
        exported.STEPS = COMPARED_STEPS
        job.run_program("clusterize", "--min-nodes-per-cluster", "1")
    rounds = [{name: measured(job) for name, job in jobs.items()} for _ in range(arguments.rounds)]
    for job in jobs.values():
        job.doCleanups()

    print("\n| | all | head | ratio (min–max) | bar |\n|---|---|---|---|---|")
    missed = False
    for what, unit in (("step", "ms"), ("memory", "MB")):
        ratios = [each["head"][what] / each["all"][what] for each in rounds]
        all_of, head = (statistics.median(each[name][what] for each in rounds) for name in ("all", "head"))
        ratio = statistics.median(ratios)
        print(f"| {what} | {all_of:.1f} {unit} | {head:.1f} {unit} | {ratio:.2f} ({min(ratios):.2f}–{max(ratios):.2f}) "
              f"| {BARS[what]} |")
        missed |= ratio > BARS[what]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
