"""What Python makes of files that the tests wrote: exits with 1 and a reason where it should not.

    check_files.py pytorch FILE.pt LISTING   torch.load(weights_only=True) reads just what LISTING names
    check_files.py module FILE.pt            load_state_dict takes it
    check_files.py onnx FILE.onnx...         onnx.checker passes, external data included
"""

import sys


def check_pytorch(path, listing):
    import torch

    state = torch.load(path, weights_only=True)
    expected = [line.split() for line in open(listing, encoding="utf-8")]
    assert [name for name, *_ in expected] == list(state), f"{list(state)}"
    for name, dtype, shape, total in expected:
        tensor = state[name]
        assert str(tensor.dtype) == "torch." + dtype, f"{name}: {tensor.dtype}"
        assert "x".join(map(str, tensor.shape)) == shape.strip("-"), f"{name}: {tensor.shape}"
        assert tensor.is_contiguous(), name
        assert abs(tensor.double().sum().item() - float(total)) < 1e-6, f"{name}: sum {tensor.double().sum()}"


def load_into_module(path):
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(2, 4, 3, padding=1)
            self.bn_1 = torch.nn.BatchNorm2d(4)
            self.grouped = torch.nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2, bias=False)
            self.dense = torch.nn.Linear(8, 5)
            self.bn_2 = torch.nn.BatchNorm1d(5)

    model = Model()
    state = torch.load(path, weights_only=True)
    assert list(state) == list(model.state_dict()), f"{list(state)} for {list(model.state_dict())}"
    model.load_state_dict(state, strict=True)
    assert model.bn_1.num_batches_tracked.item() == 170


def check_onnx(*paths):
    import onnx

    for path in paths:
        onnx.checker.check_model(path, full_check=True)
        model = onnx.load(path)  # external data too
        onnx.checker.check_model(model, full_check=True)


if __name__ == "__main__":
    {"pytorch": check_pytorch, "module": load_into_module, "onnx": check_onnx}[sys.argv[1]](*sys.argv[2:])
