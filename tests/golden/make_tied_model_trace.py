#!/usr/bin/env python3
"""Trains the model of tests/support/tied_model.hpp with PyTorch, dropout off, and writes what Rookery must reproduce:

  tied_model_initial.safetensors  parameters before the first step
  tied_model_final.safetensors    parameters after the last
  tied_model_trace.json           loss, norm of all gradients and learning rate of every step
  plateau_traces.json             rates that ReduceLROnPlateau makes of a row of metrics, by its settings

Gradients are clipped by torch.nn.utils.clip_grad_norm_, and the rate follows the mean loss of ten steps by
ReduceLROnPlateau. Step s trains on the samples from 64 s on, in the order of the file, from the beginning again
after the last. Needs PyTorch >= 1.13 only:  python3 tests/golden/make_tied_model_trace.py
"""

import json
import pathlib

import torch
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import ReduceLROnPlateau

from make_cnn_net_trace import read_digits, write_safetensors

HERE = pathlib.Path(__file__).resolve().parent
STEPS, STEPS_PER_EPOCH, BATCH = 100, 10, 64
RATE, MOMENTUM, CLIP = 0.1, 0.9, 1.0
SCHEDULE = {"factor": 0.5, "patience": 0, "threshold": 0.1}

PLATEAUS = [
    {},
    {"patience": 2},
    {"patience": 0, "factor": 0.5, "cooldown": 3},
    {"patience": 1, "threshold": 0.05, "threshold_mode": "abs"},
    {"patience": 1, "threshold": 0.2, "min_lr": 0.01},
    {"patience": 0, "factor": 0.9, "eps": 0.03},
    {"mode": "max"},
    {"mode": "max", "patience": 1, "threshold": 0.05, "threshold_mode": "abs", "cooldown": 1},
    {"mode": "max", "patience": 0, "threshold": 0.3, "factor": 0.3},
]


class TiedModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.code = nn.Linear(64, 24)
        self.core = nn.Linear(12, 12)
        self.classes = nn.Linear(12, 10)
        self.key = nn.Parameter(torch.empty(24, 12).uniform_(-0.3, 0.3))
        self.gain = nn.Parameter(torch.ones(12))

    def forward(self, x):
        skipped = self.code(x) @ self.key * self.gain
        x = torch.tanh(self.core(skipped)) * (self.gain * self.gain)
        x = torch.tanh(self.core(x)) + skipped
        x = functional.gelu(x @ self.key.T) @ self.key * self.gain
        return self.classes(self.core(x))


def plateau_of(optimizer, settings):
    return ReduceLROnPlateau(optimizer, **settings)


def train():
    images, labels = read_digits()
    model = TiedModel()
    write_safetensors(HERE / "tied_model_initial.safetensors", model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    plateau = plateau_of(optimizer, SCHEDULE)
    losses, norms, rates = [], [], []
    for step in range(STEPS):
        ids = torch.arange(step * BATCH, (step + 1) * BATCH) % len(images)
        loss = functional.cross_entropy(model(images[ids].flatten(1)), labels[ids])
        optimizer.zero_grad()
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % STEPS_PER_EPOCH == 0:
            plateau.step(sum(losses[-STEPS_PER_EPOCH:]) / STEPS_PER_EPOCH)
    write_safetensors(HERE / "tied_model_final.safetensors", model.state_dict())
    clipped = sum(norm > CLIP for norm in norms)
    print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}, {clipped} steps clipped, rates {sorted(set(rates))}")
    return {"rate": RATE, "momentum": MOMENTUM, "clip_gradient_norm": CLIP, "steps_per_epoch": STEPS_PER_EPOCH,
            "schedule": SCHEDULE, "losses": losses, "norms": norms, "rates": rates}


def plateau_traces():
    metrics = (2.0 * 0.9 ** torch.arange(30) + 0.05 * torch.rand(30)).tolist()
    metrics += (1.0 + 0.1 * torch.rand(30)).tolist()
    traces = []
    for settings in PLATEAUS:
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.4)
        plateau = plateau_of(optimizer, settings)
        sign = -1 if settings.get("mode") == "max" else 1
        rates = []
        for metric in metrics:
            plateau.step(sign * metric)
            rates.append(optimizer.param_groups[0]["lr"])
        traces.append({"schedule": settings, "rates": rates})
    return {"rate": 0.4, "metrics": metrics, "traces": traces}


def write(name, value):
    lines = json.dumps(value, separators=(",", ": ")).replace("],[", "],\n[").replace("},{", "},\n{")
    (HERE / name).write_text(lines + "\n")


def main():
    torch.manual_seed(42)
    torch.set_num_threads(1)
    write("tied_model_trace.json", train())
    write("plateau_traces.json", plateau_traces())


if __name__ == "__main__":
    main()
