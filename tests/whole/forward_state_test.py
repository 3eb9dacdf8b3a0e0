"""What forward leaves behind, or does in its first call alone, no file has: the export refuses it."""

import argparse
import itertools
import random
import types
import unittest

import numpy
import torch
from torch import nn

import exported
from exported import ExportTest, rookery_export
from torch_modules import traps


class Centered(traps.Guarded):
    """What DINO's loss does: a mean that moves with every batch."""

    def __init__(self):
        super().__init__()
        self.register_buffer("center", torch.zeros(8))

    def forward(self, x):
        x = self.body(x)
        y = self.head(x - self.center)
        self.center = 0.9 * self.center + 0.1 * x.detach().mean(0)
        return y


class Limited(traps.Guarded):
    """Weights that forward keeps small: at first they are."""

    def forward(self, x):
        self.body.weight.data = torch.renorm(self.body.weight.data, 2, 0, 100.0)
        return self.head(self.body(x))


class Bounded(nn.Module):
    """Weights that forward keeps within bounds, which they are far from: by .data, or under no_grad()."""

    def __init__(self, by_data):
        super().__init__()
        self.body, self.head, self.by_data = nn.Linear(6, 8), nn.Linear(8, 5), by_data

    def forward(self, x):
        if self.by_data:
            self.head.weight.data.clamp_(-10, 10)
        else:
            with torch.no_grad():
                self.head.weight.clamp_(-10, 10)
        return self.head(torch.tanh(self.body(x)))


class Annealed(traps.Guarded):
    """A schedule that is an object which can be called, an iterator, or a number of the class."""

    class Schedule:
        def __init__(self):
            self.calls = 0

        def __call__(self):
            self.calls += 1
            return 1 - self.calls / 1e6

    steps = 0

    def __init__(self, kind):
        super().__init__()
        self.kind, self.schedule, self.numbers = kind, Annealed.Schedule(), itertools.count()

    def temperature(self):
        if self.kind == "object":
            return self.schedule()
        if self.kind == "iterator":
            return 1 - next(self.numbers) / 1e6
        Annealed.steps += 1
        return 1 - Annealed.steps / 1e6

    def forward(self, x):
        return self.head(self.body(x)) / self.temperature()


class Counting(traps.Guarded):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.head(nn.functional.dropout(self.body(x), min(0.5, self.calls / 1e4), self.training))


class Skipping(traps.Guarded):
    def forward(self, x):
        x = self.body(x)
        return self.head(x if random.random() < 0.01 else torch.tanh(x))


class Scheduled(traps.Guarded):
    """A schedule in a dict, whose numbers hardly move yet."""

    def __init__(self):
        super().__init__()
        self.state = {"temperature": [1.0]}

    def forward(self, x):
        self.state["temperature"][0] *= 1 - 1e-9
        return self.head(self.body(x) * self.state["temperature"][0])


class Averaging(traps.Guarded):
    """A mean that is no buffer, and hardly moves yet."""

    def __init__(self):
        super().__init__()
        self.mean = torch.zeros(8)

    def forward(self, x):
        x = self.body(x)
        self.mean = self.mean + 1e-6 * (x.detach().mean(0) - self.mean)
        return self.head(x - self.mean)


class Dropping(traps.Guarded):
    """A layer that is left out now and then, as in wav2vec 2.0."""

    def forward(self, x):
        x = self.body(x)
        return self.head(x if numpy.random.rand() < 0.01 else torch.tanh(x))


class Keeping(traps.Guarded):
    """What it keeps is of the last call, or is computed once, and changes nothing."""

    def __init__(self):
        super().__init__()
        self.last, self.tables = None, {}

    def forward(self, x):
        if x.shape[1] not in self.tables:
            self.tables[x.shape[1]] = torch.arange(x.shape[1])
        self.last = torch.tanh(self.body(nn.functional.dropout(x, 0.1, self.training)))
        return self.head(self.last)


class FirstCall(nn.Module):
    """ActNorm: shift and scale are set in the first call, by what it sees."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 5)
        self.shift, self.is_set = nn.Parameter(torch.zeros(8)), False

    def forward(self, x):
        x = self.body(x)
        if not self.is_set:
            with torch.no_grad():
                self.shift.copy_(-x.mean(0))
            self.is_set = True
        return self.head(torch.tanh(x + self.shift))


class Once(nn.Module):
    """A deviation that is taken of the first samples, and stays."""

    def __init__(self, kept):
        super().__init__()
        self.body, self.head, self.kept = nn.Linear(6, 8), nn.Linear(8, 5), kept

    def forward(self, x):
        if "deviation" not in self.kept:
            self.kept["deviation"] = x.std(0)
        return self.head(torch.tanh(self.body(x / self.kept["deviation"])))


class Numbered(traps.Guarded):
    """Calls are counted by an object of Python's library."""

    def __init__(self, numbers):
        super().__init__()
        self.numbers = numbers

    def forward(self, x):
        self.numbers.step += 1
        return self.head(torch.tanh(self.body(x))) * (1 + self.numbers.step / 1e6)


CALLS = 0
DRAWN = numpy.random.default_rng(0)


def next_factor():
    global CALLS
    CALLS += 1
    return 1 + CALLS / 1e6


class Global(traps.Guarded):
    """Calls are counted by a variable of the file, in a function of it."""

    def forward(self, x):
        return self.head(self.body(x)) * next_factor()


class GlobalDraws(traps.Guarded):
    def forward(self, x):
        x = self.body(x)
        return self.head(x if DRAWN.random() < 0.01 else torch.tanh(x))


def counting_module():
    """Calls are counted by a variable around forward."""
    calls = 0

    class Enclosed(traps.Guarded):
        def forward(self, x):
            nonlocal calls
            calls += 1
            return self.head(self.body(x)) * (1 + calls / 1e6)

    return Enclosed()


class LimitedNorm(nn.BatchNorm1d):
    """Statistics that are moved once more."""

    def forward(self, x):
        y = super().forward(x)
        self.running_var.data.clamp_(min=2)
        return y


class FarBelow(traps.Guarded):
    """A gradient that is lost where all gradients are small."""

    def __init__(self):
        super().__init__()
        self.middle = nn.Sequential(*(layer for _ in range(3) for layer in (nn.Linear(8, 8), nn.Sigmoid())))

    def forward(self, x):
        y = self.body(x)
        with torch.no_grad():
            gate = torch.sigmoid(3 * y)
        return self.head(self.middle(torch.tanh(y) * gate))


class ForwardState(ExportTest):
    def test_what_forward_leaves_behind_is_refused(self):
        x = torch.randn(4, 6)
        for module, what in ((Centered(), "center"), (Limited(), "body.weight"), (Counting(), "calls"),
                             (Skipping(), "the generator of Python's random"), (Averaging(), "mean"),
                             (Dropping(), "the generator of numpy.random"),
                             (Scheduled(), r"state\['temperature'\]\[0\]"),
                             (Bounded(True), "head.weight"), (Bounded(False), "head.weight"),
                             (Annealed("object"), "schedule.calls"), (Annealed("iterator"), "numbers"),
                             (Annealed("class"), "Annealed.steps"),
                             (Numbered(argparse.Namespace(step=0)), "numbers.step"),
                             (Numbered(types.SimpleNamespace(step=0)), "numbers.step"),
                             (Global(), "CALLS"), (GlobalDraws(), "DRAWN"), (counting_module(), "calls"),
                             (FirstCall(), "shift"),
                             (nn.InstanceNorm1d(6, track_running_stats=True), "running_mean")):
            with self.subTest(type(module).__name__):
                inputs = x.unsqueeze(-1).repeat(1, 1, 3) if isinstance(module, nn.InstanceNorm1d) else x
                self.assertRegex(self.refusal(module, inputs), f"forward changes .*{what}")

    def test_what_only_the_first_call_does_is_refused_and_undone(self):
        torch.manual_seed(1)
        module = FirstCall()
        self.refusal(module, torch.randn(4, 6))
        self.assertFalse(module.is_set)
        self.assertEqual(float(module.shift.abs().max()), 0)
        kept = {}
        self.assertRegex(self.refusal(Once(kept), torch.randn(4, 6)), "output 0 differs .*what is kept of the first call")
        self.assertEqual(kept, {})

    def test_statistics_that_move_otherwise_are_refused(self):
        module = nn.Sequential(nn.Linear(6, 8), LimitedNorm(8), nn.Linear(8, 5))
        self.assertIn("forward moves 1.running_var by lines of its own", self.refusal(module, torch.randn(4, 6)))

    def test_small_gradients_are_compared(self):
        torch.manual_seed(1)
        self.assertIn("the gradient of body", self.refusal(FarBelow(), torch.randn(4, 6)))


class ExportByTrace(ExportTest):
    """What PyTorch's newer exporter does not know in all versions."""

    def test_what_forward_only_keeps_is_no_matter(self):
        rookery_export.export(Keeping(), torch.randn(4, 6), self.folder / "net.onnx")
        self.assertTrue((self.folder / "net.onnx").exists())


class OtherPyTorches(exported.OtherPyTorches):
    script = __file__


if __name__ == "__main__":
    unittest.main()
