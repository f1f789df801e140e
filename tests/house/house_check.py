#!/usr/bin/python3
"""Keeps the house in order: who may make system calls, who may include whom, headers that stand
alone, files and classes that have outgrown one noun. Prints what is wrong, with file and line.

usage: house_check.py order|headers SOURCE_DIR BUILD_DIR
  headers  that each compiles alone, which takes a minute or two; order: all else"""

import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import class_sizes

SYSTEM_HEADERS = re.compile(
    r'#include <(ev|liburing|unistd|fcntl|poll|pthread|signal|sys/(?!un\b)\w+|linux/\w+)\.?h?>')
# Start-up code that becomes nbdkit, or finds its directories, before any loop exists.
START_UP = {"daemon/twinblockd.cc", "daemon/config/config_paths.cc"}
LINES_MAX = 500
# Of what an archive's objects need, that a program must not load (daemon/io/posix/CMakeLists.txt): libcurl brings thirty more.
NOT_LOADED = {"tools/twinblock": ("libcurl", "liburing", "libev"), "daemon/twinblockd": ("libcurl", "liburing")}


def sources(root, folder, *suffixes):
    return sorted(path for path in (root / folder).rglob("*") if path.suffix in suffixes)


def system_calls_stay_in_io_posix(root):
    for path in sources(root, "daemon", ".cc", ".h"):
        name = str(path.relative_to(root))
        if name.startswith("daemon/io/posix/") or name in START_UP:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if SYSTEM_HEADERS.match(line) or '#include "io/posix/' in line:
                yield f"{name}:{number}: only io/posix makes system calls: {line.strip()}"


def files_have_one_noun(root):
    for folder in ("daemon", "plugins", "tools", "tests"):
        for path in sources(root, folder, ".cc", ".h", ".py", ""):
            if not path.is_file() or path.name in ("CMakeLists.txt",):
                continue
            lines = path.read_text(errors="replace").count("\n")
            if lines > LINES_MAX:
                yield f"{path.relative_to(root)}: {lines} lines; split it (at most {LINES_MAX})"


def source_folder(root, build, file):
    """Of a source, or of the file by which CMake joins several."""
    for parent in file.parents:
        if parent.name == "CMakeFiles":
            return str(root / parent.parent.relative_to(build))
    return str(file.parent)


def compile_flags(root, build):
    """Include paths and definitions of each folder, from the build's own compile commands."""
    flags = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        folder = source_folder(root, build, Path(entry["file"]).resolve())
        words = shlex.split(entry["command"])
        flags.setdefault(folder, [word for before, word in zip([""] + words, words)
                                  if word[:2] in ("-I", "-D") or "-isystem" in (word, before) or
                                  word.startswith("-std=")])
    return flags


def headers_stand_alone(root, build):
    flags = compile_flags(root, build)
    fallback = next((f for folder, f in flags.items() if folder.endswith("daemon/volume")), [])

    def compile_alone(header):
        command = ["c++", *flags.get(str(header.parent), fallback), "-fsyntax-only", "-x", "c++",
                   str(header)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        errors = [line for line in done.stderr.splitlines() if " error: " in line]
        if done.returncode != 0:
            return f"{header.relative_to(root)} does not compile alone: {(errors or ['?'])[0]}"
        return None

    headers = sources(root, "daemon", ".h") + sources(root, "plugins", ".h")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from filter(None, pool.map(compile_alone, headers))


def programs_load_what_they_use(build):
    for program, strangers in NOT_LOADED.items():
        done = subprocess.run(["readelf", "-d", build / program], capture_output=True, text=True, check=False)
        needed = re.findall(r"\(NEEDED\).*\[(\S+)\]", done.stdout)
        if not needed:
            yield f"{program}: readelf does not say what it loads: {done.stderr.strip()}"
        for library in needed:
            if library.startswith(strangers):
                yield f"{program} loads {library}, of which it uses nothing"


def main():
    what, root, build = sys.argv[1], *(Path(word).resolve() for word in sys.argv[2:4])
    wrong = [*headers_stand_alone(root, build)] if what == "headers" else [
        *system_calls_stay_in_io_posix(root), *files_have_one_noun(root), *programs_load_what_they_use(build),
        *class_sizes.too_large(root, sources(root, "daemon", ".h") + sources(root, "plugins", ".h"))]
    print("\n".join(wrong) if wrong else "the house is in order")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
