"""Where the time of writes goes: a delay shows up in the stage where it happens, and nowhere else."""

import ctypes
import os
import threading
import time
from contextlib import contextmanager
from statistics import median

import pytest

from faulty_disk import FaultyDisk
from latency_support import STAGES, medians, write_alone
from relay import Relay, lab_over
from support import KIB, connection, ctl, wait_until

# Much longer than what a busy machine adds to the median of some writes.
DELAY_S = 0.2
WIRE_DELAY_S = 0.05  # in all; less each way than there is between two heartbeats
WRITES = 7
ROUNDS = 3


def latency(lab, name="alpha"):
    return lab.ctl(name, "latency")


def some(lab, handle):
    return medians(lab, handle, os.urandom(4 * KIB), WRITES)


def assert_shows_up(stage, rounds):
    """`rounds`: what writes took in each stage, (without the delay, with it, the delay), measured one
    after the other. The delay is in its stage; the others have no more of it than rounds without any
    delay differ among themselves."""
    share = {each: median((after[each] - before[each]) / delay_s for before, after, delay_s in rounds)
             for each in STAGES}
    scatter = {each: max(before[each] for before, _, _ in rounds) -
               min(before[each] for before, _, _ in rounds) for each in STAGES}
    print(stage, share, scatter)
    assert share[stage] >= 0.85, share
    delay_s = median(delay_s for _, _, delay_s in rounds)
    for each in STAGES:
        if each != stage:
            assert share[each] * delay_s <= 0.1 * delay_s + scatter[each], (each, share, scatter)


def settle(lab, handle):
    """Intents are on record, and some round trips were sampled."""
    lab.ctl("alpha", "sample", every=2)
    some(lab, handle)
    some(lab, handle)


@pytest.mark.parametrize("name, stage", [("alpha", "local-disk"), ("beta", "peer-disk")])
def test_a_slow_disk_shows_up_as_that_disk(scratch, make_lab, name, stage):
    disk = FaultyDisk(scratch, make_lab, name)
    with connection(disk.lab) as handle:
        settle(disk.lab, handle)
        rounds = []
        for _ in range(ROUNDS):
            before = some(disk.lab, handle)
            disk.begin_delay(DELAY_S)
            rounds.append((before, some(disk.lab, handle), DELAY_S))
            disk.end()
    assert_shows_up(stage, rounds)


def test_a_slow_wire_shows_up_as_the_wire(make_lab):
    with lab_over(Relay, make_lab, peer_timeout="60s", link_timeout="20s") as (lab, wires):
        with connection(lab) as handle:
            settle(lab, handle)
            rounds = []
            for _ in range(ROUNDS):
                before = some(lab, handle)
                for wire in wires:
                    wire.delay_s = WIRE_DELAY_S / 2
                # When answers come in company, the one before tells what the way takes: it has to
                # know of the delay.
                for _ in range(4):
                    handle.pwrite(bytes(KIB), 0)
                after = some(lab, handle)
                for wire in wires:
                    wire.delay_s = 0
                for _ in range(4):
                    handle.pwrite(bytes(KIB), 0)
                rounds.append((before, after, max(WIRE_DELAY_S, after["wire"] - before["wire"])))
    assert_shows_up("wire", rounds)


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
    # Nobody else minds that it stands still.
    lab = make_lab(peer_timeout="60s", settings={"link_timeout": "20s"})
    with connection(lab) as handle:
        settle(lab, handle)
        assert_shows_up("queue", [stand_still(lab, handle) for _ in range(ROUNDS)])


def stand_still(lab, handle):
    """Stopped for a while in a write; ptrace is a thread's own business."""
    before = some(lab, handle)
    data = os.urandom(4 * KIB)
    began, done = threading.Event(), threading.Event()
    stopped = []

    def write():
        stopped.append(time.monotonic())
        began.set()
        handle.pwrite(data, 0)
        done.set()

    def write_while_it_stands():
        with loop_stopped(node_pid(lab, "alpha")):
            writer = threading.Thread(target=write)
            writer.start()
            began.wait()
            time.sleep(DELAY_S)
            assert not done.is_set(), "nobody stood still"
            stopped.append(time.monotonic())
        writer.join()

    after = write_alone(lab, write_while_it_stands)
    return before, after, stopped[1] - stopped[0]


def write_until_sampled(lab, handle, data, least, share):
    """So many writes at least, until that share of them is in the link's figures; how many there were. A sample that is
    not whole when the next write begins is lost. A machine that is so late catches up: what is written in the wait
    comes at a slower pace."""
    written = 0

    def write():
        nonlocal written
        handle.pwrite(data, written % least * len(data))
        written += 1
        time.sleep(0.002)

    def enough():
        write()
        return latency(lab)["links"][0]["samples"] >= share * written

    for _ in range(least - 1):
        write()
    wait_until(enough, what="samples")
    return written


def test_the_kernels_tell_what_is_wire(make_lab):
    """Every sampled write is in the figures of its link; none without sampling."""
    lab = make_lab()
    lab.ctl("alpha", "sample", every=1)
    with connection(lab) as handle:
        data = os.urandom(16 * KIB)
        written = write_until_sampled(lab, handle, data, 100, 0.9)
        sampled = latency(lab)
        link = sampled["links"][0]
        longest_ns = sampled["classes"][0]["total"]["max_ns"]
        for part in ("wire", "send-stack", "peer-receive", "peer-send", "receive"):
            assert 0 < link["parts"][part]["p50_ns"] <= longest_ns, (part, link)
        lab.ctl("alpha", "sample", every=0)
        for number in range(50):
            handle.pwrite(data, number * 16 * KIB)
        time.sleep(0.2)
        assert latency(lab)["links"][0]["samples"] <= link["samples"] + 1  # the last one's may have come meanwhile
    sizes = {each["class"]: each["writes"] for each in sampled["classes"]}
    assert sizes == {"16K": written}


def test_the_preparation_of_a_write_is_a_part_of_what_it_takes(lab):
    """No processor compresses ten bytes in a nanosecond."""
    writes, size = 8, 1024 * KIB
    assert ctl(lab, "alpha", "compression", "on").returncode == 0
    with connection(lab) as handle:
        for number in range(writes):
            handle.pwrite(os.urandom(size // 2).hex().encode(), number * size)
    [large] = [each for each in latency(lab)["classes"] if each["class"] == "larger"]
    assert large["stages"]["compression"]["sum_ns"] > writes * size / 10


def test_a_write_that_is_alone_on_the_link_counts_as_that(lab):
    lab.ctl("alpha", "sample", every=1)
    with connection(lab) as handle:
        write_until_sampled(lab, handle, os.urandom(16 * KIB), 40, 0.5)
        # On a busy machine a heartbeat waits beside some of them.
        assert latency(lab)["links"][0]["alone_share"] > 0.5
