"""Modules of the kinds that people train, small, for tests of what becomes of them.

Needs PyTorch 1.13 or newer alone.
"""

import dataclasses

import torch
from torch.nn import functional

from . import images, sequences, traps

SAMPLES = 12


@dataclasses.dataclass(frozen=True)
class Case:
    """A module with the kind of its input; it tells one of `classes` of each sample, or of each of its positions."""

    make: type
    input: str = "image"
    classes: int = 5
    positions: tuple = ()

    @property
    def name(self):
        return self.make.__name__

    def module(self):
        """The same numbers every time."""
        torch.manual_seed(7)
        return self.make()

    def inputs(self):
        """Of SAMPLES samples, by the names of forward's arguments."""
        random = torch.Generator().manual_seed(8)
        image = torch.randn(SAMPLES, 3, 8, 8, generator=random)
        ids = torch.randint(0, 11, (SAMPLES, 6), generator=random)
        row = torch.randn(SAMPLES, 6, generator=random)
        series = torch.randn(SAMPLES, 4, 20, generator=random)
        some_zero = row * (torch.arange(SAMPLES) % 3 > 0).unsqueeze(1)
        padded = ids.masked_fill(torch.arange(6) < torch.arange(SAMPLES).unsqueeze(1) % 4, 0)
        kinds = {"image": {"x": image}, "ids": {"ids": ids}, "row": {"x": row}, "series": {"x": series},
                 "both": {"image": image, "facts": row}, "zeros": {"x": some_zero}, "padded": {"ids": padded}}
        return kinds[self.input]

    def targets(self):
        return torch.randint(0, self.classes, (SAMPLES, *self.positions), generator=torch.Generator().manual_seed(9))


def loss_of(made, targets):
    """The mean of cross entropy over all positions."""
    return functional.cross_entropy(made.flatten(0, -2), targets.flatten())


def _tokens(make):
    return Case(make, "ids", 11, (6,))


CASES = [
    *(Case(make) for make in (
        images.Residual, images.Bottleneck, images.Inverted, images.Dense, images.Inception, images.Shuffled,
        images.ConvNext, images.Normed, images.PixelShuffle, images.Vision,
    )),
    Case(images.Unet, positions=(64,)), Case(images.Series, "series"), Case(images.TwoInputs, "both"),
    Case(sequences.Encoder, "ids"), Case(sequences.Mixer, "ids"), Case(sequences.Lstm, "ids"),
    Case(sequences.Plain, "ids"),
    *map(_tokens, (sequences.Causal, sequences.Rotary, sequences.Decoder, sequences.Fused, sequences.Gru,
                   sequences.Wave, sequences.Products)),
    *(Case(make) for make in (traps.Frozen, traps.FineTuned, traps.Tested, traps.Evaluated)),
    *map(_tokens, (traps.Padded, traps.Tied)),
    *(Case(make, "row") for make in (
        traps.Detached, traps.Guarded, traps.Buffers, traps.Siamese, traps.Normalized, traps.Scaled,
    )),
]


# What no file of PyTorch's own exporters says: gradients at places where parts have others than the whole, in
# eval() which of equal weights are one, and factors in all their digits.
EDGES = [Case(sequences.LeftPadded, "padded", 11, (6,)), Case(traps.Corners, "zeros"), Case(traps.Bounds, "row"),
         Case(traps.Loaded, "row"), Case(traps.Stretched)]


# What other exporters than ours lose, some of which ours refuses.
LOST_BY_OTHERS = [Case(traps.Sloped, "row"), Case(traps.Reparametrized, "row"), Case(traps.Stepping, "row"),
                  Case(traps.Frequent, "ids"), Case(traps.Cumulative, "row")]


def case_of(make):
    """The case of CASES or EDGES with this module."""
    (found,) = (case for case in CASES + EDGES if case.make is make)
    return found
