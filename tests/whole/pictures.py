"""Folders of generated pictures. Needs numpy and Pillow, which Debian's Python has."""

import numpy as np
from PIL import Image


def picture(number, is_second, sides=(40, 120)):
    """Waves from left to right, or of the second class from top to bottom, of a size of its own."""
    chance = np.random.default_rng(number)
    width, height = chance.integers(*sides, 2)
    y, x = np.mgrid[0:height, 0:width] / 12
    waves = np.sin((y if is_second else x) * chance.uniform(2, 4) + chance.uniform(0, 6))
    values = 128 + 80 * waves[..., None] * chance.uniform(0.5, 1, 3) + chance.normal(0, 12, (height, width, 3))
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


KINDS = ("jpg", "jpg", "jpg", "png", "webp", "bmp")


def write_pictures(folder, count, broken=0, classes=("cats", "dogs"), sides=(40, 120), kinds=KINDS):
    """`count` of each class, of these kinds in turn, and `broken` JPEGs of each class that are cut short."""
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            picture(2 * i + label, label == 1, sides).save(folder / name / f"{i}.{kinds[i % len(kinds)]}", quality=85)
        for i in range(broken):
            path = folder / name / f"broken_{i}.jpg"
            picture(i, label == 1, sides).save(path)
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
