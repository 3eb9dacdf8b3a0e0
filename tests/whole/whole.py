"""What tests of the whole share: a working directory with a node_data of its own on free ports, and
commands run in it."""

import collections
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ROOKERY_BIN_DIR", ROOT / "build" / "bin"))
# Programs built with sanitizers are several times slower.
SLOWER = 3 if os.environ.get("ROOKERY_SANITIZED") else 1
# Longest time that a command of these tests may take before it counts as hung.
PATIENCE = 60 * SLOWER


# Descriptors of the newest sockets that claim ports: see free_ports().
_claims = collections.deque()
MOST_CLAIMS = 100


def claim_port(port):
    """A socket that claims the port; None where somebody has it."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0rookery-test-port-{port}")
        with socket.socket() as probe:
            probe.bind(("0.0.0.0", port))
    except OSError:
        claim.close()
        return None
    return claim


def free_ports(count, chunks=1):
    """Ports that nobody listens on and that no other test takes while this process lives, until it has asked
    for a hundred more: their numbers are claimed by sockets whose names the system frees by itself (the tests in
    C++ use the same names). They lie below those that the system hands out, so that no connection takes one, either.
    So are those of as many chunks of each machine, which are a thousand apart."""
    ports = []
    while len(ports) < count:
        port = random.randint(10000, 30000)
        claims = [claim_port(port + 1000 * chunk) for chunk in range(chunks)]
        if None in claims:
            for claim in filter(None, claims):
                claim.close()
            continue
        _claims.extend(claim.detach() for claim in claims)
        ports.append(port)
    while len(_claims) > MOST_CLAIMS:
        os.close(_claims.popleft())
    return ports


def is_taken(port):
    """Does somebody listen there?"""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Process:
    """A command in the background; its output goes to files, so that it never blocks on a pipe."""

    def __init__(self, arguments, cwd):
        self.name = pathlib.Path(arguments[0]).name
        self.out, self.err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.popen = subprocess.Popen(
            [str(argument) for argument in arguments], cwd=cwd, stdin=subprocess.DEVNULL,
            stdout=self.out, stderr=self.err,
        )

    def wait(self, seconds=PATIENCE):
        """Exit code as a shell gives it; the test fails when it takes longer."""
        try:
            code = self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
            raise AssertionError(f"{self.name} still runs after {seconds} s\n{self.output()}") from None
        return 128 - code if code < 0 else code

    def output(self):
        """Standard output so far."""
        return self._read(self.out)

    def errors(self):
        """Standard error so far."""
        return self._read(self.err)

    def close(self):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()
        self.out.close()
        self.err.close()

    @staticmethod
    def _read(file):
        file.flush()
        return pathlib.Path(f"/proc/self/fd/{file.fileno()}").read_text()


class WholeTest(unittest.TestCase):
    """A test with a working directory `self.folder` that holds a node_data of the digits job."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rookery-whole-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.node_data = self.folder / "node_data"
        (self.node_data / "datasets").mkdir(parents=True)
        shutil.copy(ROOT / "node_data" / "datasets" / "digits.csv.gz", self.node_data / "datasets")
        self.write_settings(epochs=2)
        self.write_pool(3)

    def write_settings(self, **changes):
        """train.json of the walkthrough with these changes."""
        settings = json.loads((ROOT / "node_data" / "train.json").read_text())
        (self.node_data / "train.json").write_text(json.dumps(settings | changes))

    def write_pool(self, nodes, ports=None, chunks=1, **benchmarks):
        """node_configs.json: this many equal nodes on these ports of this machine, or on free ones."""
        self.ports = ports or free_ports(nodes, chunks)
        benchmarks = {"ram": 8, "bandwidth": 10} | benchmarks
        pool = {
            str(i): {"IP": f"127.0.0.1:{port}", "benchmarks": benchmarks} for i, port in enumerate(self.ports)
        }
        (self.node_data / "node_configs.json").write_text(json.dumps(pool))

    def start(self, program, *arguments):
        process = Process([BIN / program, *arguments], self.folder)
        self.addCleanup(process.close)
        return process

    def run_program(self, program, *arguments, code=0):
        """Runs it to the end, expects this exit code, returns (standard output, standard error)."""
        process = self.start(program, *arguments)
        ended = process.wait()
        output, errors = process.output(), process.errors()
        self.assertEqual(ended, code, f"{program} {arguments}\n{output}\n{errors}")
        return output, errors

    def start_providers(self, nodes, order=None):
        """{node index: process}, started in this order."""
        return {i: self.start("provider", "--name", f"node_{i}") for i in order or range(nodes)}

    def train(self, nodes, order=None):
        """clusterize, all providers to the end."""
        self.run_program("clusterize")
        for process in self.start_providers(nodes, order).values():
            self.assertEqual(process.wait(), 0, process.output() + process.errors())

    def fuse(self):
        """model_fusion; and the same files, byte for byte, from the checkpoint of the run's end."""
        self.run_program("model_fusion", "--cluster-id", "0")
        self.run_program("model_fusion", "--checkpoint", "--out", "from_checkpoint")
        for name in ("trained_state_dict.safetensors", "trained_state_dict.pt", "trained_model.onnx"):
            trained, checkpoint = (self.folder / folder / name for folder in ("trained", "from_checkpoint"))
            self.assertTrue(trained.read_bytes() == checkpoint.read_bytes(), f"{name} differs")

    def wait_for(self, condition, what, seconds=PATIENCE):
        """Polls until the condition holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"waited {seconds} s for {what}")
            time.sleep(0.01)

    def losses(self):
        path = self.folder / "losses.txt"
        try:
            return path.read_text().split()
        except FileNotFoundError:  # also between the run before, whose file is put aside, and the next
            return []

    def wait_for_steps(self, steps):
        self.wait_for(lambda: len(self.losses()) >= steps, f"step {steps}")
