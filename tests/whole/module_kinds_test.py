"""Modules of all kinds train here as in PyTorch, to rounding, on one node and on three, and come back strictly."""

import unittest

import exported
from torch_modules import CASES


class ModuleKinds(exported.ExportTest):
    def test_all(self):
        self.assertGreaterEqual(len(CASES), 30)
        for case in CASES:
            with self.subTest(case.name):
                self.check(case)


class ModuleKindsByProgram(exported.ByProgram, ModuleKinds):
    """The same by PyTorch's newer exporter."""


class OtherPyTorches(exported.OtherPyTorches):
    script = __file__


if __name__ == "__main__":
    unittest.main()
