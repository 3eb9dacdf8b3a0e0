"""Runs an ONNX file of the operators that Rookery writes with PyTorch's functions, where neither
onnxruntime nor onnx.reference is installed. Follows https://onnx.ai/onnx/operators/, opset 15.
"""

import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper


def conv(a, x, w, bias=None):
    top, left, bottom, right = a.get("pads", [0, 0, 0, 0])
    x = F.pad(x, (left, right, top, bottom))
    return F.conv2d(x, w, bias, a.get("strides", 1), 0, a.get("dilations", 1), a.get("group", 1))


def max_pool(a, x):
    top, left, bottom, right = a.get("pads", [0, 0, 0, 0])
    x = F.pad(x, (left, right, top, bottom), value=-float("inf"))
    return F.max_pool2d(x, a["kernel_shape"], a.get("strides", 1))


def batch_norm(a, x, scale, bias, mean, variance):
    return F.batch_norm(x, mean, variance, scale, bias, False, 0.0, a.get("epsilon", 1e-5))


def gemm(a, x, w, c=None):
    product = (x.T if a.get("transA") else x) @ (w.T if a.get("transB") else w) * a.get("alpha", 1.0)
    return product if c is None else product + a.get("beta", 1.0) * c


# Attributes first, then the inputs.
OPERATORS = {
    "Conv": conv,
    "MaxPool": max_pool,
    "BatchNormalization": batch_norm,
    "Gemm": gemm,
    "Dropout": lambda a, x, *ratio: x,
    "Flatten": lambda a, x: x.flatten(a.get("axis", 1)),
    "Identity": lambda a, x: x,
    "Softmax": lambda a, x: x.softmax(a.get("axis", -1)),
    "Relu": lambda a, x: x.relu(),
    "LeakyRelu": lambda a, x: F.leaky_relu(x, a.get("alpha", 0.01)),
    "PRelu": lambda a, x, slope: torch.where(x < 0, slope * x, x),
    "Elu": lambda a, x: F.elu(x, a.get("alpha", 1.0)),
    "HardSigmoid": lambda a, x: (a.get("alpha", 0.2) * x + a.get("beta", 0.5)).clamp(0, 1),
    "HardSwish": lambda a, x: F.hardswish(x),
    "Clip": lambda a, x, low=None, high=None: x if low is high is None else x.clamp(low, high),
    "Softplus": lambda a, x: F.softplus(x),
    "Sigmoid": lambda a, x: x.sigmoid(),
    "Tanh": lambda a, x: x.tanh(),
    "Erf": lambda a, x: x.erf(),
    "Exp": lambda a, x: x.exp(),
    "Log": lambda a, x: x.log(),
    "Sqrt": lambda a, x: x.sqrt(),
    "Abs": lambda a, x: x.abs(),
    "Neg": lambda a, x: -x,
    "Add": lambda a, x, y: x + y,
    "Sub": lambda a, x, y: x - y,
    "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y,
    "Pow": lambda a, x, y: x**y,
}


def run(path, values):
    """The outputs of the model at `path`, by name."""
    graph = onnx.load(path).graph
    known = {tensor.name: torch.tensor(numpy_helper.to_array(tensor)) for tensor in graph.initializer}
    known.update({value.name: torch.tensor(values[value.name]) for value in graph.input})
    for node in graph.node:
        attributes = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        inputs = [known[name] if name else None for name in node.input]
        known[node.output[0]] = OPERATORS[node.op_type](attributes, *inputs)
    return {output.name: known[output.name].numpy() for output in graph.output}
