"""A checkpoint of a run that was killed is a trained model."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import unittest

from whole import WholeTest

STEPS_PER_EPOCH = 17


class Checkpoint(WholeTest):
    """A run of three nodes that nobody lets end, with a checkpoint after every epoch."""

    def setUp(self):
        super().setUp()
        self.write_settings(epochs=100000, checkpoint_every="1 epoch", keep_checkpoints=100)
        self.run_program("clusterize")
        launch = self.start("launch")
        self.wait_for(lambda: len(self.whole_checkpoints()) >= 2, "two checkpoints")
        providers = pathlib.Path(f"/proc/{launch.popen.pid}/task/{launch.popen.pid}/children").read_text().split()
        self.assertEqual(len(providers), 3)
        for process in [launch.popen.pid, *map(int, providers)]:
            with contextlib.suppress(ProcessLookupError):  # a provider ends with its peers
                os.kill(process, signal.SIGKILL)
        self.assertEqual(launch.wait(), 137)
        self.wait_for(lambda: not any(pathlib.Path("/proc", provider).exists() for provider in providers), "their end")
        # The plan is not needed.
        for name in ("nodes", "cluster_0"):
            shutil.rmtree(self.node_data / name)

    def whole_checkpoints(self):
        """Steps, rising."""
        folders = (self.node_data / "checkpoints").glob("*")
        return sorted(int(folder.name) for folder in folders if len(list(folder.glob("*_of_3.safetensors"))) == 3)

    def run_json(self, program, *arguments):
        return json.loads(self.run_program(program, *arguments, "--json")[0])

    def validated(self, step):
        """What the run itself found after this step."""
        epoch = step // STEPS_PER_EPOCH - 1
        return [float((self.folder / log).read_text().split()[epoch]) for log in ("val_losses.txt", "val_accuracies.txt")]

    def test_it_is_what_the_run_had(self):
        newest = self.whole_checkpoints()[-1]
        folder = f"node_data/checkpoints/{newest}"
        report = self.run_json("model_fusion", "--checkpoint")
        self.assertEqual((report["step"], report["checkpoint"]), (newest, f"./{folder}"))
        loss, accuracy = self.validated(newest)
        for state in (folder, "trained/trained_state_dict.safetensors", "trained/trained_model.onnx"):
            with self.subTest(state):
                report = self.run_json("evaluate", "--state", state)
                self.assertAlmostEqual(report["loss"], loss, delta=1e-5)
                self.assertAlmostEqual(report["accuracy"], accuracy, delta=0.15)  # one sample in 719
                self.assertEqual(report.get("checkpoint"), folder if state == folder else None)
        self.assertEqual(report.get("step"), None)

    def test_an_older_one_is_named_by_its_step(self):
        older = self.whole_checkpoints()[0]
        report = self.run_json("model_fusion", "--checkpoint", str(older), "--out", "older")
        self.assertEqual(report["step"], older)
        report = self.run_json("evaluate", "--state", "older/trained_state_dict.pt", "--model", "cnn_net")
        self.assertAlmostEqual(report["loss"], self.validated(older)[0], delta=1e-5)

    def test_a_damaged_one_is_named_and_the_one_before_taken(self):
        *_, before, newest = self.whole_checkpoints()
        part = next(self.node_data.glob(f"checkpoints/{newest}/*_1_of_3.safetensors"))
        damaged = bytearray(part.read_bytes())
        damaged[-1] ^= 1
        part.write_bytes(damaged)
        output, errors = self.run_program("model_fusion", "--checkpoint", "--json")
        self.assertEqual(json.loads(output)["step"], before)
        self.assertIn(f"{part.name}: damaged: tensor", errors)
        self.assertIn("the one before is taken", errors)
        _, errors = self.run_program("evaluate", "--state", f"node_data/checkpoints/{newest}", code=1)
        self.assertIn(f"{part.name}: damaged: tensor", errors)


if __name__ == "__main__":
    unittest.main()
