"""The models of bench/training_step.py as PyTorch modules, with the parameter names of Rookery's zoo, and
the batches they are trained on.
"""

import dataclasses
import json
import pathlib
import sys
from typing import Callable

import torch
import torch.nn.functional as F
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
sys.path.insert(0, str(GOLDEN))
from make_cnn_net_trace import CnnNet, read_digits  # noqa: E402

BATCHES = 8


class DeepMlp(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [784, 128] + 9 * [512] + [10]
        self.depth = len(widths) - 1
        for i in range(self.depth):
            self.add_module(f"dense_{i + 1}", nn.Linear(widths[i], widths[i + 1]))

    def forward(self, x):
        for i in range(1, self.depth):
            x = torch.relu(self.get_submodule(f"dense_{i}")(x))
        return self.get_submodule(f"dense_{self.depth}")(x)


class Vgg11(nn.Module):
    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for width in (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool"):
            if width == "pool":
                layers.append(nn.MaxPool2d(2))
                continue
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(512, 10)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def random_batches(shape, classes):
    return [{"input": torch.randn(shape), "labels": torch.randint(classes, (shape[0],))} for _ in range(BATCHES)]


def digits():
    """The batches of the golden trace, on which training is well conditioned."""
    images, labels = read_digits()
    trace = json.loads((GOLDEN / "cnn_net_trace.json").read_text())
    return [{"input": images[ids].contiguous(), "labels": labels[ids]} for ids in trace["batches"]]


@dataclasses.dataclass
class Model:
    build: Callable  # (dropout) -> module
    batches: Callable  # () -> [{input name: tensor, "labels": tensor}]
    input: str = "input"
    images: bool = False  # then channels_last is worth a try
    loss: str = "cross_entropy"
    state: pathlib.Path = None  # of the initial weights, where they are not random

    def loss_function(self, prediction, target):
        return (F.mse_loss if self.loss == "mse" else F.cross_entropy)(prediction, target)

    def target(self, labels):
        return F.one_hot(labels, 10).float() if self.loss == "mse" else labels


MODELS = {
    "cnn_net": Model(lambda dropout: CnnNet(dropout=dropout), digits, images=True, loss="mse",
                     state=GOLDEN / "cnn_net_initial.safetensors"),
    "deep_mlp": Model(lambda dropout: DeepMlp(), lambda: random_batches((64, 784), 10)),
    "vgg11": Model(lambda dropout: Vgg11(), lambda: random_batches((64, 3, 32, 32), 10), images=True),
}
