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
import sys
import tempfile

from far_link import far_sides
from machines import ROOT, Job, Quiet, Skipped
from plain_rings import plain_seconds

CLUSTERS = 2


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
    plain = plain_seconds((sides, reversed(sides)), ring["bytes"], options.rounds, between["connections"], pause=1)
    under_way = f"{ring['under_way'] / 1e6:.1f} MB" if "under_way" in ring else "as it is"
    print("| sent a round | connections | under way | bound | took | bound by time | plain TCP |\n|---|---|---|---|---|---|---|")
    print(f"| {ring['bytes'] / 1e6:.1f} MB | {between['connections']} | {under_way} | "
          f"{bound_ms:.0f} ms | {took_ms:.0f} ms | {bound_ms / took_ms:.1%} | {1e3 * plain:.0f} ms |")


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
