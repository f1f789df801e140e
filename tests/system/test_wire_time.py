"""The stage `wire` on a shaped link, idle but for one write at a time: what the link takes, and no more.

A token bucket is no cable: it lets what fits into its burst pass at once, cuts long packets into
segments, and wakes up late for the last of them. What it truly takes is what two programs that do
nothing else wait longer than without it."""

import os
import time
from statistics import median

import pytest

from lablib import network
from lablib.round_trip import round_trip_us
from support import KIB, MIB, connection

pytestmark = pytest.mark.skipif(bool(network.unavailable()), reason=str(network.unavailable()))

RATE, BITS_PER_S = "1gbit", 1e9
BURST_BYTES = 6000  # with less, the bucket of this kernel loses some of its rate
FRAME_HEAD_BYTES, SEGMENT_BYTES, SEGMENT_HEAD_BYTES = 64, 1448, 66  # TCP/IPv4 over Ethernet
PAUSE_S = 0.003  # the bucket is full again, the link idle
WINDOW_S = 10  # of `latency`
TRIES = 3  # a busy machine is late, anywhere
SCATTER_US = 20  # so far apart are the programs' own figures, each a difference of two


def theory_us(size_bytes):
    """Serialisation of the frame, less what passes unshaped; the answer fits into the burst."""
    frame = size_bytes + FRAME_HEAD_BYTES
    on_the_wire = frame + -(-frame // SEGMENT_BYTES) * SEGMENT_HEAD_BYTES
    return (on_the_wire - BURST_BYTES) * 8 / BITS_PER_S * 1e6


def unshaped_lab(make_lab):
    """The nodes are not told what the link carries."""
    lab = make_lab(host_namespaces=True, size="64MiB", peer_timeout="5s")
    lab.ctl("alpha", "sample", every=16)
    return lab


def wire_us(lab, handle, size_bytes, seconds):
    """The median of writes of that size for so long; there was none like them for WINDOW_S before."""
    lab.network().shape("link1", RATE, BURST_BYTES)
    data, end, number = os.urandom(size_bytes), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        handle.pwrite(data, number % 16 * size_bytes)
        number += 1
        time.sleep(PAUSE_S)
    reading = lab.ctl("alpha", "latency", window=f"{WINDOW_S}s")
    assert reading["links"][0]["samples"] > 0
    [found] = [each for each in reading["classes"] if each["writes"] >= number // 2]
    return found["stages"]["wire"]["p50_ns"] / 1e3


@pytest.mark.slow
@pytest.mark.parametrize("size_bytes", [256 * KIB, MIB])
def test_a_long_write_takes_its_serialisation(make_lab, size_bytes):
    lab = unshaped_lab(make_lab)
    found = []
    with connection(lab) as handle:
        for number in range(TRIES):
            if number > 0:
                time.sleep(WINDOW_S + 2)
            found.append(wire_us(lab, handle, size_bytes, 2.5) / theory_us(size_bytes))
            if 0.97 <= found[-1] <= 1.1:
                return
    pytest.fail(f"of theory: {found}")


@pytest.mark.long
@pytest.mark.parametrize("size_bytes", [16 * KIB, 64 * KIB])
def test_a_short_write_takes_what_the_link_takes_of_anybody(make_lab, size_bytes):
    lab = unshaped_lab(make_lab)
    wires, truths = [], []
    with connection(lab) as handle:
        for _ in range(TRIES):
            lab.network().shape("link1", "none")
            free_us = programs_us(lab, size_bytes)
            lab.network().shape("link1", RATE, BURST_BYTES)
            truths.append(programs_us(lab, size_bytes) - free_us)
            wires.append(wire_us(lab, handle, size_bytes, WINDOW_S + 2))
    print(f"wire {wires}, two programs wait {truths} longer, theory {theory_us(size_bytes)} us")
    allowed_us = max(0.1 * median(truths), SCATTER_US)
    assert abs(median(wires) - median(truths)) <= allowed_us, (wires, truths)


def programs_us(lab, size_bytes):
    return round_trip_us(lab, "link1", size_bytes + FRAME_HEAD_BYTES, 2, PAUSE_S)
