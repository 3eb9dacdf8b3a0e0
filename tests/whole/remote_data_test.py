"""Data and models that lie in archives, on web servers and in buckets: training has the same bits wherever its samples
come from, and what servers do wrong is mended by another try or told, never trained."""

import contextlib
import gzip
import json
import os
import shutil
import signal
import subprocess
import tarfile
import unittest
import unittest.mock

import numpy as np
from pictures import write_pictures
from servers import KEY, REGION, SECRET, FileServer, HttpHandler, S3Handler
from whole import ROOT, WholeTest, free_ports

LOGS = ("losses.txt", "val_losses.txt")


class RemoteData(WholeTest):
    def setUp(self):
        super().setUp()
        self.write_pool(1)
        self.datasets = self.node_data / "datasets"
        self.bucket = self.folder / "far" / "bucket"
        self.bucket.mkdir(parents=True)
        self.http = self.serve(HttpHandler)
        self.s3 = self.serve(S3Handler, page=7)
        self.set_environment(HOME=str(self.folder), **self.s3.environment())

    def serve(self, handler, **options):
        server = FileServer(handler, self.folder / "far", **options)
        self.addCleanup(server.close)
        return server

    def set_environment(self, **variables):
        """Of the programs of this test; earlier ones of the AWS command line are forgotten."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        patch = unittest.mock.patch.dict(os.environ, kept | variables, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def write_job(self, data, **changes):
        job = {"model": "small_xception?image_size=32&classes=2&width=0.1", "data": data, "loss": [{"loss": "bce_with_logits", "target": "answers"}],
               "optimizer": {"name": "adam", "learning_rate": 0.003}, "epochs": 2, "batch_size": 8,
               "train_fraction": 0.8, "augment": ["horizontal_flip"], "seed": 3}
        (self.node_data / "train.json").write_text(json.dumps(job | changes))

    def train_with(self, data, **changes):
        self.write_job(data, **changes)
        self.run_program("clusterize")
        self.run_program("launch")
        return self.results()

    def results(self):
        return [(self.folder / log).read_text() for log in LOGS]

    def write_pets(self):
        pets = self.datasets / "pets"
        write_pictures(pets, 12, sides=(30, 50), kinds=("jpg", "png"))
        with tarfile.open(self.bucket / "pets.tar.gz", "w:gz") as archive:
            archive.add(pets, "pets")
        shutil.copytree(pets, self.bucket / "pets +ä")
        shutil.copy(self.bucket / "pets.tar.gz", self.datasets)

    def test_the_same_bits_from_everywhere(self):
        self.write_pets()
        options = "?size=32"
        far = f"{self.http.address}/bucket/pets.tar.gz/pets"
        expected = self.train_with("images:datasets/pets" + options, readers=1)
        for data, readers in (("datasets/pets.tar.gz/pets", 8), (far, 1), ("s3://bucket/pets +ä", 8)):
            self.assertEqual(self.train_with(f"images:{data}{options}", readers=readers, cache_mib=0), expected, data)
        # The index that clusterize has made is at hand: the Root lists the bucket and reads what it trains with.
        self.write_job(f"images:s3://bucket/pets +ä{options}", epochs=3)
        self.run_program("clusterize")
        before = self.s3.requests
        self.run_program("launch")
        self.assertEqual(self.s3.requests - before, 4 + 24)
        expected = self.results()
        self.run_program("clusterize", "--help")
        for log in LOGS:
            (self.folder / log).unlink()
        launch = self.start("launch")
        self.wait_for_steps(4)
        launch.popen.send_signal(signal.SIGINT)
        self.assertIn(launch.wait(), (0, 130), launch.errors())
        self.run_program("launch", "--resume")
        self.assertEqual(self.results(), expected)

    def test_a_reader_asks_for_several_files_at_a_time(self):
        write_pictures(self.bucket / "pets", 12, sides=(30, 50), kinds=("jpg",))
        slow = self.serve(S3Handler)
        self.set_environment(HOME=str(self.folder), **slow.environment())
        self.write_job("images:s3://bucket/pets?size=32", readers=1, cache_mib=0, batch_size=16)
        self.run_program("clusterize")
        slow.gather(16)
        self.run_program("launch")
        self.assertEqual(slow.most_at_once, 16)
        self.assertGreaterEqual(slow.requests, 48)
        self.assertLessEqual(slow.connections, 17)

    def write_shards(self):
        """Two shards of pictures in the bucket."""
        pictures = self.folder / "pictures"
        write_pictures(pictures, 8, sides=(30, 50), kinds=("jpg", "png"))
        for shard in range(2):
            with tarfile.open(self.bucket / f"train-{shard:02}.tar", "w") as archive:
                for label, name in enumerate(("cats", "dogs")):
                    for path in sorted((pictures / name).iterdir())[4 * shard : 4 * shard + 4]:
                        (self.folder / "class.cls").write_text(str(label))
                        archive.add(path, f"{name}{path.name}")
                        archive.add(self.folder / "class.cls", f"{name}{path.stem}.cls")

    def test_shards_are_read_where_they_lie(self):
        self.write_shards()
        digests = set()
        for place in (self.bucket, f"{self.http.address}/bucket/train-{{00..01}}.tar", "s3://bucket"):
            self.write_job(f"webdataset:{place}?size=32", cache_mib=0)
            self.run_program("clusterize")
            root = json.loads((self.node_data / "nodes" / "node_0.json").read_text())
            digests.add(root["data"]["digest"])
        self.assertEqual(len(digests), 1)
        before = self.s3.requests
        self.run_program("launch")
        # A list, two shards, and in each of two epochs all pictures by themselves.
        self.assertEqual(self.s3.requests - before, 1 + 2 + 2 * 16)

    MNIST = {"model": "mnist_mlp", "train_fraction": 0.8, "split": "in_order", "loss": "cross_entropy", "epochs": 1}

    def write_mnist(self):
        """MNIST here, and in the bucket as three parts of a set of IDX files."""
        shutil.copytree(ROOT / "node_data" / "datasets" / "mnist", self.datasets / "mnist")
        (self.bucket / "mnist").mkdir()
        for kind, dims in (("images-idx3", (28, 28)), ("labels-idx1", ())):
            whole = gzip.decompress((self.datasets / "mnist" / f"t10k-{kind}-ubyte.gz").read_bytes())
            values = np.frombuffer(whole, np.uint8, offset=8 + 4 * len(dims)).reshape(-1, *dims)
            for part, some in enumerate(np.split(values, (2500, 6000))):
                header = np.array([0x801 + len(dims), *some.shape], ">u4").tobytes()
                (self.bucket / "mnist" / f"train-{part}-{kind}-ubyte").write_bytes(header + some.tobytes())

    def test_two_clusters_keep_everything_in_a_bucket(self):
        self.write_mnist()
        self.keep_everything_in_a_bucket()
        trained = self.folder / "trained" / "trained_state_dict.safetensors"
        self.assertEqual((self.bucket / "models/mnist" / trained.name).read_bytes(), trained.read_bytes())
        expected = self.losses()
        self.write_settings(data="idx:datasets/mnist", **self.MNIST)
        self.run_program("clusterize")
        self.run_program("launch")
        self.assertEqual(self.losses(), expected)

    @unittest.skipUnless(os.environ.get("ROOKERY_RADOSGW"), "ROOKERY_RADOSGW=1 tries Ceph's server, whose start takes long")
    def test_so_they_do_in_one_of_ceph(self):
        port = free_ports(1)[0]
        ceph = self.folder / "ceph"
        self.addCleanup(self.end_ceph, ceph)
        subprocess.run([ROOT / "tests" / "whole" / "radosgw.sh", ceph, str(port)], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        self.write_mnist()
        address = f"http://127.0.0.1:{port}"
        self.set_environment(HOME=str(self.folder), **self.s3.environment() | {"AWS_ENDPOINT_URL": address})
        put = ["curl", "-sf", "--aws-sigv4", f"aws:amz:{REGION}:s3", "--user", f"{KEY}:{SECRET}", "-H",
               "x-amz-content-sha256: UNSIGNED-PAYLOAD"]
        subprocess.run([*put, "-X", "PUT", f"{address}/bucket"], check=True)
        for path in (self.bucket / "mnist").iterdir():
            subprocess.run([*put, "-T", path, f"{address}/bucket/mnist/{path.name}"], check=True)
        self.keep_everything_in_a_bucket()
        self.keep_checkpoints_in_a_bucket()
        self.assertIn("403 SignatureDoesNotMatch", self.clusterize_with("idx:s3://bucket/mnist", 1, AWS_SECRET_ACCESS_KEY="x"))
        self.assertIn("404 NoSuchBucket", self.clusterize_with("idx:s3://buckets/mnist", 1))

    @staticmethod
    def end_ceph(folder):
        for process in (folder / "pids").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)

    def keep_everything_in_a_bucket(self):
        """Two clusters train from it, what they have trained goes there, and is evaluated from there."""
        self.write_pool(6)
        self.write_settings(data="idx:s3://bucket/mnist", **self.MNIST)
        self.run_program("clusterize")
        self.assertEqual(len(json.loads((self.node_data / "plan.json").read_text())["clusters"]), 2)
        self.run_program("launch")
        self.s3.fail("500", every=3)
        output, _ = self.run_program("model_fusion", "--upload", "s3://bucket/models/mnist", "--json")
        place = "s3://bucket/models/mnist/trained_state_dict.safetensors"
        self.assertEqual(json.loads(output)["uploaded"][0], place)
        trained = self.folder / "trained" / "trained_state_dict.safetensors"
        near = json.loads(self.run_program("evaluate", "--state", trained, "--json")[0])
        far = json.loads(self.run_program("evaluate", "--state", place, "--data", "idx:s3://bucket/mnist", "--json")[0])
        self.s3.fail()
        self.assertEqual(far, near)
        self.assertEqual(far["samples"], 2000)
        self.assertGreater(far["accuracy"], 85)
        _, errors = self.run_program("evaluate", "--state", place.replace(".safetensors", ".pth"), code=1)
        self.assertIn("404 NoSuchKey", errors)

    def run_json(self, *arguments):
        return json.loads(self.run_program(*arguments, "--json")[0])

    def train_with_checkpoints(self, code=0, **changes):
        self.write_settings(checkpoint_every="1 epoch", keep_checkpoints=2, checkpoint_upload="s3://bucket/runs/digits", **changes)
        self.run_program("clusterize")
        return self.run_program("launch", code=code)

    def keep_checkpoints_in_a_bucket(self):
        """A run of two clusters puts them there; evaluate, model_fusion and a run in another cut take them from there.
        Returns the steps of those that lie in node_data, too."""
        here = self.node_data / "checkpoints"
        shutil.rmtree(here, ignore_errors=True)  # of runs before
        self.write_pool(6)
        self.train_with_checkpoints(epochs=5)
        expected = self.losses()
        steps = sorted(int(folder.name) for folder in here.iterdir())
        place = "s3://bucket/runs/digits"
        newest = self.run_json("evaluate", "--state", place)
        self.assertEqual(newest | {"checkpoint": None},
                         self.run_json("evaluate", "--state", here / str(steps[-1])) | {"checkpoint": None})
        self.assertEqual(newest["step"], steps[-1])
        fused = [self.run_json("model_fusion", "--checkpoint", name, "--out", out)
                 for name, out in ((f"{place}/{steps[0]}", "far"), (steps[0], "near"))]
        self.assertEqual(fused[0]["checkpoint"], f"{place}/{steps[0]}")
        self.assertEqual(*[(self.folder / report["safetensors"]).read_bytes() for report in fused])
        shutil.rmtree(here)
        self.run_program("clusterize", "--resume", f"{place}/{steps[0]}")
        self.run_program("launch")
        self.assertEqual(self.losses(), expected)
        return steps

    def test_checkpoints_go_to_a_bucket(self):
        self.s3.fail("500", every=3)
        steps = self.keep_checkpoints_in_a_bucket()
        self.s3.fail()
        far = self.bucket / "runs" / "digits"
        self.assertEqual(sorted(int(folder.name) for folder in far.iterdir() if list(folder.iterdir())), steps)
        # One without all parts is none.
        for part in (far / str(steps[-1])).glob("*_0_of_*"):
            part.unlink()
        self.assertEqual(self.run_json("evaluate", "--state", "s3://bucket/runs/digits")["step"], steps[-2])
        # Damage is found by the checksums.
        for part in (far / str(steps[0])).glob("*_0_of_*"):
            part.write_bytes(part.read_bytes()[:-1] + b"x")
        _, errors = self.run_program("evaluate", "--state", f"s3://bucket/runs/digits/{steps[0]}", code=1)
        self.assertIn("damaged", errors)
        _, errors = self.run_program("clusterize", "--resume", "s3://bucket/runs/letters", code=1)
        self.assertIn("there is no checkpoint below it that has all of its parts", errors)

    def test_a_bucket_that_takes_no_checkpoint_ends_no_run(self):
        self.s3.fail("500", after=1)  # it is asked whether it is there
        output, errors = self.train_with_checkpoints(epochs=2)
        self.assertRegex(output + errors, r"the bucket does not get the checkpoint of step \d+: s3://bucket/runs/digits/\d+/"
                         r"\w+_0_of_1\.safetensors: the server answers 500 \(tried 5 times\): training goes on")
        self.s3.fail()
        with unittest.mock.patch.dict(os.environ, AWS_SECRET_ACCESS_KEY="wrong"):
            _, errors = self.train_with_checkpoints(epochs=2, code=1)
        self.assertRegex(errors, "checkpoint_upload: s3://bucket/runs/digits/: the server answers 403 SignatureDoesNotMatch")

    def test_a_slow_bucket_does_not_hold_the_run_up(self):
        self.s3.slow_down_uploads(13)
        output, errors = self.train_with_checkpoints(epochs=4)
        last = max(int(folder.name) for folder in (self.node_data / "checkpoints").iterdir())
        self.assertRegex(output + errors, r"the checkpoint of step \d+ is not put into the bucket: the one before is still on its way")
        self.assertEqual(self.run_json("evaluate", "--state", "s3://bucket/runs/digits")["step"], last)

    def clusterize_with(self, data, code=0, **environment):
        self.write_settings(data=data)
        with unittest.mock.patch.dict(os.environ, environment):
            return self.run_program("clusterize", code=code)[1]

    def test_what_servers_refuse_is_told(self):
        shutil.copy(self.datasets / "digits.csv.gz", self.bucket)
        data = "csv:s3://bucket/digits.csv.gz?scale=16"
        self.clusterize_with(data)
        for variables, told in (({"AWS_ACCESS_KEY_ID": "OTHER"}, "403 InvalidAccessKeyId"),
                                ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "403 SignatureDoesNotMatch"),
                                ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "there are no credentials"),
                                ({"AWS_REGION": "mars-1"}, "Set AWS_REGION"),
                                ({"AWS_ENDPOINT_URL": "nowhere"}, "the endpoint 'nowhere'")):
            self.assertIn(told, self.clusterize_with(data, 1, **variables))
        for wrong, told in (("csv:s3://buckets/digits.csv.gz", "404 NoSuchBucket"), ("csv:s3://bucket/no", "404 NoSuchKey"),
                            ("idx:s3://bucket/no", "there are no objects below it"),
                            (f"idx:{self.http.address}/bucket", "a web server has no list of its files"),
                            (f"csv:{self.http.address}/bucket/no?", "there is no such file")):
            self.assertIn(told, self.clusterize_with(wrong, 1))

    def test_what_goes_wrong_on_the_way_is_tried_again(self):
        shutil.copy(self.datasets / "digits.csv.gz", self.bucket)
        data = f"csv:{self.http.address}/bucket/digits.csv.gz?scale=16"
        for server, place in ((self.http, data), (self.s3, "csv:s3://bucket/digits.csv.gz?scale=16")):
            for kind in ("500", "cut", "reset", "stall"):
                server.fail(kind, every=2)
                self.clusterize_with(place, ROOKERY_SERVER_PATIENCE="1")
            server.fail()
        for kind, told in (("500", "the server answers 500 (tried 5 times)"), ("range", "and answers 206 with the range"),
                           ("whole", "does not serve parts of files")):
            self.http.fail(kind)
            self.assertIn(told, self.clusterize_with(data, 1))

    def test_an_object_that_changes_in_mid_run_ends_it(self):
        self.write_pets()
        self.write_job("images:s3://bucket/pets +ä?size=32", epochs=200, cache_mib=0)
        self.run_program("clusterize")
        launch = self.start("launch")
        self.wait_for_steps(3)
        shutil.copy(self.bucket / "pets +ä/dogs/0.jpg", self.bucket / "pets +ä/cats/0.jpg")
        self.assertEqual(launch.wait(), 1)
        self.assertIn("cats/0.jpg: has changed", launch.errors())


if __name__ == "__main__":
    unittest.main()
