#!/usr/bin/python3
"""Times one training step of cnn_net (forward, backward, Adam) in Rookery and in PyTorch's eager mode,
batch 64, one thread each, in alternation.

    bench/cnn_net_step.py [--build DIR] [--rounds N] [--steps N]

First both train without dropout on the weights and batches of tests/golden: their losses must agree to
1e-4. Then dropout is on, and in every round each of them trains some steps, one after the other;
a round's ratio is PyTorch's time by Rookery's. Exits with 1 when the two do not compute the same or
the median ratio is below 8.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import json
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
sys.path.insert(0, str(GOLDEN))
from make_cnn_net_trace import CnnNet, read_digits  # noqa: E402

BAR = 8.0
STATE = GOLDEN / "cnn_net_initial.safetensors"
DTYPES = {"F32": torch.float32, "I64": torch.int64}


def read_state():
    """The tensors of STATE."""
    data = STATE.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header, data = json.loads(data[8 : 8 + length]), bytearray(data[8 + length :])
    return {
        name: torch.frombuffer(data, dtype=DTYPES[at["dtype"]], offset=at["data_offsets"][0],
                               count=torch.Size(at["shape"]).numel()).reshape(at["shape"])
        for name, at in header.items() if name != "__metadata__"
    }


def read_batches():
    """[(samples, labels)] of the golden trace."""
    images, labels = read_digits()
    trace = json.loads((GOLDEN / "cnn_net_trace.json").read_text())
    return [(images[ids].contiguous(), labels[ids]) for ids in trace["batches"]]


class Rookery:
    """The program cnn_net_step as a process that trains when told."""

    def __init__(self, program, batches, dropout):
        self.process = subprocess.Popen(
            [program, STATE, batches] + ([] if dropout else ["no-dropout"]),
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

    def __init__(self, batches, dropout):
        self.model = CnnNet(dropout=dropout)
        self.model.load_state_dict(read_state())
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


def check_same(rookery, pytorch, steps=100, tolerance=1e-4):
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
    batches = read_batches()
    print(f"PyTorch {torch.__version__}")
    with tempfile.NamedTemporaryFile() as data:
        for samples, labels in batches:
            data.write(samples.numpy().tobytes() + labels.numpy().tobytes())
        data.flush()
        if not check_same(Rookery(program, data.name, False), PyTorch(batches, False)):
            print("they do not compute the same: nothing is timed")
            return 1
        pair = Rookery(program, data.name, True), PyTorch(batches, True)
        return 0 if compare(*pair, arguments.rounds, arguments.steps) else 1


if __name__ == "__main__":
    sys.exit(main())
