#!/usr/bin/python3
"""A load that knows what it was promised: writer.py write DIRECTORY LOG FIRST | check DIRECTORY LOG

write: records into files of DIRECTORY, from number FIRST on, each synced before the next, until SIGTERM; a line of LOG for
each one that was: its number, and how long it took, in seconds. LOG.pid has its process, LOG.end why it ended. check:
every record of LOG is there, as it was written last."""

import hashlib
import os
import signal
import sys
import time
from pathlib import Path

FILES, SLOTS, RECORD = 4, 64, 16384


def record(number):
    seed = hashlib.sha256(b"%d" % number).digest()
    return b"%016d" % number + (seed * (RECORD // len(seed)))[:RECORD - 16]


def place(number):
    return number % FILES, (number // FILES % SLOTS) * RECORD


def stop(_number, _frame):
    raise SystemExit("told to")


def write(directory, log, first):
    signal.signal(signal.SIGTERM, stop)
    Path(f"{log}.pid").write_text(str(os.getpid()), encoding="ascii")
    try:
        write_for_ever(directory, log, int(first))
    except (OSError, SystemExit) as why:
        Path(f"{log}.end").write_text(f"{why}\n", encoding="utf-8")


def write_for_ever(directory, log, number):
    files = [os.open(f"{directory}/{i}", os.O_RDWR | os.O_CREAT, 0o600) for i in range(FILES)]
    with open(log, "w", encoding="ascii", buffering=1) as out:
        while True:
            file, offset = place(number)
            begin = time.monotonic()
            os.pwrite(files[file], record(number), offset)
            os.fsync(files[file])
            out.write(f"{number} {time.monotonic() - begin:.3f}\n")
            number += 1


def check(directory, log):
    with open(log, encoding="ascii") as file:
        last = {place(number): number for number in (int(line.split()[0]) for line in file)}
    wrong = 0
    for (file, offset), number in sorted(last.items()):
        with open(f"{directory}/{file}", "rb") as data:
            data.seek(offset)
            there = data.read(RECORD)
        # The one that was under way when the load ended may be there already.
        if there not in (record(number), record(number + FILES * SLOTS)):
            wrong += 1
            print(f"record {number} is not there: {there[:16]!r}")
    print(f"{len(last)} places, {wrong} wrong")
    return 1 if wrong or not last else 0


if __name__ == "__main__":
    sys.exit({"write": write, "check": check}[sys.argv[1]](*sys.argv[2:]))
