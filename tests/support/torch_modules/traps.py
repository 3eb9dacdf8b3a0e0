"""Modules of which a graph alone does not show what is trained: frozen, tied, padded, detached, in evaluation."""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import relu6

from . import sequences


class Frozen(nn.Module):
    """A body that is not trained, whose BatchNorm moves its statistics all the same, and a head."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.middle = nn.Conv2d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, 5)
        self.body.requires_grad_(False)
        self.middle.bias.requires_grad_(False)

    def forward(self, x):
        return self.head(self.middle(self.body(x)).mean((2, 3)))


class FineTuned(nn.Module):
    """torchvision's ResNet-18 with a new head, which alone is trained; the body's statistics move all the same."""

    class Block(nn.Module):
        def __init__(self, channels, width, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
            self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
            self.relu, self.downsample = nn.ReLU(inplace=True), None
            if stride != 1 or channels != width:
                convolution = nn.Conv2d(channels, width, 1, stride, bias=False)
                self.downsample = nn.Sequential(convolution, nn.BatchNorm2d(width))

        def forward(self, x):
            way = x if self.downsample is None else self.downsample(x)
            x = self.relu(self.bn1(self.conv1(x)))
            return self.relu(self.bn2(self.conv2(x)) + way)

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        widths = (64, 64, 128, 256, 512)
        for i in range(4):
            first = FineTuned.Block(widths[i], widths[i + 1], 2 if i else 1)
            self.add_module(f"layer{i + 1}", nn.Sequential(first, FineTuned.Block(widths[i + 1], widths[i + 1], 1)))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.requires_grad_(False)
        self.fc = nn.Linear(512, 5)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Tested(nn.Module):
    """Its whole body was put into eval(), as for fine-tuning."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.3), nn.Conv2d(8, 8, 3)
        )
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 5)
        self.body.eval().requires_grad_(False)

    def forward(self, x):
        return self.head(self.norm(self.body(x).mean((2, 3))))


class Evaluated(nn.Module):
    """BatchNorm that stays as it is, one before and one behind what is trained; one is trained itself."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.one, self.two, self.three = nn.BatchNorm2d(16), nn.BatchNorm2d(16), nn.BatchNorm2d(16)
        self.again = nn.Conv2d(16, 16, 3)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(16, 5)
        for norm in (self.one, self.two):
            nn.init.normal_(norm.running_mean)
            nn.init.uniform_(norm.running_var, 0.5, 2)
            norm.num_batches_tracked.fill_(7)
            norm.eval()
        self.two.weight.requires_grad_(False)
        self.drop.eval()

    def forward(self, x):
        x = functional.relu(self.one(self.conv(x)))
        return self.head(self.drop(self.three(self.two(self.again(x)))).mean((2, 3)))


class Loaded(nn.Module):
    """All of it in eval(), as libraries of models give them back, with weights that are equal at first."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 8), nn.LayerNorm(8))
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(8, 5)
        for layer in (self.body[0], self.body[3]):
            nn.init.zeros_(layer.bias)
        self.eval()

    def forward(self, x):
        return self.head(self.drop(torch.tanh(self.body(x))))


class Padded(nn.Module):
    """The row of the padding stays what it is, though it is read as a head's, too."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 8, padding_idx=3)
        self.kinds = nn.Embedding(11, 8, padding_idx=0)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        return self.head(self.tokens(ids) + self.kinds(ids))


class Tied(sequences.Causal):
    """Its embedding is its head."""

    def __init__(self):
        super().__init__()
        self.head.weight = self.tokens.weight


class Detached(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 5)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        return self.third(torch.tanh(self.second(x.detach())) + x)


class Guarded(nn.Module):
    """A body under no_grad(), which so is not trained."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 5)

    def forward(self, x):
        with torch.no_grad():
            x = torch.tanh(self.body(x))
        return self.head(x)


class Buffers(nn.Module):
    """Buffers of all kinds: float, of no use to forward, not persistent, of integers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.rand(6) + 0.5)
        self.register_buffer("table", torch.randn(4, 6), persistent=False)
        self.register_buffer("order", torch.arange(5, -1, -1))
        self.register_buffer("history", torch.randn(3))
        self.unused = nn.Parameter(torch.randn(2, 3))
        self.gain = nn.Parameter(torch.tensor(1.5))
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        return self.fc((x[:, self.order] * self.scale + self.table.sum(0)) * self.gain)


class Siamese(nn.Module):
    """Layers that are used twice, among them a BatchNorm in evaluation."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8).eval(), nn.LayerNorm(8), nn.Tanh())
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.body(x) * self.body(-x))


class Normalized(nn.Module):
    """Weights that are computed from others: torch.nn.utils.weight_norm."""

    def __init__(self):
        super().__init__()
        self.conv = nn.utils.weight_norm(nn.Conv1d(1, 4, 3, padding=1))
        self.hidden = nn.utils.weight_norm(nn.Linear(24, 8))
        self.fc = nn.utils.weight_norm(nn.Linear(8, 5))

    def forward(self, x):
        x = torch.relu(self.conv(x.unsqueeze(1))).flatten(1)
        return self.fc(torch.relu(self.hidden(x)))


class Scaled(nn.Module):
    """Numbers of Python's and a parameter of no dimensions, as learned temperatures are."""

    def __init__(self):
        super().__init__()
        self.fc, self.head = nn.Linear(6, 8), nn.Linear(8, 5, bias=False)
        self.temperature = nn.Parameter(torch.tensor(0.7))
        self.register_buffer("mean", torch.randn(6))
        self.register_buffer("deviation", torch.rand(6) + 0.5)

    def forward(self, x):
        x = (x - self.mean) / self.deviation
        x = functional.normalize(torch.relu(self.fc(x)) + 0.1, dim=1)
        return self.head(x) * self.temperature.exp() * 2


class Sloped(nn.Module):
    """Parameters of one number, with which exporters compute beforehand."""

    def __init__(self):
        super().__init__()
        self.fc, self.slope, self.head = nn.Linear(6, 8), nn.PReLU(), nn.Linear(8, 5)
        self.share = nn.Parameter(torch.tensor([0.3]))

    def forward(self, x):
        x = self.fc(x.unsqueeze(1))
        return self.head(self.share * self.slope(x) + (1 - self.share) * torch.tanh(x)).squeeze(1)


class Reparametrized(nn.Module):
    """A weight that forward computes, of a layer that exporters write as a product."""

    def __init__(self):
        super().__init__()
        self.fc, self.head = nn.utils.weight_norm(nn.Linear(6, 8)), nn.Linear(8, 5)

    def forward(self, x):
        return self.head(torch.tanh(self.fc(x.unsqueeze(1)))).squeeze(1)


class Stepping(nn.Module):
    """A warm-up that counts in a buffer."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 5)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        self.steps.add_(1)
        return self.fc(x) * (self.steps / 100).clamp(max=1.0)


class Frequent(nn.Module):
    """Gradients of rows that are divided by how often they are read."""

    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(11, 8, scale_grad_by_freq=True), nn.Linear(8, 5)

    def forward(self, ids):
        return self.head(self.tokens(ids).mean(1))


class Cumulative(nn.Module):
    """Statistics that are means over all batches."""

    def __init__(self):
        super().__init__()
        self.fc, self.norm, self.head = nn.Linear(6, 8), nn.BatchNorm1d(8, momentum=None), nn.Linear(8, 5)

    def forward(self, x):
        return self.head(torch.tanh(self.norm(self.fc(x))))


class Stretched(nn.Module):
    """Pixels of factors that floats do not have."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Conv2d(3, 4, 2), nn.Conv2d(4, 4, 3)
        self.head = nn.Linear(4, 5)
        self.register_buffer("shares", torch.linspace(0, 1, 11))

    def forward(self, x):
        x = functional.interpolate(self.one(x), scale_factor=1.2, mode="nearest")  # 7 are 8
        x = functional.interpolate(torch.tanh(x), size=(11, 13), mode="nearest")
        return self.head((self.other(x) * self.shares).amax((2, 3)))


class Corners(nn.Module):
    """Where a gradient is not that of the parts that an exporter writes: zeros, equal vectors, far below zero."""

    def __init__(self):
        super().__init__()
        self.plain, self.one, self.other = nn.Linear(6, 8, bias=False), nn.Linear(6, 8), nn.Linear(6, 8)
        for layer in (self.one, self.other):
            nn.init.zeros_(layer.bias)
        self.clip, self.clip_in_place = nn.Hardtanh(0, 20), nn.ReLU6(inplace=True)
        self.log_sigmoid, self.functions = functional.logsigmoid, {"distance": functional.pairwise_distance}
        self.head = nn.Linear(42, 5)

    def forward(self, x):
        plain, one, other = self.plain(x), self.one(x), self.other(x)
        return self.head(torch.cat([
            functional.normalize(plain, dim=1), plain.std(1, keepdim=True),
            self.functions["distance"](one, other, keepdim=True), self.log_sigmoid(200 * one) / 200,
            self.clip(one), relu6(other), self.clip_in_place(one + other),
        ], 1))


class Bounds(nn.Module):
    """Whole numbers: many lie at bounds, and many are the largest together."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 8, bias=False)
        nn.init.uniform_(self.body.weight, -2, 2)
        with torch.no_grad():
            self.body.weight.round_()
        self.clip, self.clip_in_place = nn.Hardtanh(-1, 2), nn.Hardtanh(inplace=True)
        self.both, self.largest = nn.Bilinear(8, 8, 3), nn.AdaptiveMaxPool1d(1)
        self.register_buffer("bound", torch.arange(8) / 2 - 2)
        self.head = nn.Linear(78, 5)

    def forward(self, x):
        x = self.body((x > 0).to(x.dtype))
        raised = x + 1
        clipped = self.clip_in_place(raised)
        return self.head(torch.cat([
            self.clip(x), functional.relu6(x + 6), clipped, raised,
            x.max(1, keepdim=True)[0], torch.min(x, dim=-1).values[:, None], self.largest(x[:, None])[:, 0],
            x.clamp(-1, 2), x.clamp_max(0), (2 * x).clip_(min=-2),
            torch.clamp(x, min=self.bound), torch.clamp(x, self.bound - 1, self.bound + 1), self.both(x, x.tanh()),
        ], 1))
