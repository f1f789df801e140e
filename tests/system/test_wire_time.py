"""The stage `wire` on a shaped link, idle but for one write at a time: what the link takes, and no more.

A token bucket is no cable: it lets what fits into its burst pass at once, cuts long packets into
segments, and wakes up late for the last of them. What it truly takes is what two programs that do
nothing else wait longer than without it."""

import os
import time

import pytest

from lablib import network
from lablib.round_trip import round_trip_us
from support import KIB, MIB, connection

pytestmark = pytest.mark.skipif(bool(network.unavailable()), reason=str(network.unavailable()))

RATE, BITS_PER_S = "1gbit", 1e9
BURST_BYTES = 6000  # with less, the bucket of this kernel loses some of its rate
FRAME_HEAD_BYTES, SEGMENT_BYTES, SEGMENT_HEAD_BYTES = 64, 1448, 66  # TCP/IPv4 over Ethernet
PAUSE_S = 0.003  # the bucket is full again, the link idle
TRIES = 5  # a busy machine is late, anywhere


def theory_us(size_bytes):
    """Serialisation of the frame, less what passes unshaped; the answer fits into the burst."""
    frame = size_bytes + FRAME_HEAD_BYTES
    on_the_wire = frame + -(-frame // SEGMENT_BYTES) * SEGMENT_HEAD_BYTES
    return (on_the_wire - BURST_BYTES) * 8 / BITS_PER_S * 1e6


def shaped_lab(make_lab):
    lab = make_lab(host_namespaces=True, rates=[RATE], size="64MiB", peer_timeout="5s")
    lab.ctl("alpha", "sample", every=16)
    return lab


def wire_us(lab, handle, size_bytes, window_s=2.5):
    """The median of the writes of that size, for so long; no other of its class came lately."""
    lab.network().shape("link1", RATE, BURST_BYTES)
    data, end, number = os.urandom(size_bytes), time.monotonic() + window_s, 0
    while time.monotonic() < end:
        handle.pwrite(data, number % 16 * size_bytes)
        number += 1
        time.sleep(PAUSE_S)
    classes = lab.ctl("alpha", "latency", window="10s")["classes"]
    return max((each for each in classes if each["writes"] >= number // 2),
               key=lambda each: each["writes"])["stages"]["wire"]["p50_ns"] / 1e3


@pytest.mark.parametrize("size_bytes", [256 * KIB, MIB])
def test_a_long_write_takes_its_serialisation(make_lab, size_bytes):
    lab = shaped_lab(make_lab)
    with connection(lab) as handle:
        found = []
        for _ in range(TRIES):
            found.append(wire_us(lab, handle, size_bytes) / theory_us(size_bytes))
            if 0.97 <= found[-1] <= 1.1:
                return
    pytest.fail(f"of theory: {found}")


@pytest.mark.long
@pytest.mark.parametrize("size_bytes", [16 * KIB, 64 * KIB])
def test_a_short_write_takes_what_the_link_takes_of_anybody(make_lab, size_bytes):
    lab = shaped_lab(make_lab)
    frame_bytes = size_bytes + FRAME_HEAD_BYTES
    with connection(lab) as handle:
        found = []
        for _ in range(TRIES):
            lab.network().shape("link1", "none")
            free_us = round_trip_us(lab, "link1", frame_bytes, 2, PAUSE_S)
            lab.network().shape("link1", RATE, BURST_BYTES)
            shaped_us = round_trip_us(lab, "link1", frame_bytes, 2, PAUSE_S)
            found.append((wire_us(lab, handle, size_bytes, 11), shaped_us - free_us,
                          theory_us(size_bytes)))
            wire, truth, _ = found[-1]
            if 0.9 <= wire / truth <= 1.1:
                print(found)
                return
    pytest.fail(f"wire, what two programs wait, theory, in us: {found}")
