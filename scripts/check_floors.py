#!/usr/bin/python3
"""Checks that every room includes only rooms on lower floors, and keeps its libraries to itself.

    scripts/check_floors.py [ROOT]

Reads the #include lines of all .hpp and .cpp files of ROOT (by default this repository) that lie in
a room; tests and bench may include anything. Prints FILE:LINE and the reason for every include that
  - runs up or sideways between rooms,
  - is quoted and is not a room's file by its full path,
  - takes a library that is another room's affair, or
  - takes a header of another room that exposes such a library.
Exits with 1 if there is one.
"""

import pathlib
import re
import sys

FLOORS = {
    "models/base": 0,
    "models/tensor": 1,
    "models/graph": 2,
    "models/kernels": 3,
    "models/runtime": 4,
    "models/io": 4,
    "models/zoo": 5,
    "trainer/schedule": 1,
    "trainer/settings": 5,
    "trainer": 6,
    "clusterize/plan": 6,
    "clusterize": 7,
    "node": 7,
    "fusion": 7,
}

# How a library's headers begin, and the only room that knows it.
LIBRARIES = {
    "Eigen/": "models/kernels",
    "dnnl": "models/kernels",
    "oneapi/dnnl": "models/kernels",
    "google/protobuf/": "models/io",
    "onnx/": "models/io",
    "zmq": "node",
    "cereal/": "node",
}

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def room_of(path):
    """The innermost room that holds this path, or None."""
    parts = path.split("/")
    for length in range(len(parts) - 1, 0, -1):
        room = "/".join(parts[:length])
        if room in FLOORS:
            return room
    return None


def library_room(header):
    """The room that a library's header belongs to, or None for one that anybody may use."""
    return next((room for start, room in LIBRARIES.items() if header.startswith(start)), None)


def read_includes(root):
    """{file: [(line, quoted, header)]} of all files in rooms."""
    files = {}
    for top in sorted({room.split("/")[0] for room in FLOORS}):
        for path in sorted((root / top).rglob("*.[hc]pp")):
            lines = path.read_text(encoding="utf-8").splitlines()
            found = ((number, INCLUDE.match(line)) for number, line in enumerate(lines, start=1))
            files[path.relative_to(root).as_posix()] = [
                (number, match[1] == '"', match[2]) for number, match in found if match
            ]
    return files


def exposing_headers(files):
    """Headers that bring a room's own library to whoever includes them, directly or not."""
    exposing = set()
    while True:
        more = {
            name
            for name, includes in files.items()
            if name.endswith(".hpp") and any(library_room(h) or h in exposing for _, _, h in includes)
        }
        if more == exposing:
            return exposing
        exposing = more


def fault(file, quoted, header, files, exposing):
    """What is wrong with this include, or None."""
    room = room_of(file)
    if room is None:
        return "the file belongs to no room of scripts/check_floors.py"
    if not quoted:
        owner = library_room(header)
        return f"<{header}> is the affair of {owner}, not of {room}" if owner not in (None, room) else None
    if header not in files:
        return f'"{header}" is not a room\'s file by its full path'
    target = room_of(header)
    if target == room:
        return None
    if FLOORS[target] >= FLOORS[room]:
        return f"{room} (floor {FLOORS[room]}) includes {header} of {target} (floor {FLOORS[target]})"
    if header in exposing:
        return f"{header} exposes a library of {target} to {room}"
    return None


def check(root):
    """All faults as "file:line: reason"."""
    files = read_includes(root)
    exposing = exposing_headers(files)
    faults = []
    for file, includes in files.items():
        for line, quoted, header in includes:
            if reason := fault(file, quoted, header, files, exposing):
                faults.append(f"{file}:{line}: {reason}")
    return faults


def main():
    if len(sys.argv) > 2 or "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__.strip())
        return 0 if len(sys.argv) == 2 else 2
    root = pathlib.Path(sys.argv[1] if len(sys.argv) == 2 else pathlib.Path(__file__).parent.parent)
    faults = check(root)
    print("\n".join(faults) if faults else "include floors: no arrow runs up or sideways")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
