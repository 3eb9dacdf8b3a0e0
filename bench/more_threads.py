#!/usr/bin/python3
"""Times one training step of whole models in Rookery on one thread and on several.

    bench/more_threads.py [--models A,B] [--threads 2,4] [--rounds N] [--build DIR]

The same weights and batches as in training_step.py. On each number of threads some steps are trained first, whose losses
must be the same numbers, or nothing is timed. Then all train in alternation, each a process of its own; a round's
speed-up is the time of one thread by that of several. Rounds in which processors share a core are done once more.
Prints a table for bench/README.md. Exits with 1 when losses differ or a bar is missed.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile

import training_step

# Speed-ups on two threads.
BARS = {"cnn_net": 1.3, "deep_mlp": 1.7, "vgg11": 1.85, "gpt_nano": 1.6, "transformer_block": 1.85,
        "bert_base": 1.85, "resnet18": 1.85, "resnet50": 1.85}
CHECKED_STEPS = 5


def speed_ups(model, threads, folder, options):
    """{threads: (median seconds, speed-ups)}; None when losses differ."""
    bench = training_step.Bench(model, 1, folder, options)
    sides = {n: training_step.Side(bench.rookery_program(n), n) for n in [1, *threads]}
    try:
        losses = {n: side.train(CHECKED_STEPS)[1] for n, side in sides.items()}
        if any(each != losses[1] for each in losses.values()):
            print(f"  losses differ: {losses}")
            return None
        steps = {n: training_step.steps_for(side.step_seconds(1)) for n, side in sides.items()}
        cores = training_step.OwnCores(options.build, max(threads))
        rounds = cores.rounds(options.rounds, lambda: {n: side.step_seconds(steps[n]) for n, side in sides.items()})
        if cores.again:
            print(f"  {cores.again} rounds done once more: processors shared a core", flush=True)
    finally:
        for side in sides.values():
            side.__exit__()
    return {n: (statistics.median(times[n] for times in rounds), [times[1] / times[n] for times in rounds])
            for n in sides}


def report(model, found):
    """Prints a row for each number of threads; whether the bars are reached."""
    reached = True
    for n, (seconds, ratios) in found.items():
        bar = BARS.get(model.name) if n == 2 else None
        ratio = statistics.median(ratios)
        reached &= bar is None or ratio >= bar
        print(f"| {model.what} | {n} | {1e3 * seconds:.4g} ms | {ratio:.2f} ({min(ratios):.2f}–{max(ratios):.2f}) |"
              f" {bar or '–'} |", flush=True)
    return reached


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", default=",".join(model.name for model in training_step.MODELS))
    parser.add_argument("--threads", default="2")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--build", type=pathlib.Path, default=training_step.HERE.parent / "build")
    options = parser.parse_args()
    options.torch, options.precision = "/usr/bin/python3", "float32"  # whose weights and batches are taken
    threads = [int(n) for n in options.threads.split(",")]
    print("| model | threads | step | speed-up (min–max) | bar |\n|---|---|---|---|---|")
    reached = True
    for model in training_step.MODELS:
        if model.name not in options.models.split(","):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = speed_ups(model, threads, pathlib.Path(folder), options)
        reached &= found is not None and report(model, found)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
