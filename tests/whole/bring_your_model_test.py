"""Modules that PyTorch exports train here as they do there."""

import json
import os
import re
import subprocess
import sys
import unittest
import warnings

import torch
from torch.nn import functional

from whole import BIN, PATIENCE, ROOT, WholeTest

sys.path.insert(0, str(ROOT / "tests" / "support"))
from safetensors_file import read_safetensors, write_safetensors  # noqa: E402
from torch_modules import SAMPLES  # noqa: E402
from torch_modules.images import Normed, Residual, Series, TwoInputs, TwoOutputs, UpAndDown  # noqa: E402
from torch_modules.sequences import Causal, Encoder  # noqa: E402
from torch_modules.traps import Tied  # noqa: E402

STEPS = 20
# Other PyTorches than Debian's to try: interpreters, separated by colons.
OTHER_PYTHONS = [python for python in os.environ.get("ROOKERY_PYTHONS", "").split(":") if python]
KEPT = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}


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


def version_of(python):
    """Of its PyTorch: (2, 9)."""
    code = "import torch; print(torch.__version__)"
    told = subprocess.run([python, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, told.split(".")[:2]))


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
            try:
                torch.onnx.export(
                    module, tuple(tensor[:batch] for tensor in inputs.values()), self.node_data / "model.onnx",
                    input_names=list(inputs), output_names=list(outputs), dynamic_axes=axes, **options,
                )
            except torch.onnx.errors.UnsupportedOperatorError as error:  # 2.0 has no unflatten
                self.skipTest(f"PyTorch's own exporter: {error}")

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
            validate_every=0, optimizer={"name": "sgd", "learning_rate": 0.05, "momentum": 0.9}, trained=["*"],
            **settings,
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

    def test_what_is_trained_has_to_be_said(self):
        self.export(Series(), {"x": torch.randn(SAMPLES, 4, 20)})
        tensors = {"x": torch.randn(SAMPLES, 4, 20), "labels": labels()}
        write_safetensors(self.node_data / "data.safetensors", {name: each.numpy() for name, each in tensors.items()})
        job = {"data": "tensors:data.safetensors", "loss": "cross_entropy", "model": "model.onnx"}
        self.write_settings(**job)
        _, errors = self.run_program("clusterize", code=1)
        self.assertIn('model.onnx does not say which parameters require a gradient', errors)
        self.assertIn('"trained": ["*"] for all', errors)
        self.assertFalse((self.node_data / "plan.json").exists())
        for said in ({"trained": ["*"]}, {"frozen": ["norm.*"]}):
            self.write_settings(**job, **said)
            told, _ = self.run_program("clusterize", "--json")
            rows = {row["name"]: row["trained"] for row in json.loads(told)["tensors"]}
            self.assertEqual(rows["norm.weight"], "trained" in said)
            self.assertTrue(rows["fc.weight"])

    def test_lost_names_are_refused_with_the_fix(self):
        self.export(Residual(), images(), training=torch.onnx.TrainingMode.EVAL, do_constant_folding=True)
        _, errors = self.run_program("clusterize", "--model", "node_data/model.onnx", code=1)
        self.assertIn("export with training=TrainingMode.PRESERVE, do_constant_folding=False", errors)

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
        self.write_settings(data="tensors:data.safetensors", loss="cross_entropy", batch_size=SAMPLES, trained=["*"])
        self.run_program(
            "clusterize", "--model", "node_data/model.onnx", "--init", "begin.pt", "--min-nodes-per-cluster", "2"
        )
        node = json.loads((self.node_data / "nodes" / "node_0.json").read_text())
        self.assertEqual(node["settings"]["tied"], second)
        tied = {"tail.weight": "token.weight"}
        self.write_settings(data="tensors:data.safetensors", loss="cross_entropy", trained=["*"], tied=tied)
        _, errors = self.run_program("clusterize", "--model", "node_data/model.onnx", code=1)
        self.assertIn("tied/tail.weight: 'token.weight' is not a parameter of", errors)

    def test_two_inputs(self):
        self.check_classes(TwoInputs, images() | {"facts": torch.randn(SAMPLES, 6)})

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
        settings = json.loads(settings) | ({"trained": ["*"]} if other else {})
        (self.node_data / "train.json").write_text(json.dumps(settings))
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
        self.write_settings(epochs=1, model="../net.onnx", trained=["*"])
        for python in OTHER_PYTHONS:
            with self.subTest(python=python):
                if version_of(python) < (2, 9):
                    self.skipTest("the exporter of this PyTorch that uses torch.export does not optimize by default")
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
