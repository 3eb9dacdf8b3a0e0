#!/usr/bin/python3
"""What the old gradients of `async` cost: in how many steps it comes to the validation loss of `1f1b`.

    bench/stale_gradients.py [--jobs digits,sorter,text] [--stages N] [--seeds N] [--build DIR]

Every job trains on a pipeline of N stages (8), by `1f1b` and by `async`, with one micro-batch a batch and with as many as there
are stages. The goal is the mean of the last five validation losses of `1f1b`; it is reached where the mean of five in a row is
no more, for the first time, by both. `async` may make half as many steps again. Losses do not depend on how fast the machine
is, or what else it does. Jobs: the digits of the walkthrough, the sorter of docs/jobs.md, and the characters of the project's
own pages.

There is a mean where all seeds reach it. Exits with 1 where `async` with as many micro-batches as stages has none, or one of
more than 1.05 times the steps.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tests" / "whole"))
from whole import free_ports  # noqa: E402

MOST, LONGER, MEAN_OF = 1.05, 1.5, 5


def jobs():
    """(settings, epochs from one validation to the next) by name."""
    digits = json.loads((ROOT / "node_data" / "train.json").read_text())
    sorter = json.loads((ROOT / "node_data" / "jobs" / "sorter.json").read_text())
    text = {"model": "gpt?vocabulary=256&length=64&layers=4", "data": "tokens:text?length=64&type=u16", "train_fraction": 0.8,
            "loss": "cross_entropy", "optimizer": {"name": "adamw", "learning_rate": 0.001}, "batch_size": 32}
    return {"digits": (digits | {"epochs": 60}, 1), "sorter": (sorter | {"epochs": 60, "clip_gradient_norm": None}, 2),
            "text": (text | {"epochs": 12}, 1)}


def write_text(path):
    pages = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "node_data" / "README.md"]
    path.write_bytes(np.frombuffer(b"".join(page.read_bytes() for page in pages), np.uint8).astype("<u2").tobytes())


def train(bin_dir, settings, stages):
    """The validation losses of a run."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        node_data = folder / "node_data"
        (node_data / "datasets").mkdir(parents=True)
        for file in (ROOT / "node_data" / "datasets").glob("*.gz"):
            (node_data / "datasets" / file.name).write_bytes(file.read_bytes())
        write_text(node_data / "text")
        (node_data / "train.json").write_text(json.dumps(settings | {"tensorboard": False, "checkpoint_every": "never"}))
        pool = {str(i): {"IP": f"127.0.0.1:{port}", "benchmarks": {"ram": 8, "bandwidth": 1000}}
                for i, port in enumerate(free_ports(stages))}
        (node_data / "node_configs.json").write_text(json.dumps(pool))
        for command in (["clusterize", "--clusters", "1", "--min-nodes-per-cluster", str(stages)], ["launch", "--quiet"]):
            done = subprocess.run([bin_dir / command[0], *command[1:]], cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"{command}: {done.stderr}")
        return [float(loss) for loss in (folder / "val_losses.txt").read_text().split()]


def means(losses):
    return [statistics.mean(losses[i : i + MEAN_OF]) for i in range(len(losses) - MEAN_OF + 1)]


def reached(losses, goal):
    """The number of validations after which the mean is no more, if there is one."""
    return next((i + MEAN_OF for i, loss in enumerate(means(losses)) if loss <= goal), None)


def compare(bin_dir, settings, stages):
    """The goal, and in how many times the steps of 1f1b async reaches it, if it does."""
    expected = train(bin_dir, settings | {"schedule": "1f1b"}, stages)
    goal = means(expected)[-1]
    losses = train(bin_dir, settings | {"schedule": "async", "epochs": int(settings["epochs"] * LONGER)}, stages)
    after = reached(losses, goal)
    return goal, after and after / reached(expected, goal)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", default="digits,sorter,text")
    parser.add_argument("--stages", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    arguments = parser.parse_args()
    is_missed = False
    print("| job | micro-batches | loss of `1f1b`, by seed | steps of `async` | mean |\n|---|---|---|---|---|", flush=True)
    for job in arguments.jobs.split(","):
        settings, validate_every = jobs()[job]
        for micro_batches in (1, arguments.stages):
            runs = [compare((arguments.build / "bin").resolve(),
                            settings | {"seed": seed, "validate_every": validate_every, "micro_batches": micro_batches},
                            arguments.stages) for seed in range(arguments.seeds)]
            mean = statistics.mean(ratio or math.inf for _, ratio in runs)
            is_missed |= micro_batches > 1 and mean > MOST
            ratios = ", ".join(f"{ratio:.2f}" if ratio else "not reached" for _, ratio in runs)
            shown = "–" if math.isinf(mean) else f"{mean:.2f}"
            print(f"| {job} | {micro_batches} | {', '.join(f'{goal:.4g}' for goal, _ in runs)} | {ratios} | {shown} |", flush=True)
    return 1 if is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
