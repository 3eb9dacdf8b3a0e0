"""Writes the part of the fuzz targets' corpus that PyTorch, NumPy and Python make:
/usr/bin/python3 make_corpus.py tests/fuzz/corpus"""

import gzip
import io
import pathlib
import struct
import sys
import tarfile
import zipfile

import numpy as np
import torch


def write_archives(folder):
    folder.mkdir(parents=True, exist_ok=True)
    files = {"cats/a.txt": b"one" * 30, "dogs/" + "long" * 40: b"two", "empty": b""}
    for name, mode in (("pax.tar", "w"), ("packed.tar.gz", "w:gz")):
        with tarfile.open(folder / name, mode, format=tarfile.PAX_FORMAT) as archive:
            for path, content in files.items():
                member = tarfile.TarInfo(path)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    for name, kind in (("stored.zip", zipfile.ZIP_STORED), ("deflated.zip", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(folder / name, "w", kind) as archive:
            for path, content in files.items():
                archive.writestr(zipfile.ZipInfo(path), content, kind)


def write_arrays(folder):
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "floats.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    np.save(folder / "pixels.npy", np.arange(12, dtype=np.uint8).reshape(2, 2, 3))
    np.save(folder / "labels.npy", np.arange(3, dtype=np.int64))


def write_answers(folder):
    folder.mkdir(parents=True, exist_ok=True)
    part = b'HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-7/8\r\nETag: "e"\r\n'
    packed = gzip.compress(b"12345678", mtime=0)
    answers = {"part": part + b"Content-Length: 8\r\n\r\n12345678", "cut": part + b"Content-Length: 9\r\n\r\n12345678",
               "chunks": part + b"Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n3;x=y\r\n678\r\n0\r\n\r\n",
               "packed": part + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed,
               "whole": b"HTTP/1.0 200 OK\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n12345678",
               "away": b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n",
               "none": b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */0\r\nContent-Length: 0\r\n\r\n"}
    for name, answer in answers.items():
        (folder / name).write_bytes(answer)


def write_idx(folder):
    folder.mkdir(parents=True, exist_ok=True)
    labels = struct.pack(">II", 0x801, 3) + bytes([0, 1, 2])
    images = struct.pack(">IIII", 0x803, 3, 2, 2) + bytes(range(12))
    for name, pair in (("plain", (labels, images)), ("packed", [gzip.compress(file, mtime=0) for file in (labels, images)])):
        (folder / name).write_bytes(struct.pack(">H", len(pair[0])) + b"".join(pair))


def main(folder):
    write_archives(folder / "archive")
    write_arrays(folder / "npy")
    write_answers(folder / "http")
    write_idx(folder / "idx")
    torch.manual_seed(1)
    state = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).state_dict()
    numbers = torch.arange(6.0).reshape(2, 3)
    state |= {"t": numbers.t(), "half": numbers.half(), "parameter": torch.nn.Parameter(numbers)}
    for kind in ("pytorch", "pickle"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for protocol in (2, 4):
        path = folder / "pytorch" / f"torch_{protocol}.pt"
        torch.save(state, path, pickle_protocol=protocol)
        with zipfile.ZipFile(path) as archive:
            pickle = archive.read(f"{path.stem}/data.pkl")
            (folder / "pickle" / f"torch_{protocol}.pickle").write_bytes(pickle)
    with zipfile.ZipFile(folder / "pytorch" / "torch_4.pt") as stored, \
            zipfile.ZipFile(folder / "pytorch" / "torch_deflated.pt", "w", zipfile.ZIP_DEFLATED) as deflated:
        for name in stored.namelist():
            deflated.writestr(name, stored.read(name))
    torch.save({"model": {"w": torch.zeros(1)}, "epoch": 3, "rate": 0.5, "seen": [1, None, True]},
               folder / "checkpoint.pt")
    with zipfile.ZipFile(folder / "checkpoint.pt") as archive:
        (folder / "pickle" / "checkpoint.pickle").write_bytes(archive.read("checkpoint/data.pkl"))
    (folder / "checkpoint.pt").unlink()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
