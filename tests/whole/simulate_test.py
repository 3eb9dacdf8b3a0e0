"""clusterize --simulate: a plan's training, simulated."""

import json
import unittest

from whole import WholeTest


class Simulate(WholeTest):
    def simulate(self, *arguments):
        output, _ = self.run_program("clusterize", "--json", "--simulate", *arguments)
        return json.loads(output)

    def test_it_says_how_long_the_run_takes_and_what_every_node_does(self):
        output, _ = self.run_program("clusterize", "--simulate", "--epochs", "7", "--failures", "0.5")
        for part in ("7 epochs, 119 steps", "bubble", "computing", "node_0     → node_1", "peer_timeout_seconds"):
            self.assertIn(part, output)

    def test_the_plan_comes_with_the_simulation_as_json(self):
        document = self.simulate("--epochs", "7")
        plan = json.loads((self.node_data / "plan.json").read_text())
        simulation = document.pop("simulation")
        self.assertEqual(document, plan)
        self.assertEqual(simulation["epochs"], 7)
        self.assertEqual([node["node"] for node in simulation["nodes"]], ["node_0", "node_1", "node_2"])

    def test_the_same_seed_gives_the_same_run(self):
        options = ["--stragglers", "0.3:5", "--failures", "100"]
        first = self.simulate(*options)
        self.assertEqual(first, self.simulate(*options))
        self.assertNotEqual(first["simulation"], self.simulate(*options, "--seed", "7")["simulation"])

    def test_a_plan_that_is_there_stays_with_its_trained_weights(self):
        self.run_program("clusterize")
        weights = next((self.node_data / "cluster_0").iterdir()) / "trained.safetensors"
        weights.write_bytes(b"weights")
        self.run_program("clusterize", "--simulate")
        self.assertTrue(weights.exists())
        self.write_pool(2)
        self.run_program("clusterize", "--simulate")
        self.assertFalse(weights.exists())
        self.assertEqual(len(list((self.node_data / "nodes").iterdir())), 2)

    def test_wrong_usage(self):
        cases = {
            "--epochs": ["--epochs", "3"],
            "--stragglers": ["--stragglers", "0.1:2"],
            "--failures": ["--failures", "1"],
            "--epochs 0": ["--simulate", "--epochs", "0"],
            "--stragglers 2:1": ["--simulate", "--stragglers", "2:1"],
            "--stragglers 0.5:nan": ["--simulate", "--stragglers", "0.5:nan"],
            "PROBABILITY:FACTOR": ["--simulate", "--stragglers", "often"],
            "--failures -1": ["--simulate", "--failures=-1"],
            "--restart nan": ["--simulate", "--restart", "nan"],
        }
        for message, arguments in cases.items():
            with self.subTest(message):
                _, errors = self.run_program("clusterize", *arguments, code=2)
                self.assertIn(message, errors)
        self.assertFalse((self.node_data / "plan.json").exists())


if __name__ == "__main__":
    unittest.main()
