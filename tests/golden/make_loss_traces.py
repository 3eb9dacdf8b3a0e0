#!/usr/bin/env python3
"""Lets PyTorch compute losses and their gradients, and writes what Rookery must reproduce to loss_traces.json:
settings of a loss as train.json has them, an output and a target, and what comes of them.

Needs PyTorch >= 1.13 only:  python3 tests/golden/make_loss_traces.py
"""

import json
import pathlib

import torch
from torch.nn import functional

HERE = pathlib.Path(__file__).resolve().parent


def cross_entropy(options, x, target):
    options = dict(options)
    axis = options.pop("class_axis", -1)
    # PyTorch has the classes along dimension 1.
    probabilities = target.dtype == torch.float32
    return functional.cross_entropy(x.movedim(axis, 1), target.movedim(axis, 1) if probabilities else target,
                                    **options)


def mse(_, x, target):
    if target.dtype == torch.int64:
        target = functional.one_hot(target, x.shape[1]).float()
    return functional.mse_loss(x, target)


def bce(options, x, target):
    weight = options.get("pos_weight")
    return functional.binary_cross_entropy_with_logits(
        x, target, pos_weight=None if weight is None else torch.tensor(weight, dtype=torch.float32))


LOSSES = {"cross_entropy": cross_entropy, "mse": mse, "bce_with_logits": bce,
          "l1": lambda _, x, target: functional.l1_loss(x, target)}


def logits(*shape):
    return 3 * torch.randn(shape)


def labels(classes, *shape, ignored=None, share=0.3):
    target = torch.randint(classes, shape)
    if ignored is not None:
        target[torch.rand(shape) < share] = ignored
    return target


def cases():
    yield {"name": "mse"}, logits(5, 7), labels(7, 5)
    yield {"name": "mse"}, logits(4, 3, 5), logits(4, 3, 5)
    yield {"name": "l1"}, logits(6), logits(6)
    yield {"name": "l1"}, logits(3, 2, 9), logits(3, 2, 9)
    equal = logits(4, 5)
    yield {"name": "l1"}, equal, torch.where(torch.rand(4, 5) < 0.5, equal, logits(4, 5))
    yield {"name": "bce_with_logits"}, logits(5, 4), torch.rand(5, 4)
    yield {"name": "bce_with_logits"}, 20 * logits(5, 19), torch.rand(5, 19).round()
    yield {"name": "bce_with_logits", "pos_weight": 2.5}, logits(3, 4, 5), torch.rand(3, 4, 5).round()
    yield {"name": "bce_with_logits", "pos_weight": [0.5, 1, 3]}, logits(6, 3), torch.rand(6, 3)
    yield {"name": "cross_entropy"}, logits(5, 7), labels(7, 5)
    yield {"name": "cross_entropy"}, 100 * logits(5, 18), labels(18, 5)
    yield {"name": "cross_entropy"}, logits(3, 1), labels(1, 3)
    yield {"name": "cross_entropy", "label_smoothing": 0.1}, logits(5, 7), labels(7, 5)
    yield {"name": "cross_entropy", "label_smoothing": 1}, logits(5, 7), labels(7, 5)
    yield {"name": "cross_entropy", "ignore_index": -100}, logits(3, 6, 5), labels(5, 3, 6, ignored=-100)
    yield ({"name": "cross_entropy", "ignore_index": 0, "label_smoothing": 0.2}, logits(4, 6, 17),
           labels(17, 4, 6, ignored=0))
    yield {"name": "cross_entropy", "class_axis": 1}, logits(2, 4, 3, 5), labels(4, 2, 3, 5)
    yield ({"name": "cross_entropy", "class_axis": 1, "ignore_index": 255, "label_smoothing": 0.1},
           logits(2, 4, 3, 5), labels(4, 2, 3, 5, ignored=255))
    yield {"name": "cross_entropy"}, logits(5, 7), logits(5, 7).softmax(1)
    yield {"name": "cross_entropy", "label_smoothing": 0.1}, logits(2, 5, 9), torch.rand(2, 5, 9)
    yield {"name": "cross_entropy", "class_axis": 1}, logits(2, 5, 9), torch.rand(2, 5, 9)


def numbers(tensor):
    if tensor.dtype == torch.int64:
        return tensor.flatten().tolist()
    return [float(f"{x:.9g}") for x in tensor.flatten().tolist()]


def trace(settings, x, target):
    name = settings["name"]
    options = {key: value for key, value in settings.items() if key != "name"}
    if name == "cross_entropy" and target.dtype == torch.int64:
        assert options.get("ignore_index", -100) in target or "ignore_index" not in options
    x.requires_grad_()
    loss = LOSSES[name](dict(options), x, target)
    loss.backward()
    return {"loss": settings, "shape": list(x.shape), "output": numbers(x.detach()),
            "target_shape": list(target.shape), "classes": target.dtype == torch.int64, "target": numbers(target),
            "value": float(f"{loss.item():.9g}"), "gradient": numbers(x.grad)}


def main():
    torch.manual_seed(1)
    text = json.dumps([trace(*case) for case in cases()], separators=(",", ": "))
    (HERE / "loss_traces.json").write_text(text.replace("},{", "},\n{") + "\n")


main()
