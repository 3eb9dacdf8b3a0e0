"""Folders of images: the job of docs/data.md as it stands there, on small pictures; and that neither readers, caches, nor
where a run was stopped make a difference."""

import json
import re
import signal
import unittest

import numpy as np
from pictures import write_pictures
from whole import ROOT, SLOWER, WholeTest

LOGS = ("losses.txt", "val_losses.txt")
SMALL = {"epochs": 2, "batch_size": 8, "optimizer": {"name": "adam", "learning_rate": 0.003}}


def documented_commands():
    """The lines of the first two blocks of commands in docs/data.md: before training and up to it, and after."""
    blocks = re.findall(r"(?:^    .+\n)+", (ROOT / "docs" / "data.md").read_text(), re.MULTILINE)
    commands = [block for block in blocks if "clusterize" in block or "evaluate" in block]
    return [line.split() for block in commands[:2] for line in block.splitlines()]


class Data(WholeTest):
    def setUp(self):
        super().setUp()
        write_pictures(self.node_data / "datasets" / "pets", 40, broken=1)
        (self.node_data / "jobs").symlink_to(ROOT / "node_data" / "jobs")

    def write_job(self, name="cats_and_dogs", **changes):
        """A job of node_data/jobs, smaller."""
        job = json.loads((ROOT / "node_data" / "jobs" / f"{name}.json").read_text())
        job["model"] = "small_xception?image_size=32&classes=2&width=0.1"
        job["data"] = job["data"].replace("size=180", "size=32")
        (self.node_data / "train.json").write_text(json.dumps(job | SMALL | changes))

    def test_as_documented(self):
        commands = documented_commands()
        self.assertEqual([line[0] for line in commands], ["cp", "clusterize", "launch", "model_fusion", "evaluate"])
        self.assertEqual(commands[0][1:], ["node_data/jobs/cats_and_dogs.json", "node_data/train.json"])
        self.write_job(epochs=2 if SLOWER > 1 else 30)
        _, warnings = self.run_program(*commands[1])
        self.assertIn("2 of 82 files", warnings)
        self.assertIn("broken_0.jpg (JPEG: ", warnings)
        for line in commands[2:4]:
            self.run_program(*line)
        report = json.loads(self.run_program(*commands[4], "--json")[0])
        self.assertEqual(report["samples"], 16)
        if SLOWER == 1:
            self.assertLess(report["loss"], 0.6, "guessing has 0.69")

    def results(self):
        return [(self.folder / log).read_text() for log in LOGS]

    def train_with(self, **changes):
        self.write_job(**changes)
        self.run_program("clusterize")
        self.run_program("launch")
        return self.results()

    def test_readers_and_caches_make_no_difference(self):
        expected = self.train_with(readers=1, prefetch=1, cache_mib=0)
        self.assertEqual(self.train_with(readers=8, prefetch=3), expected)
        (self.node_data / "datasets" / "pets" / ".rookery_images").unlink()
        self.assertEqual(self.train_with(), expected)
        self.assertNotEqual(self.train_with(augment=[]), expected)

    def test_arrays_larger_than_the_cache_train_the_same(self):
        arrays = self.node_data / "datasets" / "arrays"
        arrays.mkdir()
        random = np.random.default_rng(1)
        np.save(arrays / "input.npy", random.integers(0, 256, (300, 784), np.uint8))
        np.save(arrays / "labels.npy", random.integers(0, 10, 300).astype(np.int16))
        job = {"model": "deep_mlp", "data": "numpy:datasets/arrays", "augment": [],
               "loss": "cross_entropy"}
        expected = self.train_with(**job)
        self.assertEqual(self.train_with(**job, cache_mib=0, readers=1, prefetch=1), expected)
        self.assertEqual(self.train_with(**job, cache_mib=0, readers=8), expected)
        # Another array of the same size, which the plan of the one in memory was not made for.
        self.write_job(**job)
        self.run_program("clusterize")
        np.save(arrays / "labels.npy", random.integers(0, 10, 300).astype(np.int16))
        _, errors = self.run_program("launch", code=1)
        self.assertIn("has another content than the plan was made for", errors)

    def test_a_run_that_is_stopped_in_mid_epoch_goes_on_with_the_same_samples(self):
        expected = self.train_with(epochs=3)
        self.run_program("clusterize")
        for log in LOGS:
            (self.folder / log).unlink()
        launch = self.start("launch")
        self.wait_for_steps(11)
        launch.popen.send_signal(signal.SIGINT)
        self.assertIn(launch.wait(), (0, 130), launch.errors())
        self.run_program("launch", "--resume")
        self.assertEqual(self.results(), expected)

    def test_a_root_whose_images_are_others_says_so(self):
        self.write_job()
        self.run_program("clusterize")
        pets = self.node_data / "datasets" / "pets"
        (pets / "cats" / "0.jpg").write_bytes((pets / "dogs" / "0.jpg").read_bytes())
        (pets / ".rookery_images").unlink()
        _, errors = self.run_program("launch", code=1)
        self.assertIn("has another content than the plan was made for", errors)
        # With the index at hand the file is found when it is read.
        self.run_program("clusterize")
        (pets / "cats" / "0.jpg").write_bytes((pets / "cats" / "1.jpg").read_bytes())
        _, errors = self.run_program("launch", code=1)
        self.assertIn("cats/0.jpg: has changed since", errors)


if __name__ == "__main__":
    unittest.main()
