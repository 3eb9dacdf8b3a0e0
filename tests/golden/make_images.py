#!/usr/bin/env python3
"""Writes small images of all kinds to images/, and to images.safetensors the pixels that Pillow reads from them and
makes of them: "FILE" [height, width, 3], "FILE.WIDTHxHEIGHT" resized by Image.BILINEAR, "FILE.grey" [height, width].

Needs Debian's python3-pil and python3-numpy:  /usr/bin/python3 tests/golden/make_images.py
"""

import pathlib
import sys

import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from safetensors_file import write_safetensors  # noqa: E402

FOLDER = HERE / "images"
SIZES = [(16, 16), (7, 29), (90, 60), (45, 37)]


def picture(width, height):
    """Waves and edges of all directions, with a little noise."""
    y, x = np.mgrid[0:height, 0:width].astype(float)
    noise = np.random.default_rng(1).normal(0, 4, (height, width, 3))
    waves = np.stack([np.sin(x / 3 + y / 7), np.cos(x / 11 - y / 2), np.sin((x * x + y * y) / 300)], axis=-1)
    edges = 60 * ((x > width / 3) ^ (y > height / 2))[..., None]
    return Image.fromarray(np.clip(110 + 60 * waves + edges + noise, 0, 255).astype(np.uint8))


def main():
    FOLDER.mkdir(exist_ok=True)
    image = picture(45, 37)
    alpha = image.copy()
    alpha.putalpha(Image.fromarray(np.linspace(0, 255, 45 * 37).reshape(37, 45).astype(np.uint8)))
    image.save(FOLDER / "plain.jpg", quality=90)
    image.save(FOLDER / "progressive.jpg", quality=70, progressive=True)
    image.convert("L").save(FOLDER / "grey.jpg")
    image.convert("CMYK").save(FOLDER / "cmyk.jpg", quality=90)
    picture(640, 480).save(FOLDER / "large.jpg", quality=60)
    image.save(FOLDER / "plain.png")
    image.convert("P", palette=Image.ADAPTIVE, colors=13).save(FOLDER / "palette.png")
    image.convert("L").save(FOLDER / "grey.png")
    alpha.save(FOLDER / "alpha.png")
    image.save(FOLDER / "lossy.webp", quality=80)
    image.save(FOLDER / "lossless.webp", lossless=True)
    image.save(FOLDER / "plain.bmp")
    image.convert("P", palette=Image.ADAPTIVE, colors=200).save(FOLDER / "palette.bmp")
    image.convert("1").save(FOLDER / "black_and_white.bmp")
    arrays = {}
    for path in sorted(FOLDER.iterdir()):
        read = Image.open(path).convert("RGB")
        for size in [(24, 24)] if path.stem == "large" else SIZES:
            arrays[f"{path.name}.{size[0]}x{size[1]}"] = np.asarray(read.resize(size, Image.BILINEAR))
        if path.stem != "large":
            arrays[path.name] = np.asarray(read)
            arrays[path.name + ".grey"] = np.asarray(read.convert("L"))
    write_safetensors(HERE / "images.safetensors", arrays)


if __name__ == "__main__":
    main()
