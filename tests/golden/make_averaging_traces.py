#!/usr/bin/env python3
"""Trains the model of tests/support/tied_model.hpp with PyTorch in two processes, dropout off, and writes what two
clusters of Rookery must reproduce from tied_model_initial.safetensors:

  averaging_parameters.safetensors  after 40 steps with PyTorch's PeriodicModelAverager, every 8 steps
  averaging_diloco.safetensors      after 40 steps of DiLoCo (arXiv 2311.08105), every 8 steps: torch.optim.SGD with
                                    Nesterov's momentum on the mean of what the two have changed
  averaging_traces.json             both processes' losses of every step, and the settings

In step s process c trains on the 32 samples from 64 s + 32 c on, in the order of the file, from the beginning again
after the last. Needs PyTorch >= 1.13 with gloo only:  python3 tests/golden/make_averaging_traces.py
"""

import json
import os
import pathlib
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.nn import functional

from make_cnn_net_trace import read_digits, write_safetensors
from make_tied_model_trace import TiedModel, write

HERE = pathlib.Path(__file__).resolve().parent
STEPS, EVERY, SHARE, CLUSTERS = 40, 8, 32, 2
RATE, MOMENTUM, OUTER_RATE, OUTER_MOMENTUM = 0.05, 0.9, 0.7, 0.9


def read_initial():
    """tied_model_initial.safetensors."""
    data = (HERE / "tied_model_initial.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    return {
        name: torch.frombuffer(bytearray(data[8 + length :][slice(*entry["data_offsets"])]), dtype=torch.float32)
        .reshape(entry["shape"])
        for name, entry in header.items()
    }


class Diloco:
    def __init__(self, model):
        self.model = model
        self.outer = [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]
        self.optimizer = torch.optim.SGD(self.outer, lr=OUTER_RATE, momentum=OUTER_MOMENTUM, nesterov=True)

    def round(self):
        for outer, parameter in zip(self.outer, self.model.parameters()):
            outer.grad = outer.detach() - parameter.detach()
            dist.all_reduce(outer.grad)
            outer.grad /= CLUSTERS
        self.optimizer.step()
        with torch.no_grad():
            for outer, parameter in zip(self.outer, self.model.parameters()):
                parameter.copy_(outer)


def train(cluster, mode):
    images, labels = read_digits()
    model = TiedModel()
    model.load_state_dict(read_initial())
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    averager = PeriodicModelAverager(period=EVERY, warmup_steps=EVERY - 1)
    diloco = Diloco(model)
    losses = []
    for step in range(STEPS):
        begin = step * SHARE * CLUSTERS + cluster * SHARE
        ids = torch.arange(begin, begin + SHARE) % len(images)
        loss = functional.cross_entropy(model(images[ids].flatten(1)), labels[ids])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if mode == "parameters":
            averager.average_parameters(model.parameters())
        elif (step + 1) % EVERY == 0:
            diloco.round()
    return losses, model.state_dict()


def run(cluster, port_file, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{port_file}", rank=cluster, world_size=CLUSTERS)
    for mode in ("parameters", "diloco"):
        losses, state = train(cluster, mode)
        results[mode, cluster] = losses
        if cluster == 0:
            write_safetensors(HERE / f"averaging_{mode}.safetensors", state)


def main():
    with tempfile.TemporaryDirectory() as folder, mp.Manager() as manager:
        results = manager.dict()
        mp.spawn(run, (os.path.join(folder, "store"), results), nprocs=CLUSTERS)
        write("averaging_traces.json", {
            "rate": RATE, "momentum": MOMENTUM, "every": EVERY, "share": SHARE,
            "outer_learning_rate": OUTER_RATE, "outer_momentum": OUTER_MOMENTUM,
            "losses": {mode: [results[mode, cluster] for cluster in range(CLUSTERS)]
                       for mode in ("parameters", "diloco")},
        })
        for mode in ("parameters", "diloco"):
            print(mode, *(f"{results[mode, c][0]:.3f} to {results[mode, c][-1]:.3f}" for c in range(CLUSTERS)))


if __name__ == "__main__":
    main()
