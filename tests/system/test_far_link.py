"""A link with a long way, whose rate is not in the file: what its writes wait for is told as what it is."""

import os
import threading

import pytest

from latency_support import STAGES, sums
from relay import Relay, lab_over
from support import KIB, connection

WRITERS, WRITE_BYTES = 16, 128 * KIB


class Wire(Relay):
    delay_s = 0.01

    def passed(self, data, stream):
        return data, False


def shares(lab, count):
    """Of the time of some writes of several clients at once: which stage takes which part."""
    def write(first):
        with connection(lab) as handle:
            for number in range(count):
                handle.pwrite(os.urandom(WRITE_BYTES), (first + number % 2) * WRITE_BYTES)

    _, before = sums(lab)
    writers = [threading.Thread(target=write, args=(2 * number,)) for number in range(WRITERS)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    _, after = sums(lab)
    total = sum(after.values()) - sum(before.values())
    return {stage: (after[stage] - before[stage]) / total for stage in STAGES}


class LongWire(Wire):
    delay_s = 0.1


@pytest.mark.slow
def test_the_way_of_a_far_link_is_no_queue(make_lab):
    """It is so long that what a busy machine adds does not show."""
    with lab_over(LongWire, make_lab, peer_timeout="20s", link_timeout="5s") as (lab, _):
        shares(lab, 2)
        found = shares(lab, 6)
        assert found["link-queue"] < 0.2 and found["wire"] > 0.6, found


@pytest.mark.slow
def test_a_far_link_that_is_full_is_known_as_full(make_lab):
    """Its way would hold all that is sent, were it a fast one; so it is not taken for one."""
    with lab_over(Wire, make_lab, peer_timeout="20s", link_timeout="5s") as (lab, relays):
        for relay in relays:
            relay.bytes_per_s = 10e6
        shares(lab, 2)
        found = shares(lab, 6)
        # 2 MiB are under way: nine tenths of the time they wait for each other.
        assert found["link-queue"] > 0.6, found
        [link] = lab.ctl("alpha", "latency")["links"]
        assert link["carried_bytes_per_s"] == pytest.approx(10e6, rel=0.3)
