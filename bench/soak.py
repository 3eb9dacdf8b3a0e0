#!/usr/bin/python3
"""Whether providers of several clusters keep their memory flat: what is resident of each, sampled while they train.

    bench/soak.py [--clusters N] [--seconds S] [--averaging JSON] [--bar MB] [--build DIR]

One-node clusters on this machine train digits, validate after every epoch and write a checkpoint every two seconds, until
--seconds have passed and Ctrl-C ends them. Each provider's resident memory (VmRSS) is sampled every second. Prints for each
how much it was on the average of the second and of the last fifth of the time. Ends with 1 when one has grown by more than
--bar MB, or did not end as Ctrl-C should end it.
"""

import argparse
import json
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from machines import ROOT, Job, Machine, Quiet, running

sys.path.insert(0, str(ROOT / "tests" / "whole"))
from whole import free_ports  # noqa: E402


def resident(process):
    """Megabytes."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1e3


def samples_of(processes, seconds):
    """By provider, second by second."""
    sampled = [[] for _ in processes]
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        time.sleep(1)
        for number, process in enumerate(processes):
            if process.poll() is not None:
                raise RuntimeError(f"node_{number} ended with {process.returncode}\n{process.communicate()[1]}")
            sampled[number].append(resident(process))
    return sampled


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--averaging", type=json.loads, default={"mode": "gradients"}, help="as in train.json")
    parser.add_argument("--bar", type=float, default=1, help="megabytes that a provider may grow by")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder")
    options = parser.parse_args()
    settings = {"epochs": 1000000, "batch_size": 16, "shares": "equal", "averaging": options.averaging,
                "checkpoint_every": "2 s"}
    machines = [Machine(f"127.0.0.1:{port}") for port in free_ports(options.clusters)]
    with tempfile.TemporaryDirectory(prefix="rookery-soak-") as folder:
        folder = pathlib.Path(folder)
        job = Job(folder, options.build.resolve() / "bin", machines, Quiet(100), settings)
        job.plan("--clusters", str(options.clusters), "--min-nodes-per-cluster", "1")
        processes = [job.start(machine, "provider", "--name", f"node_{number}", "--json",
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                     for number, machine in enumerate(machines)]
        with running(processes):
            sampled = samples_of(processes, options.seconds)
            for process in processes:
                process.send_signal(signal.SIGINT)
            for process in processes:
                process.wait(60)
        steps = len((folder / "losses.txt").read_text().split())
    grown = []
    print("| node | second fifth | last fifth | grown |\n|---|---|---|---|")
    for number, of_node in enumerate(sampled):
        fifth = len(of_node) // 5
        early, late = statistics.mean(of_node[fifth:2 * fifth]), statistics.mean(of_node[-fifth:])
        grown.append(late - early)
        print(f"| {number} | {early:.2f} MB | {late:.2f} MB | {late - early:+.2f} MB |")
    codes = {process.returncode for process in processes}
    print(f"{steps} steps; ended with {codes}")
    return 0 if max(grown) <= options.bar and codes == {128 + signal.SIGINT} else 1


if __name__ == "__main__":
    sys.exit(main())
