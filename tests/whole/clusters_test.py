"""Several clusters train one model: as real programs, over sockets."""

import json
import os
import random
import re
import shutil
import signal
import time
import unittest

from whole import SLOWER, WholeTest

# Nodes that are killed at random, one run after the other; more for a longer trial by hand.
KILLS = int(os.environ.get("ROOKERY_KILLS", "6" if SLOWER == 1 else "2"))
# Where the run of several clusters stood when a node was lost.
PLACE = r" is lost in (its pipeline, beside )?(ring \d+|the Roots' ring), (round \d+|before its first round): "


class ClustersTest(WholeTest):
    def clusters(self):
        """{cluster: node names by stage} of the plan."""
        plan = json.loads((self.node_data / "plan.json").read_text())
        return {cluster["id"]: [stage["node"] for stage in cluster["stages"]] for cluster in plan["clusters"]}

    def trained(self):
        return (self.folder / "trained" / "trained_state_dict.safetensors").read_bytes()

    def test_six_nodes_train_as_two_clusters_of_three(self):
        self.write_settings(epochs=40)
        self.write_pool(6)
        self.train(6)
        self.assertEqual(sorted(len(nodes) for nodes in self.clusters().values()), [3, 3])
        self.assertGreaterEqual(float((self.folder / "val_accuracies.txt").read_text().split()[-1]), 95)
        self.assertFalse((self.folder / "cluster_1" / "val_accuracies.txt").exists())
        self.assertEqual(len((self.folder / "cluster_1" / "losses.txt").read_text().split()), len(self.losses()))
        output, _ = self.run_program("model_fusion")
        self.assertIn("Joined cnn_net of cluster 0, trained for 360 steps", output)
        first = self.trained()
        self.run_program("model_fusion", "--cluster-id", "1")
        one, other = (self.tensors(part) for part in (first, self.trained()))
        self.assertEqual(one.keys(), other.keys())
        for name in one:
            if not name.endswith("num_batches_tracked"):
                self.assertEqual(one[name], other[name], name)

    @staticmethod
    def tensors(data):
        """{name: bytes} of a safetensors file."""
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        header.pop("__metadata__", None)
        begin = 8 + length
        return {
            name: data[begin + entry["data_offsets"][0] : begin + entry["data_offsets"][1]]
            for name, entry in header.items()
        }

    def test_other_cuts_give_the_same_bits(self):
        """The same two clusters' samples, in clusters of one, two or three stages."""
        states = []
        for nodes, sizes in ((2, (1, 1)), (3, (1, 2)), (6, (3, 3))):
            self.write_settings(epochs=3, shares="equal", averaging={"mode": "parameters", "every": 4})
            self.write_pool(nodes)
            pins = []
            node = 0
            for cluster, size in enumerate(sizes):
                for stage in range(size):
                    pins += ["--pin", f"node_{node}={cluster}:{stage}"]
                    node += 1
            self.run_program("clusterize", "--clusters", "2", "--min-nodes-per-cluster", "1", *pins)
            self.assertEqual([len(nodes) for _, nodes in sorted(self.clusters().items())], list(sizes))
            for process in self.start_providers(nodes).values():
                self.assertEqual(process.wait(), 0, process.output() + process.errors())
            self.run_program("model_fusion")
            states.append(self.tensors(self.trained()))
        for state in states[1:]:
            self.assertEqual(state, states[0])

    def test_what_is_frozen_is_in_no_ring(self):
        self.write_settings(epochs=2, frozen=["conv2d_1.*"], averaging={"mode": "parameters", "every": 2})
        self.write_pool(3)
        self.run_program("clusterize", "--clusters", "2", "--min-nodes-per-cluster", "1")
        rings = {name for file in (self.node_data / "nodes").iterdir()
                 for name in (ring["first_parameter"] for ring in json.loads(file.read_text())["rings"])}
        self.assertTrue(rings)
        self.assertFalse(any(name.startswith("conv2d_1.") for name in rings), rings)
        begun = {}
        for path in self.node_data.glob("cluster_*/*/submod*.safetensors"):
            begun |= self.tensors(path.read_bytes())
        for process in self.start_providers(3).values():
            self.assertEqual(process.wait(), 0, process.output() + process.errors())
        self.run_program("model_fusion")
        ended = self.tensors(self.trained())
        for name, tensor in ended.items():
            if name.endswith((".weight", ".bias")):
                self.assertEqual(tensor == begun[name], name.startswith("conv2d_1."), name)

    def test_a_killed_node_ends_all_clusters_and_they_go_on(self):
        self.write_settings(epochs=30, checkpoint_every="20 steps", averaging={"mode": "diloco", "every": 10})
        self.write_pool(4)
        self.run_program("clusterize", "--clusters", "2", "--min-nodes-per-cluster", "2")
        undisturbed = self.start_providers(4)
        for process in undisturbed.values():
            self.assertEqual(process.wait(), 0, process.output() + process.errors())
        self.run_program("model_fusion")
        expected = self.trained()
        losses = self.losses()

        processes = self.start_providers(4)
        killed = self.clusters()[1][1]
        self.wait_for(lambda: len(list((self.node_data / "checkpoints").glob("60/*"))) == 4, "a checkpoint")
        number = int(killed.split("_")[1])
        processes[number].popen.kill()
        for i, process in processes.items():
            if i != number:
                self.assertEqual(process.wait(15), 1, process.output() + process.errors())
                self.assertIn(killed, process.errors())
        self.assertEqual(processes[number].wait(), 137)

        for process in [self.start("provider", "--name", f"node_{i}", "--resume") for i in range(4)]:
            self.assertEqual(process.wait(), 0, process.output() + process.errors())
        self.run_program("model_fusion")
        self.assertEqual(self.trained(), expected)
        self.assertEqual(self.losses(), losses)

    def test_a_cluster_on_new_machines_takes_the_state_of_another(self):
        """Clusters cut 1 and 2 ways, every node with a node_data of its own, of which a cluster loses its parts."""
        self.write_settings(epochs=30, checkpoint_every="20 steps", averaging={"mode": "gradients"}, shares="equal")
        self.write_pool(3)
        pins = [f"--pin=node_{node}={at}" for node, at in enumerate(("0:0", "1:0", "1:1"))]
        self.run_program("clusterize", "--clusters", "2", "--min-nodes-per-cluster", "1", *pins)
        homes = [self.folder / f"home_{node}" for node in range(3)]
        for home in homes:
            shutil.copytree(self.node_data, home, symlinks=True)

        def start(*resume):
            return [self.start("provider", "--name", f"node_{node}", "--node-data", home, *resume)
                    for node, home in enumerate(homes)]

        def finish(processes):
            for process in processes:
                self.assertEqual(process.wait(), 0, process.output() + process.errors())
            return [self.tensors(file.read_bytes()) for home in homes
                    for file in sorted(home.glob("cluster_*/*/trained.safetensors"))], self.losses()

        expected = finish(start())
        for lost in ((1, 2), (0,), (0, 2)):
            for home in homes:
                shutil.rmtree(home / "checkpoints")
            processes = start()
            self.wait_for(lambda: all((home / "checkpoints" / "40").is_dir() and any((home / "checkpoints" / "40").iterdir())
                                      for home in homes), "a checkpoint of all")
            processes[1].popen.kill()
            for process in processes:
                process.wait(15 * SLOWER)
            for node in lost:
                shutil.rmtree(homes[node] / "checkpoints")
            processes = start("--resume")
            self.assertTrue(finish(processes) == expected, f"without the checkpoints of nodes {lost}")
            # Of the last of these no cluster has all of its parts.
            said = "there is no checkpoint of this plan" if lost == (0, 2) else "going on after step "
            for process in processes:
                self.assertIn(said, process.output())

    def test_a_cluster_begins_with_the_state_of_another(self):
        """Clusters cut 1 and 2 ways, on machines of their own: the second has no checkpoint and is sent the first's state."""
        for averaging in ({"mode": "gradients"}, {"mode": "parameters", "every": 5, "optimizer": True},
                          {"mode": "diloco", "every": 4}):
            # Rounds of diloco leave each cluster an optimizer's state of its own, but of SGD, which has none.
            optimizer = {"name": "sgd", "learning_rate": 0.05} if averaging["mode"] == "diloco" else "adam"
            self.write_settings(epochs=12, checkpoint_every="20 steps", averaging=averaging, shares="equal",
                                optimizer=optimizer, keep_checkpoints=100)
            self.write_pool(3)
            pins = [f"--pin=node_{node}={at}" for node, at in enumerate(("0:0", "1:0", "1:1"))]
            self.run_program("clusterize", "--clusters", "2", "--min-nodes-per-cluster", "1", *pins)
            homes = [self.folder / f"home_{node}" for node in range(3)]
            for home in homes:
                shutil.rmtree(home, ignore_errors=True)
                shutil.rmtree(home.with_suffix(".written"), ignore_errors=True)
                shutil.copytree(self.node_data, home, symlinks=True)

            def train(options):
                processes = [self.start("provider", "--name", f"node_{node}", "--node-data", home, *options.get(node, ()))
                             for node, home in enumerate(homes)]
                for process in processes:
                    self.assertEqual(process.wait(), 0, process.output() + process.errors())
                trained = [self.tensors(file.read_bytes()) for home in homes
                           for file in sorted(home.glob("cluster_*/*/trained.safetensors"))]
                return (trained, self.losses()), [process.output() for process in processes]

            expected, _ = train({})
            written = [home.rename(home.with_suffix(".written")) for home in homes]
            for giver, takers in ((0, (1, 2)), (1, (0,))):
                with self.subTest(averaging=averaging["mode"], giver=giver):
                    for node, home in enumerate(homes):
                        shutil.rmtree(home, ignore_errors=True)
                        shutil.copytree(written[node], home, symlinks=True)
                        for folder in (home / "checkpoints").iterdir():
                            if node in takers or int(folder.name) > 40:
                                shutil.rmtree(folder)
                    options = {node: ("--sync-from", giver, "--sync-optimizer") if node in takers else ("--resume",)
                               for node in range(3)}
                    state, said = train(options)
                    self.assertTrue(state == expected)
                    for node in range(3):
                        self.assertIn(f"beginning after step 40 with the state of cluster {giver}" if node in takers
                                      else "going on after step 40", said[node])

    def test_launch_gives_all_clusters_the_state_of_one(self):
        self.write_settings(epochs=6, checkpoint_every="20 steps", averaging={"mode": "parameters", "every": 5},
                            keep_checkpoints=100, optimizer={"name": "sgd", "learning_rate": 0.05})
        self.write_pool(3)
        self.run_program("clusterize", "--clusters", "3", "--min-nodes-per-cluster", "1")
        self.run_program("launch")
        self.run_program("model_fusion")
        expected = self.trained()
        for part in (self.node_data / "checkpoints").glob("*/*"):
            if "_cluster_1_" not in part.name or int(part.parent.name) > 20:
                part.unlink()
        output, _ = self.run_program("launch", "--resume", "--sync-from", "1")
        self.assertIn("beginning after step 20 with the state of cluster 1", output)
        self.run_program("model_fusion")
        self.assertEqual(self.trained(), expected)

    def test_how_clusters_begin_has_to_fit(self):
        self.write_settings(epochs=2, averaging={"mode": "gradients"}, optimizer="adam")
        self.write_pool(2)
        self.run_program("clusterize", "--clusters", "2", "--min-nodes-per-cluster", "1")
        name = f"node_{self.clusters()[1][0].split('_')[1]}"
        for options, code, said in (
                (("--sync-from", "0"), 1, "give --sync-optimizer, too"),
                (("--sync-from", "1"), 1, "is the cluster of this node itself"),
                (("--sync-from", "2"), 1, "the plan has clusters 0 to 1"),
                (("--sync-from", "0", "--resume"), 2, "not both"),
                (("--sync-optimizer",), 2, "Give --sync-from CLUSTER, too")):
            _, errors = self.run_program("provider", "--name", name, *options, code=code)
            self.assertIn(said, errors)
        processes = [self.start("provider", "--name", f"node_{node}", "--resume") if f"node_{node}" == name
                     else self.start("provider", "--name", f"node_{node}") for node in range(2)]
        for process in processes:
            self.assertEqual(process.wait(), 1)
            self.assertIn("start both alike, or one with --sync-from the other", process.errors())

    def test_nodes_killed_at_any_time_change_no_bit(self):
        """Clusters cut 1, 2 and 3 ways, which average in every step, now and then, or all the time."""
        self.write_pool(6)
        pins = [f"--pin=node_{node}={at}" for node, at in enumerate(("0:0", "1:0", "1:1", "2:0", "2:1", "2:2"))]
        seed = random.randrange(1 << 32)
        drawn = random.Random(seed)
        ways = ({"mode": "gradients", "compression": "int8"},
                {"mode": "parameters", "every": 3, "optimizer": True},
                {"mode": "diloco", "every": 4, "fragments": 3, "overlap": 2, "compression": "topk:0.1:8"})
        for averaging in ways:
            self.write_settings(epochs=30, checkpoint_every="12 steps", averaging=averaging, shares="equal",
                                reconnect_grace_seconds=0.5, batch_size=30)
            self.run_program("clusterize", "--clusters", "3", "--min-nodes-per-cluster", "1", *pins)
            begin = time.monotonic()
            for process in self.start_providers(6).values():
                self.assertEqual(process.wait(), 0, process.output() + process.errors())
            length = time.monotonic() - begin
            self.run_program("model_fusion")
            expected = self.trained(), self.losses()
            shutil.rmtree(self.node_data / "checkpoints")
            for kill in range(KILLS // len(ways)):
                resume = ["--resume"] if kill > 0 else []
                processes = [self.start("provider", "--name", f"node_{node}", *resume) for node in range(6)]
                for process in processes:  # who has not come yet is awaited for longer
                    self.wait_for(lambda process=process: "training" in process.output(), "all nodes")
                time.sleep(drawn.uniform(0, 0.7 * length))
                number = drawn.randrange(6)
                with self.subTest(f"kill {kill} of seed {seed}: node_{number}"):
                    processes[number].popen.kill()
                    codes = [process.wait(15 * SLOWER) for process in processes]
                    if codes[number] == 0:  # it had ended
                        continue
                    for node, process in enumerate(processes):
                        if node != number and codes[node] != 0:
                            self.assertEqual(codes[node], 1, process.errors())
                            self.assertIn(f"node_{number}", process.errors())
                            if "this node finished" not in process.errors():
                                self.assertRegex(process.errors(), PLACE)
            for process in [self.start("provider", "--name", f"node_{node}", "--resume") for node in range(6)]:
                self.assertEqual(process.wait(), 0, process.output() + process.errors())
            self.run_program("model_fusion")
            self.assertEqual((self.trained(), self.losses()), expected, f"seed {seed}")

    def start_five(self, **settings):
        """The pool of a cluster of three and one of two, planned."""
        self.write_settings(epochs=100000, **settings)
        self.write_pool(5)
        pins = [f"node_{node}={place}" for node, place in enumerate(("0:0", "0:1", "0:2", "1:0", "1:1"))]
        self.run_program("clusterize", "--clusters", "2", "--min-nodes-per-cluster", "2",
                         *(argument for pin in pins for argument in ("--pin", pin)))
        (self.folder / "losses.txt").unlink(missing_ok=True)

    def test_whoever_is_lost_is_named_once_by_all_nodes_of_all_clusters(self):
        for lost in range(5):
            how = (signal.SIGKILL, signal.SIGSTOP)[lost % 2]
            mode = ("gradients", "parameters", "diloco")[lost % 3]
            with self.subTest(node=lost, how=how, mode=mode):
                self.start_five(averaging={"mode": mode} if mode == "gradients" else {"mode": mode, "every": 3},
                                peer_timeout_seconds=2.0 * SLOWER)
                processes = self.start_providers(5)
                self.wait_for_steps(20)
                processes[lost].popen.send_signal(how)
                name = rf"node_{lost} \(127\.0\.0\.1:{self.ports[lost]}\)"
                where = r" in (its pipeline, beside )?(ring \d|the Roots' ring), round \d+"
                for i, process in processes.items():
                    if i == lost:
                        continue
                    self.assertEqual(process.wait(15 * SLOWER), 1, process.output() + process.errors())
                    end = process.errors().splitlines()[-1]
                    self.assertRegex(end, rf"^provider: (node_\d \(\S+\) ended the run: )?{name} is lost{where}: ")
                    self.assertEqual(end.count("is lost"), 1, end)
                processes[lost].close()

    def test_who_never_comes_is_named_by_all_nodes_of_all_clusters(self):
        # Only the last has little patience, and it comes when all others are there: it has nobody else to name.
        for missing, last in ((0, 1), (4, 3)):
            with self.subTest(node=missing):
                self.start_five()
                processes = [self.start("provider", "--name", f"node_{i}") for i in range(5) if i not in (missing, last)]
                for process in processes:
                    self.wait_for(lambda process=process: re.search("waiting for node_|training", process.output()),
                                  "a provider that takes part")
                processes.append(self.start("provider", "--name", f"node_{last}", "--wait-for-peers", 3 * SLOWER))
                for process in processes:
                    self.assertEqual(process.wait(), 1, process.output() + process.errors())
                    self.assertRegex(process.errors().splitlines()[-1],
                                     rf"gave up after \d s: node_{missing} \(\S+\) never answered")

    def test_another_number_of_clusters_goes_on(self):
        steps = 0
        for clusters, stages, epochs in ((2, 2, 3), (1, 3, 5), (3, 1, 7)):
            self.write_settings(epochs=epochs, batch_size=48 // clusters, shares="equal",
                                averaging={"mode": "diloco", "every": 5, "compression": "int8"})
            self.write_pool(clusters * stages)
            resume = ["--resume"] if steps else []
            self.run_program("clusterize", "--clusters", str(clusters), "--min-nodes-per-cluster", str(stages), *resume)
            for process in self.start_providers(clusters * stages).values():
                self.assertEqual(process.wait(), 0, process.output() + process.errors())
            steps = epochs * 23  # of 1078 samples, 48 at a time
            self.assertEqual(len(self.losses()), steps)
            self.run_program("model_fusion")
            output, _ = self.run_program("model_fusion", "--checkpoint", "--out", "from_checkpoint")
            self.assertIn(f"trained for {steps} steps", output)
            fused = (self.folder / "from_checkpoint" / "trained_state_dict.safetensors").read_bytes()
            self.assertEqual(self.tensors(fused), self.tensors(self.trained()))

    def test_a_signal_ends_all_clusters_between_two_rounds(self):
        self.write_settings(epochs=400, validate_every=0, averaging={"mode": "parameters", "every": 5})
        self.write_pool(4)
        self.run_program("clusterize", "--clusters", "2", "--min-nodes-per-cluster", "2")
        processes = self.start_providers(4)
        self.wait_for_steps(30)
        stopped = self.clusters()[1][0]
        number = int(stopped.split("_")[1])
        processes[number].popen.terminate()
        self.assertEqual(processes[number].wait(), 143, processes[number].errors())
        for i, process in processes.items():
            if i != number:
                self.assertEqual(process.wait(), 1, process.output() + process.errors())
                self.assertIn("the checkpoint of step", process.errors())
                self.assertIn(stopped, process.errors())
        steps = {path.name for path in (self.node_data / "checkpoints").iterdir() if len(list(path.iterdir())) == 4}
        self.assertEqual(len(steps), 1)
        self.assertEqual(int(steps.pop()) % 5, 0)


if __name__ == "__main__":
    unittest.main()
