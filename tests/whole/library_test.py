"""docs/library.md: what cmake --install puts in place is found by find_package, and the program in docs/library, built
from it, trains beside standard providers."""

import os
import re
import subprocess
import unittest

from whole import BIN, PATIENCE, ROOT, Process, WholeTest

BUILD = BIN.parent


class Library(WholeTest):
    def cmake(self, *arguments):
        done = subprocess.run(["cmake", *map(str, arguments)], capture_output=True, text=True,
                              timeout=10 * PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def build(self):
        prefix, build = self.folder / "prefix", self.folder / "build"
        self.cmake("--install", BUILD, "--prefix", prefix)
        self.assertTrue((prefix / "share" / "rookery" / "rookery_export.py").exists())
        sanitizers = os.environ.get("ROOKERY_SANITIZED")
        flags = f"-fsanitize={sanitizers}" if sanitizers else ""
        compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.+)$", (BUILD / "CMakeCache.txt").read_text(), re.M)[1]
        self.cmake("-S", ROOT / "docs" / "library", "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
                   f"-DCMAKE_CXX_COMPILER={compiler}", f"-DCMAKE_CXX_FLAGS={flags}")
        self.cmake("--build", build)
        return prefix, build / "spirals"

    def test_a_program_of_ones_own(self):
        prefix, spirals = self.build()
        root = Process([spirals], self.folder)
        self.addCleanup(root.close)
        self.wait_for((self.node_data / "plan.json").exists, "the plan")
        others = [Process([prefix / "bin" / "provider", "--name", f"node_{i}"], self.folder) for i in (1, 2)]
        for process in (root, *others):
            self.addCleanup(process.close)
            self.assertEqual(process.wait(), 0, process.output() + process.errors())
        losses = [float(line) for line in self.losses()]
        self.assertEqual(len(losses), 60 * 12)
        self.assertLess(losses[-1], 0.1 * losses[0])
        self.assertEqual(len((self.folder / "val_losses.txt").read_text().split()), 60)
        self.assertEqual({path.name for path in (self.folder / "trained").iterdir()},
                         {"trained_state_dict.safetensors", "trained_state_dict.pt", "trained_model.onnx"})

    def test_the_page_is_about_this_program(self):
        page = (ROOT / "docs" / "library.md").read_text()
        program = (ROOT / "docs" / "library" / "spirals.cpp").read_text()
        self.assertLessEqual(len(program.splitlines()), 60)
        blocks = [part.split("```")[0] for part in page.split("```cpp\n")[1:]]
        self.assertGreater(len(blocks), 0)
        for block in blocks:
            self.assertIn(block.strip(), program, "docs/library.md shows what is not in the program")


if __name__ == "__main__":
    unittest.main()
