"""What programs tell of a run where there is no terminal: lines for people, and JSON for programs."""

import json
import os
import pathlib
import signal
import socket
import unittest

from whole import WholeTest


class Progress(WholeTest):
    STEPS = 2 * 17

    def run_providers(self, *arguments):
        """The output of each."""
        self.run_program("clusterize")
        providers = [self.start("provider", "--name", f"node_{i}", *arguments) for i in range(3)]
        for process in providers:
            self.assertEqual(process.wait(), 0, process.errors())
        return [process.output() for process in providers]

    def run_json(self, *arguments):
        """The events of each."""
        return [[json.loads(line) for line in output.splitlines()] for output in self.run_providers("--json", *arguments)]

    def test_people_are_told_when_training_begins(self):
        for i, output in enumerate(self.run_providers()):
            self.assertRegex(output, rf"^node_{i}  \w+ +computes on \d+ threads? of \d+ processors?\n")
            told = [line for line in output.splitlines()[1:]
                    if not line.startswith(f"node_{i}  ") or "waiting" not in line]
            self.assertRegex(told[0], rf"^node_{i}  \w+ +all nodes are here: training$")
            self.assertEqual(output.count("all nodes are here"), 1)
            self.assertRegex(told[1], r"epoch 1/2  step \d+/34")
            self.assertLessEqual(sum(" step " in line for line in told), 12)
            self.assertRegex(output, rf"step 34/34 .*done\nnode_{i}: 34 steps in ")

    def test_programs_are_told_when_training_begins(self):
        for events in self.run_json():
            kinds = [event["event"] for event in events]
            self.assertEqual(kinds.count("training"), 1)
            self.assertLess(kinds.index("training"), kinds.index("progress"))
            self.assertEqual(kinds[-1], "done")

    def test_programs_are_told_as_often_as_they_ask(self):
        for events in self.run_json("--progress-interval", "1000"):
            steps = [event["step"] for event in events if event["event"] == "progress"]
            self.assertEqual(steps[0], 1)
            self.assertGreaterEqual(len(steps), 2)
            self.assertEqual(set(steps[1:]), {self.STEPS}, "the first and the last are always told")
        for events in self.run_json("--progress-interval", "0"):
            steps = {event["step"] for event in events if event["event"] == "progress"}
            self.assertEqual(steps, set(range(1, self.STEPS + 1)))

    def test_programs_are_told_of_a_failure(self):
        self.run_program("clusterize")
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", self.ports[1]))
            holder.listen()
            output, _ = self.run_program("provider", "--name", "node_1", "--json", code=1)
        event = json.loads(output.splitlines()[-1])
        self.assertEqual((event["event"], event["node"]), ("failed", "node_1"))
        self.assertIn("in use", event["text"])

    def test_wrong_intervals_are_wrong_usage(self):
        for interval in ("-1", "nan", "often"):
            _, errors = self.run_program("provider", "--name", "node_0", f"--progress-interval={interval}", code=2)
            self.assertIn("progress-interval", errors)


class RootCause(WholeTest):
    """launch says which provider failed first, though it sees the end of others before."""

    def setUp(self):
        super().setUp()
        self.write_settings(epochs=100000, peer_timeout_seconds=3.0)
        self.run_program("clusterize")
        self.launch = self.start("launch")
        self.wait_for_steps(20)

    def provider_of(self, node):
        """Its process id."""
        pid = self.launch.popen.pid
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if node in pathlib.Path(f"/proc/{child}/cmdline").read_text().split("\0"):
                return int(child)
        raise AssertionError(f"no provider of {node}")

    def test_a_provider_that_froze(self):
        frozen = self.provider_of("node_1")
        os.kill(frozen, signal.SIGSTOP)
        self.wait_for(lambda: all(f"node_{i} | provider: " in self.launch.errors() for i in (0, 2)), "the others' end")
        os.kill(frozen, signal.SIGKILL)
        self.assertEqual(self.launch.wait(), 137)
        self.assertRegex(self.launch.errors().splitlines()[-1],
                         r"^launch: node_1 failed first \(ended by SIGKILL\): node_\d says: .*node_1 \(.*\) is lost: ")

    def test_a_provider_that_was_stopped(self):
        os.kill(self.provider_of("node_1"), signal.SIGTERM)
        self.assertEqual(self.launch.wait(), 143)
        self.assertRegex(self.launch.errors().splitlines()[-1],
                         r"^launch: node_1 failed first \(ended by SIGTERM\): .*stopped by SIGTERM")


if __name__ == "__main__":
    unittest.main()
