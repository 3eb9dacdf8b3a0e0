#!/usr/bin/python3
"""Runs clang-tidy over the repository's .cpp files, as many at a time as there are processors.

    scripts/check_tidy.py [--build DIR] [FILE...]

DIR (by default build-tidy/) holds compile_commands.json; nothing is built in it. All files of a module or a program of
tests are looked at together, since most of the time goes to the headers that they share: of a FILE its neighbours are
seen, too.
What passed is not looked at again until one of these files, a header of the repository that they include, .clang-tidy
or the compile command changes; it is remembered for all copies of the repository in
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


def fingerprint(files, command, version):
    digest = hashlib.sha256()
    command = command.replace(str(ROOT), "")  # the same in every copy
    settings = {folder / ".clang-tidy" for file in files for folder in file.parents if folder.is_relative_to(ROOT)}
    sources = {source for file in files for source in closure(file)}
    parts = [*sorted(file for file in settings if file.is_file()), *sorted(sources)]
    for part in [version, command.encode(), *map(read, parts)]:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def units(build, database):
    """{files that are compiled together: (what the compiler is given, its command)}, the repository's own."""
    found = {}
    for entry in json.loads(database.read_text()):
        path = pathlib.Path(entry["file"])
        together = repository_includes(path) if path.parent.name == "Unity" else [path]
        files = tuple(file for file in together if file.is_relative_to(ROOT) and not file.is_relative_to(build))
        if files:
            found[files] = (path, entry["command"])
    return found


def tidy(path, build, mark):
    """(passed, output) of one unit."""
    if mark.exists():
        return True, ""
    # Compile commands are gcc's: clang need not know all of its warning options. A unit includes its files.
    done = subprocess.run(
        ["clang-tidy", "--quiet", "--extra-arg=-Wno-everything", "--checks=-bugprone-suspicious-include", "-p", build, path],
        capture_output=True, text=True, check=False,
    )
    if done.returncode == 0:
        mark.touch()
        return True, ""
    useful = [line for line in done.stderr.splitlines() if not re.match(r"\d+ warnings? ", line)]
    return False, done.stdout + "\n".join(useful)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-tidy")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()

    subprocess.run(
        ["cmake", "--preset", "release", "-B", arguments.build, "-DROOKERY_TESTS=ON", "-DROOKERY_BENCH=ON",
         "-DROOKERY_UNITY_BATCH=0", "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON"],
        cwd=ROOT, stdout=subprocess.DEVNULL, check=True,
    )
    wanted = units(arguments.build.resolve(), arguments.build / "compile_commands.json")
    if arguments.files:
        named = {file.resolve() for file in arguments.files}
        strangers = named - {file for files in wanted for file in files}
        if strangers:
            sys.exit("check_tidy: no target compiles " + ", ".join(sorted(map(str, strangers))))
        wanted = {files: unit for files, unit in wanted.items() if named & set(files)}
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "rookery" / "tidy"
    cache.mkdir(parents=True, exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {
            pool.submit(tidy, path, arguments.build, cache / fingerprint(files, command, version)): files
            for files, (path, command) in wanted.items()
        }
        for job in concurrent.futures.as_completed(jobs):
            passed, output = job.result()
            if not passed:
                failed += 1
                names = ", ".join(str(file.relative_to(ROOT)) for file in jobs[job])
                print(f"{names}: clang-tidy\n{output}", flush=True)
    count = sum(map(len, wanted))
    print(f"clang-tidy: {len(wanted) - failed} of {len(wanted)} units of {count} files pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
