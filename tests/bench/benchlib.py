"""What the benchmarks share: images, and fio through its nbd engine (lablib has both)."""

import sys
import tempfile
from pathlib import Path

from lablib.fio import fill, run_fio
from lablib.guardian import Guardian

__all__ = ["bench_directory", "fill", "run_fio", "say"]
_GUARDIANS = []


def bench_directory(parent):
    """A new one below `parent`. When this process is killed, it goes, and all that this has started."""
    Path(parent).mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="twinblock-bench-", dir=parent))
    _GUARDIANS.append(Guardian())
    _GUARDIANS[-1].remove(directory)
    return directory


def say(text):
    print(text, file=sys.stderr, flush=True)
