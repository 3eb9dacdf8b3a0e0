#!/usr/bin/python3
"""How soon a run has its data, and how busy reading keeps the arithmetic.

    bench/data_sets.py [--files N] [--jobs image_folder,cats_and_dogs] [--rounds N] [--build DIR]

1. A folder of N small JPEGs (100,000): how long clusterize takes that looks at all of them and writes the index; how long
   after its start a provider that finds the index has trained its first batch; and the memory that it has then, by the plan's.
2. The jobs of docs/data.md on images of 200 to 500 pixels a side, one provider with one thread, while every sample is read and
   decoded in every epoch, from the folder and from a bucket whose server waits 20 ms before each answer: the share of its time in
   which it does not wait for samples, and its samples a second, without the first epoch, by those of the same job with all
   decoded samples in memory, in turns. Their losses must be the same numbers.

Exits with 1 where the index takes more than 10 s, the first batch more than 2 s, memory more than planned, or where reading
leaves less than 95 % of the time or of the samples a second.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "whole"))
from pictures import picture, write_pictures  # noqa: E402
from servers import FileServer, S3Handler  # noqa: E402
from whole import free_ports  # noqa: E402

DELAY = 0.02  # seconds
MOST_INDEX, MOST_FIRST, LEAST_BUSY = 10, 2, 0.95
KERNELS = pathlib.Path("node_data", "kernel_choices.json")


class Job:
    """A folder with a node_data of one node, and commands that run in it."""

    def __init__(self, folder, bin_dir, settings, environment=None):
        self.folder, self.bin_dir = pathlib.Path(folder), bin_dir
        self.environment = os.environ | (environment or {})
        node_data = self.folder / "node_data"
        node_data.mkdir(exist_ok=True)
        pool = {"0": {"IP": f"127.0.0.1:{free_ports(1)[0]}", "benchmarks": {"ram": 8, "bandwidth": 10}}}
        (node_data / "node_configs.json").write_text(json.dumps(pool))
        (node_data / "train.json").write_text(json.dumps(settings))

    def plan(self):
        """(what clusterize says, seconds)"""
        begin = time.monotonic()
        done = subprocess.run([self.bin_dir / "clusterize", "--json"], cwd=self.folder, env=self.environment,
                              stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout), time.monotonic() - begin

    def train(self):
        """A provider in the background, whose events can be read line by line."""
        return subprocess.Popen([self.bin_dir / "provider", "--name", "node_0", "--threads", "1", "--json",
                                 "--progress-interval", "0"],
                                cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True)

    def losses(self):
        return (self.folder / "losses.txt").read_text()


def progress(provider):
    """(step, seconds of the clock) of each event of its training."""
    for line in provider.stdout:
        event = json.loads(line)
        if event["event"] == "progress":
            yield event["step"], time.monotonic()


def peak_memory(pid):
    """Bytes that were its own at most: not those of the files of the program and its libraries."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    values = {name: int(value.split()[0]) for name, value in (line.split(":", 1) for line in lines) if " kB" in value}
    return 1024 * (values["VmHWM"] - values["RssFile"])


def write_small_files(folder, count):
    """Of 200 different contents of each class: what it costs to find them again is that of so many files."""
    for label, name in enumerate(("cats", "dogs")):
        contents = []
        for i in range(200):
            content = io.BytesIO()
            picture(2 * i + label, label == 1, (28, 40)).save(content, "JPEG", quality=85)
            contents.append(content.getvalue())
        (folder / name).mkdir(parents=True)
        for i in range(count // 2):
            (folder / name / f"{i:06}.jpg").write_bytes(contents[i % 200])


def many_files(options):
    with tempfile.TemporaryDirectory() as folder:
        write_small_files(pathlib.Path(folder) / "node_data" / "datasets" / "many", options.files)
        job = Job(folder, options.build / "bin", {
            "model": "resnet18?image_size=32&classes=2", "data": "images:datasets/many?size=32&train=0.8",
            "loss": "cross_entropy", "batch_size": 16, "epochs": 1})
        plan, with_index = job.plan()
        _, without = job.plan()
        planned = sum(plan["clusters"][0]["stages"][0]["prediction"]["memory"].values())
        begin = time.monotonic()
        provider = job.train()
        first = next(now for step, now in progress(provider) if step >= 1) - begin
        memory = peak_memory(provider.pid)
        provider.kill()
        provider.wait()
    print(f"{options.files} files: clusterize {with_index:.1f} s, with the index at hand {without:.1f} s; the first batch after "
          f"{first:.2f} s; memory {memory / 1e6:.0f} of {planned / 1e6:.0f} MB", flush=True)
    return with_index <= MOST_INDEX and first <= MOST_FIRST and memory <= planned


# As many images as train in a few seconds.
JOBS = {
    "image_folder": (1600, {"batch_size": 64}),
    "cats_and_dogs": (80, {"batch_size": 16}),
}
SOURCES = {
    "memory": ("images:datasets/pets", {}),
    "folder": ("images:datasets/pets", {"cache_mib": 0}),
    "bucket": ("images:s3://bucket/pets", {"cache_mib": 0}),
}


def measure(job, steps_of_an_epoch):
    """(steps a second after the first epoch, the share of all its time in which it did not wait for samples)"""
    provider = job.train()
    timed = []
    for line in provider.stdout:
        event = json.loads(line)
        if event["event"] == "progress" and event["step"] >= steps_of_an_epoch:
            timed.append((event["step"], time.monotonic()))
        if event["event"] == "done":
            seconds = float(re.search(r"steps in ([0-9.]+) s", event["text"])[1])
            waited = re.search(r"([0-9.]+) s for samples to be read", event["text"])
    if provider.wait() != 0:
        sys.exit("data_sets: the provider failed")
    (first, begin), (last, end) = timed[0], timed[-1]
    return (last - first) / (end - begin), 1 - (float(waited[1]) if waited else 0) / seconds


def busy(name, options):
    images, sizes = JOBS[name]
    settings = json.loads((HERE.parent / "node_data" / "jobs" / f"{name}.json").read_text())
    settings |= sizes | {"epochs": 2, "checkpoint_every": "never"}
    _, query = settings["data"].split("?")
    jobs = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as held:
        pets = pathlib.Path(folder) / "far" / "bucket" / "pets"
        write_pictures(pets, images // 2, sides=(200, 501), kinds=("jpg",))
        server = FileServer(S3Handler, pets.parent.parent, delay=DELAY)
        held.callback(server.close)
        for source, (data, changes) in SOURCES.items():
            place = pathlib.Path(folder) / source
            (place / "node_data" / "datasets").mkdir(parents=True)
            (place / "node_data" / "datasets" / "pets").symlink_to(pets)
            jobs[source] = Job(place, options.build / "bin", settings | changes | {"data": f"{data}?{query}"},
                               server.environment() | {"HOME": folder})
            # Kernels are chosen by measurement: all train with those of the first.
            kept = next(iter(jobs.values())).folder / KERNELS
            if kept.exists():
                shutil.copy(kept, place / KERNELS)
            jobs[source].plan()
        steps = images * 4 // 5 // settings["batch_size"]
        measured = [{source: measure(job, steps) for source, job in jobs.items()} for _ in range(options.rounds)]
        if len({job.losses() for job in jobs.values()}) != 1:
            sys.exit(f"data_sets: {name}: the losses differ")
    good = True
    for source in ("folder", "bucket"):
        ratios = [each[source][0] / each["memory"][0] for each in measured]
        ratio = statistics.median(ratios)
        samples = settings["batch_size"] * statistics.median(each[source][0] for each in measured)
        share = statistics.median(each[source][1] for each in measured)
        print(f"| `{name}.json` | {source} | {samples:.1f} | {100 * share:.1f} % | {ratio:.3f} ({min(ratios):.3f}–{max(ratios):.3f}) |",
              flush=True)
        good &= min(ratio, share) >= LEAST_BUSY
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build")
    options = parser.parse_args()
    options.build = options.build.resolve()

    good = options.files == 0 or many_files(options)
    print("\n| job | from | samples/s | busy | by those in memory (min–max) |\n|---|---|---|---|---|")
    for name in options.jobs.split(","):
        good &= busy(name, options)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
