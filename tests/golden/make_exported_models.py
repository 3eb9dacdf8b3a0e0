"""Makes exported_*.onnx and, beside each, inputs and outputs of the module in evaluation.

    python3 make_exported_models.py

Needs PyTorch 2.6 or newer with onnx and onnxscript: the files are those of the exporter that traces with
torch.export (dynamo=True), which Debian's PyTorch does not have.
"""

import pathlib
import sys

import onnx
import torch
from torch import nn
from torch.nn import functional

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "support"))
from safetensors_file import write_safetensors  # noqa: E402


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.positions = nn.Parameter(torch.randn(1, 6, 8))
        self.first = nn.Parameter(torch.randn(1, 1, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu", dropout=0.1)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], dim=1)
        return self.head(self.layers(x)[:, 0])


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm = nn.GroupNorm(2, 8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        x = self.stem(x)
        x = functional.silu(self.norm(self.depthwise(x)) + x)
        x = functional.avg_pool2d(self.up(functional.max_pool2d(x, 2)), 2)
        return self.fc(functional.dropout(x.mean((2, 3)), 0.2, self.training))


def export(name, module, inputs, dynamic):
    """With the settings that docs/bring-your-model.md asks for."""
    module.train()
    batch = torch.export.Dim("batch")
    torch.onnx.export(
        module, (inputs,), FOLDER / f"{name}.onnx", dynamo=True, optimize=False, external_data=False,
        input_names=["x"], output_names=["y"], dynamic_shapes=({0: batch},) if dynamic else None,
    )
    model = onnx.load(FOLDER / f"{name}.onnx")
    for node in [*model.graph.node, *(node for function in model.functions for node in function.node)]:
        del node.metadata_props[:]  # stack traces and paths of the machine that exported
        node.doc_string = ""
    for part in [*model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer]:
        del part.metadata_props[:]
    del model.graph.value_info[:]
    del model.graph.metadata_props[:]
    onnx.save(model, FOLDER / f"{name}.onnx")
    with torch.no_grad():
        y = module.eval()(inputs)
    write_safetensors(FOLDER / f"{name}.safetensors", {"x": inputs.numpy(), "y": y.numpy()})


def main():
    torch.manual_seed(5)
    export("exported_encoder", Encoder(), torch.randint(0, 11, (4, 6)), dynamic=True)
    export("exported_residual", Residual(), torch.randn(4, 3, 8, 8), dynamic=False)


if __name__ == "__main__":
    main()
