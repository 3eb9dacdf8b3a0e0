"""What a run writes: that there is no room is told before the first step, and what was trained is not lost."""

import os
import pathlib
import resource
import shutil
import signal
import unittest

from whole import SLOWER, WholeTest

EPOCHS = 300 // SLOWER  # long enough to meddle with it


class Saving(WholeTest):
    def setUp(self):
        super().setUp()
        self.write_settings(epochs=EPOCHS)
        self.run_program("clusterize")
        self.stages = [self.node_data / "cluster_0" / f"127.0.0.1:{port}" for port in self.ports]

    def limit(self, process, what, bytes_or_files):
        """Of a process that runs; a limit on the size of files stands for a full disk."""
        _, most = resource.prlimit(process.popen.pid, what)
        resource.prlimit(process.popen.pid, what, (bytes_or_files, most))

    def trained(self):
        return [(stage / "trained.safetensors").exists() for stage in self.stages]

    def assert_ends(self, providers, *codes):
        for i, code in enumerate(codes):
            self.assertEqual(providers[i].wait(), code, f"node_{i}\n{providers[i].errors()}")

    def test_room_is_taken_before_training(self):
        for limit, file in ((20000, "trained.safetensors: no room for its"), (0, "losses.txt: no room for its")):
            with self.subTest(file):
                if limit == 0:
                    self.write_settings(epochs=EPOCHS, save=False)
                    self.run_program("clusterize")
                    limit = 20000
                before = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
                try:
                    alone = self.start("provider", "--name", "node_2")
                finally:
                    resource.setrlimit(resource.RLIMIT_FSIZE, before)
                self.assertEqual(alone.wait(20 * SLOWER), 1)  # without waiting for its peers
                self.assertIn(file, alone.errors())
                self.assertIn("File too large", alone.errors())

    def test_a_stage_folder_that_is_gone_at_the_end_costs_nobody_anything(self):
        providers = self.start_providers(3)
        self.wait_for_steps(5)
        shutil.rmtree(self.stages[1])
        self.stages[1].write_text("in the way")
        self.assert_ends(providers, 0, 1, 0)
        errors = providers[1].errors()
        saved = self.folder / next(self.folder.glob("trained_node_1_*.safetensors"))
        self.assertIn(f"the trained weights of node_1 are in {saved}: move them to ", errors)
        self.assertIn(f"{self.stages[1].name}/trained.safetensors", errors)
        self.stages[1].unlink()
        self.stages[1].mkdir()
        saved.rename(self.stages[1] / "trained.safetensors")
        self.run_program("model_fusion")

    def test_a_stage_folder_that_was_removed_is_made_anew(self):
        providers = self.start_providers(3)
        self.wait_for_steps(5)
        shutil.rmtree(self.stages[1])
        self.assert_ends(providers, 0, 0, 0)
        self.assertEqual(self.trained(), [True] * 3)

    @unittest.skipIf(os.environ.get("ROOKERY_SANITIZED"), "a sanitizer's checks take descriptors themselves")
    def test_without_free_descriptors_weights_are_saved(self):
        # What stands stays, however long a silence: the limit is below numbers that a new connection needs.
        self.write_settings(epochs=EPOCHS, peer_timeout_seconds=600)
        self.run_program("clusterize")
        providers = self.start_providers(3)
        self.wait_for_steps(5)
        for process in providers.values():  # those that are open stay
            taken = {int(path.name) for path in pathlib.Path(f"/proc/{process.popen.pid}/fd").iterdir()}
            self.limit(process, resource.RLIMIT_NOFILE, min(set(range(len(taken) + 1)) - taken))
        self.assert_ends(providers, 0, 0, 0)
        self.assertEqual(self.trained(), [True] * 3)

    def test_a_full_disk_under_the_log_is_a_warning(self):
        providers = self.start_providers(3)
        self.wait_for_steps(5)
        self.limit(providers[2], resource.RLIMIT_FSIZE, 4000)  # which has room for what it says, in a file, too
        self.wait_for(lambda: "losses.txt: cannot write" in providers[2].errors(), "the warning")
        self.limit(providers[2], resource.RLIMIT_FSIZE, resource.RLIM_INFINITY)
        self.assert_ends(providers, 0, 0, 0)
        self.assertEqual(len(self.losses()), EPOCHS * 17)
        self.assertEqual(providers[2].errors().count("losses.txt: cannot write"), 1)

    def test_a_killed_provider_leaves_no_half_of_a_file(self):
        providers = self.start_providers(3)
        self.wait_for_steps(5)
        providers[1].popen.send_signal(signal.SIGKILL)
        self.assert_ends(providers, 1, 137, 1)
        self.assertEqual([path.name for path in self.stages[1].glob("trained*")], [])


if __name__ == "__main__":
    unittest.main()
