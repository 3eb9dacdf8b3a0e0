"""clusterize run again: what was trained stays, and a plan that is used is not replaced."""

import fcntl
import json
import os
import signal
import unittest

from whole import WholeTest


class Kept(WholeTest):
    def plan_id(self):
        return json.loads((self.node_data / "plan.json").read_text())["plan_id"]

    def trained(self):
        """Bytes of all trained weights."""
        return {path.relative_to(self.node_data): path.read_bytes()
                for path in self.node_data.glob("cluster_*/*/trained.safetensors")}

    def test_the_same_plan_again_changes_nothing(self):
        self.train(3)
        before, losses = self.trained(), self.losses()
        self.assertEqual(len(before), 3)
        output, _ = self.run_program("clusterize")
        self.assertIn("node_data holds this plan already: nothing was changed", output)
        self.run_program("clusterize", "--json")
        self.assertEqual(self.trained(), before)
        self.assertEqual(self.losses(), losses)

    def test_another_plan_keeps_what_was_trained_before(self):
        self.train(3)
        before, first = self.trained(), self.plan_id()
        _, errors = self.run_program("clusterize", "--seed", "7")
        kept = self.node_data / "kept" / first
        self.assertIn(f"node_data/kept/{first}", errors)
        self.assertNotEqual(self.plan_id(), first)
        self.assertEqual(self.trained(), {})
        self.assertEqual({path: (kept / path).read_bytes() for path in before}, before)
        self.run_program("model_fusion", "--node-data", kept)
        self.run_program("evaluate", "--state", kept / "cluster_0")
        _, errors = self.run_program("clusterize", "--seed", "8")  # nothing was trained
        self.assertNotIn("kept", errors)

    def test_a_plan_that_is_run_stays(self):
        self.write_settings(epochs=100000)
        self.run_program("clusterize")
        before = self.plan_id()
        providers = self.start_providers(3)
        self.wait_for_steps(1)
        _, errors = self.run_program("clusterize", "--seed", "7", code=1)
        for process in providers.values():
            self.assertIn(f"process {process.popen.pid} (provider)", errors)
        self.run_program("clusterize")  # the same: nothing to do
        self.assertEqual(self.plan_id(), before)
        for process in providers.values():
            process.popen.send_signal(signal.SIGKILL)
            process.popen.wait()
        self.run_program("clusterize", "--seed", "7")
        self.assertNotEqual(self.plan_id(), before)

    def test_several_at_once_plan_one_after_the_other(self):
        for seeds in ([None] * 4, [1, 2, 3, 4]):
            with self.subTest(seeds=seeds):
                arguments = [["--seed", str(seed)] if seed else [] for seed in seeds]
                planners = [self.start("clusterize", *each) for each in arguments]
                for process in planners:
                    self.assertEqual(process.wait(), 0, process.errors())
                    self.assertNotIn("cannot", process.errors())
                settings = json.loads((self.node_data / "nodes" / "node_0.json").read_text())["settings"]
                self.assertIn(settings["seed"], [seed or 42 for seed in seeds])
                self.run_program("launch")

    def wait_behind_lock(self, name, program, *arguments):
        """Runs it to the end while this process holds a lock, and then no more; what it said."""
        with open(self.node_data / name, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            process = self.start(program, *arguments)
            told = f"waiting for process {os.getpid()} (python3"
            self.wait_for(lambda: told in process.output() + process.errors(), "the word")
            self.assertIsNone(process.popen.poll())
        self.assertEqual(process.wait(), 0, process.errors())

    def test_who_is_waited_for_is_told(self):
        self.write_pool(1)
        self.wait_behind_lock(".planning.lock", "clusterize")
        self.wait_behind_lock(".plan.lock", "provider", "--name", "node_0")


if __name__ == "__main__":
    unittest.main()
