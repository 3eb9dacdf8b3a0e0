#!/usr/bin/env python3
"""Compares the zoo's outputs with those of the references of make_zoo_states.py (which see for what it needs):
the same weights, the same inputs, all dropout off and running statistics fixed.

    venv/bin/python tests/golden/compare_zoo.py build/bin [MODEL...]

`evaluate` measures the mean squared difference to the outputs of the reference. Its root, as a share of that of the
outputs' mean square, is shown, and fails above 1e-5.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from make_zoo_states import bert, gpt2, gpt_state, keras_state, small_xception  # isort: skip

import torch
import torchvision
from safetensors.torch import save_file

LIMIT = 1e-5


def randomized(model):
    """Running statistics, norms and layers that begin as zeros, as after some training."""
    for module in model.modules():
        if isinstance(module, (torch.nn.BatchNorm2d, torch.nn.LayerNorm)):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.uniform_(module.bias, -0.2, 0.2)
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.running_mean, -0.2, 0.2)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
        if isinstance(module, torch.nn.Linear) and not module.weight.any():
            torch.nn.init.normal_(module.weight, 0, 0.02)
    return model.eval()


def of_images(build, size):
    model = randomized(build())
    image = torch.rand(2, 3, size, size)
    return model.state_dict(), {"input": image}, {"": model(image)}


def inception():
    model = randomized(torchvision.models.inception_v3(init_weights=False))
    image = torch.rand(2, 3, 299, 299)
    middle = []
    model.Mixed_6e.register_forward_hook(lambda module, inputs, output: middle.append(output))
    logits = model(image)
    return model.state_dict(), {"input": image}, {"logits": logits, "aux_logits": model.AuxLogits(middle[0])}


def transformer():
    model = randomized(gpt2(length=64, layers=4))
    ids = torch.randint(0, 50257, (2, 64))
    return gpt_state(model), {"input": ids}, {"": model(ids).logits}


def pretraining():
    model = randomized(bert())
    inputs = {
        "input_ids": torch.randint(0, 30522, (2, 128)),
        "token_type_ids": torch.randint(0, 2, (2, 128)),
        "attention_mask": (torch.arange(128) < torch.tensor([[128], [77]])).long(),
    }
    outputs = model(**inputs)
    state = {name: value for name, value in model.state_dict().items() if ".decoder." not in name}
    names = ("prediction_logits", "seq_relationship_logits")
    return state, inputs, {name: outputs[name] for name in names}


def xception():
    model = small_xception()
    for layer in model.layers:
        if "batch_normalization" in layer.name:
            for weight, span in zip(layer.weights, ((0.5, 1.5), (-0.2, 0.2), (-0.2, 0.2), (0.5, 1.5))):
                weight.assign(torch.empty(weight.shape).uniform_(*span))
    image = torch.rand(2, 3, 180, 180)
    return keras_state(model), {"input": image}, {"": model(image.permute(0, 2, 3, 1), training=False)}


JOBS = {
    "resnet18": lambda: of_images(torchvision.models.resnet18, 224),
    "resnet50": lambda: of_images(torchvision.models.resnet50, 224),
    "inception_v3": inception,
    "vgg11": lambda: of_images(torchvision.models.vgg11, 224),
    "mobilenet_v2": lambda: of_images(torchvision.models.mobilenet_v2, 224),
    "vit": lambda: of_images(torchvision.models.vit_b_16, 224),
    "bert": pretraining,
    "gpt?size=gpt2&length=64&layers=4": transformer,
    "small_xception": xception,
}


def tensors(named):
    return {name: value.detach().cpu().contiguous().clone() for name, value in named.items()}


def compare(programs, model, folder):
    """The difference as a share of the outputs, and how many outputs there are."""
    state, inputs, outputs = JOBS[model]()
    save_file(tensors(state), folder / "state.safetensors")
    targets = {f"target {name}": value for name, value in outputs.items()}
    save_file(tensors(inputs | targets), folder / "data.safetensors")
    losses = [{"loss": "mse", "output": name, "target": f"target {name}"} for name in outputs]
    if len(losses) == 1:
        del losses[0]["output"]
    settings = {"model": model, "data": "tensors:data.safetensors", "loss": losses}
    (folder / "train.json").write_text(json.dumps(settings))
    command = [programs / "evaluate", "--state", folder / "state.safetensors", "--node-data", folder,
               "--split", "all", "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    parts = report.get("losses", [report])
    shares = [(part["loss"] / value.square().mean().item()) ** 0.5 for part, value in zip(parts, outputs.values())]
    return max(shares), sum(value.numel() for value in outputs.values())


def main():
    torch.manual_seed(1)
    failed = False
    for model in sys.argv[2:] or JOBS:
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            share, count = compare(pathlib.Path(sys.argv[1]).resolve(), model, pathlib.Path(folder))
        print(f"{model:<36} {share:.1e} of {count} outputs", flush=True)
        failed = failed or not share < LIMIT
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
