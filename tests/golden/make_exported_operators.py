"""Makes exported_{operators,recurrent}_{script,dynamo}.onnx and, beside each, inputs, outputs and gradients of the
module, which is in training.

    python3 make_exported_operators.py

By PyTorch before 2.6 those of the exporter that traces with TorchScript (script), from then on those of the one
that traces with torch.export (dynamo), which needs onnx and onnxscript.
"""

import pathlib
import sys

import onnx
import torch
from torch import nn

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "support"))
from safetensors_file import write_safetensors  # noqa: E402

IS_NEW = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 6)
# Of x [batch, 3, 4], a [4, 5], b [3, 4] and c [3, 3, 2].
EQUATIONS = [
    ("bij,jk->bik", "xa"),
    ("bij,jk", "xa"),
    ("...j,jk->...k", "xa"),
    ("bij,bkj->bik", "xx"),
    ("bij,ij->b", "xb"),
    ("bij,ij->bji", "xb"),
    ("bij,bik->bjk", "xx"),
    ("bij,jk,iml->bmkl", "xac"),
    ("bij,iil->bjl", "xc"),
    ("bij->bj", "x"),
    ("bij,jk->kbi", "xa"),
    ("bij,bkl->bik", "xx"),
    ("bi...,i...->b...i", "xb"),
]


class Operators(nn.Module):
    """Einsum, sequences of parts, places, and what else has no layer of its own."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(4, 5))
        self.b = nn.Parameter(torch.randn(3, 4))
        self.c = nn.Parameter(torch.randn(3, 3, 2))
        self.register_buffer("places", torch.tensor([2, 0]), persistent=False)

    def products(self, x):
        operands = {"x": x, "a": self.a, "b": self.b, "c": self.c}
        for equation, names in EQUATIONS:
            y = torch.einsum(equation, *(operands[name] for name in names))
            yield (y.permute(1, 0, 2) if equation.endswith("kbi") else y).flatten(1) if y.dim() > 1 else y[:, None]

    def forward(self, x):
        linear = x @ self.a
        parts = [*linear.split([1, 3, 1], dim=-1)[::2], *linear.chunk(2, -1), linear.split(2, -1)[2]]
        parts += [part[:, None] for part in linear.unbind(1)]
        waves = torch.sin(x + self.b).cumsum(1) * torch.cos(x)
        norms = torch.linalg.vector_norm(waves, dim=2), torch.linalg.vector_norm(waves, 1, dim=1)
        turned = (x + self.b).transpose(0, 1)
        written = turned.clone()
        written[self.places] = turned[1:3] * 2
        flat = [part.flatten(1) for part in (*parts, waves, *norms, written.transpose(0, 1))]
        return torch.cat([*flat, *self.products(x)], 1)


class Recurrent(nn.Module):
    """Layers of every kind, of both directions and of several layers; states that are zero, given or trained."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(5, 4, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(8, 3, num_layers=2, batch_first=True)
        self.plain = nn.RNN(3, 4, bias=False)
        self.rectified = nn.RNN(4, 3, nonlinearity="relu", bidirectional=True)
        self.state = nn.Linear(5, 6)
        self.first = nn.Parameter(torch.randn(2, 1, 3))
        self.head = nn.Linear(3 + 6 + 4, 3)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        y, _ = self.gru(y, self.state(x[:, 0]).reshape(-1, 2, 3).transpose(0, 1).contiguous())
        y, last = self.plain(y.transpose(0, 1))
        y, _ = self.rectified(y, self.first.expand(-1, x.shape[0], -1).contiguous())
        return self.head(torch.cat([y[-1, :, :3], y.mean(0), h[-1] * c[0] + last[0]], 1))


def export(name, module, x):
    """With the settings that docs/bring-your-model.md asks for."""
    module.train()
    path = FOLDER / f"{name}_{'dynamo' if IS_NEW else 'script'}.onnx"
    options = {"input_names": ["x"], "output_names": ["y"]}
    if IS_NEW:
        batch = torch.export.Dim("batch")
        options |= {"dynamo": True, "optimize": False, "external_data": False, "dynamic_shapes": ({0: batch},)}
    else:
        options |= {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False, "opset_version": 17}
        options |= {"dynamic_axes": {"x": {0: "batch"}}}
    torch.onnx.export(module, (x,), path, **options)
    model = onnx.load(path)
    for node in [*model.graph.node, *(node for function in model.functions for node in function.node)]:
        if IS_NEW:
            del node.metadata_props[:]  # stack traces and paths of the machine that exported
        node.doc_string = ""
    if IS_NEW:
        graph = model.graph
        for part in [*graph.value_info, *graph.input, *graph.output, *graph.initializer]:
            del part.metadata_props[:]
        del graph.metadata_props[:]
    del model.graph.value_info[:]
    onnx.save(model, path)
    y = module(x)
    received = torch.randn_like(y)
    (y * received).sum().backward()
    tensors = {"x": x, "y": y.detach(), "received": received}
    tensors |= {f"gradient.{name}": parameter.grad for name, parameter in module.named_parameters()}
    write_safetensors(path.with_suffix(".safetensors"), {name: each.numpy() for name, each in tensors.items()})


def main():
    torch.manual_seed(6)
    export("exported_operators", Operators(), torch.randn(4, 3, 4))
    export("exported_recurrent", Recurrent(), torch.randn(4, 3, 5))


if __name__ == "__main__":
    main()
