"""A run that is killed or stopped, and goes on, ends as if nothing had been."""

import contextlib
import os
import random
import re
import signal
import unittest

from whole import WholeTest

LOGS = ("losses.txt", "val_losses.txt", "val_accuracies.txt")
EPOCHS = 120
STEPS = 17 * EPOCHS


class Resume(WholeTest):
    """Three nodes with a checkpoint every 25 steps; what they would have trained undisturbed is known."""

    def setUp(self):
        super().setUp()
        # A lost peer is to be noticed soon.
        self.write_settings(epochs=EPOCHS, checkpoint_every="25 steps", reconnect_grace_seconds=0.5)
        self.run_program("clusterize")
        self.run_program("launch")
        self.undisturbed = self.results()
        for path in self.checkpoints().rglob("*.safetensors"):
            path.unlink()
        for log in LOGS:
            (self.folder / log).unlink()

    def checkpoints(self):
        return self.node_data / "checkpoints"

    def results(self):
        """The logs, and what was trained."""
        trained = sorted(self.node_data.glob("cluster_0/*/trained.safetensors"))
        self.assertEqual(len(trained), 3)
        return [(self.folder / log).read_text() for log in LOGS], [path.read_bytes() for path in trained]

    def providers_of(self, launch):
        """The processes that it has started."""
        children = f"/proc/{launch.popen.pid}/task/{launch.popen.pid}/children"
        with open(children, encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]

    def start_and_wait_for(self, steps, *arguments):
        launch = self.start("launch", *arguments)
        self.wait_for_steps(min(steps, STEPS))
        return launch

    def expect_as_undisturbed(self):
        output, _ = self.run_program("launch", "--resume")
        self.assertEqual(self.results(), self.undisturbed)
        return output

    def test_killed_ten_times(self):
        seed = random.randrange(1 << 30)
        chance = random.Random(seed)
        with self.subTest(seed=seed):
            for life in range(10):
                launch = self.start_and_wait_for(
                    len(self.losses()) + chance.randint(1, 150), *(["--resume"] if life > 0 else []))
                with contextlib.suppress(ProcessLookupError, IndexError):  # it has just ended by itself
                    os.kill(chance.choice(self.providers_of(launch)), signal.SIGKILL)
                self.assertIn(launch.wait(), (0, 137), launch.errors())
            self.expect_as_undisturbed()

    def test_stopped_by_ctrl_c(self):
        launch = self.start_and_wait_for(100)
        launch.popen.send_signal(signal.SIGINT)
        self.assertEqual(launch.wait(), 130)
        going_on = re.findall(r"going on after step (\d+)", self.expect_as_undisturbed())
        self.assertEqual(len(going_on), 3)
        self.assertEqual(len(set(going_on)), 1)

    def test_a_damaged_part_is_named_and_the_checkpoint_before_taken(self):
        launch = self.start_and_wait_for(200)
        launch.popen.send_signal(signal.SIGTERM)
        self.assertEqual(launch.wait(), 143)
        newest = max(int(folder.name) for folder in self.checkpoints().iterdir() if len(list(folder.iterdir())) == 3)
        part = next(self.checkpoints().glob(f"{newest}/*_1_of_3.safetensors"))
        damaged = bytearray(part.read_bytes())
        damaged[len(damaged) // 2] ^= 4
        part.write_bytes(damaged)
        output, errors = self.run_program("launch", "--resume")
        self.assertEqual(self.results(), self.undisturbed)
        self.assertIn(str(part.relative_to(self.folder)), output + errors)
        self.assertRegex(output, rf"going on after step {newest - 25}\b")

    def test_without_a_checkpoint_it_begins_and_says_so(self):
        self.assertIn("no checkpoint", self.expect_as_undisturbed())

    def test_a_run_that_is_done_is_done(self):
        self.run_program("launch")
        self.assertIn(f"going on after step {STEPS}", self.expect_as_undisturbed())

    def test_never(self):
        self.write_settings(epochs=2, checkpoint_every="never")
        self.run_program("clusterize")
        self.run_program("launch")
        self.assertEqual(list(self.checkpoints().rglob("*.safetensors")), [])


if __name__ == "__main__":
    unittest.main()
