#!/usr/bin/python3
"""Runs clang-tidy over the repository's .cpp files, as many at a time as there are processors.

    scripts/check_tidy.py [--build DIR] [FILE...]

DIR (by default build-tidy/) holds compile_commands.json; it is configured without unity builds, so that each
file is looked at by itself, and nothing is built in it. A file that passed is not
looked at again until it, a header of the repository that it includes, .clang-tidy or its compile
command changes; what passed is remembered for all copies of the repository in
$XDG_CACHE_HOME/rookery/tidy (by default ~/.cache/rookery/tidy). Exits with 1 if a file fails.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@functools.cache
def read(path):
    return path.read_bytes()


@functools.cache
def repository_includes(path):
    return [ROOT / name.decode() for name in INCLUDE.findall(read(path)) if (ROOT / name.decode()).is_file()]


def closure(path):
    """The file and all headers of the repository that it includes, directly or not."""
    found, waiting = set(), [path]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting.extend(repository_includes(current))
    return sorted(found)


def fingerprint(path, command, version):
    digest = hashlib.sha256()
    command = command.replace(str(ROOT), "")  # the same in every copy
    settings = [folder / ".clang-tidy" for folder in reversed(path.parents) if folder.is_relative_to(ROOT)]
    parts = [*(file for file in settings if file.is_file()), *closure(path)]
    for part in [version, command.encode(), *map(read, parts)]:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def tidy(path, build, mark):
    """(path, passed, output) of one file."""
    if mark.exists():
        return path, True, ""
    # Compile commands are gcc's: clang need not know all of its warning options.
    done = subprocess.run(
        ["clang-tidy", "--quiet", "--extra-arg=-Wno-everything", "-p", build, path],
        capture_output=True, text=True, check=False,
    )
    if done.returncode == 0:
        mark.touch()
        return path, True, ""
    useful = [line for line in done.stderr.splitlines() if not re.match(r"\d+ warnings? ", line)]
    return path, False, done.stdout + "\n".join(useful)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-tidy")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()

    subprocess.run(
        ["cmake", "--preset", "release", "-B", arguments.build, "-DROOKERY_UNITY=OFF", "-DROOKERY_TESTS=ON", "-DROOKERY_BENCH=ON"],
        cwd=ROOT, stdout=subprocess.DEVNULL, check=True,
    )
    database = arguments.build / "compile_commands.json"
    commands = {pathlib.Path(entry["file"]): entry["command"] for entry in json.loads(database.read_text())}
    wanted = [file.resolve() for file in arguments.files] or sorted(
        path for path in commands if path.is_relative_to(ROOT) and not path.is_relative_to(arguments.build.resolve())
    )
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "rookery" / "tidy"
    cache.mkdir(parents=True, exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [
            pool.submit(tidy, path, arguments.build, cache / fingerprint(path, commands.get(path, ""), version))
            for path in wanted
        ]
        for job in concurrent.futures.as_completed(jobs):
            path, passed, output = job.result()
            if not passed:
                failed += 1
                print(f"{path.relative_to(ROOT)}: clang-tidy\n{output}", flush=True)
    print(f"clang-tidy: {len(wanted) - failed} of {len(wanted)} files pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
