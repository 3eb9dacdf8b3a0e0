#!/usr/bin/python3
"""How near a round of averaging comes to what the connections allow.

    bench/multi_ring.py [--sizes A,B,…/…] [--rate MBPS] [--model NAME] [--rounds N] [--every STEPS]
                        [--compression NAME] [--overlap STEPS] [--build DIR]

Every node is a network namespace with a connection of --rate Mbit/s (tbf); needs root. Clusters of --sizes nodes train and
average parameters after every so many steps, --rounds times: as they are, four of three nodes that are cut alike, so that a
node has one ring; and four of unlike sizes, whose nodes are in several at once.

The bound: in a round of C clusters a node has to send 2 (C - 1) / C of the bytes of its parameters, and the node with the
most of them is the slowest. A frame of Ethernet with 1448 bytes of a TCP connection has 1514. A round takes from when the
last member of a ring has begun to when it is done, of the slowest ring, on the average over the rounds. Prints both; the
bound by the time, of the bytes alone and with frames; what plain TCP takes to send as much from each node to the next, right
afterwards; and how much of the training nodes waited for rounds, which --overlap lets go beside the next steps.
"""

import argparse
import math
import pathlib
import sys
import tempfile

from machines import ROOT, Job, Quiet, Skipped, small_machines
from plain_rings import plain_seconds

FRAME = 1514 / 1448  # bytes that go over the connection by those of the stream


def plain_rings(machines, clusters, count):
    """Seconds that plain TCP takes for what a round sends, all rings at once."""
    rings = [machines[i::len(machines) // clusters][:clusters] for i in range(len(machines) // clusters)]
    pairs = [(ring[i], ring[(i + 1) % clusters]) for ring in rings for i in range(clusters)]
    return plain_seconds(pairs, count, repeats=5)


def trial(options, folder, machines, sizes):
    batch = 4
    settings = {
        "model": options.model, "loss": "cross_entropy", "batch_size": batch, "train_fraction": 1,
        # So many samples that there are --rounds rounds.
        "data": f"shapes?samples={options.rounds * options.every * batch * len(sizes)}",
        "micro_batches": 1, "shares": "equal", "epochs": 1, "validate_every": 0, "save": False, "checkpoint_every": "never",
        "averaging": {"mode": "parameters", "every": options.every, "overlap": options.overlap,
                      "compression": options.compression},
    }
    benchmarks = [{"ram": 8, "bandwidth": options.rate}] * sum(sizes)
    job = Job(folder, options.build.resolve() / "bin", machines, Quiet(100), settings, benchmarks)
    places = [f"{cluster}:{stage}" for cluster, size in enumerate(sizes) for stage in range(size)]
    pins = [f"--pin=node_{node}={place}" for node, place in enumerate(places)]
    plan = job.plan("--clusters", str(len(sizes)), "--min-nodes-per-cluster", str(min(sizes)), *pins)
    report(options, machines, sizes, plan, job.train())


def seconds_of_round(ends):
    """From when the last member of a ring has begun, who takes the least, to its end; of the slowest ring."""
    least = {}
    for end in ends.values():
        for ring in end["ring_bytes"]:
            least[ring] = min(least.get(ring, math.inf), end["times"]["round_ms"]["measured"] / 1e3)
    return max(least.values())


def report(options, machines, sizes, plan, ends):
    clusters = len(sizes)
    parameters = {stage["node"]: stage["parameters"] for cluster in plan["clusters"] for stage in cluster["stages"]}
    sent = {node: sum(end["ring_bytes"].values()) / end["rounds"] for node, end in ends.items()}
    busiest = max(sent, key=sent.get)
    if options.compression == "none":
        needed = 4 * parameters[busiest] * 2 * (clusters - 1) / clusters
        assert abs(sent[busiest] / needed - 1) < 0.01, f"{busiest} has sent {sent[busiest]}, not {needed} bytes a round"
    bound = sent[busiest] * 8e-3 / options.rate / 1e3  # seconds
    took = seconds_of_round(ends)
    plain = plain_rings(machines, clusters, int(sent[busiest]))
    rings = [len(end["ring_bytes"]) for end in ends.values()]
    exposed = max(end["exposed_seconds"] / float(end["text"].split(" steps in ")[1].split()[0]) for end in ends.values())
    print(f"| {', '.join(map(str, sizes))} | {max(rings)} | {sent[busiest] / 1e6:.2f} MB | {1e3 * bound:.0f} ms | {1e3 * took:.0f} ms | "
          f"{100 * bound / took:.1f} % | {100 * bound * FRAME / took:.1f} % | {1e3 * plain:.0f} ms | {100 * exposed:.1f} % |", flush=True)
    for node, end in sorted(ends.items()):
        print(f"{node}: {parameters[node]} parameters, rings {end['ring_bytes']}, rounds of "
              f"{end['times']['round_ms']['measured']:.0f} ms, {end['rounds']} of them, steps of {end['times']['step_ms']['measured']:.0f} ms", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="3,3,3,3/4,3,3,2", help="of the clusters in nodes; of several trials, one after "
                        "the other")
    parser.add_argument("--rate", type=int, default=100, help="Mbit/s of each node")
    parser.add_argument("--model", default="vgg11?image_size=32&classes=10&hidden=0", help="of images")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--every", type=int, default=2, help="steps from one round to the next")
    parser.add_argument("--compression", default="none", help="as in train.json")
    parser.add_argument("--overlap", type=int, default=0, help="as in train.json")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder")
    options = parser.parse_args()
    trials = [[int(size) for size in sizes.split(",")] for sizes in options.sizes.split("/")]
    count = max(map(sum, trials))
    try:
        with small_machines([None] * count, [options.rate] * count) as machines:
            print("| nodes of the clusters | rings of a node | sent a round | bound | took | bound by time | with frames | plain TCP | waited |\n"
                  "|---|---|---|---|---|---|---|---|---|", flush=True)
            for sizes in trials:
                with tempfile.TemporaryDirectory(prefix="rookery-multi-ring-") as folder:
                    trial(options, pathlib.Path(folder), machines[:sum(sizes)], sizes)
    except Skipped as reason:
        sys.exit(f"multi_ring: {reason}")


if __name__ == "__main__":
    main()
