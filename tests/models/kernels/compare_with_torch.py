"""Compares results and gradients of single operators with PyTorch's in double precision.

    compare_with_torch.py FOLDER

FOLDER/cases.json lists the cases, as torch_test.cpp writes them; their tensors are in cases.safetensors:
  type, name, tolerance, loss_weight, inputs [name or null],
  forms [{attributes, received: gradients that come from downstream [name or null],
          results [{backend, outputs [name], gradients: of the inputs [name or null], or null}]}]
Outputs that PyTorch's function does not make are not compared. Prints what differs, and exits with 1 if
anything does.
"""

import json
import pathlib
import sys

import torch

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "models" / "io")]
from safetensors_file import read_safetensors  # noqa: E402
from torch_runtime import OPERATORS  # noqa: E402


def as_double(tensor):
    return tensor.double() if tensor.is_floating_point() else tensor


def expected_of(case, form, tensors):
    """(outputs, gradients by input or None) as PyTorch computes them."""
    inputs = [None if name is None else as_double(tensors[name]).clone() for name in case["inputs"]]
    wanted = [i for i in range(len(inputs)) if any((r["gradients"] or {i: None})[i] for r in form["results"])]
    for i in wanted:
        inputs[i].requires_grad_()
    outputs = OPERATORS[case["type"]](form["attributes"], *inputs)
    outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    if not wanted:
        return outputs, None
    objective = 0
    received = form["received"]
    for output, name in zip(outputs, received):
        if name is not None:
            objective = objective + (output * as_double(tensors[name])).sum()
    if not any(received):
        objective = outputs[0] * case["loss_weight"]
    gradients = torch.autograd.grad(objective, [inputs[i] for i in wanted])
    return outputs, dict(zip(wanted, gradients))


def difference(expected, actual):
    """Relative to the largest value, or to 0.1 where all are small: inputs are of the order of one."""
    if expected.shape != actual.shape:
        return f"shape {list(actual.shape)}, expected {list(expected.shape)}"
    if not expected.is_floating_point():
        return 0.0 if torch.equal(expected, actual) else "other values"
    if expected.numel() == 0:
        return 0.0
    gap = (expected.detach() - actual.double()).abs().max().item()
    return gap / max(expected.detach().abs().max().item(), 0.1)


class Comparison:
    def __init__(self, folder):
        self.cases = json.loads((folder / "cases.json").read_text())
        files = read_safetensors(folder / "cases.safetensors")
        self.tensors = {name: torch.from_numpy(array) for name, array in files.items()}
        self.compared = self.failed = 0

    def check(self, case, form, what, expected, actual):
        gap = difference(expected, self.tensors[actual])
        self.compared += 1
        if isinstance(gap, float) and gap <= case["tolerance"]:  # NaN is not
            return
        self.failed += 1
        shapes = [None if name is None else list(self.tensors[name].shape) for name in case["inputs"]]
        print(f"{case['type']} of {shapes}, {form['attributes']}: {what}: {gap}, allowed {case['tolerance']:g}")

    def run(self):
        for case in self.cases:
            for form in case["forms"]:
                outputs, gradients = expected_of(case, form, self.tensors)
                assert form["results"], f"{case['name']}: no back end has it"
                for result in form["results"]:
                    for i, (output, name) in enumerate(zip(outputs, result["outputs"])):
                        self.check(case, form, f"{result['backend']}, output {i}", output, name)
                    for i, gradient in (gradients or {}).items():
                        name = result["gradients"][i]
                        self.check(case, form, f"{result['backend']}, gradient of input {i}", gradient, name)
        print(f"{len(self.cases)} cases, {self.compared} tensors compared, {self.failed} differ")
        return self.failed == 0 and self.compared >= len(self.cases)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(0 if Comparison(pathlib.Path(sys.argv[1])).run() else 1)
