"""A run that is killed, and goes on each time on other machines in another cut, ends as if nothing had been."""

import json
import os
import random
import signal
import unittest

from whole import ROOT, SLOWER, WholeTest

LOGS = ("losses.txt", "val_losses.txt", "val_accuracies.txt")
NODES = (1, 2, 4, 5)  # of the plans that follow the first one, which has three


class Replan(WholeTest):
    def plan(self, nodes, *arguments):
        self.write_pool(nodes)
        output, _ = self.run_program("clusterize", "--clusters", "1", *arguments)
        self.assertEqual(len(list((self.node_data / "nodes").iterdir())), nodes, output)
        return output

    def results(self):
        """The logs, and the fused weights."""
        self.fuse()
        logs = [(self.folder / log).read_text() for log in LOGS if (self.folder / log).exists()]
        return logs, (self.folder / "trained" / "trained_state_dict.pt").read_bytes()

    def train_undisturbed(self):
        self.plan(3)
        self.run_program("launch")
        self.undisturbed = self.results()
        for path in self.node_data.glob("checkpoints/*/*.safetensors"):
            path.unlink()
        for log in LOGS:
            (self.folder / log).unlink(missing_ok=True)
        self.plan(3)

    def kill_one_of(self, launch, chance, steps):
        """Kills one of its providers when so many steps are trained; False when the run is done before."""
        self.wait_for(lambda: launch.popen.poll() is not None or len(self.losses()) >= steps, f"step {steps}")
        children = f"/proc/{launch.popen.pid}/task/{launch.popen.pid}/children"
        try:
            with open(children, encoding="ascii") as file:
                os.kill(int(chance.choice(file.read().split())), signal.SIGKILL)
        except (OSError, IndexError):  # it has just ended by itself
            pass
        return launch.wait() != 0

    def expect_same_through(self, lives, **settings):
        seed = random.randrange(1 << 30)
        chance = random.Random(seed)
        with self.subTest(seed=seed):
            self.write_settings(reconnect_grace_seconds=0.5, peer_timeout_seconds=5 * SLOWER, **settings)
            self.train_undisturbed()
            every = len(self.undisturbed[0][0].split()) // (lives + 1)
            for life in range(lives):
                is_begun = any(self.node_data.glob("checkpoints/*/*.safetensors"))
                if life > 0:
                    self.plan(chance.choice(NODES), *(["--resume"] if is_begun else []))
                launch = self.start("launch")
                steps = len(self.losses()) if life > 0 and is_begun else 0
                if not self.kill_one_of(launch, chance, steps + chance.randint(every // 2, every)):
                    break
            self.plan(chance.choice(NODES), "--resume")
            self.run_program("launch")
            self.assertEqual(self.results(), self.undisturbed)

    def test_ten_times_with_adam(self):
        self.expect_same_through(10 if SLOWER == 1 else 3, epochs=120 // SLOWER, checkpoint_every="25 steps")

    def test_momentum_plateau_and_micro_batches(self):
        plateau = {"name": "plateau", "patience": 0, "threshold": 0.9, "metric": "validation_loss"}
        self.expect_same_through(
            3 if SLOWER == 1 else 2, epochs=60 // SLOWER, checkpoint_every="20 steps", micro_batches=4,
            clip_gradient_norm=0.05, learning_rate_schedule=plateau,
            optimizer={"name": "sgd", "learning_rate": 0.05, "momentum": 0.9})

    def test_a_number_of_micro_batches_that_clusterize_chose_stays(self):
        self.write_settings(epochs=4, micro_batches="auto", schedule="auto", checkpoint_every="10 steps")
        pool = [3, 1]
        chosen = []
        for nodes, arguments in zip(pool, ([], ["--resume"])):
            self.write_pool(nodes, bandwidth=1000, gflops=0.5)
            self.run_program("clusterize", "--clusters", "1", "--min-nodes-per-cluster", str(nodes), *arguments)
            chosen.append(json.loads((self.node_data / "plan.json").read_text())["micro_batches"])
            if nodes == 3:
                self.run_program("launch")
                self.write_settings(epochs=6, micro_batches="auto", schedule="auto", checkpoint_every="10 steps")
        self.assertGreater(chosen[0], 1)
        self.assertEqual(chosen[1], chosen[0])
        self.run_program("clusterize", "--clusters", "1")
        self.assertEqual(json.loads((self.node_data / "plan.json").read_text())["micro_batches"], 1)

    def test_lamb_dropout_and_a_shared_parameter(self):
        job = json.loads((ROOT / "node_data" / "jobs" / "masked_words.json").read_text())
        changes = {"data": "masked_words?samples=700", "optimizer": {"name": "lamb", "learning_rate": 0.002},
                   "epochs": 4, "batch_size": 32, "checkpoint_every": "5 steps"}
        self.expect_same_through(3 if SLOWER == 1 else 2, **(job | changes))


if __name__ == "__main__":
    unittest.main()
