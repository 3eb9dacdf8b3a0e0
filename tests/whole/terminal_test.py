"""What people see on a terminal, of whatever width, while programs run."""

import os
import pathlib
import signal
import unittest

from terminal import TerminalProcess
from whole import BIN, PATIENCE, WholeTest


class Terminals(WholeTest):
    def setUp(self):
        super().setUp()
        self.write_settings(epochs=100000)

    def start_in_terminal(self, program, *arguments, columns=80):
        process = TerminalProcess([BIN / program, *arguments], self.folder, columns)
        self.addCleanup(process.close)
        return process

    def assert_stays(self, process, beginnings, whole):
        """For many redrawings there is a line of each node and nothing else, and none is longer than the terminal is
        wide; `whole` comes in each of them, uncut."""
        process.redraws(3)
        process.screen.wraps = 0
        for _ in range(10):
            process.redraws(1)
            shown = process.screen.shown()
            self.assertEqual([line.split()[0] for line in shown], beginnings, "\n".join(shown))
            for line in shown:
                self.assertRegex(line, whole)
        self.assertEqual(process.screen.wraps, 0, "\n".join(process.screen.lines))

    def assert_follows_the_width(self, process, beginnings, *, at_80, at_40, at_200, at_20):
        """What each line is at these widths; that of the courses of loss and accuracy, below several nodes, keeps to its
        width as well."""
        process.read_until(lambda: any("accuracy" in line for line in process.screen.shown()), "accuracy")
        self.assert_stays(process, beginnings, at_80)
        for columns, whole in (40, at_40), (200, at_200), (20, at_20):
            process.resize(columns)
            self.assert_stays(process, beginnings, whole)

    def test_a_provider_keeps_to_one_line(self):
        self.run_program("clusterize")
        for i in (0, 1):
            self.start("provider", "--name", f"node_{i}")
        leaf = self.start_in_terminal("provider", "--name", "node_2")
        self.assert_follows_the_width(
            leaf, ["node_2"],
            at_80=r"step \d+/1700000  loss \d\.\d{5}  accuracy \d+\.\d\d%  ETA [\d.]+ \w+$",
            at_40=r"^node_2  step \d+/1700000  loss \d\.\d{5}$",
            at_200=r" epoch \d+/100000  step .* waits \d+% for node_1  \d+ samples/s  ETA [\d.]+ \w+$",
            at_20=r"^node_2$")
        leaf.popen.send_signal(signal.SIGINT)
        self.assertEqual(leaf.wait(), 130)
        # What was drawn last stays; above it stands that it stops, where that takes longer.
        shown = leaf.screen.shown()
        self.assertIn("provider:", shown[shown.index("node_2") + 1])

    def test_a_stop_that_takes_long_is_told_above_the_line(self):
        self.run_program("clusterize")
        root, _ = (self.start("provider", "--name", f"node_{i}") for i in (0, 1))
        leaf = self.start_in_terminal("provider", "--name", "node_2", columns=200)
        leaf.redraws(3)
        root.popen.send_signal(signal.SIGSTOP)
        leaf.popen.send_signal(signal.SIGINT)
        leaf.read_until(lambda: any("stopping:" in line for line in leaf.screen.shown()), "word that it stops")
        root.popen.send_signal(signal.SIGCONT)
        self.assertEqual(leaf.wait(), 130)
        stopping, line, provider, *_ = leaf.screen.shown()
        self.assertTrue(stopping.startswith("stopping: the step"), stopping)
        self.assertTrue(line.startswith("node_2"), line)
        self.assertTrue(provider.startswith("provider: stopped by SIGINT"), provider)

    def test_launch_keeps_to_one_line_for_each_node(self):
        self.run_program("clusterize")
        launch = self.start_in_terminal("launch")
        self.assert_follows_the_width(
            launch, ["node_0", "node_1", "node_2", "loss"],
            at_80=r" epoch \d+/100000  step \d+/1700000  waits \d+% for node_\d  ETA [\d.]+ \w+$"
                  r"|^loss \d\.\d{5} [▁-█]+ \d\.\d{5}  accuracy \d+\.\d\d% [▁-█]+ \d+\.\d\d%$",
            at_40=r"^node_\d  step \d+/1700000  ETA [\d.]+ \w+$|^loss \d\.\d{5} [▁-█]{1,12} \d\.\d{5}$",
            at_200=r" epoch \d+/100000  step .* samples/s  ETA [\d.]+ \w+$|^loss .*  accuracy [^ ]* [▁-█]+ \d+\.\d\d%$",
            at_20=r"^node_\d( |$)|^loss .*…$")
        launch.popen.send_signal(signal.SIGINT)
        self.assertEqual(launch.wait(), 130)

    def test_what_launch_tells_between_stands_above(self):
        self.write_settings(epochs=100000)
        self.run_program("clusterize")
        launch = self.start_in_terminal("launch")
        launch.read_until(lambda: " step " in launch.raw, "the training")
        launch.redraws(3)
        pid = launch.popen.pid
        first = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
        os.kill(int(first), signal.SIGTERM)
        self.assertEqual(launch.wait(), 143)
        shown = launch.screen.shown()
        self.assertIn(" | provider: ", shown[0], "\n".join(shown))
        for node in ("node_0  root", "node_1  stem", "node_2  leaf"):
            self.assertEqual(sum(line.startswith(node) for line in shown), 1, "\n".join(shown))
        self.assertTrue(any(line.startswith("launch: node_0 failed first (ended by SIGTERM)") for line in shown))

    def test_clusterize_takes_its_progress_away(self):
        self.write_pool(12)
        process = self.start_in_terminal("clusterize", columns=160)
        self.assertEqual(process.wait(), 0)
        self.assertRegex(process.raw, r"search +\d+ %: ")
        self.assertEqual(process.screen.shown()[0].split(" ")[0], "Node(0)")
        self.assertNotIn("search ", "\n".join(process.screen.shown()))

    def test_clusterize_that_fails_says_so_on_a_line_of_its_own(self):
        self.write_pool(12, ram=0.0001)
        process = self.start_in_terminal("clusterize")
        self.assertEqual(process.wait(), 1)
        self.assertEqual([line for line in process.screen.shown() if "clusterize:" in line][0][:11], "clusterize:")

    def test_node_benchmark_takes_its_progress_away(self):
        process = self.start_in_terminal("node_benchmark", "--seconds", "0.2")
        self.assertEqual(process.wait(), 0)
        self.assertIn("measuring convolutions", process.raw)
        shown = "\n".join(process.screen.shown())
        self.assertNotIn("measuring", shown)
        # A machine whose host gives its processors to others says so first.
        self.assertRegex(shown, r"^(the host of this virtual machine [^|]*)?ram ")

    def test_a_terminal_that_is_closed_ends_the_run_cleanly(self):
        self.write_settings(epochs=100000)
        self.run_program("clusterize")
        providers = {i: self.start("provider", "--name", f"node_{i}") for i in (1, 2)}
        root = self.start_in_terminal("provider", "--name", "node_0")
        root.redraws(3)
        root.hang_up()
        self.assertEqual(root.popen.wait(PATIENCE), 129)
        for process in providers.values():
            self.assertEqual(process.wait(), 1)
            self.assertIn(f"node_0 (127.0.0.1:{self.ports[0]}) was stopped by SIGHUP (terminal closed)",
                          process.errors().splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
