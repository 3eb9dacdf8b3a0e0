"""PyTorch reads what model_fusion writes, and agrees with evaluate."""

import json
import sys
import unittest

import torch

from whole import ROOT, WholeTest

sys.path.insert(0, str(ROOT / "tests" / "golden"))
from make_cnn_net_trace import CnnNet, read_digits  # noqa: E402


class PyTorch(WholeTest):
    def setUp(self):
        super().setUp()
        self.write_settings(epochs=3)
        self.train(3)
        self.run_program("model_fusion", "--cluster-id", "0")

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


if __name__ == "__main__":
    unittest.main()
