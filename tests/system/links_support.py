"""What the tests of links share: mixed load that says how long each request took, and what must hold
after links have died."""

import random
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lablib.lab import NODES
from lablib.network import unavailable
from lateness import Lateness
from registers import Load, Registers
from support import KIB, MIB, Fio, assert_identical, connection, fio_job, wait_until

LINK_TIMEOUT_S = 0.5
STALL_S = 0.2  # what the bars allow besides
SETTLED_S = 0.1  # what a fault may leave in the queues
SMALL_BYTES = 16 * MIB  # of the volume: the part with the small writes that are checked


def need_namespaces():
    reason = unavailable()
    if reason:
        pytest.skip(reason)


def links_of(lab, name="alpha"):
    """The node's own view: link name -> its object."""
    return {link["name"]: link for link in lab.ctl(name, "link", action="list")["links"]}


def states(lab, name="alpha"):
    return {link: each["state"] for link, each in links_of(lab, name).items()}


def all_up(lab, count):
    for name in NODES:
        wait_until(lambda name=name: list(states(lab, name).values()) == ["up"] * count,
                   what=f"{count} links up at {name}; they are {states(lab, name)}")


def sent_again(pid):
    """How often the kernel of this process' network has sent something again, and waited for its clock before that."""
    tables = {}
    for name in ("snmp", "netstat"):
        lines = Path(f"/proc/{pid}/net/{name}").read_text(encoding="ascii").splitlines()
        for keys, values in zip(lines[::2], lines[1::2]):
            tables |= zip(keys.split(), values.split())
    return int(tables["RetransSegs"]), int(tables["TCPTimeouts"])


class Diary(Lateness):
    """What the nodes' logs said when, and when their kernels sent something again, to be read beside a request that
    took long."""

    LOOK_S = 0.05

    def __init__(self, lab):
        self.lines = []
        self._pids = {name: lab.node(name)["pid"] for name in NODES}
        self._sent_again = {name: sent_again(pid) for name, pid in self._pids.items()}
        self._looked = time.monotonic()
        self._files = {name: open(lab.node(name)["log"], encoding="utf-8", errors="replace")
                       for name in NODES}
        for file in self._files.values():
            file.seek(0, 2)
        super().__init__()

    def ticked(self):
        for name, file in self._files.items():
            self.lines += [(time.monotonic(), name, line.strip()) for line in file.readlines()]
        if time.monotonic() < self._looked + self.LOOK_S:
            return
        self._looked = time.monotonic()
        for name, pid in self._pids.items():
            before = self._sent_again[name]
            with suppress(OSError):  # the process may have ended
                self._sent_again[name] = sent_again(pid)
            segments, timeouts = (now - then for now, then in zip(self._sent_again[name], before))
            if segments or timeouts:
                self.lines.append((self._looked, name, f"its kernel sent {segments} segments again, {timeouts} times "
                                                       "as no answer came in time"))

    def between(self, begin, end):
        return [f"{(when - begin) * 1e3:+6.0f} ms {name}: {line.rpartition(f'/{name}: ')[2]}"
                for when, name, line in self.lines if begin <= when <= end]

    def close(self):
        super().close()
        for file in self._files.values():
            file.close()


class MixedLoad:
    """Small overlapping writes, zeroes, trims and flushes by several connections, all checked against
    a model, and beside them large writes and reads, until `finish()`, which asserts that none failed.
    `registers`: those of an earlier load, which know what that has left."""

    def __init__(self, lab, scratch, rate="40m", writers=4, registers=None):
        self.lab = lab
        self.diary = Diary(lab)
        status = lab.status("alpha")
        size, clients = status["size_bytes"], status["clients"]
        self.latencies = Path(scratch) / f"large-{time.monotonic_ns()}"
        self.fio = Fio(lab.node("alpha")["nbd"], scratch, rw="randrw", rwmixwrite=70,
                       bsrange="64k-1m", iodepth=8, runtime=None,
                       norandommap=None, randrepeat=0, rate=f"{rate},{rate}",
                       write_lat_log=self.latencies, log_unix_epoch=1,
                       offset=SMALL_BYTES, size=size - SMALL_BYTES)
        wait_until(lambda: lab.status("alpha")["clients"] > clients, what="the load to begin")
        self.registers = registers or Registers(SMALL_BYTES)
        self.small = Load(lab, "alpha", self.registers, writers=writers)
        self.began = time.monotonic()
        self.faults = []  # (since, until): something was amiss on purpose
        self.small_ones = []  # requests that took long
        self.large_ones = []

    def lasts(self, seconds):
        """Whether it has not lasted for that long yet."""
        return time.monotonic() < self.began + seconds

    @contextmanager
    def fault(self):
        """What the test does to the links, until they are as they were. The time besides is the control."""
        since = time.monotonic()
        yield
        self.faults.append((since, time.monotonic() + SETTLED_S))

    def calm_longest_s(self, requests):
        """The longest that no fault touched: what one of these takes on this machine just now."""
        calm = [seconds for seconds, began in requests
                if not any(began < until and began + seconds > since
                           for since, until in self.faults)]
        return max(calm, default=0)

    def finish(self):
        """What each request took is in `small_ones` and `large_ones` then, the longest first: (seconds, began)."""
        job = self.fio.finish()
        self.small.stop()
        requests = [(each.began / 1e9, each.answered / 1e9) for each in self.registers.requests]
        self.small_ones = sorted(((end - began, began) for began, end in requests if end - began > 0.02),
                                 reverse=True)
        self.large_ones = sorted(self.large_requests(), reverse=True)
        with connection(self.lab) as handle:
            self.registers.check(lambda offset, length: handle.pread(length, offset))
        return job

    def large_requests(self):
        """fio's: (seconds, began)."""
        epoch_s = time.time() - time.monotonic()
        for line in Path(f"{self.latencies}_lat.1.log").read_text(encoding="ascii").splitlines():
            ended_ms, taken_ns = (int(word) for word in line.split(",")[:2])
            yield taken_ns / 1e9, ended_ms / 1e3 - epoch_s - taken_ns / 1e9

    def too_long(self, promised_s):
        """Of each request that took longer than was promised, besides twice what one of its kind takes without a fault,
        as one link then carries what two did; but for what the machine made of it. (A large one takes as long as a small one
        does, at the least, and there are few of them in a moment without a fault.)"""
        small_s = self.calm_longest_s(self.small_ones)
        large_s = max(small_s, self.calm_longest_s(self.large_ones))
        for requests, calm_s in ((self.small_ones, small_s), (self.large_ones, large_s)):
            for seconds, began in requests:
                allowed_s = promised_s + 2 * calm_s + self.diary.allowance_s(began, began + seconds)
                if seconds > allowed_s:
                    yield f"{seconds:.3f} s, where {allowed_s:.3f} s are allowed: {self.around(began, seconds)}"

    def check_stalls(self, promised_s):
        """There is none."""
        for said in self.too_long(promised_s):
            pytest.fail(said)

    def around(self, began, seconds):
        return self.diary.between(began - 0.7, began + seconds + 0.1)

    def print_stalls(self, what):
        longest = ", ".join(f"{seconds * 1e3:.0f}" for seconds, _ in self.small_ones[:5])
        print(f"{what}: longest small requests {longest} ms, large {self.large_ones[0][0] * 1e3:.0f} ms; without a "
              f"fault {self.calm_longest_s(self.small_ones) * 1e3:.0f} and "
              f"{self.calm_longest_s(self.large_ones) * 1e3:.0f} ms; {len(self.diary.gaps)} times without a processor, "
              f"for {self.diary.longest_s() * 1e3:.0f} ms at most")

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        """Whatever happened, nothing goes on."""
        self.diary.close()
        self.fio.stop()
        self.small.stopping.set()


def in_promised_time(run, promised_s):
    """`run` does what it does under a load, which it makes of the registers it is given, and returns. It is run anew
    where a request took too long: a busy machine may have had no time for it, and has some in one of three. What took
    too long is told at the end of the tests in any case."""
    registers = None
    for last in (False, False, True):
        load = run(registers)
        if last:
            load.check_stalls(promised_s)
        too_long = list(load.too_long(promised_s))
        for said in too_long:
            warnings.warn(said, stacklevel=2)
        if not too_long:
            return
        registers = load.registers


class Undisturbed:
    """The mirror as it was: no session lost, nothing resynced, since the object was made."""

    KEYS = ("peer_losses", "resync_bytes")

    def __init__(self, lab):
        self.lab = lab
        self.before = self._counters()

    def _counters(self):
        return {name: {key: self.lab.status(name)["counters"][key] for key in self.KEYS}
                for name in NODES}

    def check(self):
        for name in NODES:
            status = self.lab.status(name)
            assert status["state"] == "duplex", status
        assert self._counters() == self.before
        assert_identical(self.lab)


def a_moment(least_s, most_s):
    time.sleep(random.uniform(least_s, most_s))


__all__ = ["KIB", "LINK_TIMEOUT_S", "MIB", "MixedLoad", "STALL_S", "Undisturbed", "a_moment",
           "all_up", "in_promised_time", "links_of", "need_namespaces", "states"]
