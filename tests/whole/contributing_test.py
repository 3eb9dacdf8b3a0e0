"""CONTRIBUTING.md: the files that it names are there, and adding a thing touches no more of them than it says."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PROGRAMS = ("models", "trainer", "clusterize", "node", "fusion")


def sources_with(text, *without):
    """The sources of the programs in which this text stands, but for those below the folders `without`."""
    paths = (path for top in PROGRAMS for path in (ROOT / top).rglob("*.[hc]pp"))
    names = (path.relative_to(ROOT).as_posix() for path in paths if text in path.read_text(encoding="utf-8"))
    return sorted(name for name in names if not name.startswith(without))


class Contributing(unittest.TestCase):
    def test_the_files_that_it_names_are_there(self):
        places = re.findall(r"`((?:models|trainer|clusterize|node|fusion|tests|scripts|docs|bench)/[\w./]*)`", GUIDE)
        self.assertGreater(len(places), 30)
        for place in places:
            with self.subTest(place):
                self.assertTrue((ROOT / place).exists())

    def test_an_operator_is_named_in_three_files_beside_its_kernels(self):
        for operator in ("Softplus", "Erf", "HardSwish", "LeakyRelu", "Tile", "CumSum", "Trilu", "GatherND", "Elu"):
            with self.subTest(operator):
                files = sources_with(f'"{operator}"', "models/kernels/", "models/zoo/")
                self.assertLessEqual(len(files), 3, files)
                self.assertIn("models/graph/ops/", " ".join(files))

    def test_a_kernel_is_named_in_its_file_alone(self):
        for operator in ("Softplus", "Erf", "HardSwish", "Tile", "CumSum", "Trilu", "GatherND"):
            with self.subTest(operator):
                files = [name for name in sources_with(f'"{operator}"') if name.startswith("models/kernels/eigen/")]
                self.assertEqual(len(files), 1, files)

    def test_a_data_format_is_named_in_two_files(self):
        rows = re.findall(r"^DataFormat (\w+)\(\);", (ROOT / "trainer/data/formats.hpp").read_text(), re.MULTILINE)
        self.assertGreater(len(rows), 5)
        for row in rows:
            with self.subTest(row):
                self.assertEqual(len(sources_with(row)), 2, sources_with(row))

    def test_its_commands_are_those_of_the_scripts(self):
        for script in re.findall(r"^    (scripts/\w+\.\w+|\.ci/run)", GUIDE, re.MULTILINE):
            with self.subTest(script):
                self.assertTrue((ROOT / script).is_file())
        for preset in re.findall(r"--preset ([\w-]+)", GUIDE):
            with self.subTest(preset):
                self.assertIn(f'"name": "{preset}"', (ROOT / "CMakePresets.json").read_text())


if __name__ == "__main__":
    unittest.main()
