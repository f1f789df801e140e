"""What the benchmarks share: images, and fio through its nbd engine (lablib has both)."""

import sys

from lablib.fio import fill, run_fio

__all__ = ["fill", "run_fio", "say"]


def say(text):
    print(text, file=sys.stderr, flush=True)
