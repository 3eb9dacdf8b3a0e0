"""Files of different plans in one node_data: nobody trains or fuses them."""

import json
import shutil
import unittest

from whole import WholeTest


class OtherPlan(WholeTest):
    def setUp(self):
        super().setUp()
        self.run_program("clusterize")
        shutil.copytree(self.node_data, self.folder / "other")
        self.run_program("clusterize", "--node-data", "other", "--seed", 7)
        self.plans = [json.loads((self.folder / name / "plan.json").read_text())["plan_id"]
                      for name in ("node_data", "other")]
        self.assertNotEqual(*self.plans)

    def take_from_other(self, name):
        """This file or folder of node_data comes from the other plan's."""
        there = self.node_data / name
        if there.is_dir():
            shutil.rmtree(there)
            shutil.copytree(self.folder / "other" / name, there)
        else:
            shutil.copy(self.folder / "other" / name, there)

    def assert_refused(self, program, *arguments, names=()):
        output, errors = self.run_program(program, *arguments, code=1)
        for part in (*self.plans, *names):
            self.assertIn(part, output + errors)

    def test_a_stage_folder_of_another_plan_is_not_trained(self):
        folder = f"cluster_0/127.0.0.1:{self.ports[2]}"
        self.take_from_other(folder)
        fix = "copy node_data from the same clusterize run to every machine"
        self.assert_refused("provider", "--name", "node_2", names=[f"{folder}/submod.onnx", fix])
        self.assert_refused("launch", names=["node_2", fix])
        self.assertEqual(self.losses(), [])

    def test_a_node_file_of_another_plan_is_not_launched(self):
        self.take_from_other("nodes/node_1.json")
        self.assert_refused("launch", names=["node_1"])
        self.assert_refused("provider", "--name", "node_1", names=["nodes/node_1.json"])

    def test_submodels_of_different_plans_are_not_fused(self):
        for arguments in ([], ["--node-data", "other"]):
            self.run_program("launch", *arguments)
        trained = f"cluster_0/127.0.0.1:{self.ports[1]}/trained.safetensors"
        self.take_from_other(trained)
        self.assert_refused("model_fusion", names=[trained])
        self.assert_refused("evaluate", "--state", "node_data/cluster_0", names=[trained])


if __name__ == "__main__":
    unittest.main()
