"""Makes optimized_*.onnx: modules as torch.onnx.export(dynamo=True) writes them by default, with its optimizer.

    python3 make_optimized_models.py

Needs PyTorch 2.9 or newer with onnx and onnxscript. kept_*.onnx are the same exporter's with optimize=False,
traced.onnx is the older exporter's, described.onnx that of models/rookery_export.py.
"""

import pathlib
import sys
import warnings

import onnx
import torch
from torch import nn

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1] / "models"))
import rookery_export  # noqa: E402


class Folded(nn.Module):
    """BatchNorm behind a convolution: folded under the name of the convolution's weight."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(self.body(x).mean((2, 3)))


class Merged(nn.Module):
    """Two LayerNorms, which begin equal: one of them is left."""

    def __init__(self):
        super().__init__()
        self.first = nn.LayerNorm(4)
        self.fc = nn.Linear(4, 4)
        self.second = nn.LayerNorm(4)

    def forward(self, x):
        return self.second(self.fc(self.first(x)))


class Parallel(nn.Module):
    """Two heads that begin at zero: the second is not computed, its input taken from the first."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.mean, self.gate = nn.Linear(4, 3, bias=False), nn.Linear(4, 3, bias=False)
        for head in (self.mean, self.gate):
            nn.init.zeros_(head.weight)

    def forward(self, x):
        x = self.body(x)
        return self.mean(x) * self.gate(x)


class Computed(nn.Module):
    """A row of an embedding that is always the same: a parameter of a name that looks like the module's."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.kinds = nn.Embedding(3, 4)

    def forward(self, x):
        return self.fc(x) + self.kinds(torch.ones(1, dtype=torch.long))


class Tied(nn.Module):
    """A weight of two layers, and a layer that forward does not use."""

    def __init__(self):
        super().__init__()
        self.there, self.back = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.back.weight = self.there.weight
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        return self.back(torch.relu(self.there(x)))


class Traps(nn.Module):
    """What a graph alone does not show: frozen, padded, detached, in eval(), buffers of all kinds."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(5, 4, padding_idx=2)
        self.one, self.two = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.rand(4))
        self.register_buffer("shift", torch.rand(4), persistent=False)
        self.register_buffer("order", torch.tensor([3, 2, 1, 0]))
        self.unused = nn.Parameter(torch.rand(2))
        self.train()
        self.one.eval()
        self.first.bias.requires_grad_(False)

    def forward(self, ids):
        x = self.one(self.tokens(ids) * self.scale + self.shift)
        y = self.two(self.first(x.detach().index_select(1, self.order)))
        return self.second(y) + x


def export(name, module, x, **options):
    path = FOLDER / f"{name}.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, (x,), path, dynamo=True, external_data=False, verbose=False, input_names=["x"],
            output_names=["y"], dynamic_shapes=({0: torch.export.Dim("batch")},), **options,
        )
    tidy(path)


def tidy(path):
    model = onnx.load(path)
    for node in model.graph.node:  # paths of the machine that exported
        kept = [entry for entry in node.metadata_props if not entry.key.endswith("stack_trace")]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(model, path)


def main():
    torch.manual_seed(5)
    image, row = torch.randn(2, 1, 5, 5), torch.randn(2, 4)
    export("optimized_folded", Folded(), image)
    export("optimized_merged", Merged(), row)
    export("optimized_merged_17", Merged(), row, opset_version=17)
    export("optimized_parallel", Parallel(), row)
    export("optimized_computed", Computed(), row)
    export("kept_folded", Folded(), image, optimize=False)
    export("kept_tied", Tied(), row, optimize=False)
    ids = torch.tensor([0, 1, 2])
    export("kept_traps", Traps(), ids, optimize=False)
    options = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": {0: "batch"}}, "opset_version": 17}
    torch.onnx.utils.export(Traps().eval(), ids, FOLDER / "traced.onnx", **options)
    rookery_export.export(Traps(), {"ids": ids}, FOLDER / "described.onnx")


if __name__ == "__main__":
    main()
