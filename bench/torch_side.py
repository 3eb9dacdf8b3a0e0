"""PyTorch's side of bench/training_step.py: a plain eager training loop, driven by lines on standard input.

    torch_side.py MODEL FOLDER prepare
    torch_side.py MODEL FOLDER train --threads N --settings A+B [--no-dropout]

prepare writes into FOLDER state.safetensors, the initial weights, and batches.safetensors, and prints one
line of JSON: the version of PyTorch, the rate of its matrix products, and the settings that may be its best, and whether it can compile. train answers as training_step.cpp
tells.
"""

import argparse
import json
import pathlib
import sys
import time

import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support")]
from safetensors_file import read_safetensors, write_safetensors  # noqa: E402
from torch_models import MODELS  # noqa: E402


def prepare(model, folder):
    torch.manual_seed(42)
    module = model.build(dropout=True)
    if model.state is not None:
        load_state(module, model.state)
    state = module.state_dict()
    # Sliced and transposed tensors share memory with others.
    write_safetensors(folder / "state.safetensors", {k: v.numpy().copy() for k, v in state.items()})
    batches = {}
    for number, batch in enumerate(model.batches()):
        batches.update({f"{number}.{name}": tensor.numpy() for name, tensor in batch.items()})
    write_safetensors(folder / "batches.safetensors", batches)
    optimizers = ["foreach"]
    if "fused" in torch.optim.Adam.__init__.__code__.co_varnames and torch.__version__ >= "2.4":
        optimizers.append("fused")
    layouts = ["", "channels_last+"] if model.images else [""]
    if model.recurrent:
        layouts.append("no_onednn+")
    ways = ["plain", *optimizers]
    if hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
        ways.append("in_backward+" + optimizers[-1])
    settings = [layout + way for layout in layouts for way in ways]
    print(json.dumps({"version": torch.__version__, "product_gflops": product_gflops(), "settings": settings,
                      "compiles": can_compile()}))


def can_compile():
    """Whether torch.compile is there and has a compiler."""
    try:
        return torch.compile(torch.sin)(torch.zeros(1)).item() == 0
    except Exception:  # of whatever kind: it is only one more setting
        return False


def product_gflops():
    size = 512
    a, b = torch.rand(2, size, size)
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        a @ b
        seconds.append(time.perf_counter() - begin)
    return 2e-9 * size**3 / min(seconds)


def load_state(module, path):
    module.load_state_dict({name: torch.from_numpy(array) for name, array in read_safetensors(path).items()})


def memory_status(line):
    """In bytes."""
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(status.split(f"{line}:")[1].split()[0])


def warm_up(options):
    """Brings into memory what PyTorch imports and makes at its first steps, whatever the model."""
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(4 * 6 * 6, 4))
    training = Training.__new__(Training)
    training.module, training.number = module, 0
    training.set_up(options.settings.split("+"))
    training.loss = nn.functional.cross_entropy
    training.batches = [([torch.rand(4, 1, 8, 8)], [torch.zeros(4, dtype=torch.long)])]
    training.run(3)


def floor_of_memory():
    """What is resident now; the peak begins anew here."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    return memory_status("VmRSS")


class Training:
    def __init__(self, model, folder, batches, options):
        self.module = model.build(dropout=not options.no_dropout)
        load_state(self.module, folder / "state.safetensors")
        layout = self.set_up(options.settings.split("+"))
        self.loss = model.loss
        self.batches = [
            ([batch[name].contiguous(memory_format=layout) if model.images else batch[name] for name in model.inputs],
             [model.target(batch[name]) for name in model.targets]) for batch in batches
        ]
        if "double" in options.settings:
            self.module = self.module.double()
            self.batches = [tuple([t.double() if t.is_floating_point() else t for t in part] for part in batch)
                            for batch in self.batches]
        self.number = 0

    def set_up(self, settings):
        """Makes of the module what is trained, and its optimizer; the layout of images."""
        layout = torch.channels_last if "channels_last" in settings else torch.contiguous_format
        self.module = self.module.to(memory_format=layout)
        self.autocast = "autocast" in settings
        torch.backends.mkldnn.enabled = "no_onednn" not in settings
        way = {"plain": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}[settings[-1]]
        self.optimizer = None
        if "in_backward" in settings:
            self.update_in_backward(way)
        else:
            self.optimizer = torch.optim.Adam(self.module.parameters(), **way)
        if "compile" in settings:
            self.module = torch.compile(self.module)
        return layout

    def update_in_backward(self, way):
        """Each parameter as soon as its gradient is there, which is freed at once: PyTorch's recipe to save memory."""
        for parameter in self.module.parameters():
            optimizer = torch.optim.Adam([parameter], **way)

            def update(_, optimizer=optimizer):
                optimizer.step()
                optimizer.zero_grad()

            parameter.register_post_accumulate_grad_hook(update)

    def step(self):
        inputs, targets = self.batches[self.number % len(self.batches)]
        self.number += 1
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocast):
            loss = self.loss(self.module(*inputs), *targets)
        if self.optimizer is not None:
            self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.optimizer is not None:
            self.optimizer.step()
        return loss.detach()

    def run(self, steps):
        begin = time.perf_counter()
        losses = [self.step() for _ in range(steps)]
        seconds = time.perf_counter() - begin
        return seconds, [float(loss) for loss in losses]


def train(model, folder, options):
    torch.set_num_threads(options.threads)
    batches = {}
    for name, array in read_safetensors(folder / "batches.safetensors").items():
        number, name = name.split(".", 1)
        batches.setdefault(int(number), {})[name] = torch.from_numpy(array)
    warm_up(options)
    floor = floor_of_memory()
    training = Training(model, folder, [batches[i] for i in range(len(batches))], options)
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        if line.strip() == "memory":
            print(memory_status("VmHWM") - floor, flush=True)
        else:
            seconds, losses = training.run(int(line))
            print(seconds, *losses, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("what", choices=["prepare", "train"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--settings", default="plain")
    parser.add_argument("--no-dropout", action="store_true")
    options = parser.parse_args()
    model = MODELS[options.model]
    prepare(model, options.folder) if options.what == "prepare" else train(model, options.folder, options)


if __name__ == "__main__":
    main()
