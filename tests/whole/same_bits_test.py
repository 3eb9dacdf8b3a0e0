"""The cut does not change the training: losses and fused weights are the same bits on any number of
nodes, in any order of starting."""

import json
import os
import unittest

from whole import WholeTest


class SameBits(WholeTest):
    def result(self, nodes, order=None, chunks=1, **settings):
        """Losses, accuracies and fused weights of a run on this many nodes."""
        self.write_settings(epochs=2, **settings)
        self.write_pool(nodes, chunks=chunks)
        self.train(nodes, order)
        self.fuse()
        names = ["losses.txt", "val_accuracies.txt", "trained/trained_state_dict.pt"]
        return {name: (self.folder / name).read_bytes() for name in names}

    def assert_same(self, one, other):
        for name in one:
            self.assertTrue(one[name] == other[name], f"{name} differs")
        self.assertEqual(len(one["losses.txt"].split()), 2 * 17)

    def test_one_to_five_nodes(self):
        alone = self.result(1)
        for nodes in (2, 3, 4, 5):
            with self.subTest(nodes=nodes):
                self.assert_same(alone, self.result(nodes))

    def test_any_number_of_threads(self):
        alone = self.result(1)
        self.write_settings(epochs=2)
        self.write_pool(3)
        self.run_program("clusterize")
        providers = [
            self.start("provider", "--name", f"node_{i}", "--threads", str(threads))
            for i, threads in enumerate((3, 1, 2))
        ]
        for provider in providers:
            self.assertEqual(provider.wait(), 0, provider.errors())
        self.fuse()
        self.assert_same(alone, {name: (self.folder / name).read_bytes() for name in alone})
        self.run_program("launch", "--threads", "2")
        self.assertEqual((self.folder / "losses.txt").read_bytes(), alone["losses.txt"])

    def test_all_processors_that_a_node_may_use_without_a_word(self):
        # On one processor; then on all, which is also the plan's memory.
        self.write_settings(epochs=2)
        self.write_pool(1)
        processors = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(processors)})
        self.addCleanup(os.sched_setaffinity, 0, processors)
        self.train(1)
        alone = (self.folder / "losses.txt").read_bytes()
        os.sched_setaffinity(0, processors)
        self.run_program("clusterize")
        [stage] = json.loads((self.node_data / "plan.json").read_text())["clusters"][0]["stages"]
        self.assertEqual(stage["threads"], len(processors))
        provider = self.start("provider", "--name", "node_0")
        self.assertEqual(provider.wait(), 0, provider.errors())
        self.assertIn(f"computes on {len(processors)} thread", provider.output())
        self.assertEqual((self.folder / "losses.txt").read_bytes(), alone)

    def test_several_connections_between_nodes_that_are_far_apart(self):
        alone = self.result(1)
        self.write_settings(epochs=2)
        self.write_pool(3)
        pool = json.loads((self.node_data / "node_configs.json").read_text())
        for node in "012":
            pool[node]["benchmarks"]["bandwidth"] = 1000
        pool["network"] = {"default": {"latency_ms": 100, "bandwidth_mbps": 1000}}
        (self.node_data / "node_configs.json").write_text(json.dumps(pool))
        self.run_program("clusterize", "--clusters", "1", "--min-nodes-per-cluster", "3")
        plan = json.loads((self.node_data / "plan.json").read_text())
        self.assertEqual([pair["connections"] for pair in plan["connections"]], [12, 12, 12])
        self.run_program("launch")
        self.fuse()
        self.assert_same(alone, {name: (self.folder / name).read_bytes() for name in alone})

    def test_threads_that_the_pool_gives(self):
        alone = self.result(1)
        self.write_settings(epochs=2)
        self.write_pool(3)
        pool = json.loads((self.node_data / "node_configs.json").read_text())
        for node, threads in zip("012", (2, 1, 1)):
            pool[node]["threads"] = threads
        (self.node_data / "node_configs.json").write_text(json.dumps(pool))
        self.run_program("clusterize")
        processors = len(os.sched_getaffinity(0))
        told = self.run_program("launch")[0]
        share = 2 if processors >= 4 else max(1, 2 * processors // 4)
        self.assertIn(f"computes on {share} thread", told)
        self.assertEqual((self.folder / "losses.txt").read_bytes(), alone["losses.txt"])

    def test_micro_batches(self):
        alone = self.result(1, micro_batches=4)
        self.assert_same(alone, self.result(3, micro_batches=4))
        self.assert_same(alone, self.result(3, micro_batches=4, schedule="zb", in_flight=4))

    def test_several_stages_on_each_machine(self):
        for settings in ({"clip_gradient_norm": 0.5}, {}):
            alone = self.result(1, micro_batches=4, **settings)
            for schedule in ("interleaved", "zbv"):
                with self.subTest(schedule=schedule, **settings):
                    self.assert_same(alone, self.result(3, chunks=2, micro_batches=4, schedule=schedule, **settings))
                    names = sorted(path.stem for path in (self.node_data / "nodes").iterdir())
                    self.assertEqual(names, [f"node_{i}{chunk}" for i in range(3) for chunk in ("", ".1")])

    def test_what_clusterize_chooses_trains_as_if_it_were_written(self):
        self.write_settings(epochs=2, micro_batches="auto", schedule="auto")
        # Slow machines, so that it is worth their while to cut batches.
        self.write_pool(3, bandwidth=1000, gflops=0.5)
        options = ["--clusters", "1", "--min-nodes-per-cluster", "3"]
        told, _ = self.run_program("clusterize", *options)
        plan = json.loads((self.node_data / "plan.json").read_text())
        chosen = {key: plan[key] for key in ("micro_batches", "schedule")}
        self.assertIn(f'Chosen: "micro_batches": {chosen["micro_batches"]}, "schedule": "{chosen["schedule"]}": ', told)
        self.assertEqual(chosen, {key: plan["schedule_choice"]["chosen"][key] for key in chosen})
        self.assertGreater(chosen["micro_batches"], 1)
        for node in (self.node_data / "nodes").iterdir():
            settings = json.loads(node.read_text())["settings"]
            self.assertEqual(chosen, {key: settings[key] for key in chosen})
        self.assertIn("holds this plan already", self.run_program("clusterize", *options)[0])
        self.run_program("launch")
        self.fuse()
        names = ["losses.txt", "val_accuracies.txt", "trained/trained_state_dict.pt"]
        automatic = {name: (self.folder / name).read_bytes() for name in names}
        self.assert_same(automatic, self.result(1, **chosen))

    def test_clipping_and_a_rate_that_follows_the_loss(self):
        settings = {
            "clip_gradient_norm": 0.02,
            "learning_rate_schedule": {"name": "plateau", "patience": 0, "threshold": 0.9, "metric": "training_loss"},
        }
        alone = self.result(1, **settings)
        self.assert_same(alone, self.result(3, **settings))

    def test_updates_that_are_taken_back(self):
        settings = {"micro_batches": 4, "schedule": "zb"}
        self.result(1, **settings)
        [lines] = self.folder.glob("runs/*/metrics.jsonl")
        lines = map(json.loads, lines.read_text().splitlines())
        norms = sorted(line["gradient_norm"] for line in lines if "gradient_norm" in line)
        settings["clip_gradient_norm"] = norms[len(norms) // 2]
        alone = self.result(1, **settings)
        self.write_settings(epochs=2, **settings)
        self.write_pool(3)
        self.run_program("clusterize", "--min-nodes-per-cluster", "3")
        providers = [self.start("provider", "--name", f"node_{i}", "--trace", f"{i}.json") for i in range(3)]
        for provider in providers:
            self.assertEqual(provider.wait(), 0, provider.errors())
        self.fuse()
        self.assert_same(alone, {name: (self.folder / name).read_bytes() for name in alone})
        names = [event["name"] for event in json.loads((self.folder / "0.json").read_text())["traceEvents"]]
        self.assertGreater(names.count("forward"), names.count("backward: inputs"), "no update was taken back")

    def test_any_order_of_starting(self):
        first = self.result(3, order=[0, 1, 2])
        self.assert_same(first, self.result(3, order=[2, 0, 1]))

    def test_asynchronous_runs_repeat_and_without_staleness_are_the_synchronous_one(self):
        first = self.result(3, schedule="async")
        self.assert_same(first, self.result(3, order=[2, 0, 1], schedule="async"))
        alone = self.result(1)
        self.assertNotEqual(first["losses.txt"], alone["losses.txt"])
        self.assert_same(alone, self.result(3, schedule="async", max_staleness=0))

    def test_another_seed_gives_other_losses(self):
        self.assertNotEqual(self.result(1)["losses.txt"], self.result(1, seed=7)["losses.txt"])


if __name__ == "__main__":
    unittest.main()
