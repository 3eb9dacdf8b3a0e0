#!/usr/bin/python3
"""How fast one core reads images: decoding, resizing, mirroring every other one, floats plane by plane.

    bench/read_images.py [--images N] [--rounds N] [--build DIR]

Against Pillow (or Pillow-SIMD, where the Python that runs this has it) and numpy doing what a data loader's worker does, on the
same generated JPEGs, in alternation and in processor time. Before that all values must agree to 2/255, but one in a hundred
of those of JPEGs that Rookery decodes at a part of their size. Prints a table for bench/README.md. Exits with 1
when values differ or Rookery is slower.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "whole"))
from pictures import write_pictures  # noqa: E402

TOLERANCE = 2 / 255 + 1e-6


def read(path, size, is_mirrored):
    """What a data set of PyTorch makes of an image."""
    with Image.open(path) as image:
        resized = image.convert("RGB").resize((size, size), Image.BILINEAR)
    if is_mirrored:
        resized = resized.transpose(Image.FLIP_LEFT_RIGHT)
    return np.ascontiguousarray(np.asarray(resized).transpose(2, 0, 1)).astype(np.float32) / 255


class Pillow:
    def __init__(self, paths, size):
        self.paths, self.size, self.next = paths, size, 0

    def seconds(self, samples):
        begin = time.thread_time()
        for _ in range(samples):
            read(self.paths[self.next], self.size, self.next % 2)
            self.next = (self.next + 1) % len(self.paths)
        return time.thread_time() - begin


class Rookery:
    def __init__(self, program, folder, size, first):
        self.process = subprocess.Popen([program, folder, str(size), first], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def seconds(self, samples):
        self.process.stdin.write(f"{samples}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def differing(first, paths, size):
    """The share of values that differ by more than the tolerance."""
    ours = np.fromfile(first, np.float32).reshape(-1, 3, size, size)
    theirs = np.stack([read(path, size, False) for path in paths[: len(ours)]])
    return float(np.mean(np.abs(ours - theirs) > TOLERANCE))


def measure(folder, sides, size, options):
    paths = sorted((folder / "cats").iterdir()) + sorted((folder / "dogs").iterdir())
    first = str(folder / "first")
    rookery = Rookery(options.build / "bin" / "read_images", folder, size, first)
    pillow = Pillow(paths, size)
    try:
        samples = max(10, options.images // 4)
        for side in (rookery, pillow):
            side.seconds(samples)
        share = differing(first, paths, size)
        rounds = [(rookery.seconds(samples), pillow.seconds(samples)) for _ in range(options.rounds)]
    finally:
        rookery.close()
    ratios = [theirs / ours for ours, theirs in rounds]
    ours, theirs = (1e3 * statistics.median(side) / samples for side in zip(*rounds))
    ratio = statistics.median(ratios)
    print(f"| {sides[0]}–{sides[1] - 1} pixels to {size} | {ours:.3f} ms | {theirs:.3f} ms | {ratio:.2f} ({min(ratios):.2f}–"
          f"{max(ratios):.2f}) | {100 * share:.2f} % |", flush=True)
    return ratio >= 1 and share <= (0.01 if 8 * size <= sides[1] // 2 else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build")
    options = parser.parse_args()
    print("| images | Rookery | Pillow | ratio (min–max) | values further apart than 2/255 |\n|---|---|---|---|---|")
    good = True
    for sides, size in (((32, 33), 32), ((200, 501), 180), ((200, 501), 32), ((1000, 1601), 180)):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            write_pictures(folder, options.images // 2, sides=sides, kinds=("jpg",))
            good &= measure(folder, sides, size, options)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
