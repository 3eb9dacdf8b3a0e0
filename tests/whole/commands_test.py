"""What all commands have in common: --help, --version, wrong usage."""

import os
import pathlib
import unittest
import unittest.mock

from whole import WholeTest

COMMANDS = ["clusterize", "provider", "launch", "node_benchmark", "model_fusion", "evaluate", "rookery_report"]


class Commands(WholeTest):
    def each(self):
        for command in COMMANDS:
            with self.subTest(command):
                yield command

    def test_help_explains_and_shows_an_example(self):
        for command in self.each():
            output, _ = self.run_program(command, "--help")
            self.assertTrue(output.startswith(command), output)
            headings = [line for line in output.splitlines() if line.endswith(":") and not line.startswith(" ")]
            self.assertEqual(headings, ["Options:", "Example:"])
            example = output.partition("Example")[2]
            self.assertIn(command, example)

    def test_version(self):
        for command in self.each():
            self.assertRegex(self.run_program(command, "--version")[0], r"^rookery \d+\.\d+\.\d+\n$")

    def test_an_unknown_option_is_wrong_usage(self):
        for command in self.each():
            _, errors = self.run_program(command, "--no-such-option", code=2)
            self.assertIn("no-such-option", errors)
            self.assertIn("--help", errors)

    def test_a_stray_argument_is_wrong_usage(self):
        for command in self.each():
            self.run_program(command, "stray", code=2)

    def test_a_log_level_that_is_none_is_wrong_usage(self):
        for command in self.each():
            _, errors = self.run_program(command, "--log-level", "loud", code=2)
            self.assertIn("--log-level loud: must be trace, debug, info, warn, error or off", errors)
            with unittest.mock.patch.dict(os.environ, ROOKERY_LOG="loud"):
                self.assertIn("$ROOKERY_LOG loud", self.run_program(command, code=2)[1])

    def test_threads_that_wait_for_work_soon_sleep_unless_the_user_says_otherwise(self):
        def settings(**environment):
            with unittest.mock.patch.dict(os.environ, environment):
                server = self.start("node_benchmark", "--serve", "127.0.0.1:0")
            self.wait_for(lambda: "answering" in server.output(), "the server")
            told = pathlib.Path(f"/proc/{server.popen.pid}/environ").read_bytes().decode().split("\0")
            server.popen.terminate()
            return [line for line in told if line.startswith(("GOMP_SPINCOUNT=", "OMP_WAIT_POLICY="))]

        self.assertEqual(settings(), ["GOMP_SPINCOUNT=10000"])
        self.assertEqual(settings(OMP_WAIT_POLICY="active"), ["OMP_WAIT_POLICY=active"])
        self.assertEqual(settings(GOMP_SPINCOUNT="7"), ["GOMP_SPINCOUNT=7"])

    def test_node_data_that_is_not_there_is_named(self):
        arguments = {
            "clusterize": [],
            "provider": ["--name", "node_0"],
            "launch": [],
            "model_fusion": ["--cluster-id", "0"],
        }
        for command, needed in arguments.items():
            with self.subTest(command):
                _, errors = self.run_program(command, *needed, "--node-data", "nowhere", code=1)
                self.assertIn("nowhere", errors)


if __name__ == "__main__":
    unittest.main()
