"""Writes into a folder what PyTorch saves in several ways, and as expected.safetensors what it means."""

import os
import pathlib
import sys
import zipfile

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from safetensors_file import write_safetensors  # noqa: E402


class Calls:
    """Runs a command when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch '{self.path}'",)


def main(folder):
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Linear(4, 3))
    state = module.state_dict()
    numbers = torch.arange(24.0).reshape(4, 6)
    state |= {
        "transposed": numbers.t(),
        "slice": numbers[1:, ::2],
        "row": numbers[2],
        "expanded": numbers[0].expand(3, 6),
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(numbers),
        "f16": (numbers / 7).half(),
        "bf16": (numbers / 7).bfloat16(),
        "f64": numbers.double() / 3,
        "i64": numbers.long() - 10,
        "i32": numbers.int() - 10,
        "u8": numbers.byte(),
        "bool": numbers > 7,
        "città": torch.ones(1),
    }
    for protocol in range(2, 6):
        torch.save(state, folder / f"protocol_{protocol}.pt", pickle_protocol=protocol)
    with zipfile.ZipFile(folder / "protocol_2.pt") as stored, \
            zipfile.ZipFile(folder / "deflated.pt", "w", zipfile.ZIP_DEFLATED) as deflated:
        for name in stored.namelist():
            deflated.writestr(name, stored.read(name))
    halves = (torch.float16, torch.bfloat16)
    write_safetensors(folder / "expected.safetensors", {
        name: (tensor.float() if tensor.dtype in halves else tensor).detach().numpy() for name, tensor in state.items()
    })

    torch.save(torch.nn.Linear(2, 2), folder / "module.pt")
    torch.save({"epoch": 3, "rate": 0.1, "model": module.state_dict(), "seen": [1, None, True]},
               folder / "checkpoint.pt")
    torch.save({"x": numbers.short()}, folder / "int16.pt")
    torch.save({"x": Calls(folder / "called")}, folder / "calls.pt")
    torch.save(state, folder / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(folder / "script.pt"))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
