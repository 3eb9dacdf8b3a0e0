"""The side of PyTorch in read_images.py: its DataLoader over a folder of images, on one thread.

    PYTHON torch_images.py FOLDER SIZE pillow|torchvision FILE

`pillow`: torchvision's ImageFolder as it is, with transforms of Pillow's images (Pillow-SIMD's, where PYTHON has that).
`torchvision`: the same folder decoded by torchvision.io, with transforms of tensors (v2). For every number N on standard input it
reads at least N samples, going on where it was, and prints the seconds of processor time that each of them took. FILE gets the
first samples, not mirrored, as floats.
"""

import itertools
import sys
import time

import torch
from torchvision.datasets import ImageFolder
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import v2

BATCH = 32


def data_set(folder, size, reader, is_mirrored):
    mirrored = [v2.RandomHorizontalFlip()] if is_mirrored else []
    resized = v2.Resize((size, size), v2.InterpolationMode.BILINEAR, antialias=True)
    if reader == "pillow":
        return ImageFolder(folder, v2.Compose([resized, *mirrored, v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)]))
    return ImageFolder(folder, v2.Compose([resized, *mirrored, v2.ToDtype(torch.float32, scale=True)]),
                       loader=lambda path: decode_image(path, ImageReadMode.RGB))


def batches(samples):
    return torch.utils.data.DataLoader(samples, BATCH, num_workers=0)


def main():
    folder, size, reader = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    next(iter(batches(data_set(folder, size, reader, False))))[0].numpy().tofile(sys.argv[4])
    loader = batches(data_set(folder, size, reader, True))
    endless = itertools.chain.from_iterable(itertools.repeat(loader))
    for line in sys.stdin:
        count = -(-int(line) // BATCH)
        begin = time.process_time()
        read = sum(len(images) for images, _ in itertools.islice(endless, count))
        print((time.process_time() - begin) / read, flush=True)


if __name__ == "__main__":
    main()
