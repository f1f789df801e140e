"""Links with a long way: what their writes wait for is told as what it is."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from latency_support import STAGES, sums
from relay import Relay, lab_over
from support import KIB, connection

WRITERS, WRITE_BYTES = 16, 128 * KIB


class LongWire(Relay):
    delay_s = 0.1


class SlowWire(Relay):
    delay_s, bytes_per_s = 0.01, 10e6


def shares(lab, count):
    """Of the time of some writes of several clients at once: which stage takes which part."""
    def write(first):
        with connection(lab) as handle:
            for number in range(count):
                handle.pwrite(os.urandom(WRITE_BYTES), (first + number % 2) * WRITE_BYTES)

    _, before = sums(lab)
    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(write, range(0, 2 * WRITERS, 2)))
    _, after = sums(lab)
    total = sum(after.values()) - sum(before.values())
    return {stage: (after[stage] - before[stage]) / total for stage in STAGES}


@pytest.mark.slow
def test_the_way_of_a_far_link_is_no_queue(make_lab):
    """It is so long that what a busy machine adds does not show. What is ahead of a write would take as long over
    a link of the rate that is in the file, were it not on the way already."""
    with lab_over(LongWire, make_lab, rate="100Mbit", peer_timeout="20s", link_timeout="5s") as (lab, _):
        shares(lab, 2)
        for _ in range(3):  # a node that stands still makes a queue: it does not each time
            found = shares(lab, 6)
            if found["link-queue"] < 0.2 and found["wire"] > 0.6:
                break
        assert found["link-queue"] < 0.2 and found["wire"] > 0.6, found


@pytest.mark.slow
def test_a_far_link_that_is_full_is_known_as_full(make_lab):
    """A fast link of this length would hold all that is sent. Nobody says how fast this one is: it is seen."""
    with lab_over(SlowWire, make_lab, peer_timeout="20s", link_timeout="5s") as (lab, _):
        shares(lab, 2)
        found = shares(lab, 6)
        # 2 MiB are under way: nine tenths of the time they wait for each other.
        assert found["link-queue"] > 0.6, found
        [link] = lab.ctl("alpha", "latency")["links"]
        assert link["carried_bytes_per_s"] == pytest.approx(10e6, rel=0.3)
