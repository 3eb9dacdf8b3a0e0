"""Runs the stages of a cut model one after the other, as ONNX files, and compares with the whole model.

    run_stages.py INPUTS.safetensors EXPECTED.safetensors WHOLE.onnx STAGE_0.onnx STAGE_1.onnx ...

INPUTS holds the model's inputs by name, EXPECTED its outputs as Rookery computed them. Uses onnxruntime,
or else onnx.reference, or else PyTorch (torch_runtime.py). Exits with 1 where anything differs by more than 1e-5.
"""

import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from safetensors_file import read_safetensors  # noqa: E402

TOLERANCE = 1e-5


def run_with_onnxruntime(path, values):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # an unused num_batches_tracked is no news
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    inputs = [value.name for value in session.get_inputs()]
    return dict(zip(names, session.run(None, {name: values[name] for name in inputs})))


def run_with_reference(path, values):
    evaluator = ReferenceEvaluator(path)
    inputs = {name: values[name] for name in evaluator.input_names}
    return dict(zip(evaluator.output_names, evaluator.run(None, inputs)))


# run(path, values): the outputs of the model at `path`, by name.
try:
    import onnxruntime

    run = run_with_onnxruntime
except ImportError:
    try:
        from onnx.reference import ReferenceEvaluator

        run = run_with_reference
    except ImportError:
        from torch_runtime import run


def main(inputs, expected, whole, *stages):
    inputs, expected = read_safetensors(inputs), read_safetensors(expected)
    values = dict(inputs)
    for stage in stages:
        values.update(run(stage, values))
    at_once = run(whole, inputs)
    assert set(at_once) == set(expected), f"outputs {sorted(at_once)}, expected {sorted(expected)}"
    for name, value in expected.items():
        assert np.ptp(value) > 100 * TOLERANCE, f"{name}: too uniform to compare"
        for what, other in (("the whole model", at_once[name]), ("its stages", values[name])):
            assert other.shape == value.shape, f"{name}: {what} give {other.shape}, expected {value.shape}"
            worst = np.abs(other - value).max()
            assert worst <= TOLERANCE, f"{name}: {what} differ by {worst}"


if __name__ == "__main__":
    main(*sys.argv[1:])
