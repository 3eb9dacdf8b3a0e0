"""Providers that stand still for moments, as programs do on busy machines: every run ends as if nobody had disturbed it,
bit for bit, whatever its stages were waiting for."""

import json
import os
import random
import signal
import threading
import unittest

from whole import ROOT, SLOWER, WholeTest

# Runs of each kind; more for a longer trial by hand.
RUNS = int(os.environ.get("ROOKERY_PAUSED_RUNS", "2" if SLOWER == 1 else "1"))
SEED = int(os.environ.get("ROOKERY_PAUSES_SEED", "1"))


def providers_of(parent):
    """Process ids of the providers that this process started, itself or through launch."""
    found = []
    with open(f"/proc/{parent}/task/{parent}/children") as children:
        for child in map(int, children.read().split()):
            try:
                with open(f"/proc/{child}/comm") as name:
                    found += [child] if name.read().strip() == "provider" else providers_of(child)
            except FileNotFoundError:  # it has ended
                pass
    return found


class Pauses:
    """While this lasts, the providers of this process are stopped for up to 50 ms, one after the other, at random."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.count = 0

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def run(self):
        while not self.over.wait(self.random.choice((0, 0.001, 0.01))):
            for provider in providers_of(os.getpid()):
                if self.random.random() < 0.5:
                    self.pause(provider)

    def pause(self, provider):
        try:
            os.kill(provider, signal.SIGSTOP)
            self.over.wait(self.random.choice((0.001, 0.003, 0.01, 0.05)))
            os.kill(provider, signal.SIGCONT)
            self.count += 1
        except ProcessLookupError:  # it has ended
            pass


class PausesTest(WholeTest):
    def check(self, nodes, settings, *options):
        """Plans, trains undisturbed, and RUNS times with pauses: the same losses and the same weights."""
        (self.node_data / "train.json").write_text(json.dumps(settings | {"peer_timeout_seconds": 30.0 * SLOWER}))
        self.write_pool(nodes)
        self.run_program("clusterize", *options)
        undisturbed = self.result()
        for run in range(RUNS):
            with Pauses(SEED + run) as pauses:
                paused = self.result()
            self.assertGreater(pauses.count, 3)
            for name, content in undisturbed.items():
                self.assertTrue(paused[name] == content, f"{name} differs in run {run} of seed {SEED}")

    def result(self):
        self.run_program("launch")
        self.run_program("model_fusion")
        names = ["losses.txt", "trained/trained_state_dict.pt"]
        return {name: (self.folder / name).read_bytes() for name in names}

    def settings(self, name, **changes):
        path = ROOT / "node_data" / ("train.json" if name == "digits" else f"jobs/{name}.json")
        return json.loads(path.read_text()) | changes

    def test_tied_parameters_and_clipping(self):
        settings = self.settings("masked_words", epochs=2, train_fraction=0.05, validate_every=0, batch_size=16)
        self.check(3, settings, "--clusters", "1", "--min-nodes-per-cluster", "3")

    def test_zero_bubble(self):
        settings = self.settings("digits", epochs=8, micro_batches=4, schedule="zb", clip_gradient_norm=0.02)
        self.check(3, settings, "--clusters", "1", "--min-nodes-per-cluster", "3")

    def test_asynchronous(self):
        settings = self.settings("digits", epochs=8, schedule="async", clip_gradient_norm=0.02)
        self.check(3, settings, "--clusters", "1", "--min-nodes-per-cluster", "3")

    def test_clusters_that_average_every_step(self):
        settings = self.settings("digits", epochs=8, averaging={"mode": "gradients"}, clip_gradient_norm=0.02)
        self.check(4, settings, "--clusters", "2", "--min-nodes-per-cluster", "2")

    def test_clusters_whose_rounds_run_beside_their_steps(self):
        averaging = {"mode": "diloco", "every": 4, "fragments": 2, "overlap": 2, "compression": "int8"}
        settings = self.settings("digits", epochs=8, averaging=averaging, checkpoint_every="5 steps")
        self.check(4, settings, "--clusters", "2", "--min-nodes-per-cluster", "2")


if __name__ == "__main__":
    unittest.main()
