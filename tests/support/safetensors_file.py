"""Safetensors files as numpy arrays, for Pythons that lack the package (see models/io/FORMAT.md)."""

import json
import pathlib

import numpy as np

DTYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "I32": np.int32, "U8": np.uint8, "BOOL": np.bool_}


def read_safetensors(path):
    """{name: array}"""
    raw = pathlib.Path(path).read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    data = bytearray(raw[8 + length :])  # arrays that may be written to, as PyTorch wants them
    return {
        name: np.frombuffer(data, DTYPES[entry["dtype"]], offset=entry["data_offsets"][0],
                            count=int(np.prod(entry["shape"], dtype=np.int64))).reshape(entry["shape"])
        for name, entry in header.items()
    }


def write_safetensors(path, arrays):
    names = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
    header, data = {}, []
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [begin, end]}
        data.append(np.ascontiguousarray(array).tobytes())
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(len(text).to_bytes(8, "little") + text + b"".join(data))
