"""Modules that PyTorch exports train here as they do there."""

import json
import os
import re
import subprocess
import sys
import unittest
import warnings

import torch
from torch import nn
from torch.nn import functional

from whole import BIN, PATIENCE, ROOT, WholeTest

sys.path.insert(0, str(ROOT / "tests" / "support"))
from safetensors_file import read_safetensors, write_safetensors  # noqa: E402

SAMPLES, STEPS = 12, 20
# Other PyTorches than Debian's to try: interpreters, separated by colons.
OTHER_PYTHONS = [python for python in os.environ.get("ROOKERY_PYTHONS", "").split(":") if python]
KEPT = {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False}


class Residual(nn.Module):
    """Blocks with a way around them, BatchNorm, grouped and depthwise convolutions, SiLU."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm = nn.BatchNorm2d(8)
        self.down = nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=4)
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        x = self.stem(x)
        x = functional.silu(self.norm(self.depthwise(x)) + x)
        x = functional.adaptive_avg_pool2d(functional.max_pool2d(self.down(x), 2), 1)
        return self.fc(torch.flatten(x, 1))


class Normed(nn.Module):
    """GroupNorm, LayerNorm, both kinds of GELU, a linear layer over images' rows, shapes read from tensors."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.group = nn.GroupNorm(2, 8)
        self.layer = nn.LayerNorm(36)
        self.fc1 = nn.Linear(36, 16)
        self.fc2 = nn.Linear(16, 5, bias=False)

    def forward(self, x):
        x = self.group(self.conv(x))
        batch, channels, height, width = x.shape
        x = self.layer(x.view(batch, channels, height * width))
        x = functional.gelu(self.fc1(x))
        return self.fc2(functional.gelu(x, approximate="tanh")).mean(1)


class UpAndDown(nn.Module):
    """A transposed convolution, upsampling, a skip by concatenation; a mask as output."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.last = nn.Conv2d(19, 1, 1)

    def forward(self, x):
        small = functional.leaky_relu(self.down(x), 0.1)
        large = functional.interpolate(small, scale_factor=2, mode="nearest")
        return self.last(torch.cat([self.up(small), large, x], dim=1))


class Encoder(nn.Module):
    """PyTorch's transformer, an embedding, positions, a token for the class."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.positions = nn.Parameter(torch.randn(1, 6, 16))
        self.first = nn.Parameter(torch.randn(1, 1, 16))
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 5)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], dim=1)
        return self.head(self.layers(x)[:, 0])


class Causal(nn.Module):
    """Attention written by hand, with a mask that is a buffer of the module; next tokens are predicted."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.place = nn.Embedding(6, 16)
        self.qkv = nn.Linear(16, 48)
        self.join = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 11, bias=False)
        self.register_buffer("mask", torch.tril(torch.ones(6, 6)).view(1, 1, 6, 6) == 0, persistent=False)

    def forward(self, ids):
        batch, length = ids.shape
        x = self.tokens(ids) + self.place(torch.arange(length).unsqueeze(0))
        q, k, v = (part.view(batch, length, 2, 8).transpose(1, 2) for part in self.qkv(self.norm(x)).split(16, dim=2))
        scores = (q @ k.transpose(-2, -1)) * 8**-0.5
        scores = scores.masked_fill(self.mask[:, :, :length, :length], float("-inf"))
        y = (functional.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(batch, length, 16)
        return self.head(x + self.join(y))


class Tied(Causal):
    """Its embedding is its head."""

    def __init__(self):
        super().__init__()
        self.head.weight = self.tokens.weight


class TwoInputs(nn.Module):
    """Two inputs of their own shapes, an operand that depends on both."""

    def __init__(self):
        super().__init__()
        self.image = nn.Linear(192, 16)
        self.facts = nn.Sequential(nn.Linear(7, 16), nn.Tanh(), nn.Dropout(0.0))
        self.both = nn.Linear(32, 5)
        self.gain = nn.Parameter(torch.ones(16))

    def forward(self, image, facts):
        image = functional.elu(self.image(image.flatten(1)))
        facts = self.facts(facts) * self.gain
        return self.both(torch.cat([image, facts], 1))


class TwoOutputs(nn.Module):
    """A class and a number of every image."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.PReLU(8), nn.AvgPool2d(2), nn.Flatten())
        self.label = nn.Linear(128, 5)
        self.number = nn.Linear(128, 1)

    def forward(self, x):
        x = self.body(x)
        return self.label(x), torch.sigmoid(self.number(x))


class Series(nn.Module):
    """One dimension: convolutions, BatchNorm, a transposed convolution."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 5, stride=2, padding=2)
        self.norm = nn.BatchNorm1d(8)
        self.up = nn.ConvTranspose1d(8, 6, 4, stride=2, padding=1)
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        x = functional.hardswish(self.norm(self.conv(x)))
        return self.fc(functional.relu(self.up(x)).mean(2))


def images():
    return {"x": torch.randn(SAMPLES, 3, 8, 8)}


def ids():
    return {"ids": torch.randint(0, 11, (SAMPLES, 6))}


def labels(*shape, classes=5):
    return torch.randint(0, classes, (SAMPLES, *shape))


def page_blocks():
    """(language, text) of docs/bring-your-model.md."""
    page = (ROOT / "docs" / "bring-your-model.md").read_text()
    return re.findall(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


class BringYourModel(WholeTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(3)
        self.write_pool(2)

    def export(self, module, inputs, outputs=("y",), dynamic=True, batch=3, **options):
        axes = {name: {0: "batch"} for name in inputs} if dynamic else None
        options = KEPT | {"opset_version": 17} | options
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module, tuple(tensor[:batch] for tensor in inputs.values()), self.node_data / "model.onnx",
                input_names=list(inputs), output_names=list(outputs), dynamic_axes=axes, **options,
            )

    def train_there(self, module, inputs, loss_of):
        """Losses of all steps."""
        optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
        module.train()
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = loss_of(module(*inputs.values()))
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        return losses

    def train_here(self, tensors, loss, settings):
        """All samples are one batch, so that their order does not matter."""
        write_safetensors(self.node_data / "data.safetensors", {name: tensor.numpy() for name, tensor in tensors.items()})
        self.write_settings(
            data="tensors:data.safetensors", train_fraction=1.0, loss=loss, batch_size=SAMPLES, epochs=STEPS,
            validate_every=0, optimizer={"name": "sgd", "learning_rate": 0.05, "momentum": 0.9}, **settings,
        )
        self.run_program("clusterize", "--model", "node_data/model.onnx", "--min-nodes-per-cluster", "2")
        self.run_program("launch")
        self.fuse()
        return self.losses_by_step()

    def losses_by_step(self):
        lines = (self.folder / "losses.txt").read_text().splitlines()
        return [float(line.split()[0]) for line in lines if not line.startswith("#")]

    def check(self, make, inputs, targets, loss, loss_of, outputs=("y",), settings={}, **options):
        module = make()
        self.export(module, inputs, outputs, **options)
        for name, buffer in module.named_buffers():
            if name.endswith("num_batches_tracked"):
                buffer.zero_()  # the export itself counts, and the file has no counter
        ours = self.train_here(inputs | targets, loss, settings)
        theirs = self.train_there(module, inputs, loss_of)
        self.assertEqual(len(ours), STEPS)
        for step, (here, there) in enumerate(zip(ours, theirs)):
            self.assertLess(abs(here - there), 1e-4, f"step {step}: {ours} {theirs}")

        state = torch.load(self.folder / "trained" / "trained_state_dict.pt", weights_only=True)
        for name, tensor in module.state_dict().items():
            self.assertIn(name, state)
            self.assertLess(float((state[name] - tensor).abs().max()), 1e-3, name)
        fused = make()
        fused.load_state_dict(state, strict=True)
        with torch.no_grad():
            made, expected = fused.eval()(*inputs.values()), module.eval()(*inputs.values())
        for one, other in zip(*((made, expected) if len(outputs) > 1 else ((made,), (expected,)))):
            self.assertLess(float((one - other).abs().max()), 1e-3)
        self.run_program(
            "evaluate", "--state", "trained/trained_state_dict.pt", "--model", "node_data/model.onnx",
            "--split", "all", "--outputs", "outputs.safetensors",
        )
        ours = read_safetensors(self.folder / "outputs.safetensors")
        for name, there in zip(outputs, made if len(outputs) > 1 else (made,)):
            self.assertLess(float((torch.from_numpy(ours[name]) - there).abs().max()), 1e-5, name)

    def check_classes(self, make, inputs, **options):
        target = labels()
        self.check(
            make, inputs, {"labels": target}, "cross_entropy",
            lambda made: functional.cross_entropy(made, target), **options,
        )

    def test_residual(self):
        self.check_classes(Residual, images())

    def test_residual_of_a_fixed_batch(self):
        self.check_classes(Residual, images(), dynamic=False, opset_version=13)

    def test_norms(self):
        self.check_classes(Normed, images(), opset_version=13)

    def test_norms_of_a_fixed_batch(self):
        self.check_classes(Normed, images(), dynamic=False)

    def test_transposed_convolution(self):
        target = torch.randint(0, 2, (SAMPLES, 1, 8, 8)).float()
        self.check(
            UpAndDown, images(), {"labels": target}, "bce_with_logits",
            lambda made: functional.binary_cross_entropy_with_logits(made, target),
        )

    def test_transformer_encoder(self):
        self.check_classes(Encoder, ids())

    def test_transformer_encoder_with_folded_weights(self):
        self.check_classes(Encoder, ids(), training=torch.onnx.TrainingMode.EVAL, do_constant_folding=True)

    def test_what_is_not_certain_is_refused_with_the_fix(self):
        self.export(Encoder(), ids(), dynamic=False)
        _, errors = self.run_program("clusterize", "--model", "node_data/model.onnx", code=1)
        self.assertIn("export with dynamic_axes=", errors)

    def test_lost_names_are_refused_with_the_fix(self):
        self.export(Residual(), images(), training=torch.onnx.TrainingMode.EVAL, do_constant_folding=True)
        _, errors = self.run_program("clusterize", "--model", "node_data/model.onnx", code=1)
        self.assertIn("export with training=TrainingMode.TRAINING, do_constant_folding=False", errors)

    def test_causal_attention(self):
        target = labels(6, classes=11)
        self.check(
            Causal, ids(), {"labels": target}, "cross_entropy",
            lambda made: functional.cross_entropy(made.flatten(0, 1), target.flatten()),
        )

    def test_tied_embedding(self):
        target = labels(6, classes=11)
        second = {"head.weight": "tokens.weight"}
        self.check(
            Tied, ids(), {"labels": target}, "cross_entropy",
            lambda made: functional.cross_entropy(made.flatten(0, 1), target.flatten()), settings={"tied": second},
        )
        # Without the setting, from a state dict that has both.
        torch.save(Tied().state_dict(), self.folder / "begin.pt")
        self.write_settings(data="tensors:data.safetensors", loss="cross_entropy", batch_size=SAMPLES)
        self.run_program(
            "clusterize", "--model", "node_data/model.onnx", "--init", "begin.pt", "--min-nodes-per-cluster", "2"
        )
        node = json.loads((self.node_data / "nodes" / "node_0.json").read_text())
        self.assertEqual(node["settings"]["tied"], second)
        self.write_settings(data="tensors:data.safetensors", loss="cross_entropy", tied={"tail.weight": "token.weight"})
        _, errors = self.run_program("clusterize", "--model", "node_data/model.onnx", code=1)
        self.assertIn("tied/tail.weight: 'token.weight' is not a parameter of", errors)

    def test_two_inputs(self):
        self.check_classes(TwoInputs, images() | {"facts": torch.randn(SAMPLES, 7)})

    def test_two_outputs(self):
        target, size = labels(), torch.rand(SAMPLES, 1)
        self.check(
            TwoOutputs, images(), {"class": target, "size": size},
            [{"output": "y", "loss": "cross_entropy", "target": "class"},
             {"output": "number", "loss": "mse", "target": "size", "weight": 0.5}],
            lambda made: functional.cross_entropy(made[0], target) + 0.5 * functional.mse_loss(made[1], size),
            outputs=("y", "number"),
        )

    def test_series(self):
        self.check_classes(Series, {"x": torch.randn(SAMPLES, 4, 20)})

    def run_python(self, python, code):
        done = subprocess.run(
            [python, "-B", "-W", "ignore", "-c", code], cwd=self.folder, capture_output=True, text=True,
            timeout=PATIENCE, env=os.environ | {"PYTHONPATH": str(ROOT / "models")},
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def check_page(self, python, other=False):
        """docs/bring-your-model.md, exactly as it stands there; `other`: with its call of another exporter."""
        blocks = page_blocks()
        module, ours, back, theirs = (text for language, text in blocks if language == "python")
        (settings,) = (text for language, text in blocks if language == "json")
        (commands,) = (text for language, text in blocks if language == "sh")
        self.run_python(python, module + (theirs if other else ours))
        (self.node_data / "train.json").write_text(settings)
        done = subprocess.run(
            ["bash", "-ec", commands], cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE,
            env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"},
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual("the file does not say" in done.stderr, other, done.stderr)
        shown, _ = self.run_program("evaluate", "--state", "trained/trained_state_dict.pt")
        accuracy = re.search(r"accuracy +([\d.]+)%", shown)
        self.assertGreater(float(accuracy.group(1)), 80, shown)
        self.run_python(python, module + "import rookery_export\n" + back)

    def test_page(self):
        self.check_page(sys.executable)

    def test_page_with_the_other_call(self):
        self.check_page(sys.executable, other=True)

    @unittest.skipUnless(OTHER_PYTHONS, "ROOKERY_PYTHONS names no Python with another PyTorch")
    def test_page_with_other_pytorches(self):
        for python in OTHER_PYTHONS:
            with self.subTest(python=python):
                self.check_page(python)
                self.check_page(python, other=True)

    @unittest.skipUnless(OTHER_PYTHONS, "ROOKERY_PYTHONS names no Python with PyTorch 2.9 or newer")
    def test_the_other_exporter(self):
        """The default call of a PyTorch whose exporter optimizes is refused; without it the same is trained."""
        module, _, _, call = (text for language, text in page_blocks() if language == "python")
        options = 'net, (torch.zeros(2, 1, 8, 8),), "net.onnx", input_names=["image"], dynamo=True'
        self.write_settings(epochs=1, model="../net.onnx")
        for python in OTHER_PYTHONS:
            with self.subTest(python=python):
                self.run_python(python, f"{module}\ntorch.onnx.export({options})")
                _, errors = self.run_program("clusterize", code=1)
                self.assertIn("export with optimize=False", errors)
                self.assertIn('BatchNorm "body.1" was folded', errors)
                losses = []
                for way in (f"torch.onnx.export({options}, optimize=False)", call):
                    self.run_python(python, f"import torch\ntorch.manual_seed(2)\n{module}\n{way}")
                    self.run_program("clusterize", "--min-nodes-per-cluster", "2")
                    self.run_program("launch")
                    losses.append(self.losses_by_step())
                self.assertGreater(len(losses[0]), 10)
                for one, other in zip(*losses):
                    self.assertAlmostEqual(one, other, delta=1e-4)


if __name__ == "__main__":
    unittest.main()
