"""Disks that carry so much and take so long for a request, as cloud disks do: files on a tmpfs, and a
library that is preloaded into the process that writes them (held_disk.c says how it works).

Why not a block device: device mapper's delay target is in few kernels; loop devices over a FUSE file
that nbdkit's delay and rate filters serve work, but each request costs so many wake-ups that the
processor is the limit long before the disk is, twice as early for two nodes."""

import os
import shutil
import struct
from pathlib import Path

from ..error import LabError
from ..fio import fill
from ..lab import parse_size

SOURCE = Path(__file__).resolve().with_name("held_disk.c")
MEMORY = Path("/dev/shm")
COUNTS = struct.Struct("QQ")


def check(room_bytes):
    if not shutil.which("cc"):
        raise LabError("the held disks need a C compiler (Debian: apt install g++)")
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < room_bytes:
        raise LabError(f"the held disks need {room_bytes >> 20} MiB of room in {MEMORY}")


def library(bench):
    """Builds it; its path."""
    return bench.compiled("held_disk.so", SOURCE, "-shared", "-fPIC")


def image(bench, name, size):
    """A file in memory, written in full, that ends with the bench."""
    path = MEMORY / f"{bench.dir.name}-{name}.img"
    bench.remove_at_end(path)
    fill(path, parse_size(size))
    return path


def sparse_image(bench, name, size_bytes):
    """Like image(), but with nothing in it."""
    path = MEMORY / f"{bench.dir.name}-{name}.img"
    bench.remove_at_end(path)
    with open(path, "wb") as file:
        file.truncate(size_bytes)
    return path


def environment(preload, disks, broken=None, count=None):
    """What the process needs. `disks`: tuples (bytes a second, us a request, paths). While the file `broken`
    exists, they fail; `count` is a file of new_count()."""
    text = ";".join(",".join([str(rate), str(delay_us), *map(os.fspath, paths)])
                    for rate, delay_us, paths in disks)
    more = {"TWINBLOCK_HELD_DISKS_BROKEN": broken, "TWINBLOCK_HELD_DISKS_COUNT": count}
    return {"LD_PRELOAD": str(preload), "TWINBLOCK_HELD_DISKS": text,
            **{name: str(path) for name, path in more.items() if path}}


def new_count(path):
    """A file that counts direct reads."""
    path.write_bytes(bytes(COUNTS.size))
    return path


def counted(path):
    """How often its processes have read directly, and how many bytes."""
    return COUNTS.unpack(path.read_bytes())
