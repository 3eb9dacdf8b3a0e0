#!/usr/bin/python3
"""Times one training step of cnn_net (forward, backward, Adam) in Rookery and in PyTorch's eager mode,
batch 64, one thread each, in alternation.

    bench/cnn_net_step.py [--build DIR] [--rounds N] [--steps N]

First both train from the same weights on the same batches without dropout: their losses must agree
to 1e-4. Then dropout is on, and in every round each of them trains some steps, one after the other;
a round's ratio is PyTorch's time by Rookery's. Exits with 1 when the two do not compute the same or
the median ratio is below 8.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "golden"))
from make_cnn_net_trace import CnnNet, read_digits, write_safetensors  # noqa: E402

BATCH = 64
BATCHES = 16
BAR = 8.0


class Rookery:
    """The program cnn_net_step as a process that trains when told."""

    def __init__(self, program, state, batches, dropout):
        self.process = subprocess.Popen(
            [program, state, batches] + ([] if dropout else ["no-dropout"]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )

    def train(self, steps):
        """(seconds, losses)"""
        self.process.stdin.write(f"{steps}\n")
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"cnn_net_step ended with code {self.process.wait()}")
        seconds, *losses = map(float, answer.split())
        return seconds, losses


class PyTorch:
    """The same model and loop in eager PyTorch."""

    def __init__(self, state, batches, dropout):
        self.model = CnnNet(dropout=dropout)
        self.model.load_state_dict(state)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.batches = [(x, nn.functional.one_hot(y, 10).float()) for x, y in batches]
        self.step = 0

    def train(self, steps):
        losses = []
        begin = time.perf_counter()
        for _ in range(steps):
            x, target = self.batches[self.step % len(self.batches)]
            loss = nn.functional.mse_loss(self.model(x), target)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            losses.append(loss.detach())
            self.step += 1
        seconds = time.perf_counter() - begin
        return seconds, [float(loss) for loss in losses]


def check_same(rookery, pytorch, steps=20, tolerance=1e-4):
    ours, theirs = rookery.train(steps)[1], pytorch.train(steps)[1]
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
    print(f"without dropout, {steps} steps: largest relative difference of a loss {worst:.1e} (bar {tolerance})")
    return worst <= tolerance


def spread(values, unit, scale=1.0):
    low, middle, high = (f(values) * scale for f in (min, statistics.median, max))
    return f"median {middle:.3f}{unit}  (min {low:.3f}, max {high:.3f})"


def compare(rookery, pytorch, rounds, steps):
    """True when Rookery reaches the bar."""
    rookery.train(steps)
    pytorch.train(steps)
    pairs = [(rookery.train(steps)[0] / steps, pytorch.train(steps)[0] / steps) for _ in range(rounds)]
    ratios = [theirs / ours for ours, theirs in pairs]
    print(f"with dropout, {rounds} rounds of {steps} steps each, time of a step:")
    print("  Rookery ", spread([ours for ours, _ in pairs], " ms", 1e3))
    print("  PyTorch ", spread([theirs for _, theirs in pairs], " ms", 1e3))
    print("  ratio   ", spread(ratios, ""))
    reached = statistics.median(ratios) >= BAR
    print("PASS" if reached else "BELOW BAR", f"(bar: {BAR:g})")
    return reached


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--steps", type=int, default=50, help="in a round")
    arguments = parser.parse_args()
    program = arguments.build / "bin" / "cnn_net_step"
    if not program.exists():
        sys.exit(f"{program} is not there; run: scripts/test.sh")

    torch.set_num_threads(1)
    torch.manual_seed(42)
    images, labels = read_digits()
    order = torch.randperm(len(images))[: BATCHES * BATCH].split(BATCH)
    batches = [(images[ids].contiguous(), labels[ids]) for ids in order]
    state = CnnNet().state_dict()
    with tempfile.TemporaryDirectory() as folder:
        weights, data = pathlib.Path(folder, "state.safetensors"), pathlib.Path(folder, "batches.bin")
        write_safetensors(weights, state)
        data.write_bytes(b"".join(x.numpy().tobytes() + y.numpy().tobytes() for x, y in batches))
        print(f"PyTorch {torch.__version__}")
        if not check_same(Rookery(program, weights, data, False), PyTorch(state, batches, False)):
            print("they do not compute the same: nothing is timed")
            return 1
        pair = Rookery(program, weights, data, True), PyTorch(state, batches, True)
        return 0 if compare(*pair, arguments.rounds, arguments.steps) else 1


if __name__ == "__main__":
    sys.exit(main())
