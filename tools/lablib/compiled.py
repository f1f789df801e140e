"""Programs and libraries out of a C file, made where they are needed."""

import subprocess

from .error import LabError


def compiled(path, source, *flags):
    """Makes `path`; says it."""
    done = subprocess.run(["cc", "-O2", *flags, "-o", str(path), str(source), "-ldl", "-pthread"],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"{source} does not compile: {done.stderr[-1000:]}")
    return path
