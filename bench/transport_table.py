#!/usr/bin/python3
"""What sending activations and gradients in fewer bits does to the accuracy of a job on several stages.

    bench/transport_table.py [--epochs N] [--jobs digits,sorter,mnist] [--activations int8,int4] [--seeds N] [--stages N]
                             [--micro-batches N]

Every row trains the same samples as often, in the same cut. The columns: how activations and gradients travel, the
accuracy of the whole model after the last epoch by the run's own validation, in which activations travel so, too (those
that travel by differences as fp16), and the bytes that a micro-batch moves over all links, of differences after the first
epoch. Prints tables in markdown.

--epochs changes those of all jobs, --jobs leaves some out, --activations all rows in which they travel otherwise. With
--seeds each row is trained with as many seeds (of weights, split, order and dropout), and has the mean accuracy of all, and
the least and the most. What is lost of gradients goes from micro-batch to micro-batch only where there are several.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import tempfile

from clusters_table import JOBS, ROOT, run_program, write_job

WAYS = [("none", "none"), ("fp16", "fp16"), ("bf16", "bf16"), ("int8", "int8"), ("int4", "int4"),
        ("int8", "none"), ("int4", "none"), ("none", "int8"), ("none", "int4"),
        ("int8_delta", "none"), ("int4_delta", "none"), ("int8_delta", "int8"), ("int4_delta", "int8")]


def run(folder, settings, stages):
    """Accuracy in percent, and bytes of a micro-batch."""
    write_job(folder, settings, stages, 1_000_000)
    run_program(folder, "clusterize", "--clusters", "1", "--min-nodes-per-cluster", str(stages))
    [cluster] = json.loads((folder / "node_data" / "plan.json").read_text())["clusters"]
    cuts = [stage["ops"] for stage in cluster["stages"]]
    if len(cuts) != stages:
        raise SystemExit(f"{len(cuts)} stages instead of {stages}")
    run_program(folder, "launch")
    moved = sum(link["activation_bytes"] + link["gradient_bytes"] for link in cluster["links"])
    return float((folder / "val_accuracies.txt").read_text().split()[-1]), moved, cuts


def table(name, settings, ways, folder, seeds, stages):
    print(f"\n{name}: {settings['model']}, {settings['epochs']} epochs, {settings['micro_batches']} micro-batches, "
          f"{stages} stages\n")
    print("| activations | gradients | accuracy | bytes |\n|---|---|---|---|")
    cut = None
    for activations, gradients in ways:
        changed = settings | {"checkpoint_every": "never", "validate_every": settings["epochs"],
                              "transport": {"activations": activations, "gradients": gradients}}
        runs = [run(folder, changed | {"seed": seed}, stages) for seed in seeds]
        accuracies = [each[0] for each in runs]
        _, moved, cuts = runs[0]
        cut = cut or cuts
        if cuts != cut:
            raise SystemExit(f"cut otherwise: {cuts} instead of {cut}")
        spread = f" ({min(accuracies):.2f}–{max(accuracies):.2f})" if len(seeds) > 1 else ""
        print(f"| {activations} | {gradients} | {statistics.mean(accuracies):.2f} %{spread} | {moved:,} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--jobs", default=",".join(JOBS), help="of " + ", ".join(JOBS))
    parser.add_argument("--activations", default=",".join(dict.fromkeys(way[0] for way in WAYS)))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=1)
    arguments = parser.parse_args()
    ways = [way for way in WAYS if way[0] in arguments.activations.split(",")]
    with tempfile.TemporaryDirectory(prefix="rookery-table-") as scratch:
        folder = pathlib.Path(scratch)
        (folder / "node_data").mkdir()
        shutil.copytree(ROOT / "node_data" / "datasets", folder / "node_data" / "datasets")
        for name in arguments.jobs.split(","):
            settings = JOBS[name] | {"micro_batches": arguments.micro_batches}
            if arguments.epochs:
                settings["epochs"] = arguments.epochs
            table(name, settings, ways, folder, range(42, 42 + arguments.seeds), arguments.stages)


if __name__ == "__main__":
    main()
