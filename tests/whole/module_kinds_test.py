"""Modules of all kinds train here as in PyTorch, to rounding, on one node and on three, and come back strictly."""

import unittest

import exported
from torch_modules import CASES
from whole import SLOWER


class ModuleKinds(exported.ExportTest):
    def test_all(self):
        self.assertGreaterEqual(len(CASES), 30)
        # With sanitizers some: what differs between modules is what PyTorch writes, which other tests read with them.
        for case in CASES if SLOWER == 1 else CASES[::3]:
            with self.subTest(case.name):
                self.check(case)


class ModuleKindsByProgram(exported.ByProgram, ModuleKinds):
    """The same by PyTorch's newer exporter."""


class OtherPyTorches(exported.OtherPyTorches):
    script = __file__


if __name__ == "__main__":
    unittest.main()
