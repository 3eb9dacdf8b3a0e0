"""Providers that are stopped, killed or frozen: all others end in time, say why, and leave no half of
a file."""

import signal
import socket
import time
import unittest

from whole import SLOWER, WholeTest, is_taken


class Faults(WholeTest):
    def setUp(self):
        super().setUp()
        self.write_settings(epochs=100000)

    def train_for_a_while(self):
        (self.folder / "losses.txt").unlink(missing_ok=True)
        self.run_program("clusterize")
        providers = self.start_providers(3)
        self.wait_for_steps(20)
        return providers

    def assert_all_end(self, providers, seconds, codes):
        """Each ends within this time from now with the code asked for."""
        deadline = time.monotonic() + seconds * SLOWER
        for i, process in providers.items():
            code = process.wait(max(0.1, deadline - time.monotonic()))
            self.assertEqual(code, codes[i], f"node_{i}\n{process.errors()}")

    def assert_stops_cleanly(self, stop, name):
        for stopped in range(3):
            with self.subTest(node=stopped):
                providers = self.train_for_a_while()
                providers[stopped].popen.send_signal(stop)
                codes = {i: 128 + stop if i == stopped else 1 for i in range(3)}
                self.assert_all_end(providers, 5, codes)
                self.assertIn(name, providers[stopped].errors())
                for i, process in providers.items():
                    if i != stopped:
                        self.assertIn(f"node_{stopped}", process.errors().splitlines()[-1])

    def test_sigterm(self):
        self.assert_stops_cleanly(signal.SIGTERM, "SIGTERM")

    def test_sigint(self):
        self.assert_stops_cleanly(signal.SIGINT, "SIGINT")

    def test_kill(self):
        for killed in range(3):
            with self.subTest(node=killed):
                providers = self.train_for_a_while()
                providers[killed].popen.kill()
                self.assert_all_end(providers, 15, {i: 137 if i == killed else 1 for i in range(3)})
                for i, process in providers.items():
                    if i != killed:
                        last = process.errors().splitlines()[-1]
                        self.assertIn(f"node_{killed}", last)
                        self.assertRegex(last, r"(step|validation batch) \d+")

    def test_a_frozen_peer(self):
        self.write_settings(epochs=100000, peer_timeout_seconds=1.0)
        providers = self.train_for_a_while()
        providers[1].popen.send_signal(signal.SIGSTOP)
        frozen = providers.pop(1)
        self.assert_all_end(providers, 8, {0: 1, 2: 1})
        for process in providers.values():
            self.assertIn("node_1", process.errors().splitlines()[-1])
        frozen.popen.kill()

    def test_a_peer_that_never_comes(self):
        self.write_settings(epochs=1, peer_timeout_seconds=1.0)
        self.run_program("clusterize")
        provider = self.start("provider", "--name", "node_0", "--wait", "1")
        self.assertEqual(provider.wait(30), 1)
        self.assertRegex(provider.errors(), "node_[12]")

    def test_ctrl_c_ends_launch_and_its_providers(self):
        self.run_program("clusterize")
        launch = self.start("launch")
        self.wait_for_steps(20)
        launch.popen.send_signal(signal.SIGINT)
        self.assertEqual(launch.wait(10 * SLOWER), 130, launch.errors())
        self.wait_for(lambda: not any(map(is_taken, self.ports)), "the providers' ports to be free")

    def test_a_taken_port(self):
        self.write_settings(epochs=1)
        self.run_program("clusterize")
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", self.ports[1]))
            holder.listen()
            for program, arguments in (("provider", ["--name", "node_1"]), ("launch", [])):
                with self.subTest(program):
                    output, errors = self.run_program(program, *arguments, code=1)
                    self.assertIn(str(self.ports[1]), output + errors)
                    self.assertIn("in use", output + errors)


if __name__ == "__main__":
    unittest.main()
