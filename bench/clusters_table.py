#!/usr/bin/python3
"""The same job on one, two, four and eight clusters of one node each: accuracy, what is sent, rounds and time.

    bench/clusters_table.py [--epochs N] [--jobs digits,sorter,mnist] [--seeds N]

Every row trains the same samples as often, in joint batches of the same size: each of C clusters takes batch_size / C of
them. The columns: the clusters, what they average, the accuracy of the whole model after the last epoch, megabytes that
each node sent to the next, the seconds of the run, and how often they averaged; where the row has no compression of its
own the first three once more with int8. Prints tables in markdown.

--epochs changes those of all jobs, --jobs leaves some out. With --seeds each row is trained with as many seeds (of weights,
split, order and dropout), and has the mean accuracy of all and the other figures of the last.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = ROOT / "build" / "bin"

sys.path.insert(0, str(ROOT / "tests" / "whole"))
from whole import free_ports  # noqa: E402

# Digits: 1,078 samples train, so that the last step of an epoch has 262, of which eight clusters normalise by 33 each; with joint
# batches of 256 it would have 54, and they would normalise by 6.
JOBS = {
    "digits": {"model": "cnn_net", "data": "digits", "loss": "mse", "epochs": 400, "batch_size": 272,
               "optimizer": {"name": "adam", "learning_rate": 0.003}},
    "sorter": json.loads((ROOT / "node_data" / "jobs" / "sorter.json").read_text()) | {"epochs": 150, "micro_batches": 1},
    "mnist": {"model": "mnist_mlp", "data": "idx:datasets/mnist", "loss": "cross_entropy", "train_fraction": 0.8, "epochs": 10, "batch_size": 64,
              "optimizer": {"name": "adam", "learning_rate": 0.001}},
}
DILOCO = {"mode": "diloco", "outer_learning_rate": 0.7, "outer_momentum": 0.5}
WAYS = [{"mode": "gradients"}, *({"mode": "parameters", "every": every} for every in (1, 16, 64)),
        *(DILOCO | {"every": every} for every in (16, 64)),
        DILOCO | {"every": 16, "fragments": 4, "overlap": 2},
        {"mode": "gradients", "compression": "topk:0.01:8"},
        DILOCO | {"every": 16, "compression": "topk:0.05:2"}]


def text_of(way):
    return way["mode"] + "".join(f", {key} {way[key]}" for key in ("every", "fragments", "overlap", "compression") if key in way)


def write_job(folder, settings, nodes, mbps):
    """The job, and a pool of so many nodes of this machine with such connections."""
    node_data = folder / "node_data"
    pool = {str(i): {"IP": f"127.0.0.1:{port}", "benchmarks": {"ram": 8, "bandwidth": mbps}}
            for i, port in enumerate(free_ports(nodes))}
    (node_data / "node_configs.json").write_text(json.dumps(pool))
    (node_data / "train.json").write_text(json.dumps(settings))


def run_program(folder, name, *arguments):
    subprocess.run([BIN / name, *arguments], cwd=folder, check=True, capture_output=True, text=True)


def run(folder, settings, clusters):
    """The row's figures of one run."""
    write_job(folder, settings, clusters, 1000)
    run_program(folder, "clusterize", "--clusters", str(clusters), "--min-nodes-per-cluster", "1")
    providers = [subprocess.Popen([BIN / "provider", "--json", "--name", f"node_{i}"], cwd=folder, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for i in range(clusters)]
    ends = [json.loads(provider.communicate()[0].splitlines()[-1]) for provider in providers]
    if any(end["event"] != "done" for end in ends):
        sys.exit(f"{settings}: {ends}")
    end = ends[0]
    sent = sum(end.get("ring_bytes", {}).values()) / 1e6
    accuracy = float((folder / "val_accuracies.txt").read_text().split()[-1])
    return accuracy, sent, end.get("rounds", 0), float(end["text"].split(" steps in ")[1].split()[0])


def table(name, settings, folder, seeds):
    print(f"\n{name}: {settings['model']}, {settings['epochs']} epochs, joint batches of {settings['batch_size']}\n")
    print("| clusters | averaging | accuracy | sent by a node | time | rounds | with int8: accuracy | sent | time |")
    print("|---|---|---|---|---|---|---|---|---|")
    for clusters in (1, 2, 4, 8):
        for way in WAYS if clusters > 1 else WAYS[:1]:
            changed = settings | {"batch_size": settings["batch_size"] // clusters, "shares": "equal",
                                  "checkpoint_every": "never", "validate_every": settings["epochs"]}

            def cells(averaging):
                runs = [run(folder, changed | {"averaging": averaging, "seed": seed}, clusters) for seed in seeds]
                accuracy = statistics.mean(each[0] for each in runs)
                _, sent, rounds, seconds = runs[-1]
                return f" {accuracy:.2f} % | {sent:.2f} MB | {seconds:.1f} s |", rounds

            row, rounds = cells(way)
            compresses = clusters == 1 or "compression" in way
            again = " | | |" if compresses else cells(way | {"compression": "int8"})[0]
            print(f"| {clusters} | {text_of(way) if clusters > 1 else ''} |{row} {rounds} |{again}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--jobs", default=",".join(JOBS), help="of " + ", ".join(JOBS))
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rookery-table-") as scratch:
        folder = pathlib.Path(scratch)
        (folder / "node_data").mkdir()
        shutil.copytree(ROOT / "node_data" / "datasets", folder / "node_data" / "datasets")
        for name in arguments.jobs.split(","):
            settings = dict(JOBS[name])
            if arguments.epochs:
                settings["epochs"] = arguments.epochs
            table(name, settings, folder, range(42, 42 + arguments.seeds))


if __name__ == "__main__":
    main()
