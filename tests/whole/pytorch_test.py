"""PyTorch reads what model_fusion writes, and agrees with evaluate."""

import json
import sys
import unittest

import onnx
import torch

from whole import ROOT, WholeTest

sys.path[:0] = [str(ROOT / "tests" / "golden"), str(ROOT / "tests" / "support")]
from make_cnn_net_trace import CnnNet, read_digits  # noqa: E402
from safetensors_file import read_safetensors  # noqa: E402


class StartingWeights(WholeTest):
    def clusterize(self, *arguments, code=0):
        return self.run_program("clusterize", *arguments, code=code)

    def plan_id(self):
        return json.loads((self.node_data / "plan.json").read_text())["plan_id"]

    def test_weights_of_a_module(self):
        self.clusterize()
        from_seed = self.plan_id()
        model = CnnNet()
        torch.save(model.state_dict(), self.folder / "weights.pt")
        self.clusterize("--init", "weights.pt")
        self.assertNotEqual(self.plan_id(), from_seed)
        planned = {}
        for path in self.node_data.glob("cluster_0/*/submod*.safetensors"):
            planned |= read_safetensors(path)
        self.assertEqual(set(planned), set(model.state_dict()))
        for name, tensor in model.state_dict().items():
            self.assertTrue((planned[name] == tensor.numpy()).all(), name)

    def test_weights_of_another_model(self):
        self.clusterize()
        before = self.plan_id()
        state = CnnNet().state_dict()
        state["dense_2.bias"] = torch.zeros(11)
        state["dense_2.wieght"] = state.pop("dense_2.weight")
        torch.save(state, self.folder / "weights.pt")
        _, errors = self.clusterize("--init", "weights.pt", code=1)
        for part in ("weights.pt: ", "'dense_2.bias' is f32[11], the model has f32[10]",
                     "'dense_2.weight' is missing (is it what 'dense_2.wieght' is?)",
                     "'dense_2.wieght' is not in the model"):
            self.assertIn(part, errors)
        self.assertEqual(self.plan_id(), before)


class PyTorch(WholeTest):
    def setUp(self):
        super().setUp()
        self.write_settings(epochs=3)
        self.train(3)
        self.fuse()

    def evaluate(self, split):
        output, _ = self.run_program(
            "evaluate", "--state", "trained/trained_state_dict.safetensors", "--model", "cnn_net",
            "--data", "digits", "--split", split, "--json",
        )
        return json.loads(output)

    def test_state_dict(self):
        state = torch.load(self.folder / "trained" / "trained_state_dict.pt", weights_only=True)
        model = CnnNet()
        self.assertEqual(list(state), list(model.state_dict()))
        model.load_state_dict(state, strict=True)
        self.assertEqual(int(state["bn_1.num_batches_tracked"]), 3 * 17)

        # Training and validation together are all samples, whatever the order they were split in.
        images, labels = read_digits()
        with torch.no_grad():
            correct = int((model.eval()(images).argmax(1) == labels).sum())
        ours = [self.evaluate(split) for split in ("train", "validation")]
        self.assertEqual([result["samples"] for result in ours], [1078, 719])
        self.assertEqual(sum(result["correct"] for result in ours), correct)
        last = float((self.folder / "val_accuracies.txt").read_text().split()[-1])
        self.assertAlmostEqual(ours[1]["accuracy"], last, places=2)

    def test_model(self):
        onnx.checker.check_model(str(self.folder / "trained" / "trained_model.onnx"), full_check=True)
        arguments = ("--split", "all", "--json")
        of_state, of_model = (
            json.loads(self.run_program("evaluate", "--state", f"trained/{name}", *arguments)[0])
            for name in ("trained_state_dict.pt", "trained_model.onnx")
        )
        self.assertEqual(of_model, of_state)


if __name__ == "__main__":
    unittest.main()
