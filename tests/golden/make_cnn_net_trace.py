#!/usr/bin/env python3
"""Trains cnn_net for 100 steps with PyTorch, dropout off, and writes what Rookery must reproduce:

  cnn_net_initial.safetensors  parameters and buffers before the first step
  cnn_net_final.safetensors    parameters and buffers after the last
  cnn_net_trace.json           sample ids of every batch and the loss of every step

Two correct programs part where the arithmetic amplifies rounding, as PyTorch does from itself without oneDNN
or in double precision: by up to 20% in the loss after 100 steps. The trace keeps clear of both causes:

- A convolution's bias whose channel ReLU never clips is cancelled by the batch norm behind it. Its gradient is
  rounding alone, which Adam scales up to whole steps. So the initial biases of convolutions are well below zero:
  every channel is clipped somewhere.
- Where two entries of a pooling window, or an entry and ReLU's zero, are a rounding error apart, the gradient
  jumps with the order of a sum. So copies of the model that round differently are trained side by side, and a
  batch on which their weights part is drawn again.

Needs PyTorch >= 1.13 only:  python3 tests/golden/make_cnn_net_trace.py
"""

import copy
import csv
import gzip
import json
import pathlib
import struct

import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
DIGITS = HERE.parent.parent / "node_data" / "datasets" / "digits.csv.gz"
STEPS, BATCH, SEED = 100, 64, 42
# A batch is kept when it lets the distance between the runs grow by no more than this.
TRIES, GROWTH, ROUNDING = 20, 1.05, 2e-7
DTYPES = {torch.float32: "F32", torch.int64: "I64"}


class CnnNet(nn.Module):
    """The zoo's cnn_net; without dropout unless asked for."""

    def __init__(self, dropout=False):
        super().__init__()
        self.conv2d_1 = nn.Conv2d(1, 16, 3, padding="same")
        self.bn_1 = nn.BatchNorm2d(16)
        self.conv2d_2 = nn.Conv2d(16, 32, 3, padding="same")
        self.bn_2 = nn.BatchNorm2d(32)
        self.dense_1 = nn.Linear(32, 256)
        self.bn_3 = nn.BatchNorm1d(256)
        self.dense_2 = nn.Linear(256, 10)
        self.pool = nn.MaxPool2d(2)
        self.dropout = nn.ModuleList(nn.Dropout(p if dropout else 0.0) for p in (0.25, 0.25, 0.4))

    def forward(self, x):
        x = self.dropout[0](self.pool(torch.relu(self.conv2d_1(x))))
        x = self.pool(self.bn_1(x))
        x = self.dropout[1](self.pool(torch.relu(self.conv2d_2(x))))
        x = self.bn_2(x).flatten(1)
        x = self.bn_3(self.dropout[2](torch.relu(self.dense_1(x))))
        return torch.softmax(self.dense_2(x), dim=1)


def write_safetensors(path, state):
    header, data = {}, b""
    for name, tensor in state.items():
        raw = tensor.contiguous().numpy().tobytes()
        header[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_digits():
    with gzip.open(DIGITS, "rt") as lines:
        rows = torch.tensor([[float(value) for value in row] for row in csv.reader(lines)])
    return rows[:, :-1].reshape(-1, 1, 8, 8) / 16, rows[:, -1].long()


class Run:
    """A copy of the model, trained in `dtype` with or without oneDNN."""

    def __init__(self, model, dtype, onednn, noise=0.0):
        self.model = copy.deepcopy(model).to(dtype)
        self.dtype, self.onednn = dtype, onednn
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.mul_(1 + noise * torch.randn_like(parameter))
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def step(self, images, labels):
        target = nn.functional.one_hot(labels, 10).to(self.dtype)
        with torch.backends.mkldnn.flags(enabled=self.onednn):
            loss = nn.functional.mse_loss(self.model(images.to(self.dtype)), target)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def distance(self, other):
        pairs = zip(self.model.parameters(), other.model.parameters())
        return max((a.double() - b.double()).abs().max().item() for a, b in pairs)


def step_together(runs, images, labels, distance):
    """One step of all runs on a batch on which they stay together; the batch, the loss, their distance."""
    best = None
    for _ in range(TRIES):
        ids = torch.randperm(len(images))[:BATCH]
        trial = copy.deepcopy(runs)
        losses = [run.step(images[ids], labels[ids]) for run in trial]
        apart = max(run.distance(trial[0]) for run in trial[1:])
        if best is None or apart < best[0]:
            best = (apart, ids.tolist(), losses[0], trial)
        if apart < distance * GROWTH + ROUNDING:
            break
    apart, ids, loss, runs[:] = best
    return ids, loss, apart


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    images, labels = read_digits()
    model = CnnNet()
    with torch.no_grad():
        for convolution in (model.conv2d_1, model.conv2d_2):
            convolution.bias.copy_(-convolution.bias.abs() - 0.25)
    write_safetensors(HERE / "cnn_net_initial.safetensors", model.state_dict())
    f32, f64 = torch.float32, torch.float64
    runs = [Run(model, f32, True), Run(model, f64, True), Run(model, f32, False), Run(model, f32, True, 1e-7)]
    batches, losses, distance = [], [], 0.0
    for step in range(STEPS):
        ids, loss, distance = step_together(runs, images, labels, distance)
        batches.append(ids)
        losses.append(loss)
        print(f"step {step}: loss {loss:.6f}, the runs' weights {distance:.1e} apart", flush=True)
    write_safetensors(HERE / "cnn_net_final.safetensors", runs[0].model.state_dict())
    trace = {"torch": torch.__version__, "batches": batches, "losses": losses}
    (HERE / "cnn_net_trace.json").write_text(json.dumps(trace) + "\n")


if __name__ == "__main__":
    main()
