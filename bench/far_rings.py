#!/usr/bin/python3
"""How near a round of averaging comes to what a fast link over a long way allows.

    bench/far_rings.py [--rate MBPS] [--latency-ms MS] [--model NAME] [--rounds N] [--every STEPS] [--build DIR]

Two clusters of one node, each in a network namespace, with a process between them that hands every packet on after
--latency-ms, at --rate Mbit/s in each direction (far_link.py); needs root. They average parameters after every so many steps.

The bound: a node sends as many bytes as its parameters have, and the last of them make two hops one after the other. A round
takes from when the later of the two has begun to when it is done, on the average over the rounds. Right afterwards plain TCP
sends as much both ways over as many connections, as often: they begin slowly, whoever sends.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from far_link import far_sides
from machines import ROOT, Job, Quiet, Skipped, outputs_of

CLUSTERS = 2

# Sends so many bytes over so many connections to the other while it receives as many, REPEATS times, a second apart; the mean
# of the seconds.
PLAIN_SIDE = """
import socket, sys, threading, time
own, other = sys.argv[1:3]
connections, count, repeats = map(int, sys.argv[3:])
server = socket.create_server((own, 9000), backlog=64)
there = []
while len(there) < connections:
    try:
        there.append(socket.create_connection((other, 9000)))
    except ConnectionRefusedError:
        time.sleep(0.05)
here = [server.accept()[0] for _ in there]
def send(to):
    to.sendall(bytes(count // connections))
def receive(source):
    left = count // connections
    while left > 0:
        left -= len(source.recv(min(left, 1 << 20)))
seconds = 0
for _ in range(repeats):
    time.sleep(1)
    begin = time.monotonic()
    threads = [threading.Thread(target=send, args=(to,)) for to in there]
    threads += [threading.Thread(target=receive, args=(source,)) for source in here]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds += time.monotonic() - begin
print(seconds / repeats)
"""


def plain_ms(sides, connections, count, repeats):
    return 1e3 * max(float(output) for output in outputs_of([
        subprocess.Popen(own.command([sys.executable, "-c", PLAIN_SIDE, own.host, other.host, connections, count, repeats]),
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for own, other in (sides, reversed(sides))]))


def planned_job(options, folder, sides):
    batch = 4
    settings = {
        "model": options.model, "loss": "cross_entropy", "batch_size": batch, "train_fraction": 1,
        "data": f"shapes?samples={options.rounds * options.every * batch * CLUSTERS}",
        "micro_batches": 1, "shares": "equal", "epochs": 1, "validate_every": 0, "save": False, "checkpoint_every": "never",
        "averaging": {"mode": "parameters", "every": options.every},
    }
    job = Job(folder, options.build.resolve() / "bin", sides, Quiet(100), settings,
              [{"ram": 8, "bandwidth": options.rate}] * CLUSTERS, threads=[1] * CLUSTERS)
    pool = json.loads(job.pool.read_text())
    pool["network"] = {"default": {"latency_ms": options.latency_ms, "bandwidth_mbps": options.rate}}
    job.pool.write_text(json.dumps(pool))
    return job


def trial(options, folder, sides):
    job = planned_job(options, folder, sides)
    plan = job.plan("--clusters", str(CLUSTERS), "--min-nodes-per-cluster", "1")
    [ring] = plan["rings"]
    [between] = plan.get("connections", [{"connections": 1}])
    ends = job.train().values()
    hops = 2 * (CLUSTERS - 1)
    bound_ms = ring["bytes"] * 8e-3 / options.rate + hops * options.latency_ms
    took_ms = min(end["times"]["round_ms"]["measured"] for end in ends)
    plain = plain_ms(sides, between["connections"], ring["bytes"], options.rounds)
    print("| sent a round | connections | under way | bound | took | bound by time | plain TCP |\n|---|---|---|---|---|---|---|")
    print(f"| {ring['bytes'] / 1e6:.1f} MB | {between['connections']} | {ring.get('under_way', 4 << 20) / 1e6:.1f} MB | "
          f"{bound_ms:.0f} ms | {took_ms:.0f} ms | {bound_ms / took_ms:.1%} | {plain:.0f} ms |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=500, help="Mbit/s in each direction")
    parser.add_argument("--latency-ms", type=float, default=100, help="one way")
    parser.add_argument("--model", default="resnet50?image_size=32&classes=10", help="of images")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--every", type=int, default=2, help="steps from one round to the next")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder")
    options = parser.parse_args()
    try:
        with far_sides(options.rate, options.latency_ms / 1e3) as sides, \
                tempfile.TemporaryDirectory(prefix="rookery-far-rings-") as folder:
            trial(options, pathlib.Path(folder), sides)
    except Skipped as why:
        sys.exit(f"skipped: {why}")


if __name__ == "__main__":
    main()
