"""What stages send each other in fewer bits: it trains nearly as well, and to the same bits whenever and however often."""

import json
import shutil
import signal
import unittest

from whole import WholeTest

NAMES = ("losses.txt", "val_losses.txt", "val_accuracies.txt")


class Transport(WholeTest):
    """Three nodes, one cluster."""

    def plan(self, **settings):
        self.write_settings(epochs=20, micro_batches=4, checkpoint_every="50 steps", keep_checkpoints=100, **settings)
        self.run_program("clusterize")
        [cluster] = json.loads((self.node_data / "plan.json").read_text())["clusters"]
        self.assertEqual(len(cluster["stages"]), 3)
        return cluster

    def results(self):
        trained = sorted(self.node_data.glob("cluster_0/*/trained.safetensors"))
        self.assertEqual(len(trained), 3)
        return [(self.folder / name).read_text() for name in NAMES], [path.read_bytes() for path in trained]

    def accuracy(self):
        return float((self.folder / "val_accuracies.txt").read_text().split()[-1])

    def test_fewer_bits_train_nearly_as_well_and_to_the_same_bits(self):
        as_it_is = self.plan()
        self.run_program("launch")
        exact, accuracy = self.results(), self.accuracy()

        self.assertGreater(accuracy, 50)
        encoded = self.plan(transport={"activations": "fp16", "gradients": "int8"})
        ops = [[stage["ops"] for stage in cluster["stages"]] for cluster in (as_it_is, encoded)]
        if ops[0] == ops[1]:
            for before, after in zip(as_it_is["links"], encoded["links"], strict=True):
                self.assertLessEqual(after["activation_bytes"], before["activation_bytes"])
                self.assertLessEqual(after["gradient_bytes"], 0.3 * before["gradient_bytes"])
        self.run_program("launch")
        first = self.results()
        self.assertNotEqual(first, exact, "nothing was encoded")
        self.assertLess(abs(self.accuracy() - accuracy), 5)

        self.run_program("launch", "--threads", "2")
        self.assertEqual(self.results(), first)

        for folder in (self.node_data / "checkpoints").iterdir():
            if int(folder.name) > 150:
                shutil.rmtree(folder)
        output, _ = self.run_program("launch", "--resume")
        self.assertIn("going on after step 150", output)
        self.assertEqual(self.results(), first)

    def test_differences_of_samples_train_to_the_same_bits_and_are_in_checkpoints(self):
        exact = self.plan()
        self.run_program("launch")
        accuracy = self.accuracy()

        cluster = self.plan(transport={"activations": "int4_delta", "gradients": "int8"})
        moved = [sum(link["activation_bytes"] for link in each["links"]) for each in (exact, cluster)]
        self.assertLess(moved[1], 0.3 * moved[0])
        self.run_program("launch")
        first = self.results()
        self.assertLess(abs(self.accuracy() - accuracy), 5)
        self.run_program("launch", "--threads", "2")
        self.assertEqual(self.results(), first)

        # What the Root sends the next stage: both have it.
        with_state = [path for path in (self.node_data / "checkpoints" / "150").iterdir() if b"reconstruction/" in path.read_bytes()]
        self.assertGreaterEqual(len(with_state), 2)

        # Stopped by a signal, in the middle of an epoch.
        launch = self.start("launch")
        self.wait_for_steps(170)
        launch.popen.send_signal(signal.SIGINT)
        launch.wait()
        output, _ = self.run_program("launch", "--resume")
        self.assertIn("going on after step", output)
        self.assertEqual(self.results(), first)
        for folder in (self.node_data / "checkpoints").iterdir():
            if int(folder.name) > 150:
                shutil.rmtree(folder)
        self.run_program("launch", "--resume")
        self.assertEqual(self.results(), first)
        self.run_program("model_fusion", "--cluster-id", "0")
        self.run_program("model_fusion", "--checkpoint", "--out", "from_checkpoint")
        trained, checkpoint = (self.folder / folder / "trained_state_dict.safetensors" for folder in ("trained", "from_checkpoint"))
        self.assertEqual(trained.read_bytes(), checkpoint.read_bytes())

    def test_differences_begin_anew_in_another_cut(self):
        self.plan(transport={"activations": "int8_delta"})
        self.run_program("launch")
        self.write_pool(2)
        self.write_settings(epochs=30, transport={"activations": "int8_delta"})
        self.run_program("clusterize", "--resume")
        output, _ = self.run_program("launch")
        self.assertIn("going on after step", output)
        self.assertGreater(self.accuracy(), 50)


if __name__ == "__main__":
    unittest.main()
