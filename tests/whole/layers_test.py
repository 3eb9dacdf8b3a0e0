"""The include layers: the repository keeps them, and the check sees every way to break them. And the map of the
repository: comments and documents name files that are there."""

import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import check_layers  # noqa: E402


TOPS = sorted({module.split("/")[0] for module in check_layers.LAYER_OF}) + ["tests", "bench", "docs", "node_data"]
FILES = [*ROOT.glob("*.md"), *(path for top in TOPS for path in (ROOT / top).rglob("*.*"))]


def named_files(path):
    """The .hpp, .cpp and .md files that a document, or the comments of a source, name, each with its line."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line if path.suffix == ".md" else line.partition("//")[2]
        for name in re.findall(r"(?<![*\w/.-])(?:\.\./)*([\w./-]*\w\.(?:hpp|cpp|md))\b", re.sub(r"https?://\S+", "", text)):
            yield number, name


class Layers(unittest.TestCase):
    def test_the_repository_keeps_them(self):
        self.assertEqual(check_layers.check(ROOT), [])

    def test_every_module_of_the_table_exists(self):
        missing = [module for module in check_layers.LAYER_OF if not list((ROOT / module).glob("*.[hc]pp"))]
        self.assertEqual(missing, [])

    def test_the_design_names_every_module(self):
        design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
        table = design.partition("## Modules and layers")[2].partition("## ")[0]
        named = [name for row in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)]
        self.assertEqual(sorted(named), sorted(check_layers.LAYER_OF))
        layers = [check_layers.LAYER_OF[module] for module in named]
        self.assertEqual(layers, sorted(layers), "rows do not stand from the lowest layer up")
        for place in re.findall(r"`((?:models|trainer|clusterize|node|fusion)/[\w/.]*)`", design):
            with self.subTest(place):
                self.assertTrue((ROOT / place).exists())

    def test_the_files_that_comments_and_documents_name_exist(self):
        there = ["/" + path.relative_to(ROOT).as_posix() for path in FILES]
        ends = {name[i:] for name in there for i in range(len(name)) if name[i] == "/"}
        missing = [
            f"{path.relative_to(ROOT)}:{number}: there is no {name}"
            for path in FILES
            if path.suffix in {".hpp", ".cpp", ".md"}
            for number, name in named_files(path)
            if "/" + name not in ends
        ]
        self.assertEqual(missing, [])

    def faults(self, files):
        """What the check says of a tree of these files."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_layers.check(pathlib.Path(folder))

    def assert_fault(self, files, place, reason):
        faults = self.faults(files)
        self.assertEqual(len(faults), 1, faults)
        self.assertTrue(faults[0].startswith(place + ": "), faults)
        self.assertIn(reason, faults[0])

    def test_downward_is_fine(self):
        self.assertEqual(self.faults({"models/base/a.hpp": "", "node/b.cpp": '#include "models/base/a.hpp"\n'}), [])

    def test_upward_and_sideways_in_every_module(self):
        for module, layer in check_layers.LAYER_OF.items():
            for other, other_layer in check_layers.LAYER_OF.items():
                if other == module:
                    continue
                file, header = module + "/planted.cpp", other + "/planted.hpp"
                with self.subTest(file=file, header=header):
                    files = {header: [], file: [(2, True, header)]}
                    fault = check_layers.fault(file, True, header, files, set())
                    if other_layer < layer:
                        self.assertIsNone(fault)
                    else:
                        self.assertEqual(
                            fault,
                            f"{module} (layer {layer}) includes {header} of {other} (layer {other_layer})",
                        )

    def test_an_upward_include_in_a_tree(self):
        self.assert_fault(
            {"node/a.hpp": "", "models/base/b.cpp": '\n#include "node/a.hpp"\n'}, "models/base/b.cpp:2", "node/a.hpp")

    def test_a_circle_of_headers(self):
        faults = self.faults({"node/a.hpp": '#include "node/b.hpp"\n', "node/b.hpp": '#include "node/a.hpp"\n'})
        self.assertEqual(
            faults,
            [
                "node/a.hpp:1: including node/b.hpp leads back to this header",
                "node/b.hpp:1: including node/a.hpp leads back to this header",
            ],
        )

    def test_a_folder_of_too_many_files(self):
        files = {f"node/file_{i}.hpp": "" for i in range(check_layers.MOST_FILES + 1)}
        self.assertEqual(self.faults(files), [f"node: {len(files)} source files, {len(files) - 1} at most"])

    def test_a_constant_that_hides_another(self):
        header = "namespace rookery {\nconstexpr int kMost = 3;\n}\n"
        source = "namespace {\n\nconstexpr int kMost = 8;\n"
        self.assert_fault(
            {"models/base/a.hpp": header, "node/b.cpp": source}, "node/b.cpp:3", "kMost hides that of models/base/a.hpp")
        self.assertEqual(self.faults({"models/base/a.hpp": header, "node/b.cpp": source.replace("kMost", "kLeast")}), [])
        self.assertEqual(self.faults({"clusterize/a.hpp": header, "models/base/b.cpp": source}), [])

    def test_two_types_of_one_name(self):
        header = "namespace rookery {\nstruct Place {\n};\n}\n"
        files = {"models/base/a.hpp": header, "node/b.hpp": header}
        self.assert_fault(files, "node/b.hpp:2", "there is another rookery::Place in models/base/a.hpp")
        self.assertEqual(self.faults(files | {"node/b.hpp": header.replace("rookery", "rookery::simd")}), [])
        self.assertEqual(self.faults(files | {"node/b.hpp": "namespace rookery {\nstruct Place;\n}\n"}), [])

    def test_a_library_whose_templates_are_compiled_once(self):
        own = {"models/base/libraries/format.hpp": "#include <fmt/format.h>\n"}
        self.assert_fault(
            own | {"node/b.cpp": "#include <fmt/format.h>\n"}, "node/b.cpp:1", '"models/base/libraries/format.hpp"')
        self.assertEqual(self.faults(own | {"node/b.cpp": '#include "models/base/libraries/format.hpp"\n'}), [])

    def test_a_module_within_a_module_has_its_own_layer(self):
        files = {"clusterize/plan/plan.hpp": "", "node/b.cpp": '#include "clusterize/plan/plan.hpp"\n'}
        self.assertEqual(self.faults(files), [])

    def test_relative_path(self):
        files = {"node/a.hpp": "", "node/b.cpp": '#include "a.hpp"\n'}
        self.assert_fault(files, "node/b.cpp:1", "full path")

    def test_a_folder_without_a_layer(self):
        files = {"models/base/a.hpp": "", "models/new/b.cpp": '#include "models/base/a.hpp"\n'}
        self.assert_fault(files, "models/new/b.cpp:1", "belongs to no module")

    def test_the_library_of_another_module(self):
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
