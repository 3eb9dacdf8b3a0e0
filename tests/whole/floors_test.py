"""The include floors: the repository keeps them, and the check sees every way to break them."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import check_floors  # noqa: E402


class Floors(unittest.TestCase):
    def test_the_repository_keeps_them(self):
        self.assertEqual(check_floors.check(ROOT), [])

    def test_every_room_of_the_table_exists(self):
        missing = [room for room in check_floors.FLOORS if not list((ROOT / room).glob("*.[hc]pp"))]
        self.assertEqual(missing, [])

    def faults(self, files):
        """What the check says of a tree of these files."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_floors.check(pathlib.Path(folder))

    def assert_fault(self, files, place, reason):
        faults = self.faults(files)
        self.assertEqual(len(faults), 1, faults)
        self.assertTrue(faults[0].startswith(place + ": "), faults)
        self.assertIn(reason, faults[0])

    def test_downward_is_fine(self):
        self.assertEqual(self.faults({"models/base/a.hpp": "", "node/b.cpp": '#include "models/base/a.hpp"\n'}), [])

    def test_upward(self):
        files = {"node/a.hpp": "", "trainer/b.cpp": '\n#include "node/a.hpp"\n'}
        self.assert_fault(files, "trainer/b.cpp:2", "trainer (floor 6) includes node/a.hpp of node (floor 7)")

    def test_sideways(self):
        files = {"clusterize/search.hpp": "", "node/b.cpp": '#include "clusterize/search.hpp"\n'}
        self.assert_fault(files, "node/b.cpp:1", "of clusterize (floor 7)")

    def test_a_room_within_a_room_has_its_own_floor(self):
        files = {"clusterize/plan/plan.hpp": "", "node/b.cpp": '#include "clusterize/plan/plan.hpp"\n'}
        self.assertEqual(self.faults(files), [])

    def test_relative_path(self):
        files = {"node/a.hpp": "", "node/b.cpp": '#include "a.hpp"\n'}
        self.assert_fault(files, "node/b.cpp:1", "full path")

    def test_a_folder_without_a_floor(self):
        files = {"models/base/a.hpp": "", "models/new/b.cpp": '#include "models/base/a.hpp"\n'}
        self.assert_fault(files, "models/new/b.cpp:1", "belongs to no room")

    def test_the_library_of_another_room(self):
        self.assert_fault({"trainer/b.cpp": "#include <zmq.hpp>\n"}, "trainer/b.cpp:1", "affair of node")

    def test_a_header_that_exposes_a_library(self):
        files = {
            "models/kernels/inner.hpp": "#include <Eigen/Dense>\n",
            "models/kernels/outer.hpp": '#include "models/kernels/inner.hpp"\n',
            "models/runtime/b.cpp": '#include "models/kernels/outer.hpp"\n',
        }
        self.assert_fault(files, "models/runtime/b.cpp:1", "exposes a library of models/kernels")


if __name__ == "__main__":
    unittest.main()
