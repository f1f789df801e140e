#!/usr/bin/python3
"""How late a process is that only sleeps: lateness.py LOG, until it is killed. A line of LOG for each time that was the
latest up to then: when, in UTC, and by how many seconds."""

import sys
import time

NAP_S = 0.05


def main(log):
    latest = 0
    with open(log, "w", encoding="ascii", buffering=1) as out:
        while True:
            begin = time.monotonic()
            time.sleep(NAP_S)
            late = time.monotonic() - begin - NAP_S
            if late > latest:
                latest = late
                out.write(f"{time.strftime('%H:%M:%S', time.gmtime())} {late:.3f}\n")


main(sys.argv[1])
