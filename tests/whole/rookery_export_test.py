"""Modules that models/rookery_export.py exports train here as they do in PyTorch, and come back strictly."""

import json
import os
import subprocess
import sys
import unittest
import unittest.mock

import torch
from torch import nn
from torch.nn import functional

from whole import ROOT, WholeTest

sys.path.insert(0, str(ROOT / "models"))
sys.path.insert(0, str(ROOT / "tests" / "support"))
import rookery_export  # noqa: E402

SAMPLES, STEPS = 12, 20
# Other PyTorches than Debian's to try: interpreters, separated by colons.
VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
OTHER_PYTHONS = [python for python in os.environ.get("ROOKERY_PYTHONS", "").split(":") if python]


class Frozen(nn.Module):
    """A body that is not trained, whose BatchNorm moves its statistics all the same, and a head."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.middle = nn.Conv2d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, 5)
        self.body.requires_grad_(False)
        self.middle.bias.requires_grad_(False)

    def forward(self, x):
        return self.head(self.middle(self.body(x)).mean((2, 3)))


class Evaluated(nn.Module):
    """BatchNorm that stays as it is, one before and one behind what is trained; one is trained itself."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.one, self.two, self.three = nn.BatchNorm2d(16), nn.BatchNorm2d(16), nn.BatchNorm2d(16)
        self.again = nn.Conv2d(16, 16, 3)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(16, 5)
        for norm in (self.one, self.two):
            nn.init.normal_(norm.running_mean)
            nn.init.uniform_(norm.running_var, 0.5, 2)
            norm.num_batches_tracked.fill_(7)
            norm.eval()
        self.two.weight.requires_grad_(False)
        self.drop.eval()

    def forward(self, x):
        x = functional.relu(self.one(self.conv(x)))
        return self.head(self.drop(self.three(self.two(self.again(x)))).mean((2, 3)))


class Padded(nn.Module):
    """The row of the padding stays what it is, though it is read as a head's, too."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 8, padding_idx=3)
        self.kinds = nn.Embedding(11, 8, padding_idx=0)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        return self.head(self.tokens(ids) + self.kinds(ids))


class Detached(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 5)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        return self.third(torch.tanh(self.second(x.detach())) + x)


class Buffers(nn.Module):
    """Buffers of all kinds: float, of no use to forward, not persistent, of integers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.rand(6) + 0.5)
        self.register_buffer("table", torch.randn(4, 6), persistent=False)
        self.register_buffer("order", torch.arange(5, -1, -1))
        self.register_buffer("history", torch.randn(3))
        self.unused = nn.Parameter(torch.randn(2, 3))
        self.gain = nn.Parameter(torch.tensor(1.5))
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        return self.fc((x[:, self.order] * self.scale + self.table.sum(0)) * self.gain)


class Rotary(nn.Module):
    """Grouped queries, rotary embeddings whose tables every layer reads, RMS norms, a gated feed-forward."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.kv, self.out = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
            self.gate, self.up, self.down = nn.Linear(16, 24), nn.Linear(16, 24), nn.Linear(24, 16)
            self.norm = nn.Parameter(torch.ones(16))

        def normal(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.norm

        def forward(self, x, cosine, sine):
            batch, length, _ = x.shape
            y = self.normal(x)

            def turned(z):
                one, other = z.chunk(2, -1)
                return z * cosine + torch.cat([-other, one], -1) * sine

            q = turned(self.q(y).view(batch, length, 4, 4).transpose(1, 2))
            k, v = (z.view(batch, length, 2, 4).transpose(1, 2) for z in self.kv(y).chunk(2, -1))
            k, v = (z.repeat_interleave(2, dim=1) for z in (turned(k), v))
            scores = (q @ k.transpose(-2, -1)) * 0.5
            later = torch.ones(length, length, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, float("-inf")).softmax(-1)
            x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, length, 16))
            y = self.normal(x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.layers = nn.ModuleList(Rotary.Layer() for _ in range(2))
        self.head = nn.Linear(16, 11, bias=False)
        angles = torch.arange(6)[:, None] * 0.1 ** (torch.arange(2) / 2)
        self.register_buffer("cosine", torch.cat([angles.cos()] * 2, -1))
        self.register_buffer("sine", torch.cat([angles.sin()] * 2, -1), persistent=False)

    def forward(self, ids):
        x = self.tokens(ids)
        for layer in self.layers:
            x = layer(x, self.cosine, self.sine)
        return self.head(x)


class Tested(nn.Module):
    """Its whole body was put into eval(), as for fine-tuning."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.3), nn.Conv2d(8, 8, 3)
        )
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 5)
        self.body.eval().requires_grad_(False)

    def forward(self, x):
        return self.head(self.norm(self.body(x).mean((2, 3))))


class Guarded(nn.Module):
    """A body under no_grad(), which so is not trained."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 5)

    def forward(self, x):
        with torch.no_grad():
            x = torch.tanh(self.body(x))
        return self.head(x)


class Partly(Guarded):
    """Gradients that flow one way and not the other: no file can say it."""

    def forward(self, x):
        y = self.body(x)
        with torch.no_grad():
            gate = torch.sigmoid(y)
        return self.head(torch.tanh(y) * gate)


class Copied(Guarded):
    def forward(self, x):
        y = self.body(x)
        return self.head(torch.tanh(y) + y.data)


class Decided(Guarded):
    def forward(self, x):
        x = self.body(x)
        return self.head(x if x.sum() > 0 else -2 * x)


class Foreign(nn.Module):
    class Inner(nn.Module):
        def forward(self, x):
            return torch.linalg.matrix_exp(x)

    def __init__(self):
        super().__init__()
        self.fc, self.inner = nn.Linear(4, 4), Foreign.Inner()

    def forward(self, x):
        return self.inner(self.fc(x))


def images():
    return {"x": torch.randn(SAMPLES, 3, 8, 8)}


def ids():
    return {"ids": torch.randint(0, 11, (SAMPLES, 6))}


class Export(WholeTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(7)

    def train_there(self, module, inputs, targets):
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        optimizer = torch.optim.SGD(trained, lr=0.05, momentum=0.9)
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            made = module(*inputs.values())
            loss = functional.cross_entropy(made.flatten(0, -2), targets.flatten())
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        return losses

    def train_here(self, nodes, **settings):
        self.write_pool(nodes)
        self.write_settings(
            data="tensors:data.safetensors", train_fraction=1.0, loss="cross_entropy", batch_size=SAMPLES,
            epochs=STEPS, validate_every=0, optimizer={"name": "sgd", "learning_rate": 0.05, "momentum": 0.9},
            model="net.onnx", **settings,
        )
        told, _ = self.run_program("clusterize", "--min-nodes-per-cluster", str(nodes), "--json")
        self.run_program("launch")
        self.fuse()
        lines = (self.folder / "losses.txt").read_text().splitlines()
        losses = [line for line in lines if not line.startswith("#")]
        state = torch.load(self.folder / "trained" / "trained_state_dict.pt", weights_only=True)
        return [float(line.split()[0]) for line in losses], state, json.loads(told)

    def check(self, module, inputs, classes=5, positions=(), nodes=3, **settings):
        """Exported, trained on one node and on several, and loaded back."""
        targets = torch.randint(0, classes, (SAMPLES, *positions))
        before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
        rookery_export.export(module, inputs, self.node_data / "net.onnx")
        for name, tensor in module.state_dict().items():
            self.assertTrue(torch.equal(tensor, before[name]), f"the export changed {name}")
        rookery_export.export_data(inputs | {"labels": targets}, self.node_data / "data.safetensors")
        ours, state, told = self.train_here(1, **settings)
        on_several, state_of_several, _ = self.train_here(nodes, **settings)
        self.assertEqual(ours, on_several)
        for name, tensor in state.items():
            self.assertTrue(torch.equal(tensor, state_of_several[name]), name)

        modes = {name: layer.training for name, layer in module.named_modules()}
        theirs = self.train_there(module, inputs, targets)
        self.assertEqual(modes, {name: layer.training for name, layer in module.named_modules()})
        for step, (here, there) in enumerate(zip(ours, theirs)):
            self.assertLess(abs(here - there), 1e-4, f"step {step}: {ours} {theirs}")
        self.assertEqual(list(state), list(module.state_dict()))
        self.assertEqual(state._metadata, module.state_dict()._metadata)
        for name, tensor in module.state_dict().items():
            self.assertEqual(state[name].dtype, tensor.dtype, name)
            self.assertLess(float((state[name].double() - tensor.double()).abs().max()), 1e-3, name)
        expected = module.eval()(*inputs.values())
        fused = rookery_export.load(module, self.folder / "trained")
        self.assertLess(float((fused(*inputs.values()) - expected).abs().max()), 1e-3)
        return before, state, {row["name"]: row for row in told["tensors"]}

    def test_frozen_body(self):
        before, state, rows = self.check(Frozen(), images())
        for name in ("body.0.weight", "body.0.bias", "body.1.weight", "middle.bias"):
            self.assertTrue(torch.equal(before[name], state[name]), name)
            self.assertFalse(rows[name]["trained"], name)
        self.assertTrue(rows["middle.weight"]["trained"])
        self.assertFalse(torch.equal(before["body.1.running_mean"], state["body.1.running_mean"]))

    def test_frozen_and_trained_by_the_settings(self):
        module = Frozen()
        rookery_export.export(module, images(), self.node_data / "net.onnx")
        for parameter in module.parameters():
            parameter.requires_grad_(False)
        module.head.requires_grad_(True)
        module.body[0].bias.requires_grad_(True)
        self.check(module, images(), frozen=["*"], trained=["head.*", "body.0.bias"])

    def test_patterns_that_match_nothing_are_refused(self):
        rookery_export.export(Frozen(), images(), self.node_data / "net.onnx")
        rookery_export.export_data(images() | {"labels": torch.zeros(SAMPLES, dtype=torch.int64)}, self.node_data / "data.safetensors")
        self.write_pool(1)
        for patterns, message in ((["haed.*"], "frozen: no parameter is called 'haed.*'; there are head."),
                                  (["*"], "frozen: no parameter is left to train")):
            self.write_settings(data="tensors:data.safetensors", model="net.onnx", loss="cross_entropy", frozen=patterns)
            _, errors = self.run_program("clusterize", code=1)
            self.assertIn(message, errors)

    def test_batch_norm_in_eval(self):
        before, state, _ = self.check(Evaluated(), images())
        for name in ("one.running_mean", "one.running_var", "one.num_batches_tracked", "two.weight"):
            self.assertTrue(torch.equal(before[name], state[name]), name)
        self.assertFalse(torch.equal(before["one.weight"], state["one.weight"]))
        self.assertEqual(int(state["three.num_batches_tracked"]), STEPS)

    def test_body_in_eval(self):
        self.check(Tested(), images())

    def test_padding(self):
        before, state, _ = self.check(Padded(), ids(), classes=11, positions=(6,))
        self.assertTrue(torch.equal(before["kinds.weight"][0], state["kinds.weight"][0]))
        self.assertFalse(torch.equal(before["kinds.weight"][1], state["kinds.weight"][1]))

    def test_detach(self):
        self.check(Detached(), {"x": torch.randn(SAMPLES, 6)})

    def test_buffers(self):
        before, state, rows = self.check(Buffers(), {"x": torch.randn(SAMPLES, 6)})
        for name in ("scale", "order", "history", "unused"):
            self.assertTrue(torch.equal(before[name], state[name]), name)
        self.assertEqual((rows["scale"]["kind"], rows["scale"]["trained"]), ("buffer", False))

    def test_no_grad(self):
        before, state, rows = self.check(Guarded(), {"x": torch.randn(SAMPLES, 6)})
        self.assertTrue(torch.equal(before["body.weight"], state["body.weight"]))
        self.assertFalse(rows["body.weight"]["trained"])

    def refusal(self, module, x):
        with self.assertRaises(rookery_export.ExportError) as refused:
            rookery_export.export(module, x, self.folder / "net.onnx")
        self.assertFalse((self.folder / "net.onnx").exists())
        return str(refused.exception)

    def test_what_a_file_cannot_say_is_refused(self):
        x = torch.randn(4, 6)
        self.assertIn("the gradient of body", self.refusal(Partly(), x))
        self.assertIn("use torch.where", self.refusal(Decided(), x))
        self.assertIn(".data", self.refusal(Copied(), x))
        with_norm = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6, momentum=None))
        self.assertIn("1 (BatchNorm1d): momentum=None", self.refusal(with_norm, x))
        self.assertIn("max_norm", self.refusal(nn.Embedding(5, 4, max_norm=1.0), torch.zeros(3, dtype=torch.int64)))

    def test_what_the_exporters_lack_is_told_with_its_place(self):
        message = self.refusal(Foreign(), torch.randn(2, 4, 4))
        self.assertIn("matrix_exp", message)
        self.assertIn("return torch.linalg.matrix_exp(x)", message)
        self.assertIn("in inner", message)

    def test_rotary_embeddings(self):
        self.check(Rotary(), ids(), classes=11, positions=(6,))


def refuse_to_trace(*_):
    raise rookery_export.ExportError("this PyTorch has no exporter that traces, as this test will have it")


@unittest.skipUnless(VERSION >= (2, 9), "the exporter that uses torch.export is not the default of this PyTorch")
class ExportByProgram(Export):
    """The same by PyTorch's newer exporter."""

    def setUp(self):
        super().setUp()
        patch = unittest.mock.patch.object(rookery_export, "_export_by_trace", refuse_to_trace)
        patch.start()
        self.addCleanup(patch.stop)


@unittest.skipUnless(OTHER_PYTHONS, "ROOKERY_PYTHONS names no Python with another PyTorch")
class OtherPyTorches(unittest.TestCase):
    def test_all_of_this(self):
        for python in OTHER_PYTHONS:
            with self.subTest(python=python):
                done = subprocess.run(
                    [python, "-B", "-W", "ignore", __file__, "--quiet"], capture_output=True, text=True, timeout=3600,
                    env={name: value for name, value in os.environ.items() if name != "ROOKERY_PYTHONS"},
                )
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
