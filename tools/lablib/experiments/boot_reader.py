"""One machine that boots: reads its clone as the recorded boot did, over NBD, each read as soon as no more others
are under way than were then. A process of its own, since many of them in one would wait for each other.

Run with a JSON object as its argument; says "ready", begins at a line of input, and ends with a JSON object: when it
began and ended (CLOCK_MONOTONIC, s), and how many blocks were not what they must be."""

import json
import sys
import time

import nbd

from . import boot_trace
from .boot_clones import STAMP_BYTES, Clones
from .boot_trace import BLOCK


class Reader:
    def __init__(self, clones, clone, uri):
        self._reads = clones.trace.reads
        self._base = clone * clones.stride
        self._stamps = clones.stamps(clone)
        self._free = []
        self._longest = max(length for _, length, _ in self._reads)
        self._handle = nbd.NBD()
        self._handle.connect_uri(uri)
        self.wrong = 0
        self.failed = 0

    def run(self):
        handle = self._handle
        for offset, length, under_way in self._reads:
            while handle.aio_in_flight() > under_way:
                handle.poll(-1)
            space = self._free.pop() if self._free else memoryview(bytearray(self._longest))
            handle.aio_pread(nbd.Buffer.from_buffer(space[:length]), self._base + offset,
                             self._completion(offset, length, space))
        while handle.aio_in_flight():
            handle.poll(-1)

    def _completion(self, offset, length, space):
        def done(error):
            if error.value:
                self.failed += 1
            else:
                first = -(-offset // BLOCK)
                for block in range(first, (offset + length) // BLOCK):
                    at = block * BLOCK - offset
                    if space[at:at + STAMP_BYTES] != self._stamps[block]:
                        self.wrong += 1
            self._free.append(space)
            return 1
        return done


def main(order):
    trace = boot_trace.load(order["trace"])
    if order["reads"]:
        trace = trace.first(order["reads"])
    clones = Clones(trace, order["count"], order["changed_percent"], order["distinct"])
    reader = Reader(clones, order["clone"], order["uri"])
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    reader.run()
    print(json.dumps({"began": began, "ended": time.monotonic(), "wrong": reader.wrong,
                      "failed": reader.failed}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
