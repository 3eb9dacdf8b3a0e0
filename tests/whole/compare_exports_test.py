"""What other exporters make of modules trains as in PyTorch, or clusterize says what is lost; nothing trains wrongly."""

import unittest

import compare_exports
import exported
from torch_modules import CASES, LOST_BY_OTHERS, case_of, traps

OURS, PAGE = "rookery_export", "docs/bring-your-model.md"


class CompareExports(unittest.TestCase):
    def test_none_trains_wrongly(self):
        for case in CASES + LOST_BY_OTHERS:
            for way in compare_exports.WAYS:
                if way in (OURS, PAGE):
                    continue
                with self.subTest(case.name, way=way):
                    outcome, why = compare_exports.compared(case, way)
                    self.assertIn(outcome, ("right", "told", "refused", "no export"), why)

    def test_what_the_page_says(self):
        """Of what a graph does not show: what train.json says is right, the rest is told."""
        lost = {traps.Detached, traps.Guarded, traps.Padded, traps.Tested, traps.Buffers}
        right = {traps.Frozen, traps.FineTuned, traps.Evaluated, traps.Tied, traps.Normalized, traps.Scaled}
        for make in (*lost, *right):
            with self.subTest(make.__name__):
                outcome, why = compare_exports.compared(case_of(make), PAGE)
                self.assertEqual(outcome, "told" if make in lost else "right", why)


class OtherPyTorches(exported.OtherPyTorches):
    script = __file__


if __name__ == "__main__":
    unittest.main()
