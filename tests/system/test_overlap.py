"""Writers that overlap in flight: whichever wins, it wins on both replicas."""

import os
import random
import time

import nbd
import pytest

from lablib.error import LIVENESS_S
from support import KIB, MIB, assert_identical

CONNECTIONS = 16
DEPTH = 2  # requests in flight a connection
WINDOW = 64 * KIB
SECONDS = float(os.environ.get("TWINBLOCK_OVERLAP_SECONDS", "15"))
PAUSE_EVERY_S = 3.0


class Writer:
    """One connection that keeps a few requests in flight."""

    def __init__(self, uri, dice, base):
        self.dice = dice
        self.base = base
        self.failed = 0
        self.done = 0
        self.in_flight = 0
        self.handle = nbd.NBD()
        self.handle.connect_uri(uri)

    def completed(self, error):
        self.in_flight -= 1
        self.done += 1
        if error.value:
            self.failed += 1
        return 1  # retires the command

    def fill(self):
        while self.in_flight < DEPTH:
            length = 512 * self.dice.randint(1, WINDOW // 512)
            offset = self.base + 512 * self.dice.randint(0, (WINDOW - length) // 512)
            kind = self.dice.random()
            self.in_flight += 1
            if kind < 0.8:
                data = bytes([self.dice.randint(1, 255)]) * length
                flags = nbd.CMD_FLAG_FUA if kind < 0.02 else 0
                self.handle.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(data)), offset,
                                       self.completed, flags)
            elif kind < 0.9:
                self.handle.aio_zero(length, offset, self.completed)
            else:
                self.handle.aio_trim(length, offset, self.completed)


def poll_until(writers, seconds, refill):
    """Drives all connections; without `refill` until nothing is in flight."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for writer in writers:
            if refill:
                writer.fill()
            writer.handle.poll(0)
        if not refill and not any(writer.in_flight for writer in writers):
            return
    assert refill, "requests stay unanswered"


@pytest.mark.slow
@pytest.mark.sanitize
@pytest.mark.parametrize("engine", ["io_uring", "threads"])
def test_replicas_agree_at_every_pause_of_overlapping_writers(make_lab, engine):
    environment = {"TWINBLOCK_DISK": engine}
    lab = make_lab(env={"alpha": environment, "beta": environment})
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    base = 5 * MIB - 12 * KIB  # across a boundary of 4 MiB would be a coarse region's
    writers = [Writer(lab.node("alpha")["nbd"], random.Random(seed + number), base)
               for number in range(CONNECTIONS)]
    end = time.monotonic() + SECONDS / 2  # two engines share the time
    while time.monotonic() < end:
        poll_until(writers, min(PAUSE_EVERY_S, max(0.5, end - time.monotonic())), refill=True)
        poll_until(writers, LIVENESS_S, refill=False)
        assert sum(writer.failed for writer in writers) == 0
        assert_identical(lab)
    assert min(writer.done for writer in writers) > 0
    for writer in writers:
        writer.handle.shutdown()
    assert lab.status("alpha")["state"] == "duplex"
