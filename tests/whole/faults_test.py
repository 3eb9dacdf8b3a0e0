"""Providers that are stopped, killed or frozen: all others end in time, say why, and leave no half of
a file."""

import signal
import socket
import time
import unittest

from whole import BIN, SLOWER, Process, WholeTest, is_taken


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

    def test_sighup(self):
        self.assert_stops_cleanly(signal.SIGHUP, "SIGHUP (terminal closed)")

    def test_a_second_sighup_is_the_same_terminal(self):
        providers = self.train_for_a_while()
        for _ in range(2):
            providers[1].popen.send_signal(signal.SIGHUP)
        self.assert_all_end(providers, 5, {0: 1, 1: 129, 2: 1})
        for i in (0, 2):
            self.assertIn("was stopped by SIGHUP (terminal closed)", providers[i].errors().splitlines()[-1])

    def test_nohup(self):
        self.run_program("clusterize")
        providers = {i: self.start("provider", "--name", f"node_{i}") for i in (1, 2)}
        providers[0] = Process(["nohup", BIN / "provider", "--name", "node_0"], self.folder)
        self.addCleanup(providers[0].close)
        self.wait_for_steps(20)
        providers[0].popen.send_signal(signal.SIGHUP)
        self.wait_for_steps(len(self.losses()) + 100)
        providers[0].popen.send_signal(signal.SIGTERM)
        self.assert_all_end(providers, 5, {0: 143, 1: 1, 2: 1})

    def test_what_happened_elsewhere_is_said_once(self):
        providers = self.train_for_a_while()
        providers[1].popen.send_signal(signal.SIGTERM)
        self.assert_all_end(providers, 5, {0: 1, 1: 143, 2: 1})
        for i in (0, 2):
            self.assertRegex(
                providers[i].errors().splitlines()[-1],
                rf"^provider: node_1 \(127.0.0.1:{self.ports[1]}\) was stopped by SIGTERM after step (\d+): the "
                r"checkpoint of step \1 is written, go on from there with --resume \(of launch, or of every provider\)$")

    def test_where_no_step_is_one_to_stop_after_all_end_at_once(self):
        for settings in ({"checkpoint_every": "never"}, {"schedule": "async"}):
            with self.subTest(settings):
                self.write_settings(epochs=100000, **settings)
                providers = self.train_for_a_while()
                providers[1].popen.send_signal(signal.SIGTERM)
                self.assert_all_end(providers, 5, {0: 1, 1: 143, 2: 1})
                for i in (0, 2):
                    self.assertRegex(
                        providers[i].errors().splitlines()[-1],
                        rf"^provider: node_1 \(127.0.0.1:{self.ports[1]}\) was stopped by SIGTERM "
                        r"\(here: (waiting for|sending) [\w ]+ of (step|validation batch) \d+, micro-batch 0\)$")

    def test_who_is_asked_to_stop_when_the_root_is_gone_ends_all_the_same(self):
        self.write_settings(epochs=100000, peer_timeout_seconds=3.0)
        providers = self.train_for_a_while()
        root = providers.pop(0)
        root.popen.send_signal(signal.SIGSTOP)
        for process in providers.values():
            process.popen.send_signal(signal.SIGTERM)
        self.assert_all_end(providers, 8, {1: 1, 2: 1})
        for process in providers.values():
            self.assertRegex(process.errors().splitlines()[-1], r"node_0 \(.*\) is lost")
        root.popen.kill()

    def test_a_second_signal_ends_at_once(self):
        providers = self.train_for_a_while()
        providers[0].popen.send_signal(signal.SIGSTOP)
        for stop in (signal.SIGINT, signal.SIGTERM):
            providers[1].popen.send_signal(stop)
        self.assertIn(providers[1].wait(5 * SLOWER), (130, 143))  # they may arrive in either order
        providers[0].popen.kill()

    def test_a_run_that_is_ended_early_keeps_its_logs_and_no_weights(self):
        providers = self.train_for_a_while()
        providers[0].popen.send_signal(signal.SIGINT)
        self.assert_all_end(providers, 5, {0: 130, 1: 1, 2: 1})
        self.assertGreaterEqual(len(self.losses()), 20)
        self.assertEqual(list(self.node_data.rglob("trained*")), [])

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
        self.write_settings(epochs=100000, peer_timeout_seconds=3.0)
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

    def test_stop_signals_end_launch_and_its_providers(self):
        self.run_program("clusterize")
        for stop in (signal.SIGINT, signal.SIGHUP):
            with self.subTest(stop):
                (self.folder / "losses.txt").unlink(missing_ok=True)
                launch = self.start("launch")
                self.wait_for_steps(20)
                launch.popen.send_signal(stop)
                self.assertEqual(launch.wait(10 * SLOWER), 128 + stop, launch.errors())
                self.assertIn(f"launch: stopped by {stop.name}", launch.errors())
                self.wait_for(lambda: not any(map(is_taken, self.ports)), "the providers' ports to be free")

    def test_sighup_ends_the_benchmarks_server(self):
        server = self.start("node_benchmark", "--serve", f"127.0.0.1:{self.ports[0]}")
        self.wait_for(lambda: is_taken(self.ports[0]), "the server")
        server.popen.send_signal(signal.SIGHUP)
        self.assertEqual(server.wait(), 129)
        self.assertIn("stopped by SIGHUP (terminal closed)", server.errors())

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
