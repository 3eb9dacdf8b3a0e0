"""What tests of exported modules share: the same training in PyTorch and here, and what came out of both."""

import json
import os
import subprocess
import sys
import unittest
import unittest.mock

import torch

from whole import ROOT, WholeTest

sys.path.insert(0, str(ROOT / "models"))
sys.path.insert(0, str(ROOT / "tests" / "support"))
import rookery_export  # noqa: E402
from safetensors_file import read_safetensors  # noqa: E402
from torch_modules import SAMPLES, loss_of  # noqa: E402

torch.set_num_threads(1)  # modules are small, and threads that wait for each other keep what runs beside from running
STEPS = 20
VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
# Other PyTorches than Debian's to try: interpreters, separated by colons.
OTHER_PYTHONS = [python for python in os.environ.get("ROOKERY_PYTHONS", "").split(":") if python]
# By how much our losses may be off those of float64, as a multiple of how far PyTorch's in float32 are with the samples
# in one of ORDERS orders: rounding is a matter of luck.
TIMES, ORDERS = 3, 4
CLOSE = 1e-5  # outputs, as a share of the largest


def train_there(module, inputs, targets, dtype=torch.float32):
    """Losses of STEPS steps in PyTorch, of the module itself. All samples are one batch."""
    module.to(dtype)
    inputs = {name: each.to(dtype) if each.is_floating_point() else each for name, each in inputs.items()}
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.05, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(module(*inputs.values()), targets)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


class Reference:
    """The same training in PyTorch: `module` after it, and its losses in float64 and, by how much it may be `off`."""

    def __init__(self, make, inputs, targets):
        self.module = make()
        runs = [train_there(self.module, inputs, targets)]
        for seed in range(1, ORDERS):
            order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(seed))
            runs.append(train_there(make(), {name: each[order] for name, each in inputs.items()}, targets[order]))
        self.losses = runs[0]
        self.exact = train_there(make(), inputs, targets, torch.float64)
        self.off = max(abs(one - other) for losses in runs for one, other in zip(losses, self.exact))

    def difference(self, losses):
        """By how much these are off, as a share of how far PyTorch itself is."""
        return max(abs(here - there) for here, there in zip(losses, self.exact)) / self.off


class ExportedTest(WholeTest):
    def write_data(self, inputs, targets):
        rookery_export.export_data(inputs | {"labels": targets}, self.node_data / "data.safetensors")

    def write_job(self, nodes, **settings):
        """A pool and a train.json for net.onnx and data.safetensors, which train as train_there() does."""
        self.write_pool(nodes)
        self.write_settings(
            data="tensors:data.safetensors", train_fraction=1.0, loss="cross_entropy", batch_size=SAMPLES,
            epochs=STEPS, validate_every=0, optimizer={"name": "sgd", "learning_rate": 0.05, "momentum": 0.9},
            model="net.onnx", **settings,
        )

    def train_here(self, nodes, **settings):
        """Losses, the state dict that comes back, and what clusterize --json told."""
        self.write_job(nodes, **settings)
        told, _ = self.run_program("clusterize", "--min-nodes-per-cluster", str(nodes), "--json")
        self.run_program("launch")
        self.fuse()
        return self.losses_by_step(), self.trained_state(), json.loads(told)

    def losses_by_step(self):
        lines = (self.folder / "losses.txt").read_text().splitlines()
        return [float(line.split()[0]) for line in lines if not line.startswith("#")]

    def trained_state(self):
        return torch.load(self.folder / "trained" / "trained_state_dict.pt", weights_only=True)

    def check_same_state(self, state, other):
        self.assertEqual(list(state), list(other))
        for name, tensor in state.items():
            self.assertTrue(torch.equal(tensor, other[name]), name)

    def check_losses(self, losses, reference):
        self.assertEqual(len(losses), STEPS)
        message = f"{losses}\nPyTorch's: {reference.losses}\nin float64: {reference.exact}\noff by {reference.off}"
        self.assertLessEqual(reference.difference(losses), TIMES, message)

    def check_outputs(self, module, inputs):
        """What the trained model makes here of the samples and what the module makes that loaded it."""
        self.run_program(
            "evaluate", "--state", "trained/trained_state_dict.pt", "--split", "all", "--outputs", "outputs.safetensors"
        )
        with torch.no_grad():
            made = module.eval()(*inputs.values())
        ours = torch.from_numpy(next(iter(read_safetensors(self.folder / "outputs.safetensors").values())))
        self.assertLess(float((ours - made).abs().max()), CLOSE * max(1.0, float(made.abs().max())))


class ExportTest(ExportedTest):
    """Of modules that models/rookery_export.py exports."""

    def refusal(self, module, x):
        with self.assertRaises(rookery_export.ExportError) as refused:
            rookery_export.export(module, x, self.folder / "net.onnx")
        self.assertFalse((self.folder / "net.onnx").exists())
        return str(refused.exception)

    def check(self, case, nodes=3, is_trained=None, **settings):
        """Exported, trained on one node and on several, and loaded back. `is_trained`: the names of all parameters
        that are, where settings decide. Returns the state before, the one that came back, and the rows of the table of
        tensors by name."""
        inputs, targets = case.inputs(), case.targets()
        module = case.module()
        before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
        rookery_export.export(module, inputs, self.node_data / "net.onnx")
        for name, tensor in module.state_dict().items():
            self.assertTrue(torch.equal(tensor, before[name]), f"the export changed {name}")
        self.write_data(inputs, targets)
        losses, state, told = self.train_here(1, **settings)
        on_several, state_of_several, _ = self.train_here(nodes, **settings)
        self.assertEqual(losses, on_several)
        self.check_same_state(state, state_of_several)

        def make():
            made = case.module()
            for name, parameter in made.named_parameters() if is_trained is not None else ():
                parameter.requires_grad_(name in is_trained)
            return made

        reference = Reference(make, inputs, targets)
        self.check_losses(losses, reference)
        self.assertEqual(list(state), list(module.state_dict()))
        self.assertEqual(state._metadata, module.state_dict()._metadata)
        for name, tensor in reference.module.state_dict().items():
            self.assertEqual(state[name].dtype, tensor.dtype, name)
            self.assertLess(float((state[name].double() - tensor.double()).abs().max()), 1e-3, name)
        self.check_outputs(rookery_export.load(module, self.folder / "trained"), inputs)
        return before, state, {row["name"]: row for row in told["tensors"]}


def refuse_to_trace(*_):
    raise rookery_export.ExportError("this PyTorch has no exporter that traces, as this test will have it")


@unittest.skipUnless(VERSION >= (2, 9), "the exporter that uses torch.export is not the default of this PyTorch")
class ByProgram:
    """Mixed into a test, it runs with PyTorch's newer exporter alone."""

    def setUp(self):
        super().setUp()
        patch = unittest.mock.patch.object(rookery_export, "_export_by_trace", refuse_to_trace)
        patch.start()
        self.addCleanup(patch.stop)


@unittest.skipUnless(OTHER_PYTHONS, "ROOKERY_PYTHONS names no Python with another PyTorch")
class OtherPyTorches(unittest.TestCase):
    """Runs the file of tests `script` with them."""

    script = None

    def test_all_of_this(self):
        for python in OTHER_PYTHONS if self.script else ():
            with self.subTest(python=python):
                done = subprocess.run(
                    [python, "-B", "-W", "ignore", self.script, "--quiet"], capture_output=True, text=True, timeout=3600,
                    env={name: value for name, value in os.environ.items() if name != "ROOKERY_PYTHONS"},
                )
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
