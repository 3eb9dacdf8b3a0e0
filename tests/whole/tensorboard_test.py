"""The folder that people watch with TensorBoard: its curves are those of losses.txt. TensorBoard itself reads it
where Python has it, or where ROOKERY_TENSORBOARD names a Python that has."""

import importlib.util
import json
import os
import shutil
import signal
import struct
import sys
import unittest
import urllib.error
import urllib.parse
import urllib.request

from whole import SLOWER, Process, WholeTest, free_ports

OWN = sys.executable if importlib.util.find_spec("tensorboard") else None
TENSORBOARD = os.environ.get("ROOKERY_TENSORBOARD", OWN)


def as_float(number):
    """The nearest number of 32 bits."""
    return struct.unpack("<f", struct.pack("<f", number))[0]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """The (number, value) of a protobuf message's fields, each in its raw form."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            length, at = varint(data, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
            value, at = data[at : at + length], at + length
        yield key >> 3, value


def events(path):
    """The events of a file, as dictionaries of their fields."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        yield dict(fields(data[at + 12 : at + 12 + length]))
        at += 16 + length
    assert at == len(data), "half a record"


def scalars(paths):
    """{tag: {step: value}}; later files and sessions replace what they train again."""
    curves = {}
    for event in (event for path in paths for event in events(path)):
        step = event.get(2, 0)
        if 7 in event:  # a session starts
            curves = {tag: {s: v for s, v in curve.items() if s < step} for tag, curve in curves.items()}
        for number, summary in fields(event.get(5, b"")):
            value = dict(fields(summary))
            if number == 1 and 2 in value:
                curves.setdefault(value[1].decode(), {})[step] = struct.unpack("<f", value[2])[0]
    return curves


def summaries(paths):
    """{tag: [(step, the fields of its value)]} of what is no curve."""
    found = {}
    for event in (event for path in paths for event in events(path)):
        for number, summary in fields(event.get(5, b"")):
            value = dict(fields(summary))
            if number == 1 and 2 not in value:
                found.setdefault(value[1].decode(), []).append((event.get(2, 0), value))
    return found


class TensorBoardFiles(WholeTest):
    @property
    def board(self):
        return self.folder / "runs" / "cnn_net"

    def numbers(self, name):
        return [as_float(float(line)) for line in (self.folder / name).read_text().split()]

    def curve(self, tag):
        return scalars(sorted(self.board.glob("events.out.tfevents.*")))[tag]

    def check_losses(self):
        losses = self.numbers("losses.txt")
        self.assertEqual(self.curve("loss/train"), dict(enumerate(losses, start=1)))
        lines = [json.loads(line) for line in (self.board / "metrics.jsonl").read_text().splitlines()]
        trained = {line["step"]: as_float(line["loss/train"]) for line in lines if "loss/train" in line}
        self.assertEqual(trained, dict(enumerate(losses, start=1)))

    def test_curves_are_those_of_the_text_files(self):
        self.write_settings(epochs=3, micro_batches=3)
        self.run_program("clusterize")
        self.run_program("launch")
        self.check_losses()
        self.assertEqual(len(self.curve("learning_rate")), len(self.losses()))
        validated = list(self.curve("loss/validation").values())
        self.assertEqual(validated, self.numbers("val_losses.txt"))
        for told, written in zip(self.curve("accuracy/validation").values(), self.numbers("val_accuracies.txt"), strict=True):
            self.assertAlmostEqual(told, written, places=4)

    def test_the_leaf_keeps_what_every_node_does(self):
        self.write_settings(epochs=100000)
        self.run_program("clusterize")
        launch = self.start("launch")
        lines = self.board / "metrics.jsonl"
        self.wait_for(lambda: lines.exists() and lines.read_text().count('"node_0/computing"') > 1, "node_0's figures")
        launch.popen.send_signal(signal.SIGINT)
        self.assertEqual(launch.wait(), 130)
        for node in ("node_0", "node_1", "node_2"):
            shares = [list(self.curve(f"{node}/{what}").values())[-1] for what in ("computing", "waiting")]
            self.assertTrue(all(0 <= share <= 1 for share in shares) and 0 < sum(shares) <= 1.01, (node, shares))
            self.assertGreater(min(self.curve(f"{node}/memory_mb").values()), 1)
            self.assertGreater(max(self.curve(f"{node}/sent_mbit_per_second").values()), 0)
        self.assertGreater(max(self.curve("node_1/sent_mbit_per_second/node_0").values()), 0)

    def test_norms_histograms_pictures_and_the_graph_are_there(self):
        self.write_settings(epochs=4, micro_batches=3, histograms=2)
        self.run_program("clusterize")
        self.run_program("launch")
        norms = self.curve("gradient_norm")
        self.assertEqual(list(norms), list(range(1, len(self.losses()) + 1)))
        self.assertGreater(min(norms.values()), 0)
        steps = len(norms) // 4
        weights = {}
        for node in ("node_0", "node_1", "node_2"):
            weights |= summaries((self.board / node).glob("events.out.tfevents.*"))
        for tag, told in weights.items():
            self.assertEqual([step for step, _ in told], [2 * steps, 4 * steps], tag)
            histogram = dict(fields(told[0][1][5]))
            buckets = struct.unpack(f"<{len(histogram[7]) // 8}d", histogram[7])
            self.assertEqual(sum(buckets), *struct.unpack("<d", histogram[3]), tag)
        files = sorted(self.board.glob("events.out.tfevents.*"))
        if shutil.which("rsvg-convert"):
            told = summaries(files)
            for name in ("plan", "step"):
                ((step, value),) = told[name]
                self.assertEqual(dict(fields(value[4]))[4], (self.folder / "node_data" / f"{name}.png").read_bytes())
        (graph,) = (event[4] for path in files for event in events(path) if 4 in event)
        nodes = [dict(fields(node)) for number, node in fields(graph) if number == 1]
        parameters = {node[1].decode() for node in nodes if node[2] == b"Parameter"}
        self.assertEqual(parameters, {tag.removeprefix("weights/").replace(".", "/") for tag in weights})
        self.assertIn("conv2d_1/weight", parameters)
        self.assertTrue({b"node_0", b"node_1", b"node_2"} <= {node.get(4) for node in nodes})

    def test_a_killed_run_goes_on_in_the_same_folder(self):
        self.write_settings(epochs=60, checkpoint_every="20 steps")
        self.run_program("clusterize")
        launch = self.start("launch")
        self.wait_for(lambda: len(self.losses()) > 100, "step 100")
        launch.popen.send_signal(signal.SIGTERM)
        self.assertNotEqual(launch.wait(), 0)
        (before,) = self.board.glob("events.out.tfevents.*")
        self.assertTrue(scalars([before])["loss/train"])
        self.run_program("launch", "--resume")
        self.assertEqual(len(list(self.board.glob("events.out.tfevents.*"))), 2)
        self.check_losses()

    def test_nothing_is_written_where_nobody_asks(self):
        self.write_settings(epochs=1, tensorboard=False)
        self.train(3)
        self.assertFalse((self.folder / "runs").exists())


@unittest.skipUnless(TENSORBOARD, "no Python here has the package tensorboard: ROOKERY_TENSORBOARD may name one")
class RealTensorBoard(WholeTest):
    """Both of its readers of files: the fast one, and that in Python."""

    def fetch(self, page, **query):
        url = f"http://127.0.0.1:{self.port}/data/{page}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10 * SLOWER) as answer:
            return answer.read()

    def ask(self, page, **query):
        try:
            return json.loads(self.fetch(page, **query))
        except (urllib.error.URLError, ConnectionError):
            return []

    def serve(self, fast):
        (self.port,) = free_ports(1)
        server = Process([TENSORBOARD, "-m", "tensorboard.main", "--logdir", self.folder, "--port", str(self.port),
                          "--samples_per_plugin", "scalars=1000000", "--reload_interval", "1", "--load_fast", fast], self.folder)
        self.addCleanup(server.close)
        return server

    def curve(self, tag):
        told = self.ask("plugin/scalars/scalars", run="runs/cnn_net", tag=tag)
        return {step: value for _, step, value in told}

    def test_curves_are_those_of_the_text_files(self):
        self.write_settings(epochs=20, checkpoint_every="20 steps", histograms=10)
        self.run_program("clusterize")
        launch = self.start("launch")
        self.wait_for(lambda: len(self.losses()) > 50, "step 50")
        launch.popen.send_signal(signal.SIGTERM)
        launch.wait()
        self.run_program("launch", "--resume")
        losses = {step: as_float(float(loss)) for step, loss in enumerate(self.losses(), start=1)}
        for fast in ("true", "false"):
            with self.subTest(load_fast=fast):
                server = self.serve(fast)
                self.wait_for(lambda: max(self.curve("loss/train"), default=0) == len(losses), "all steps")
                self.assertEqual(self.curve("loss/train"), losses)
                self.assertEqual(len(self.curve("loss/validation")), 20)
                text = self.ask("plugin/text/text", run="runs/cnn_net", tag="train.json")
                self.assertIn("batch_size", text[0]["text"])
                self.assertTrue(self.ask("plugin/scalars/scalars", run="runs/cnn_net", tag="gradient_norm"))
                if shutil.which("rsvg-convert"):
                    for tag in ("plan", "step"):
                        newest = self.ask("plugin/images/images", run="runs/cnn_net", tag=tag, sample="0")[-1]
                        png = self.fetch("plugin/images/individualImage", **dict(urllib.parse.parse_qsl(newest["query"])))
                        self.assertEqual(png, (self.folder / "node_data" / f"{tag}.png").read_bytes())
                self.assertIn(b"node {", self.fetch("plugin/graphs/graph", run="runs/cnn_net"))
                runs = self.ask("plugin/histograms/tags")
                self.assertEqual({run for run in runs if runs[run]}, {f"runs/cnn_net/node_{i}" for i in range(3)})
                for run, tags in runs.items():
                    for tag in tags:
                        told = self.ask("plugin/histograms/histograms", run=run, tag=tag)
                        self.assertEqual(len(told), 2, (run, tag))
                server.close()


if __name__ == "__main__":
    unittest.main()
