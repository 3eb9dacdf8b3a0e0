"""What clusterize tells about a plan: --simulate, --explain, --svg, --gantt."""

import json
import re
import subprocess
import unittest
import xml.etree.ElementTree

from whole import ROOT, WholeTest


class Tell(WholeTest):
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
        del document["tensors"]
        self.assertEqual(document, plan)
        self.assertEqual(simulation["epochs"], 7)
        self.assertEqual([node["node"] for node in simulation["nodes"]], ["node_0", "node_1", "node_2"])

    def test_staleness_is_planned_for_and_bounded(self):
        self.write_settings(schedule="async")
        three = ["--clusters", "1", "--min-nodes-per-cluster", "3"]
        for options, expected in ((three, [2, 1, 0]), ([*three, "--max-staleness", "1"], [1, 1, 0])):
            document = self.simulate(*options, "--gantt", "steps.svg")
            self.assertEqual([stage["staleness"] for stage in document["clusters"][0]["stages"]], expected)
            self.assertIn("8 steps of cnn_net", (self.folder / "steps.svg").read_text())
        metadata = json.loads((self.node_data / "nodes" / "node_0.json").read_text())
        self.assertEqual(metadata["settings"]["max_staleness"], 1)
        output, _ = self.run_program("clusterize", *three)
        self.assertIn("up to 2 updates newer", output)

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

    def test_explanations(self):
        output, _ = self.run_program("clusterize", "--explain")
        for part in ("Why: ", "Bottleneck: ", "With one more node like node_"):
            self.assertIn(part, output)
        output, _ = self.run_program("clusterize", "--explain", "--json", "--exclude", "2")
        document = json.loads(output)
        self.assertEqual(document["left_out"], [{"node": "node_2", "reason": "excluded by --exclude"}])
        self.assertIn(document["explanation"]["bottleneck"]["kind"], ["node", "link", "connection"])
        self.assertGreaterEqual(len(document["explanation"]["what_if"]), 2)

    def test_pictures(self):
        self.run_program("clusterize", "--svg", "plan.svg", "--gantt", "step.svg")
        for name in ("plan.svg", "step.svg"):
            root = xml.etree.ElementTree.parse(self.folder / name).getroot()
            texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
            for node in ("node_0", "node_1", "node_2"):
                self.assertIn(node, texts)

    def test_a_measured_step_beside_the_simulated_one(self):
        self.write_settings(schedule="zb", micro_batches=4, epochs=2)
        nodes = [f"node_{i}" for i in range(3)]
        self.run_program("clusterize")
        providers = [self.start("provider", "--name", node, "--trace", f"{node}.json") for node in nodes]
        for provider in providers:
            self.assertEqual(provider.wait(), 0, provider.errors())
        trace = json.loads((self.folder / "node_1.json").read_text())
        names = {event["name"] for event in trace["traceEvents"]}
        self.assertLessEqual({"forward", "backward: inputs", "backward: weights", "update"}, names)
        measured = ["--measured", *(f"{node}.json" for node in nodes)]
        self.run_program("clusterize", "--gantt", "step.svg", *measured)
        picture = (self.folder / "step.svg").read_text()
        self.assertIn("Measured: step ", picture)
        for node in nodes:
            self.assertEqual(picture.count(f">{node}</text>"), 2)
        self.write_settings(schedule="zb", micro_batches=2)
        _, errors = self.run_program("clusterize", "--gantt", "step.svg", *measured, code=1)
        self.assertIn("node_0.json: it is of a run of plan ", errors)
        _, errors = self.run_program("provider", "--name", "node_0", "--trace", "nowhere/node_0.json", code=1)
        self.assertIn("nowhere/node_0.json", errors)

    def test_the_example_of_the_readme(self):
        (self.folder / "docs").symlink_to(ROOT / "docs")
        lines = re.findall(r"^    ((?:cp|clusterize) .*my_pool.*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
        self.assertEqual(len(lines), 2)
        copy, command = (line.split() for line in lines)
        subprocess.run(copy, cwd=self.folder, check=True)
        output, _ = self.run_program(*command)
        for part in ("Left out: node_3: at best", "Bottleneck: ", "One step: "):
            self.assertIn(part, output)
        self.assertTrue((self.folder / "plan.svg").exists() and (self.folder / "step.svg").exists())

    def test_a_picture_that_cannot_be_written_leaves_the_old_plan(self):
        self.run_program("clusterize")
        before = (self.node_data / "plan.json").read_bytes()
        self.write_pool(2)
        for option in ("--svg", "--gantt"):
            with self.subTest(option):
                _, errors = self.run_program("clusterize", option, "nowhere/picture.svg", code=1)
                self.assertIn("nowhere/picture.svg", errors)
                self.assertEqual((self.node_data / "plan.json").read_bytes(), before)
                self.assertFalse((self.folder / "nowhere").exists())

    def test_a_plan_that_is_refused_leaves_the_old_pictures(self):
        self.run_program("clusterize")
        before = {name: (self.node_data / name).read_bytes() for name in ("plan.svg", "step.svg", "plan.json")}
        self.write_pool(2)
        (self.folder / "trace.json").write_text("{}")
        self.run_program("clusterize", "--measured", "trace.json", code=1)
        for name, content in before.items():
            self.assertEqual((self.node_data / name).read_bytes(), content, name)

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
            "--max-staleness -1": ["--max-staleness=-1"],
            "--restart nan": ["--simulate", "--failures", "1", "--restart", "nan"],
            "--restart needs --failures": ["--simulate", "--restart", "5"],
            "--exclude: there is no node '9'": ["--exclude", "node_9"],
            "--exclude: all nodes": ["--exclude", "0", "--exclude", "1", "--exclude", "2"],
        }
        for message, arguments in cases.items():
            with self.subTest(message):
                _, errors = self.run_program("clusterize", *arguments, code=2)
                self.assertIn(message, errors)
        self.assertFalse((self.node_data / "plan.json").exists())


if __name__ == "__main__":
    unittest.main()
