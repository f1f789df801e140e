"""The stage `wire` on a shaped link, idle but for one write at a time: what the link takes, and no more.

A token bucket is no cable: it lets what fits into its burst pass at once, cuts long packets into
segments, and wakes up late for the last of them; how late, and how much of its rate it loses by that, is
the machine's affair. What it truly takes is what two programs that do nothing else wait longer than
without it, in turn with the writes."""

import os
import threading
from statistics import median

import pytest

from lablib import network
from lablib.round_trip import round_trip_us
from latency_support import medians
from support import KIB, MIB, connection, ctl

pytestmark = pytest.mark.skipif(bool(network.unavailable()), reason=str(network.unavailable()))

BURST_BYTES = 6000  # with less, the bucket of this kernel loses some of its rate
FRAME_HEAD_BYTES, SEGMENT_BYTES, SEGMENT_HEAD_BYTES = 64, 1448, 66  # TCP/IPv4 over Ethernet
PAUSE_S = 0.003  # the bucket is full again, the link idle
ROUNDS = 3
SCATTER_US = 20  # so far apart are the programs' own figures, each a difference of two


def theory_us(size_bytes, bits_per_s):
    """Serialisation of the frame, less what passes unshaped; the answer fits into the burst."""
    frame = size_bytes + FRAME_HEAD_BYTES
    on_the_wire = frame + -(-frame // SEGMENT_BYTES) * SEGMENT_HEAD_BYTES
    return (on_the_wire - BURST_BYTES) * 8 / bits_per_s * 1e6


def compare(make_lab, size_bytes, rate, bits_per_s, writes, seconds):
    """The medians over rounds of what is said to be the wire, and of what the programs find, in us."""
    # The nodes are not told what the link carries. No heartbeat is late behind a long write.
    lab = make_lab(host_namespaces=True, size="64MiB", peer_timeout="20s",
                   settings={"link_timeout": "5s"})
    lab.ctl("alpha", "sample", every=4)
    programs_us = lambda: round_trip_us(lab, "link1", size_bytes + FRAME_HEAD_BYTES, seconds, PAUSE_S)
    free_us = programs_us()
    lab.network().shape("link1", rate, BURST_BYTES)
    wires, truths = [], []
    with connection(lab) as handle:
        data = os.urandom(size_bytes)
        for _ in range(4):  # a round trip or two is sampled, and the regions' intents are on record
            medians(lab, handle, data, 4)
        for _ in range(ROUNDS):
            truths.append(programs_us() - free_us)
            wires.append(medians(lab, handle, data, writes)["wire"] * 1e6)
    theory = theory_us(size_bytes, bits_per_s)
    print(f"wire {wires}, two programs wait {truths} longer, theory {theory} us")
    assert median(truths) >= 0.9 * theory, "a link that is quicker than it can be"
    return median(wires), median(truths)


@pytest.mark.slow
def test_a_long_write_takes_its_serialisation(make_lab):
    """On a link so slow that what a busy machine adds does not show."""
    wire_us, truth_us = compare(make_lab, 256 * KIB, "5mbit", 5e6, 6, 2)
    assert abs(wire_us - truth_us) <= 0.1 * truth_us


@pytest.mark.idle
@pytest.mark.parametrize("size_bytes", [16 * KIB, 64 * KIB, 256 * KIB, MIB])
def test_a_write_takes_what_a_fast_link_takes_of_anybody(make_lab, size_bytes):
    wire_us, truth_us = compare(make_lab, size_bytes, "1gbit", 1e9, 60, 2)
    assert abs(wire_us - truth_us) <= max(0.1 * truth_us, SCATTER_US)


@pytest.mark.slow
def test_a_full_link_shows_up_as_the_wire(make_lab):
    """A write's time lies in the socket, behind others: half of it would go with twice the rate. The link
    is so slow that what a busy machine adds does not show; and there is so much under way that it is known
    as full, also where a busy machine lets no round trip take less than a millisecond."""
    lab = make_lab(host_namespaces=True, size="64MiB", peer_timeout="20s",
                   settings={"link_timeout": "5s"})
    lab.ctl("alpha", "sample", every=4)
    lab.network().shape("link1", "20mbit")
    data = os.urandom(128 * KIB)

    def write(first, count):
        with connection(lab) as handle:
            for number in range(count):
                handle.pwrite(data, (first + number % 2) * len(data))

    def times(count):
        """Of all writes so far, in ns, by stage, when each writer has written so many more."""
        writers = [threading.Thread(target=write, args=(2 * number, count)) for number in range(24)]
        for each in writers:
            each.start()
        for each in writers:
            each.join()
        [large] = [each for each in lab.ctl("alpha", "latency")["classes"]
                   if each["class"] == "larger"]
        return {"total": large["total"]["sum_ns"]} | {
            stage: times["sum_ns"] for stage, times in large["stages"].items()}

    before = times(2)  # what the link carries is learnt
    after = times(6)
    total = after["total"] - before["total"]
    shares = {stage: (after[stage] - before[stage]) / total for stage in ("wire", "link-queue", "stack")}
    # Were the queue the software's, a small part would be the wire's, and its round trips.
    assert shares["link-queue"] > 0.5 and shares["link-queue"] + shares["wire"] > 0.6, shares
    assert shares["wire"] > 2 * shares["stack"], shares
    assert "as writes wait for each other" in " ".join(ctl(lab, "alpha", "latency").stdout.split())
