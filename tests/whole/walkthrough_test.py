"""The README's walkthrough, exactly as it stands there, on free ports."""

import os
import re
import shutil
import subprocess
import sys
import unittest

from whole import BIN, PATIENCE, ROOT, SLOWER, Process, WholeTest, free_ports

README = (ROOT / "README.md").read_text()


MAIN_PART, _, REST = README.partition("## Several clusters")
SEVERAL_CLUSTERS = REST.partition("## ")[0]


def code_blocks(language, text=README):
    """The commands of all blocks of this language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


class Walkthrough(WholeTest):
    def setUp(self):
        super().setUp()
        shutil.rmtree(self.node_data)
        shutil.copytree(ROOT / "node_data", self.node_data, ignore=shutil.ignore_patterns("nodes", "cluster_*"))
        (self.folder / "build").mkdir()
        (self.folder / "build" / "bin").symlink_to(BIN)
        self.use_free_ports()
        if SLOWER > 1:
            self.write_settings(epochs=5)

    def use_free_ports(self):
        """Their ports are rewritten; everything else is the pool that users get."""
        ports = free_ports(6)
        for name, nodes in (("node_configs.json", 3), ("pools/six_nodes.json", 6)):
            path = self.node_data / name
            text = path.read_text()
            for old, new in zip(range(8080, 8080 + nodes), ports):
                self.assertIn(f":{old}\"", text)
                text = text.replace(f":{old}\"", f":{new}\"")
            path.write_text(text)

    def start_line(self, exports, line):
        process = Process(["bash", "-c", f"{exports}\nexec {line}"], self.folder)
        self.addCleanup(process.close)
        return process

    def run_lines(self, lines):
        """A shell that runs each line, but for providers, whose terminals are all open at once.
        Returns the output of the last command."""
        exports, terminals, output = "", [], ""

        def finish(process):
            self.assertEqual(process.wait(), 0, process.output() + process.errors())

        for line in lines:
            if line.startswith("export "):
                exports += line + "\n"
                continue
            if not line.startswith("provider"):
                for terminal in terminals:
                    finish(terminal)
                terminals = []
            process = self.start_line(exports, line)
            if line.startswith("provider"):
                terminals.append(process)
            else:
                finish(process)
                output = process.output()
        return output

    def test_as_written(self):
        lines = [line for block in code_blocks("sh", MAIN_PART) for line in block.splitlines()]
        self.check_accuracy(self.run_lines(lines))
        epochs = 100 if SLOWER == 1 else 5
        self.assertEqual(len(self.losses()), epochs * 17)

        python = "\n".join(code_blocks("python"))
        shown = subprocess.run(
            [sys.executable, "-c", python], cwd=self.folder, capture_output=True, text=True, check=True,
            timeout=PATIENCE, env=os.environ,
        ).stdout
        self.assertIn("'dense_2.weight': (10, 256)", shown)

    def check_accuracy(self, output):
        accuracy = float(re.search(r"(\d+\.\d+)\s*%", output).group(1))
        self.assertGreaterEqual(accuracy, 97.0 if SLOWER == 1 else 20.0, output)

    def test_several_clusters_as_written(self):
        (block,) = code_blocks("sh", SEVERAL_CLUSTERS)
        self.check_accuracy(self.run_lines(["export PATH=$PWD/build/bin:$PATH", *block.splitlines()]))
        epochs = 100 if SLOWER == 1 else 5
        self.assertEqual(len(self.losses()), epochs * 9)
        self.assertEqual(len((self.folder / "cluster_1" / "losses.txt").read_text().split()), epochs * 9)

    def test_what_is_built_is_all_that_is_used(self):
        """By the commands under "By hand", in a folder of its own and without the compiler's work; and by the quickstart."""
        by_hand = README.partition("## By hand")[2].partition("```sh")[0]
        configure, build = re.findall(r"^    (cmake .*)$", by_hand, re.MULTILINE)
        folder = str(self.folder / "dry")

        def run(*command):
            return subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE,
            ).stdout

        run(*configure.split(), "-B", folder)
        self.assertEqual(build, "cmake --build --preset release")
        quickstart = (ROOT / "scripts" / "quickstart.sh").read_text()
        (targets,) = re.findall(r"^build release (.*)$", quickstart, re.MULTILINE)
        programs = {path.name.removesuffix("_main.cpp") for path in ROOT.glob("*/**/*_main.cpp")}
        used = {word for word in re.findall(r"\w+", README) if word in programs}
        self.assertIn("node_benchmark", used)
        for built in ([], targets.split()):
            with self.subTest(built):
                commands = run("ninja", "-C", folder, "-t", "commands", *built)
                self.assertEqual(used - set(re.findall(r"-o bin/(\w+)", commands)), set())

    def test_the_pool_of_the_readme_is_a_pool(self):
        (pool,) = code_blocks("json")
        (self.node_data / "node_configs.json").write_text(pool)
        output, _ = self.run_program("clusterize")
        self.assertIn("10.0.0.7:8080", output)


if __name__ == "__main__":
    unittest.main()
