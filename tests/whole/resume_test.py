"""A run that is killed or stopped, and goes on, ends as if nothing had been."""

import contextlib
import os
import random
import re
import signal
import unittest

from whole import SLOWER, WholeTest, free_ports

LOGS = ("losses.txt", "val_losses.txt", "val_accuracies.txt")
EPOCHS = 120 // SLOWER
STEPS = 17 * EPOCHS


class Resume(WholeTest):
    """Three nodes with a checkpoint every 25 steps; what they would have trained undisturbed is known."""

    PORTS = free_ports(3)  # of all tests here, whose plan is the same
    undisturbed = None

    def setUp(self):
        super().setUp()
        self.write_pool(3, self.PORTS)
        # A lost peer is to be noticed soon.
        self.write_settings(epochs=EPOCHS, checkpoint_every="25 steps", reconnect_grace_seconds=0.5)
        self.run_program("clusterize")
        if Resume.undisturbed is None:
            self.run_program("launch")
            Resume.undisturbed = self.results()
            self.remove_run()

    def remove_run(self):
        for path in self.checkpoints().rglob("*.safetensors"):
            path.unlink()
        for log in LOGS:
            (self.folder / log).unlink(missing_ok=True)

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
            for life in range(10 if SLOWER == 1 else 4):
                launch = self.start_and_wait_for(
                    len(self.losses()) + chance.randint(1, 150), *(["--resume"] if life > 0 else []))
                with contextlib.suppress(ProcessLookupError, IndexError):  # it has just ended by itself
                    os.kill(chance.choice(self.providers_of(launch)), signal.SIGKILL)
                self.assertIn(launch.wait(), (0, 137), launch.errors())
            self.expect_as_undisturbed()

    def whole_checkpoints(self):
        """The steps of which every stage has a part, rising."""
        folders = self.checkpoints().iterdir()
        return sorted(int(folder.name) for folder in folders if len(list(folder.glob("*.safetensors"))) == 3)

    def newest_checkpoint(self):
        return max(self.whole_checkpoints(), default=0)

    def expect_to_go_on_where_it_stopped(self, *messages):
        """Nothing that was trained is trained again, and who was stopped has said so."""
        step = len(self.losses())
        self.assertLess(step, STEPS)
        self.assertEqual(self.newest_checkpoint(), step)
        for message in messages:
            self.assertRegex(message, rf"\b(after|of) step {step}\b.*--resume")
        going_on = re.findall(r"going on after step (\d+)", self.expect_as_undisturbed())
        self.assertEqual(going_on, [str(step)] * 3)

    def test_stopped_by_ctrl_c(self):
        launch = self.start_and_wait_for(100)
        launch.popen.send_signal(signal.SIGINT)
        self.assertEqual(launch.wait(), 130)
        *_, last = launch.errors().splitlines()
        self.assertTrue(last.startswith("launch: stopped by SIGINT"), last)
        self.expect_to_go_on_where_it_stopped(last)

    def test_stopped_again_and_again(self):
        for life in range(4):
            launch = self.start_and_wait_for(len(self.losses()) + 60, *(["--resume"] if life > 0 else []))
            launch.popen.send_signal(signal.SIGTERM)
            self.assertEqual(launch.wait(), 143, launch.errors())
            self.assertEqual(self.newest_checkpoint(), len(self.losses()))
        self.expect_to_go_on_where_it_stopped()

    def test_one_provider_of_three_is_stopped(self):
        for stopped in range(3):
            with self.subTest(node=stopped):
                self.remove_run()
                providers = self.start_providers(3)
                self.wait_for_steps(60)
                providers[stopped].popen.send_signal(signal.SIGTERM)
                for i, provider in providers.items():
                    self.assertEqual(provider.wait(), 143 if i == stopped else 1, provider.errors())
                ends = {i: provider.errors().splitlines()[-1] for i, provider in providers.items()}
                address = f"127.0.0.1:{self.ports[stopped]}"
                for i, end in ends.items():
                    who = "" if i == stopped else rf"node_{stopped} \({address}\) was "
                    self.assertRegex(end, f"^provider: {who}stopped by SIGTERM")
                self.expect_to_go_on_where_it_stopped(*ends.values())

    def test_a_provider_that_launch_has_started_is_stopped(self):
        launch = self.start_and_wait_for(60)
        os.kill(self.providers_of(launch)[1], signal.SIGTERM)
        self.assertEqual(launch.wait(), 143, launch.errors())
        *_, last = launch.errors().splitlines()
        self.assertRegex(last, r"^launch: node_1 failed first \(ended by SIGTERM\)")
        self.expect_to_go_on_where_it_stopped(last)

    def test_a_run_begun_anew_and_stopped_goes_on_itself(self):
        self.run_program("launch")
        launch = self.start("launch")
        self.wait_for(lambda: 60 <= len(self.losses()) < STEPS, "the new run")
        launch.popen.send_signal(signal.SIGINT)
        self.assertEqual(launch.wait(), 130)
        self.expect_to_go_on_where_it_stopped()

    def test_after_a_loss_everybody_says_from_where_it_goes_on(self):
        providers = self.start_providers(3)
        self.wait_for_steps(200)
        providers[1].popen.kill()
        for i in (0, 2):
            self.assertEqual(providers[i].wait(), 1)
            step = int(re.findall(r"is lost.*checkpoint.* of step (\d+).*--resume", providers[i].errors())[-1])
            self.assertIn(step, (self.newest_checkpoint(), self.newest_checkpoint() + 25))
        self.expect_as_undisturbed()

    def test_a_damaged_part_is_named_and_the_checkpoint_before_taken(self):
        launch = self.start_and_wait_for(200)
        launch.popen.send_signal(signal.SIGTERM)
        self.assertEqual(launch.wait(), 143)
        *_, before, newest = self.whole_checkpoints()
        part = next(self.checkpoints().glob(f"{newest}/*_1_of_3.safetensors"))
        damaged = bytearray(part.read_bytes())
        damaged[len(damaged) // 2] ^= 4
        part.write_bytes(damaged)
        output, errors = self.run_program("launch", "--resume")
        self.assertEqual(self.results(), self.undisturbed)
        self.assertIn(str(part.relative_to(self.folder)), output + errors)
        self.assertRegex(output, rf"going on after step {before}\b")

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
