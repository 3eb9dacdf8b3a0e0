"""launch: all providers of a plan on this machine, watched together; and the logs of a run."""

import json
import re
import shutil
import unittest

from whole import SLOWER, WholeTest, is_taken


class Launch(WholeTest):
    def launch(self, *arguments):
        self.run_program("clusterize")
        output, errors = self.run_program("launch", *arguments)
        return output + errors

    def test_every_node_shows_its_progress(self):
        shown = self.launch()
        # The Leaf tells its loss to the others ten times a second: in so short a run perhaps never.
        for node, role, loss in (
            ("node_0", "root", "(loss .*)?"), ("node_1", "stem", "(loss .*)?"), ("node_2", "leaf", r"loss [\d.]+ .*"),
        ):
            self.assertRegex(
                shown,
                rf"{node} +{role} +epoch \d/2 +step \d+/34 +{loss} *(waits \d+% for node_\d +)?\d+ samples/s +(ETA|done)")
        self.assertIn("predicted", shown)

    def test_quiet_leaves_only_the_results(self):
        self.run_program("clusterize")
        output, errors = self.run_program("launch", "--quiet")
        self.assertEqual(errors, "")
        self.assertNotRegex(output, r"samples/s|step \d+/|all nodes are here")
        self.assertEqual(re.findall(r"^(node_\d): \d+ steps in ", output, re.MULTILINE), ["node_0", "node_1", "node_2"])

    def test_json_tells_every_event_and_how_it_ended(self):
        self.run_program("clusterize")
        output, _ = self.run_program("launch", "--json", "--progress-interval", "0")
        events = [json.loads(line) for line in output.splitlines()]
        self.assertEqual(events.pop(), {"event": "ended", "exit_code": 0})
        for node in ("node_0", "node_1", "node_2"):
            own = [event for event in events if event["node"] == node]
            self.assertEqual(own[-1]["event"], "done")
            steps = {event["step"] for event in own if event["event"] == "progress"}
            self.assertEqual(steps, set(range(1, 35)), node)

    def test_one_provider_trains_all_stages_of_its_machine(self):
        self.write_settings(epochs=1, micro_batches=4, schedule="zbv")
        output, _ = self.run_program("clusterize")
        self.assertRegex(output, r"(?m)^node_(\d)\.1 is a further stage of node_\1: ")
        self.assertNotIn("provider_0.1", output)
        output, _ = self.run_program("launch")
        self.assertEqual(
            re.findall(r"^(node_[\d.]+): 17 steps in ", output, re.MULTILINE),
            [stage["node"] for stage in json.loads((self.node_data / "plan.json").read_text())["clusters"][0]["stages"]])
        self.assertRegex(output, r"(?m)^node_\d\.1 +leaf ")
        self.assertEqual(len(self.losses()), 17)

    def test_json_tells_which_node_failed_first(self):
        self.run_program("clusterize")
        next(self.node_data.glob(f"cluster_0/*{self.ports[1]}/submod.onnx")).unlink()
        output, errors = self.run_program("launch", "--json", code=1)
        end = json.loads(output.splitlines()[-1])
        self.assertEqual((end["event"], end["exit_code"], end["failed_first"]), ("ended", 1, "node_1"))
        self.assertEqual(errors.splitlines()[-1], "launch: " + end["text"])

    def test_logs_are_fresh_and_the_older_ones_kept(self):
        self.launch()
        first = (self.folder / "losses.txt").read_text()
        accuracies = (self.folder / "val_accuracies.txt").read_text().split()
        self.assertEqual(len(first.split()), 2 * 17)
        self.assertEqual(len(accuracies), 2)
        self.assertTrue(all(0 <= float(accuracy) <= 100 for accuracy in accuracies))
        self.write_settings(epochs=1, seed=7)
        self.launch()
        self.assertEqual((self.folder / "losses.txt.1").read_text(), first)
        self.assertEqual(len(self.losses()), 17)

    def test_output_folder(self):
        (self.folder / "logs").mkdir()
        self.launch("--output", "logs")
        self.assertTrue((self.folder / "logs" / "losses.txt").exists())
        self.assertFalse((self.folder / "losses.txt").exists())

    def test_a_provider_of_another_plan_is_refused(self):
        wait = ["--wait-for-peers", str(4 * SLOWER)]
        self.run_program("clusterize")
        stale = self.start("provider", "--name", "node_0", *wait)
        self.wait_for(lambda: is_taken(self.ports[0]), "node_0 to listen")
        # As on another machine: clusterize replaces no plan that is used.
        shutil.copytree(self.node_data, self.folder / "other")
        self.run_program("clusterize", "--node-data", "other", "--seed", "7")
        other = self.start("provider", "--name", "node_1", "--node-data", "other", *wait)
        self.assertEqual([stale.wait(), other.wait()], [1, 1])
        self.assertIn("plan", other.errors() + stale.errors())


if __name__ == "__main__":
    unittest.main()
