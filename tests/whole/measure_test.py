"""Nobody has to guess a number: node_benchmark fills node_configs.json, clusterize --profile predicts from what it
measures, and providers end with both figures."""

import json
import os
import shutil
import signal
import subprocess
import unittest

from whole import BIN, Process, WholeTest, is_taken

QUICK = ("--seconds", "0.2", "--wait", "2")


class Measure(WholeTest):
    def pool(self):
        return json.loads((self.node_data / "node_configs.json").read_text())

    def test_a_machine_is_measured_by_itself(self):
        found = json.loads(self.run_program("node_benchmark", *QUICK, "--json")[0])
        for figure in ("ram", "gflops", "products_gflops", "convolutions_gflops", "elementwise_gbps", "update_gbps"):
            self.assertGreater(found[figure], 0, figure)

    def test_links_are_measured_and_what_is_missing_is_named(self):
        server = self.start("node_benchmark", "--serve", f"127.0.0.1:{self.ports[0]}")
        self.wait_for(lambda: is_taken(self.ports[0]), "the server")
        before = self.pool()
        output, errors = self.run_program("node_benchmark", "--write", self.node_data / "node_configs.json",
                                          "--node", "2", *QUICK)
        self.assertRegex(output, r"node_0 +[0-9.]+ ms, \d+ Mbit/s to it and \d+ Mbit/s from it")
        self.assertIn(f"skipped node_1: 127.0.0.1:{self.ports[1]}: no answer within", errors)
        after = self.pool()
        self.assertEqual([after[id] for id in "01"], [before[id] for id in "01"])
        measured = set(after["2"]["benchmarks"]) - {"transfer_gbps"}  # which is there where others keep processors busy
        self.assertEqual(measured, {"ram", "bandwidth", "gflops"})
        self.assertEqual(after["2"]["threads"], max(1, len(os.sched_getaffinity(0)) // 3), "its share of the processors")
        self.assertEqual([link["between"] for link in after["network"]["links"]], [["2", "0"]])
        self.run_program("clusterize", "--clusters", "1")
        server.popen.send_signal(signal.SIGINT)
        self.assertEqual(server.wait(), 130)

    def two_machines(self):
        """Names of two network namespaces, 10.201.0.1 and 10.201.0.2, that a cable connects."""
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("iptables"):
            self.skipTest("network namespaces need root, iproute2 and iptables")
        names = [f"rookery-{os.getpid()}-{side}" for side in "ab"]
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
            self.addCleanup(subprocess.run, ["ip", "netns", "del", name], check=True)
        subprocess.run(["ip", "link", "add", "cable", "netns", names[0], "type", "veth",
                        "peer", "name", "cable", "netns", names[1]], check=True)
        for number, name in enumerate(names, start=1):
            for command in (["addr", "add", f"10.201.0.{number}/24", "dev", "cable"],
                            ["link", "set", "cable", "up"], ["link", "set", "lo", "up"]):
                subprocess.run(["ip", "-n", name, *command], check=True)
        return names

    def start_in(self, namespace, program, *arguments):
        process = Process(["ip", "netns", "exec", namespace, BIN / program, *arguments], self.folder)
        self.addCleanup(process.close)
        return process

    def test_a_machine_that_lets_nobody_in_is_found_out_and_trains(self):
        inside, outside = self.two_machines()
        drop = ["iptables", "-A", "INPUT", "-i", "cable", "-p", "tcp", "--syn", "-j", "DROP"]
        subprocess.run(["ip", "netns", "exec", inside, *drop], check=True)
        pool = self.node_data / "node_configs.json"
        benchmarks = {"ram": 8, "bandwidth": 10}
        pool.write_text(json.dumps({str(i): {"IP": f"10.201.0.{i + 1}:8080", "benchmarks": benchmarks}
                                    for i in range(2)}))
        server = self.start_in(outside, "node_benchmark", "--serve", "10.201.0.2:8080")
        self.wait_for(lambda: "answering" in server.output(), "the server")

        def measure():
            process = self.start_in(inside, "node_benchmark", "--write", pool, "--node", "0", *QUICK)
            self.assertEqual(process.wait(), 0, process.errors())
            return process.output()

        self.assertRegex(measure(), r"reachable +no: node_1 could not open a connection to this machine")
        self.assertIs(self.pool()["0"]["reachable"], False)
        self.assertNotIn("reachable", self.pool()["1"])
        output, _ = self.run_program("clusterize", "--min-nodes-per-cluster", "2", "--json")
        stages = json.loads(output)["clusters"][0]["stages"]
        self.assertEqual(len(stages), 2)
        self.assertTrue(all(stage.get("reachable", True) == (stage["node"] != "node_0") for stage in stages))
        server.popen.send_signal(signal.SIGINT)
        self.assertEqual(server.wait(), 130)

        # They train together, to the bits of two machines that can reach each other.
        providers = [self.start_in(namespace, "provider", "--name", f"node_{i}", "--wait-for-peers", "60")
                     for i, namespace in enumerate((inside, outside))]
        for provider in providers:
            self.assertEqual(provider.wait(), 0, provider.output() + provider.errors())
        losses = self.losses()

        subprocess.run(["ip", "netns", "exec", inside, "iptables", "-F"], check=True)
        server = self.start_in(outside, "node_benchmark", "--serve", "10.201.0.2:8080")
        self.wait_for(lambda: "answering" in server.output(), "the server")
        self.assertNotIn("reachable ", measure())
        self.assertNotIn("reachable", self.pool()["0"])
        server.popen.send_signal(signal.SIGINT)
        self.assertEqual(server.wait(), 130)

        self.write_pool(2)
        self.train(2)
        self.assertEqual(self.losses(), losses)

    def test_without_links_what_is_known_of_them_stays(self):
        before = self.pool()
        before["network"] = {"links": [{"between": ["2", "0"], "latency_ms": 1, "bandwidth_mbps": 5}]}
        (self.node_data / "node_configs.json").write_text(json.dumps(before))
        _, errors = self.run_program("node_benchmark", "--write", self.node_data / "node_configs.json",
                                     "--node", "2", "--no-links", "--threads", "2", *QUICK)
        after = self.pool()
        self.assertNotIn("skipped", errors)
        self.assertGreater(after["2"]["benchmarks"].pop("gflops"), 0)
        self.assertEqual(after["2"].pop("threads"), 2)
        before["2"]["benchmarks"]["ram"] = after["2"]["benchmarks"]["ram"]
        self.assertEqual(after, before)

    def test_which_node_it_is_has_to_be_said(self):
        pool = self.node_data / "node_configs.json"
        self.assertIn("--node", self.run_program("node_benchmark", "--write", pool, code=2)[1])
        self.assertIn("9", self.run_program("node_benchmark", "--write", pool, "--node", "9", code=2)[1])
        self.run_program("node_benchmark", "--write", pool, "--serve", "127.0.0.1:0", code=2)
        self.assertIn("--serve", self.run_program("node_benchmark", "--serve", "nonsense", code=2)[1])

    def test_predictions_come_from_the_profile_and_are_shown_beside_what_was_measured(self):
        self.run_program("clusterize", "--profile")
        profile = json.loads((self.node_data / "op_profile.json").read_text())
        nodes = [json.loads((self.node_data / "nodes" / f"node_{i}.json").read_text()) for i in range(3)]
        predicted = sum(node["prediction"]["forward_ms"] for node in nodes)
        # Three nodes on this machine; with one processor for each they have several threads.
        [(threads, times)] = profile["threads"].items()
        self.assertEqual({str(node["threads"]) for node in nodes}, {threads})
        measured = profile["input_seconds"] + sum(op["forward"] for op in times["ops"].values())
        self.assertAlmostEqual(predicted, 1e3 * measured, places=6)
        providers = [self.start("provider", "--name", f"node_{i}", "--json") for i in range(3)]
        for node, provider in zip(nodes, providers):
            self.assertEqual(provider.wait(), 0, provider.errors())
            times = json.loads(provider.output().splitlines()[-1])["times"]
            self.assertEqual(set(times), {"forward_ms", "backward_ms", "update_ms", "step_ms"})
            self.assertEqual(times["step_ms"]["predicted"], node["predicted_step_ms"])
            self.assertGreater(times["step_ms"]["measured"], times["forward_ms"]["measured"])

    def test_a_profile_of_another_batch_is_said_and_not_used(self):
        self.run_program("clusterize", "--profile")
        self.write_settings(batch_size=32)
        errors = self.run_program("clusterize")[1]
        self.assertIn("op_profile.json is not used: it was measured for micro-batches of 64, not of 32", errors)


if __name__ == "__main__":
    unittest.main()
