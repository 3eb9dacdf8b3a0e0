#!/usr/bin/python3
"""Checks that every module includes only modules of lower layers, and keeps its libraries to itself.

    scripts/check_layers.py [ROOT]

A module is a folder of LAYERS, with what lies below it in folders that are no modules of their own. Reads the
#include lines of all .hpp and .cpp files of ROOT (by default this repository) that lie in a module; tests and
bench may include anything. Prints FILE:LINE and the reason for every include that
  - runs up or sideways between modules,
  - is quoted and is not a module's file by its full path,
  - closes a circle of headers,
  - takes a library that is another module's affair, or a header of one that has a header of ours around it, or
  - takes a header of another module that exposes such a library,
every folder that holds too many files to be read at a glance, every constant of a .cpp file that is called as one of a
header, and every type of a header that is called as one of another. Exits with 1 if there is one.
"""

import collections
import pathlib
import re
import sys

# From the lowest layer to the highest.
LAYERS = [
    ["models/base"],
    ["models/base/machine"],
    ["models/base/process"],
    ["models/base/files"],
    ["models/tensor", "trainer/images", "trainer/schedule", "trainer/storage"],
    ["models/graph"],
    ["models/graph/ops"],
    ["models/graph/passes"],
    ["models/graph/passes/memory", "models/graph/passes/recognize"],
    ["models/kernels"],
    ["models/runtime", "models/io/safetensors", "models/io/pytorch", "models/io/onnx/format"],
    ["models/io", "models/io/checkpoint", "models/io/onnx/functions", "models/io/onnx/exporters"],
    ["models/io/onnx"],
    ["models/io/onnx/import/graph"],
    ["models/io/onnx/import/operators"],
    ["models/io/onnx/import"],
    ["models/zoo", "trainer/data"],
    ["trainer/settings", "clusterize/pool"],
    ["trainer/feed", "trainer/progress", "clusterize/plan"],
    ["trainer", "trainer/progress/tensorboard"],
    ["trainer/averaging", "trainer/checkpoint", "clusterize/genetic", "clusterize/profile", "node/wire", "node/membership"],
    ["fusion", "clusterize/costs", "node/sockets"],
    ["clusterize/task", "clusterize/order", "node/transport"],
    ["clusterize/search", "clusterize/simulation", "node/options", "node/status", "node/benchmark"],
    ["clusterize/planner", "node/run"],
    ["node"],
    ["node/launch"],
    ["clusterize/report"],
    ["clusterize/report/pictures"],
    ["clusterize/report/page"],
    ["clusterize"],
]
LAYER_OF = {module: layer for layer, modules in enumerate(LAYERS) for module in modules}

# How a library's headers begin, and the only module that knows it.
LIBRARIES = {
    "Eigen/": "models/kernels",
    "dnnl": "models/kernels",
    "oneapi/dnnl": "models/kernels",
    "google/protobuf/": "models/io",
    "onnx/": "models/io",
    "tensorboard_events": "trainer/progress/tensorboard",
    "xxhash": "models/io",
    "turbojpeg": "trainer/images",
    "png": "trainer/images",
    "webp/": "trainer/images",
    "curl/": "trainer/storage",
    "archive": "trainer/storage",
    "zmq": "node",
    "cereal/": "node",
}

# Library headers whose templates are compiled once, in the .cpp file of ours that declares them.
COMPILED_ONCE = {
    "fmt/core.h": "models/base/libraries/format.hpp",
    "fmt/format.h": "models/base/libraries/format.hpp",
    "fmt/ranges.h": "models/base/libraries/format.hpp",
    "nlohmann/json.hpp": "models/base/libraries/json.hpp",
}

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def module_of(path):
    """The innermost module that holds this path, or None."""
    parts = path.split("/")
    for length in range(len(parts) - 1, 0, -1):
        module = "/".join(parts[:length])
        if module in LAYER_OF:
            return module
    return None


def library_module(header):
    """The module that a library's header belongs to, or None for one that anybody may use."""
    return next((module for start, module in LIBRARIES.items() if header.startswith(start)), None)


def read_includes(root):
    """{file: [(line, quoted, header)]} of all files in modules."""
    files = {}
    for top in sorted({module.split("/")[0] for module in LAYER_OF}):
        for path in sorted((root / top).rglob("*.[hc]pp")):
            lines = path.read_text(encoding="utf-8").splitlines()
            found = ((number, INCLUDE.match(line)) for number, line in enumerate(lines, start=1))
            files[path.relative_to(root).as_posix()] = [
                (number, match[1] == '"', match[2]) for number, match in found if match
            ]
    return files


def exposing_headers(files):
    """Headers that bring a module's own library to whoever includes them, directly or not."""
    exposing = set()
    while True:
        more = {
            name
            for name, includes in files.items()
            if name.endswith(".hpp") and any(library_module(h) or h in exposing for _, _, h in includes)
        }
        if more == exposing:
            return exposing
        exposing = more


def fault(file, quoted, header, files, exposing):
    """What is wrong with this include, or None."""
    module = module_of(file)
    if module is None:
        return "the file belongs to no module of scripts/check_layers.py"
    if not quoted:
        if COMPILED_ONCE.get(header, file) != file:
            return f'<{header}> is included as "{COMPILED_ONCE[header]}"'
        owner = library_module(header)
        if owner is None or (module + "/").startswith(owner + "/"):
            return None
        return f"<{header}> is the affair of {owner}, not of {module}"
    if header not in files:
        return f'"{header}" is not a module\'s file by its full path'
    target = module_of(header)
    if target == module:
        return None
    if LAYER_OF[target] >= LAYER_OF[module]:
        return f"{module} (layer {LAYER_OF[module]}) includes {header} of {target} (layer {LAYER_OF[target]})"
    # A library's module may consist of several: node/sockets and node/transport both know ZeroMQ.
    if header in exposing and not shares_library(file, header, files):
        return f"{header} exposes a library of {target} to {module}"
    return None


def reachable(header, files):
    """This header and all that it includes, directly or not, as far as they are modules' files."""
    seen, left = set(), [header]
    while left:
        name = left.pop()
        if name not in seen and name in files:
            seen.add(name)
            left += [included for _, _, included in files[name]]
    return seen


def shares_library(file, header, files):
    """Does this file's module own every library that this header exposes, directly or not?"""
    exposed = {library_module(included) for name in reachable(header, files) for _, _, included in files[name]}
    return all((module_of(file) + "/").startswith(owner + "/") for owner in exposed - {None})


def circles(files):
    """A fault for each include that leads back to the header that it stands in."""
    return [
        f"{file}:{line}: including {header} leads back to this header"
        for file, includes in files.items()
        for line, _, header in includes
        if file in reachable(header, files)
    ]


# A family of alike files may be larger: operators, their kernels, models.
MOST_FILES = 16
FAMILIES = {"models/graph/ops", "models/kernels/eigen", "models/kernels/simd", "models/kernels/simd/loops", "models/zoo"}


def large_folders(files):
    """A fault for each folder with more files at one level than a reader takes in."""
    counts = collections.Counter(name.rpartition("/")[0] for name in files)
    return [
        f"{folder}: {count} source files, {MOST_FILES} at most"
        for folder, count in sorted(counts.items())
        if count > MOST_FILES and folder not in FAMILIES
    ]


CONSTANT = re.compile(r"^(?:inline |static )*(?:constexpr|const) [^=({]*?\b(k[A-Z]\w*)\s*[={\[]")


def constants_of(path):
    """{name: line} of the constants that stand at the beginning of a line of this file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = ((number, CONSTANT.match(line)) for number, line in enumerate(lines, start=1))
    return {match[1]: number for number, match in found if match}


def hidden_constants(root, files):
    """A fault for each constant of a .cpp file that is called as one of a header of its own top folder or of models: where several
    files are compiled at once, the others of its module would silently get this one."""
    of_headers = {name: file for file in files if file.endswith(".hpp") for name in constants_of(root / file)}
    return [
        f"{file}:{line}: {name} hides that of {of_headers[name]}"
        for file in files
        if file.endswith(".cpp")
        for name, line in constants_of(root / file).items()
        if name in of_headers and of_headers[name].split("/")[0] in (file.split("/")[0], "models")
    ]


NAMESPACE = re.compile(r"^namespace ([\w:]+) \{")
TYPE = re.compile(r"^(?:template <.*> )?(?:struct|class|enum class) (\w+)(?: final)?(?: : [^;]*)? \{")


def types_of(path):
    """[(name with its namespace, line)] of the types that a header of this project defines."""
    namespace = ""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if match := NAMESPACE.match(line):
            namespace = match[1]
        elif match := TYPE.match(line):
            found.append((f"{namespace}::{match[1]}", number))
    return found


def types_of_one_name(root, files):
    """A fault for each type that has the name of another header's: a program that has both is wrong, and nobody says so."""
    first = {}
    faults = []
    for file in filter(lambda name: name.endswith(".hpp"), files):
        for name, line in types_of(root / file):
            if first.setdefault(name, file) != file:
                faults.append(f"{file}:{line}: there is another {name} in {first[name]}")
    return faults


def check(root):
    """All faults as "file:line: reason"."""
    files = read_includes(root)
    exposing = exposing_headers(files)
    faults = []
    for file, includes in files.items():
        for line, quoted, header in includes:
            if reason := fault(file, quoted, header, files, exposing):
                faults.append(f"{file}:{line}: {reason}")
    return faults + circles(files) + large_folders(files) + hidden_constants(root, files) + types_of_one_name(root, files)


def main():
    if len(sys.argv) > 2 or "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__.strip())
        return 0 if len(sys.argv) == 2 else 2
    root = pathlib.Path(sys.argv[1] if len(sys.argv) == 2 else pathlib.Path(__file__).parent.parent)
    faults = check(root)
    print("\n".join(faults) if faults else "include layers: no arrow runs up or sideways, or in a circle")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
