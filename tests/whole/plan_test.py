"""What clusterize plans, and what it leaves alone when it cannot."""

import json
import pathlib
import shutil
import unittest

from whole import BIN, Process, WholeTest


class Plan(WholeTest):
    def roles(self):
        nodes = sorted((self.node_data / "nodes").glob("node_*.json"))
        return {path.stem: json.loads(path.read_text())["role"] for path in nodes}

    def files(self):
        """Every file that clusterize made, with its bytes."""
        made = [self.node_data / "nodes", *self.node_data.glob("cluster_*")]
        return {path: path.read_bytes() for folder in made for path in folder.rglob("*") if path.is_file()}

    def test_three_nodes_for_every_seed(self):
        for seed in (1, 2, 3, 42, 1000):
            with self.subTest(seed=seed):
                self.write_settings(seed=seed)
                self.run_program("clusterize")
                self.assertEqual(self.roles(), {"node_0": "root", "node_1": "stem", "node_2": "leaf"})

    def test_two_nodes_and_one(self):
        self.write_pool(2)
        self.run_program("clusterize")
        self.assertEqual(self.roles(), {"node_0": "root", "node_1": "leaf"})
        self.write_pool(1)
        self.run_program("clusterize")
        self.assertEqual(self.roles(), {"node_0": "root_leaf"})

    def test_the_same_input_gives_the_same_plan(self):
        self.run_program("clusterize")
        first = self.files()
        self.run_program("clusterize")
        self.assertEqual(first, self.files())

    def test_rings_are_printed(self):
        output, _ = self.run_program("clusterize")
        self.assertIn("Ring IDs({0: 'conv2d_1.weight'})", output)

    def test_six_nodes_make_two_clusters(self):
        self.write_pool(6)
        output, _ = self.run_program("clusterize")
        clusters = [json.loads(path.read_text())["cluster"] for path in (self.node_data / "nodes").glob("*.json")]
        self.assertEqual(sorted(clusters), [0, 0, 0, 1, 1, 1])
        self.assertIn("Start each node's provider", output)

    def test_clusters_may_be_one(self):
        self.write_pool(7)
        output, _ = self.run_program("clusterize", "--clusters", "1")
        self.assertIn("Start each node's provider", output)
        plan = json.loads((self.node_data / "plan.json").read_text())
        self.assertEqual([len(cluster["stages"]) for cluster in plan["clusters"]], [7])

    def test_a_missing_file_is_told_with_what_to_do(self):
        _, errors = self.run_program("clusterize", "--node-data", "nowhere", code=1)
        self.assertIn("nowhere: there is no node_configs.json", errors)
        self.assertIn("--node-data DIR", errors)
        (self.node_data / "train.json").unlink()
        _, errors = self.run_program("clusterize", code=1)
        self.assertIn('there is no train.json: write one, e.g. {"model": "cnn_net"', errors)

    def test_help_is_plain(self):
        output, _ = self.run_program("clusterize", "--help")
        words = " ".join(output.split())
        for text in (
            "--min-nodes-per-cluster N minimum nodes per cluster; default: 3 with the objective similar, otherwise 1",
            "--list-models list models with their sizes, costs and options, then exit",
            "--clusters N exact number of clusters",
        ):
            self.assertIn(text, words)
        self.assertNotIn(" arg ", words)

    def test_names_do_where_an_object_has_one(self):
        self.write_settings(optimizer="adam", learning_rate_schedule="cosine")
        self.run_program("clusterize")
        settings = json.loads((self.node_data / "nodes" / "node_0.json").read_text())["settings"]
        self.assertEqual(settings["optimizer"]["name"], "adam")
        self.assertEqual(settings["optimizer"]["learning_rate"], 0.001)
        self.assertEqual(settings["learning_rate_schedule"]["name"], "cosine")

    def test_host_names_with_underscores(self):
        (self.node_data / "node_configs.json").write_text(json.dumps(
            {"0": {"IP": "lab_pc_3:8080", "benchmarks": {"ram": 8, "bandwidth": 10}}}))
        self.run_program("clusterize")
        self.assertTrue((self.node_data / "cluster_0" / "lab_pc_3:8080" / "submod.onnx").exists())

    def test_provider_symlinks(self):
        self.run_program("clusterize")
        for i in range(3):
            link = BIN / f"provider_{i}"
            self.assertTrue(link.is_symlink() or link.is_file(), link)
            self.assertEqual(link.resolve().name, "provider")

    def test_provider_symlinks_of_installed_programs_are_where_one_works(self):
        installed = self.folder / "opt" / "bin"
        installed.mkdir(parents=True)
        for program in ("clusterize", "provider", "launch"):
            shutil.copy(BIN / program, installed)
        output, _ = self.run_program(installed / "clusterize")
        self.assertEqual({path.name for path in installed.iterdir()}, {"clusterize", "provider", "launch"})
        for i in range(3):
            self.assertEqual((self.folder / f"provider_{i}").resolve(), (installed / "provider").resolve())
        self.assertIn("Start each node's provider with ./provider_0, ./provider_1, ./provider_2 (opt/bin/provider --name node_N is the "
                      "same), or all of them on this machine with opt/bin/launch.", output)
        providers = [Process([f"./provider_{i}"], self.folder) for i in range(3)]
        for process in providers:
            self.addCleanup(process.close)
        self.assertEqual([process.wait() for process in providers], [0, 0, 0])

    def assert_refused(self, name, text, *parts):
        """This text as node_data/NAME is refused in words that hold these parts; the old plan stays."""
        self.run_program("clusterize")
        before = self.files()
        path = self.node_data / name
        good = path.read_text()
        path.write_text(text)
        _, errors = self.run_program("clusterize", code=1)
        path.write_text(good)
        for part in (name, *parts):
            self.assertIn(part, errors)
        self.assertEqual(before, self.files())

    def test_bad_pools_leave_the_old_plan(self):
        node = {"IP": "127.0.0.1:9000", "benchmarks": {"ram": 8, "bandwidth": 10}}
        cases = {
            "not JSON": ('{"0": ', []),
            "negative memory": (
                json.dumps({"1": {**node, "benchmarks": {"ram": -8, "bandwidth": 10}}}), ["ram", "-8"]),
            "unknown key": (json.dumps({"0": {**node, "colour": "red"}}), ["colour"]),
            "memory as text": (
                json.dumps({"0": {**node, "benchmarks": {"ram": "8GB", "bandwidth": 10}}}),
                ['node_configs.json: 0/benchmarks/ram: "8GB" is not a number of GB, e.g. 8\n']),
            "no memory": (
                json.dumps({"0": {**node, "benchmarks": {"bandwidth": 10}}}),
                ["node_configs.json: 0/benchmarks/ram: is missing: give a positive number of GB, e.g. 8\n"]),
            "two nodes with one address": (json.dumps({"0": node, "1": node}), ["127.0.0.1:9000"]),
            "no port": (json.dumps({"0": {**node, "IP": "127.0.0.1"}}), ["127.0.0.1"]),
            "a billion GB": (
                json.dumps({"1": {**node, "benchmarks": {"ram": 1e9, "bandwidth": 10}}}),
                ["node_configs.json: 1/benchmarks/ram", "is it in GB?"]),
            "far beyond": (
                '{"1": {"IP": "a:1", "benchmarks": {"ram": 8, "bandwidth": 1e300}}}',
                ["node_configs.json: 1/benchmarks/bandwidth", "is it in Mbit/s?"]),
            "beyond any number": ('{"1": {"IP": "a:1", "benchmarks": {"ram": 1e999, "bandwidth": 1}}}', ["1e999"]),
            "not a number": ('{"1": {"IP": "a:1", "benchmarks": {"ram": NaN, "bandwidth": 1}}}', []),
            "too little memory": (
                json.dumps({"0": {**node, "benchmarks": {"ram": 0.0001, "bandwidth": 10}}}),
                ["node_configs.json", "on one machine it takes", "more or larger machines are needed"]),
            "empty": ("{}", []),
        }
        for case, (text, parts) in cases.items():
            with self.subTest(case):
                self.assert_refused("node_configs.json", text, *parts)

    def test_bad_settings_leave_the_old_plan(self):
        good = json.loads((self.node_data / "train.json").read_text())
        cases = {
            "unknown key": ({"epoch": 3}, ["epoch"]),
            "wrong type": ({"epochs": "many"}, ["epochs"]),
            "out of range": ({"batch_size": 0}, ["batch_size", "0"]),
            "unknown model": ({"model": "cnn_nett"}, ["cnn_nett", "cnn_net"]),
            "nothing near": ({"device": "cuda"}, ["train.json: device: there is no such key; there are model, "]),
            "unknown schedule": ({"schedule": "2f2b"}, ["2f2b", "1f1b", "auto"]),
            "micro-batches in words": ({"micro_batches": "many"}, ["micro_batches", "4096, or \"auto\""]),
        }
        for case, (change, parts) in cases.items():
            with self.subTest(case):
                self.assert_refused("train.json", json.dumps(good | change), *parts)


if __name__ == "__main__":
    unittest.main()
