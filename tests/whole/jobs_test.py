"""The jobs of node_data/jobs: every one can be planned, and the sorter learns."""

import json
import shutil
import unittest

from pictures import write_pictures
from whole import ROOT, SLOWER, WholeTest

JOBS = sorted((ROOT / "node_data" / "jobs").glob("*.json"))


class Jobs(WholeTest):
    def write_job(self, name, **changes):
        job = json.loads((ROOT / "node_data" / "jobs" / f"{name}.json").read_text())
        (self.node_data / "train.json").write_text(json.dumps(job | changes))

    def test_every_job_can_be_planned(self):
        write_pictures(self.node_data / "datasets" / "pets", 50)
        for path in JOBS:
            with self.subTest(path.name):
                shutil.copy(path, self.node_data / "train.json")
                self.run_program("clusterize")

    def test_the_sorter_learns(self):
        self.write_job("sorter", epochs=3 if SLOWER > 1 else 40, validate_every=0)
        self.run_program("clusterize")
        self.run_program("launch")
        self.fuse()
        output, _ = self.run_program("evaluate", "--state", "trained/trained_state_dict.safetensors", "--json")
        report = json.loads(output)
        self.assertEqual(report["samples"], 146)
        self.assertEqual(report["decoded"]["percent"], 100 * report["decoded"]["right"] / 146)
        # Guessing finds a digit in three.
        self.assertGreater(report["accuracy"], 34 if SLOWER > 1 else 80)


if __name__ == "__main__":
    unittest.main()
