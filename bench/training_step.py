#!/usr/bin/python3
"""Times one training step (forward, backward, Adam) of whole models in Rookery and in PyTorch.

    bench/training_step.py [--models A,B] [--threads 1,2] [--rounds N] [--precision bf16] [--torch PYTHON]
                           [--build DIR]

For each model both sides get the same weights and batches and train some steps without dropout: their losses must agree,
or be as near to PyTorch's in float64 as three times its own in float32, or nothing is timed. PyTorch is tried in several
settings (channels_last or not, ways to run Adam; the fastest of them with torch.compile, where it works; recurrent layers
without oneDNN, too), and with MKL's check for processors that are not Intel's lifted, where its version still asks for it:
the rate of PyTorch's own products, printed beside what a core can do, says whether it runs at its best. The fastest goes
on. Then, with dropout, both train in alternation; a round's ratio is PyTorch's time by Rookery's. With --precision bf16
Rookery trains in mixed precision, and PyTorch under autocast to bfloat16. Both are processes of their own, and their
memory is the peak of what is resident, less what was resident before the model was built; PyTorch has then trained another
one, so that what it imports late is not counted. Prints a table for bench/README.md. Exits with 1 when the two do not
compute the same or a bar is missed.
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# OpenBLAS does a hundred on a present core, the reference BLAS one.
LEAST_PRODUCT_GFLOPS = 10
# Rounding to bf16 moves a loss by up to a hundredth in the first steps.
BF16_STEPS, BF16_TOLERANCE = 5, 0.02
# Of every model's ratio in bf16.
BF16_BAR = 1.1
# A side trains at least this long in a round.
ROUND_SECONDS = 0.25


@dataclasses.dataclass
class Model:
    name: str
    what: str
    bar: float  # on one thread and on two
    memory_bar: float = 0.7
    checked_steps: int = 10
    tolerance: float = 1e-4  # relative, of a loss


MODELS = [
    Model("cnn_net", "cnn_net, batch 64", 14, checked_steps=100),
    Model("deep_mlp", "784-128-9×512-10, batch 64", 1.6, memory_bar=0.9),
    # From the seventh step on PyTorch differs from itself with another memory layout by 1e-3.
    Model("vgg11", "VGG-11, 3×32×32, batch 64", 3, checked_steps=5),
    Model("gpt_nano", "gpt-nano: 3 layers, 3 heads, 48 wide, batch 64, sequence 11", 5),
    Model("transformer_block", "transformer block, 768 wide, 12 heads, sequence 128, batch 8", 1.1),
    Model("bert_base", "BERT base, sequence 128, batch 4", 1.1, checked_steps=3),
    Model("lstm", "LSTM, 2 layers of 256, sequence 64, batch 32", 1.5),
    # With another memory layout PyTorch differs from itself by 3e-4 after one update, by 3e-3 after three.
    Model("resnet18", "ResNet-18, 3×64×64, batch 16", 2.3, checked_steps=3, tolerance=1e-3),
    Model("resnet50", "ResNet-50, 3×224×224, batch 4", 1.6, checked_steps=3, tolerance=1e-3),
]


def mkl_for_all(folder):
    """A library that, loaded before MKL, lets it use the kernels that it keeps for Intel's processors."""
    source, library = folder / "intel.c", folder / "intel.so"
    source.write_text("int mkl_serv_intel_cpu_true(void) { return 1; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def environment_for(threads, preload=None):
    environment = dict(os.environ)
    if preload is not None:
        environment["LD_PRELOAD"] = str(preload)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        environment[name] = str(threads)
    return environment


class OwnCores:
    """Rounds of measurements on several threads, of which those are done once more in which a virtual machine's
    processors were two threads of one core, which its host may make them from time to time."""

    LEAST = 0.9  # of what a thread does alone

    def __init__(self, build, threads):
        self.program, self.again = [build / "bin" / "peak_gflops", "--together", str(threads)], 0
        self.is_needed = threads > 1

    def are_there(self):
        return not self.is_needed or float(subprocess.run(self.program, check=True, stdout=subprocess.PIPE).stdout) >= self.LEAST

    def rounds(self, count, measure):
        """So many results of `measure`; three times as many again at most, then whatever comes."""
        found = []
        while len(found) < count:
            before = self.are_there()
            made = measure()
            if (before and self.are_there()) or self.again >= 3 * count:
                found.append(made)
            else:
                self.again += 1
        return found


class Side:
    """A process that trains when told."""

    def __init__(self, command, threads, preload=None):
        self.command = [str(part) for part in command]
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        bufsize=1, env=environment_for(threads, preload))
        self.description = json.loads(self.answer())

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{' '.join(self.command)} ended with code {self.process.wait()}")
        return line

    def train(self, steps):
        """(seconds, losses)"""
        self.process.stdin.write(f"{steps}\n")
        seconds, *losses = map(float, self.answer().split())
        return seconds, losses

    def step_seconds(self, steps):
        return self.train(steps)[0] / steps

    def memory(self):
        self.process.stdin.write("memory\n")
        return int(self.answer())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


class Bench:
    """One model on a number of threads."""

    def __init__(self, model, threads, folder, options):
        self.model, self.threads, self.folder, self.options = model, threads, folder, options
        self.preload = mkl_for_all(folder)
        self.torch_program = [options.torch, HERE / "torch_side.py", model.name, folder]
        said = subprocess.run(list(map(str, self.torch_program + ["prepare"])), check=True, text=True,
                              stdout=subprocess.PIPE, env=environment_for(threads, self.preload)).stdout
        self.torch = json.loads(said)
        if self.torch["product_gflops"] < LEAST_PRODUCT_GFLOPS:
            sys.exit(f"PyTorch's matrix products run at {self.torch['product_gflops']:.1f} GFLOP/s, as with the"
                     " reference BLAS; give it a fast one: apt-get install libopenblas0-pthread")
        subprocess.run([*self.rookery_program(), "--choose"], check=True)

    def rookery_program(self, threads=None):
        return [str(part) for part in (
            self.options.build / "bin" / "training_step", "--model", self.model.name, "--folder", self.folder,
            "--threads", threads or self.threads, *(["--bf16"] if self.is_bf16() else []))]

    def rookery(self, *more):
        return Side([*self.rookery_program(), *more], self.threads)

    def pytorch(self, settings, *more):
        return Side([*self.torch_program, "train", "--threads", self.threads, "--settings", settings, *more],
                    self.threads, self.preload)

    def is_bf16(self):
        return self.options.precision == "bf16"

    def check(self):
        """Do both compute the same? Prints how far apart they are."""
        steps, tolerance = self.model.checked_steps, self.model.tolerance
        if self.is_bf16():
            steps, tolerance = min(steps, BF16_STEPS), BF16_TOLERANCE
        ours, theirs = self.losses(self.rookery("--no-dropout"), steps), self.losses(self.pytorch("plain", "--no-dropout"), steps)
        apart = distance(ours, theirs)
        print(f"  without dropout, {steps} steps: largest relative difference of a loss {apart:.1e} (bar {tolerance:g})",
              flush=True)
        if apart <= tolerance or self.is_bf16():
            return apart <= tolerance
        # Training may magnify what rounding differs: then both are held against float64.
        exact = self.losses(self.pytorch("double+plain", "--no-dropout"), steps)
        mine, torchs = distance(ours, exact), distance(theirs, exact)
        print(f"  from PyTorch's float64 Rookery is off by {mine:.1e}, its float32 by {torchs:.1e} (bar three times that)",
              flush=True)
        return mine <= 3 * torchs

    def losses(self, side, steps):
        with side:
            return side.train(steps)[1]

    def best_settings(self):
        def seconds(settings):
            with self.pytorch(settings) as theirs:
                first = theirs.step_seconds(1)
                steps = steps_for(min(first, theirs.step_seconds(2)))
                return min(theirs.step_seconds(steps) for _ in range(3))

        before = "autocast+" if self.is_bf16() else ""
        times = {before + settings: seconds(before + settings) for settings in self.torch["settings"]}
        if self.torch["compiles"]:
            eager = [settings for settings in times if "no_onednn" not in settings]
            compiled = "compile+" + min(eager, key=times.get)
            times[compiled] = seconds(compiled)
        print("  PyTorch:", ", ".join(f"{name} {1e3 * time:.4g} ms" for name, time in times.items()), flush=True)
        return min(times, key=times.get)

    def measure(self, peak):
        """A row of the table, and whether the bars are reached; None when the sides differ."""
        print(f"{self.model.what}, {self.threads} thread(s), {self.options.precision} against"
              f" {'autocast to bfloat16' if self.is_bf16() else 'float32'} of PyTorch {self.torch['version']}", flush=True)
        print(f"  a core's peak {peak:.0f} GFLOP/s, PyTorch's products {self.torch['product_gflops']:.0f} on all threads",
              flush=True)
        if not self.check():
            print("  they do not compute the same: nothing is timed")
            return None
        settings = self.best_settings()
        with self.rookery() as ours, self.pytorch(settings) as theirs:
            sides = (ours, theirs)
            steps = [steps_for(min(side.step_seconds(1) for _ in range(3))) for side in sides]
            cores = OwnCores(self.options.build, self.threads)
            pairs = cores.rounds(self.options.rounds, lambda: [side.step_seconds(n) for side, n in zip(sides, steps)])
            if cores.again:
                print(f"  {cores.again} rounds done once more: processors shared a core")
            memory = [side.memory() for side in sides]
            flops = ours.description["flops"]
        return Result(self.model, self.threads, self.options.precision, settings, pairs, memory, flops / (peak * 1e9 * self.threads))


def distance(losses, others):
    """The largest relative difference."""
    return max(abs(a - b) / abs(b) if math.isfinite(a) else math.inf for a, b in zip(losses, others))


def steps_for(seconds):
    return max(1, math.ceil(ROUND_SECONDS / seconds))


@dataclasses.dataclass
class Result:
    model: Model
    threads: int
    precision: str  # of Rookery
    settings: str
    pairs: list  # (ours, theirs) in seconds
    memory: list  # the same in bytes
    ideal: float  # seconds of a step at the machine's peak

    HEAD = ("| model | threads | Rookery | PyTorch | ratio (min–max) | bar | share of peak | memory | of PyTorch's |"
            " PyTorch's settings |\n|---|---|---|---|---|---|---|---|---|---|")

    def __post_init__(self):
        self.ours, self.theirs = (statistics.median(times) for times in zip(*self.pairs))
        self.ratios = [theirs / ours for ours, theirs in self.pairs]
        self.ratio = statistics.median(self.ratios)
        self.of_memory = self.memory[0] / self.memory[1]

    def reached(self):
        """[(what, value, bar, reached)]; the bars are those of float32, of time for one thread and for two."""
        if self.precision != "float32":
            return [("ratio", self.ratio, BF16_BAR, self.ratio >= BF16_BAR)]
        bars = [("memory", self.of_memory, self.model.memory_bar, self.of_memory <= self.model.memory_bar)]
        if self.threads <= 2:
            bars.insert(0, ("ratio", self.ratio, self.model.bar, self.ratio >= self.model.bar))
        return bars

    def row(self):
        bar = next((bar for what, _, bar, _ in self.reached() if what == "ratio"), "–")
        return (f"| {self.model.what} | {self.threads} | {1e3 * self.ours:.4g} ms | {1e3 * self.theirs:.4g} ms |"
                f" {self.ratio:.2f} ({min(self.ratios):.2f}–{max(self.ratios):.2f}) |"
                f" {bar} | {100 * self.ideal / self.ours:.0f} % |"
                f" {self.memory[0] / 1e6:.1f} MB | {self.of_memory:.2f} | {self.settings} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", default=",".join(model.name for model in MODELS))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--precision", choices=["float32", "bf16"], default="float32",
                        help="of Rookery and PyTorch, which computes in bfloat16 what its autocast takes for safe")
    parser.add_argument("--torch", default="/usr/bin/python3", help="the Python that has PyTorch")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build")
    options = parser.parse_args()
    names = options.models.split(",")
    if unknown := set(names) - {model.name for model in MODELS}:
        parser.error(f"no such model: {', '.join(unknown)}")
    if not (options.build / "bin" / "training_step").exists():
        sys.exit(f"{options.build}/bin/training_step is not there; run: scripts/test.sh")
    peak = float(subprocess.run([options.build / "bin" / "peak_gflops"], check=True, stdout=subprocess.PIPE).stdout)
    print(f"peak of a core: {peak:.0f} GFLOP/s")
    results = []
    for model in (model for model in MODELS if model.name in names):
        for threads in map(int, options.threads.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                result = Bench(model, threads, pathlib.Path(folder), options).measure(peak)
            results.append(result)
            for what, value, bar, reached in result.reached() if result else []:
                print(f"  {what} {value:.2f}, bar {bar:g}: {'PASS' if reached else 'BELOW BAR'}", flush=True)
    print(Result.HEAD)
    for result in filter(None, results):
        print(result.row())
    return 0 if all(result and all(reached for *_, reached in result.reached()) for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
