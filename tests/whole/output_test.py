"""Standard output that cannot be written, or that nobody reads any more."""

import os
import subprocess
import unittest

from whole import BIN, PATIENCE, WholeTest


class Output(WholeTest):
    def run_into(self, output, program, *arguments, **options):
        """Exit code and standard error of a program whose standard output is this."""
        done = subprocess.run(
            [BIN / program, *map(str, arguments)], cwd=self.folder, stdout=output, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, text=True, timeout=PATIENCE, **options)
        return done.returncode, done.stderr

    def assert_fails_when_full(self, program, *arguments):
        with self.subTest(program=program, arguments=arguments), open("/dev/full", "w") as full:
            code, errors = self.run_into(full, program, *arguments)
            self.assertEqual(code, 1, errors)
            self.assertIn(f"{program}: standard output: cannot write: No space left on device", errors)

    def test_a_full_disk_under_standard_output_is_a_failure(self):
        self.write_pool(1)
        for program in ("clusterize", "provider", "launch", "model_fusion", "evaluate", "node_benchmark"):
            self.assert_fails_when_full(program, "--help")
            self.assert_fails_when_full(program, "--version")
        self.assert_fails_when_full("clusterize")
        self.assert_fails_when_full("clusterize", "--json", "--explain")
        self.assert_fails_when_full("provider", "--name", "node_0")
        self.assert_fails_when_full("provider", "--name", "node_0", "--json")
        self.assertEqual(len(self.losses()), 2 * 17)  # what was not seen was trained
        self.assert_fails_when_full("launch")
        self.assert_fails_when_full("model_fusion")
        self.assert_fails_when_full("model_fusion", "--json")
        self.assert_fails_when_full("evaluate", "--state", "node_data/cluster_0")
        self.assert_fails_when_full("evaluate", "--state", "node_data/cluster_0", "--json")
        self.assert_fails_when_full("node_benchmark", "--seconds", 0.1)

    def test_a_long_run_is_not_ended_by_it(self):
        """More progress than any buffer holds, which nobody can write."""
        self.write_pool(1)
        self.write_settings(epochs=100)
        self.run_program("clusterize")
        self.assert_fails_when_full("provider", "--name", "node_0", "--json")
        self.assertEqual(len(self.losses()), 100 * 17)
        self.run_program("model_fusion")

    def test_standard_output_that_is_closed_is_a_failure_and_no_file(self):
        self.write_pool(1)
        self.run_program("clusterize")
        code, errors = self.run_into(None, "provider", "--name", "node_0", preexec_fn=lambda: os.close(1))
        self.assertEqual(code, 1, errors)
        self.assertIn("standard output", errors)
        self.assertEqual(len(self.losses()), 2 * 17)
        self.run_program("model_fusion")

    def run_until_unread(self, program, *arguments):
        """Exit code and standard error of a program whose reader goes away after a line."""
        process = subprocess.Popen(
            [BIN / program, *map(str, arguments)], cwd=self.folder, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        try:
            self.assertNotEqual(process.stdout.readline(), "")
            process.stdout.close()
            code = process.wait(PATIENCE)
            return 128 - code if code < 0 else code, process.stderr.read()
        finally:
            process.kill()
            process.wait()
            process.stderr.close()

    def test_a_reader_that_closes_the_pipe_ends_the_program(self):
        self.write_settings(epochs=500)
        self.run_program("clusterize")
        code, errors = self.run_until_unread("launch")
        self.assertEqual(code, 141, errors)
        providers = [self.start("provider", "--name", name) for name in ("node_1", "node_2")]
        code, errors = self.run_until_unread("provider", "--name", "node_0", "--json")
        self.assertEqual(code, 141, errors)
        for process in providers:
            self.assertEqual(process.wait(), 1)
            self.assertIn("SIGPIPE", process.errors())

    def test_a_reader_that_is_gone_ends_short_programs_without_a_word(self):
        self.write_pool(1)
        self.run_program("clusterize")
        self.run_program("provider", "--name", "node_0")
        for program, *arguments in (
            ["model_fusion"], ["evaluate", "--state", "node_data/cluster_0"], ["node_benchmark", "--seconds", "0.1"],
            ["clusterize", "--list-models"],
        ):
            with self.subTest(program):
                from_it, to_it = os.pipe()
                os.close(from_it)
                code, errors = self.run_into(to_it, program, *arguments)
                os.close(to_it)
                self.assertEqual(128 - code if code < 0 else code, 141, errors)
                self.assertNotIn("standard output", errors)


if __name__ == "__main__":
    unittest.main()
