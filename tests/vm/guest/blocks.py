#!/usr/bin/python3
"""Writes to a device and notes what was promised: blocks.py write DEVICE NOTES FIRST BLOCKS | read DEVICE BLOCKS

write: some workers, each one block at a time, no version twice (worker w: FIRST + w, and each time WORKERS more), until
SIGTERM. Notes go out when the device has acknowledged: "w WORKER VERSION BLOCK"; "b WORKER" before a flush begins,
"f WORKER" when it is done. read: the version of each block, by lines, then flushes; 0: never written."""

import mmap
import os
import random
import signal
import struct
import sys

WORKERS, SIZE, STRIDE = 4, 4096, 16384  # a block in each STRIDE bytes
WRITES_PER_FLUSH = 12


def write(device, notes, first, blocks):
    out = os.open(notes, os.O_WRONLY)
    children = []
    for worker in range(WORKERS):
        if (child := os.fork()) == 0:
            work(os.open(device, os.O_RDWR | os.O_DIRECT), out, worker, int(first), int(blocks))
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(child, signal.SIGTERM) for child in children])
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


def work(file, out, worker, first, blocks):
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    page = mmap.mmap(-1, SIZE)
    version = first + worker
    try:
        while not told:
            for _ in range(random.randrange(1, 2 * WRITES_PER_FLUSH)):
                block = random.randrange(blocks // WORKERS) * WORKERS + worker
                page[:] = struct.pack("<QQ", version, block) * (SIZE // 16)
                os.pwrite(file, page, block * STRIDE)
                os.write(out, b"w %d %d %d\n" % (worker, version, block))
                version += WORKERS
            os.write(out, b"b %d\n" % worker)
            os.fsync(file)
            os.write(out, b"f %d\n" % worker)
    except OSError as error:
        os.write(out, b"e %d %s\n" % (worker, str(error).encode()))
        os._exit(1)
    os._exit(0)


def read(device, blocks):
    file = os.open(device, os.O_RDWR | os.O_DIRECT)
    page = mmap.mmap(-1, SIZE)
    for block in range(int(blocks)):
        if os.preadv(file, [page], block * STRIDE) != SIZE:
            print("short")
            continue
        version, there = struct.unpack_from("<QQ", page)
        whole = page[:] == page[:16] * (SIZE // 16) and (there == block or version == 0)
        print(version if whole else "torn")
    os.fsync(file)
    return 0


if __name__ == "__main__":
    sys.exit({"write": write, "read": read}[sys.argv[1]](*sys.argv[2:]))
