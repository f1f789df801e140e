"""Where the time of writes goes: a delay shows up in the stage where it happens, and nowhere else."""

import ctypes
import os
import threading
import time
from contextlib import contextmanager

import pytest

from faulty_disk import FaultyDisk
from relay import Relay, lab_over
from support import KIB, connection

DELAY_S = 0.05
WRITES = 24
STAGES = ["prepare", "compression", "queue", "intent", "send", "wire", "stack", "peer-queue",
          "peer-disk", "local-disk", "completion"]


def latency(lab, name="alpha"):
    return lab.ctl(name, "latency")


def sums(lab):
    """How many writes there were, and the ns that they took in all, by stage."""
    classes = latency(lab)["classes"]
    total = {stage: sum(each["stages"][stage]["sum_ns"] for each in classes) for stage in STAGES}
    for each in classes:
        assert list(sorted(each["stages"])) == sorted(STAGES)
        assert sum(s["sum_ns"] for s in each["stages"].values()) == each["total"]["sum_ns"]
    return sum(each["writes"] for each in classes), total


def mean_s(lab, handle):
    """The mean time in each stage of some writes, each alone."""
    data = os.urandom(4 * KIB)
    count_before, before = sums(lab)
    for number in range(WRITES):
        handle.pwrite(data, number * 4 * KIB)
        time.sleep(0.002)
    count, after = sums(lab)
    assert count - count_before == WRITES
    return {stage: (after[stage] - before[stage]) / 1e9 / WRITES for stage in STAGES}


def shows_up(before, after, stage, delay_s=DELAY_S):
    more = {each: after[each] - before[each] for each in STAGES}
    print(stage, more)
    return more[stage] >= 0.9 * delay_s and all(
        more[each] <= 0.05 * delay_s for each in STAGES if each != stage)


def assert_shows_up(measure):
    """Of some measurements: a busy machine adds delays of its own, anywhere."""
    assert any(measure() for _ in range(5))


def settle(lab, handle):
    """Intents are on record, and some round trips were sampled."""
    lab.ctl("alpha", "sample", every=2)
    mean_s(lab, handle)


@pytest.mark.parametrize("name, stage", [("alpha", "local-disk"), ("beta", "peer-disk")])
def test_a_slow_disk_shows_up_as_that_disk(scratch, make_lab, name, stage):
    disk = FaultyDisk(scratch, make_lab, name)
    with connection(disk.lab) as handle:
        settle(disk.lab, handle)

        def measure():
            before = mean_s(disk.lab, handle)
            disk.begin_delay(DELAY_S)
            after = mean_s(disk.lab, handle)
            disk.end()
            return shows_up(before, after, stage)

        assert_shows_up(measure)


class SlowWire(Relay):
    delay_s = 0

    def passed(self, data, _stream):
        time.sleep(self.delay_s)
        return data, False


def test_a_slow_wire_shows_up_as_the_wire(make_lab):
    with lab_over(SlowWire, make_lab, peer_timeout="20s") as (lab, wires):
        with connection(lab) as handle:
            settle(lab, handle)

            def measure():
                before = mean_s(lab, handle)
                for wire in wires:
                    wire.delay_s = DELAY_S / 2
                # When answers come in company, the one before tells what the way takes: it has to
                # know of the delay.
                for _ in range(4):
                    handle.pwrite(bytes(KIB), 0)
                after = mean_s(lab, handle)
                for wire in wires:
                    wire.delay_s = 0
                # Heartbeats wait in the relay, too, and others behind them.
                return shows_up(before, after, "wire", max(DELAY_S, after["wire"] - before["wire"]))

            assert_shows_up(measure)


@contextmanager
def loop_stopped(pid):
    """Stops the threads that run a node's loop, by turns, and no others."""
    libc = ctypes.CDLL(None, use_errno=True)
    seize, interrupt, detach = 0x4206, 0x4207, 17
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    wait_all = 0x40000000  # __WALL
    threads = []
    for thread in map(int, os.listdir(f"/proc/{pid}/task")):
        with open(f"/proc/{pid}/task/{thread}/comm", encoding="ascii") as comm:
            if comm.read().strip() in ("twinblock-loop", "tb-standby"):
                threads.append(thread)
    assert len(threads) == 2
    for thread in threads:
        for request in (seize, interrupt):
            if libc.ptrace(request, thread, None, None) != 0:
                raise OSError(ctypes.get_errno(), "ptrace")
        os.waitpid(thread, wait_all)
    try:
        yield
    finally:
        for thread in threads:
            libc.ptrace(detach, thread, None, None)


def node_pid(lab, name):
    return lab.ctl(name, "status")["pid"]


def test_a_loop_that_stands_still_shows_up_as_queueing(make_lab):
    lab = make_lab()
    with connection(lab) as handle:
        settle(lab, handle)
        assert_shows_up(lambda: stand_still(lab, handle))


def stand_still(lab, handle):
    before = mean_s(lab, handle)
    count, sum_before = sums(lab)
    data = os.urandom(4 * KIB)
    # Stopped for a while around each write; ptrace is a thread's own business.
    delay_s = 0.15  # shorter than what makes a link suspicious
    for number in range(3):
        began, done = threading.Event(), threading.Event()

        def write():
            began.set()
            handle.pwrite(data, number * 4 * KIB)
            done.set()

        with loop_stopped(node_pid(lab, "alpha")):
            writer = threading.Thread(target=write)
            writer.start()
            began.wait()
            time.sleep(delay_s)
            assert not done.is_set(), "nobody stood still"
        writer.join()
    count_after, after = sums(lab)
    assert count_after - count == 3
    means = {each: (after[each] - sum_before[each]) / 1e9 / 3 for each in STAGES}
    return shows_up(before, means, "queue", delay_s)


def test_the_kernels_tell_what_is_wire(make_lab):
    """Every sampled write is in the figures of its link; none without sampling."""
    lab = make_lab()
    lab.ctl("alpha", "sample", every=1)
    with connection(lab) as handle:
        data = os.urandom(16 * KIB)
        for number in range(100):
            handle.pwrite(data, number * 16 * KIB)
            time.sleep(0.002)
        time.sleep(0.2)  # TCP's own acknowledgement of the last one
        sampled = latency(lab)
        link = sampled["links"][0]
        assert link["samples"] >= 90, link
        for part in ("wire", "send-stack", "peer-receive", "peer-send", "receive"):
            assert 0 < link["parts"][part]["p50_ns"] < 50_000_000, (part, link)
        lab.ctl("alpha", "sample", every=0)
        for number in range(50):
            handle.pwrite(data, number * 16 * KIB)
        time.sleep(0.2)
        assert latency(lab)["links"][0]["samples"] <= link["samples"] + 1
    sizes = {each["class"]: each["writes"] for each in sampled["classes"]}
    assert sizes == {"16K": 100}
