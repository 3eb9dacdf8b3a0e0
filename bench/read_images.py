#!/usr/bin/python3
"""How fast one core reads images: decoding, resizing, mirroring every other one, floats plane by plane.

    bench/read_images.py [--images N] [--rounds N] [--build DIR] [--torch PYTHON]

Against Pillow and numpy doing what a data loader's worker does and, where PYTHON has PyTorch and torchvision, against PyTorch's
DataLoader with its two ways of reading (torch_images.py), on the same generated JPEGs, in alternation and in processor time.
Before that all values must agree with Pillow's to 2/255, but one in a hundred of those of JPEGs that Rookery decodes at a part
of their size. Prints a table for bench/README.md. Exits with 1 when values differ or Rookery is slower than one of them.
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
    name, first = "Pillow", None

    def __init__(self, paths, size):
        self.paths, self.size, self.next = paths, size, 0

    def seconds(self, samples):
        """Of processor time, for each of the samples that come next."""
        begin = time.thread_time()
        for _ in range(samples):
            read(self.paths[self.next], self.size, self.next % 2)
            self.next = (self.next + 1) % len(self.paths)
        return (time.thread_time() - begin) / samples

    def close(self):
        pass


class Reader:
    """A program that writes the first samples to a file, and answers a number of samples with the seconds that each took."""

    def __init__(self, name, command, first):
        self.name, self.first = name, first
        self.process = subprocess.Popen([*command, first], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, samples):
        self.process.stdin.write(f"{samples}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def differing(first, paths, size):
    """The share of values that differ from Pillow's by more than the tolerance."""
    values = np.fromfile(first, np.float32).reshape(-1, 3, size, size)
    pillows = np.stack([read(path, size, False) for path in paths[: len(values)]])
    return float(np.mean(np.abs(values - pillows) > TOLERANCE))


def measure(folder, sides, size, options):
    paths = sorted((folder / "cats").iterdir()) + sorted((folder / "dogs").iterdir())
    rookery = Reader("Rookery", [options.build / "bin" / "read_images", "--folder", folder, "--size", str(size), "--first"],
                     folder.parent / "rookery")
    peers = [Pillow(paths, size)]
    for way in ("pillow", "torchvision") if options.torch else ():
        peers.append(Reader(f"DataLoader, {way}", [options.torch, HERE / "torch_images.py", folder, str(size), way],
                            folder.parent / way))
    readers = (rookery, *peers)
    try:
        samples = max(10, options.images // 4)
        for reader in readers:
            reader.seconds(samples)
        shares = [differing(reader.first, paths, size) if reader.first else 0 for reader in readers]
        rounds = [[reader.seconds(samples) for reader in readers] for _ in range(options.rounds)]
    finally:
        for reader in readers:
            reader.close()
    good = shares[0] <= (0.01 if 8 * size <= sides[1] // 2 else 0)
    ours, *theirs = zip(*rounds)
    for peer, times, share in zip(peers, theirs, shares[1:]):
        ratios = [its / our for our, its in zip(ours, times)]
        ratio = statistics.median(ratios)
        print(f"| {sides[0]}–{sides[1] - 1} pixels to {size} | {1e3 * statistics.median(ours):.3f} ms | {peer.name} | "
              f"{1e3 * statistics.median(times):.3f} ms | {ratio:.2f} ({min(ratios):.2f}–{max(ratios):.2f}) | "
              f"{100 * shares[0]:.2f} %, {100 * share:.2f} % |", flush=True)
        good &= ratio >= 1
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build")
    parser.add_argument("--torch", type=pathlib.Path, metavar="PYTHON")
    options = parser.parse_args()
    print("| images | Rookery | peer | its time | ratio (min–max) | values more than 2/255 from Pillow's: Rookery's, the peer's |\n"
          "|---|---|---|---|---|---|")
    good = True
    for sides, size in (((32, 33), 32), ((200, 501), 180), ((200, 501), 32), ((1000, 1601), 180)):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder) / "images"
            write_pictures(folder, options.images // 2, sides=sides, kinds=("jpg",))
            good &= measure(folder, sides, size, options)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
