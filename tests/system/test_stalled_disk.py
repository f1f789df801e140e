"""A primary whose own disk stands still: a write to it neither comes back nor fails. Its users and its peer are told, and the
peer can go on in its place: by a witness' consent, or when an operator has made sure that it is dead."""

import contextlib
import errno
import functools
import os
import threading

import nbd
import pytest

from faulty_disk import FaultyDisk
from ocf_agent import DEGRADED_PROMOTED, PROMOTED, SUCCESS, Agent, missing
from support import KIB, assert_identical, connection, ctl, promote, wait_until
from witness_support import entry_key

DATA = os.urandom(64 * KIB)
# By which the disk counts as standing still at the latest: ten times disk_timeout, where its device works for others.
SETTINGS = {"disk_timeout": "2s"}
FOR_EVER_S = 600
FOR_A_WHILE_S = 50


def one_line(text):
    return " ".join(text.split())


def waiting_writer(disk, begin):
    """A client of alpha whose write waits for the disk; what it was told, once it was. What it had written before is on
    both nodes."""
    told = []
    written = threading.Event()

    def write():
        with contextlib.suppress(nbd.Error), connection(disk.lab) as handle:
            handle.pwrite(DATA, 0)
            handle.flush()
            begin()
            written.set()
            try:
                handle.pwrite(bytes(len(DATA)), 1 << 20)
                told.append("done")
            except nbd.Error as error:
                told.append(error)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    written.wait()
    return thread, told


def wait_stalled(lab):
    wait_until(lambda: lab.status("alpha")["disk"]["stalled_s"] > 0, what="alpha's notice of its disk")


def test_an_operator_is_told_what_to_do(scratch, make_lab):
    disk = FaultyDisk(scratch, make_lab, "alpha", settings=SETTINGS, peer_timeout="1s")
    lab = disk.lab
    lab.wait_state("beta", "duplex")
    _, told = waiting_writer(disk, functools.partial(disk.begin_delay, FOR_EVER_S))
    wait_stalled(lab)
    wait_until(lambda: lab.status("beta")["peer"]["disk_stalled_s"] > 0, what="beta's notice of alpha's disk")
    assert lab.status("beta")["peer"]["connected"] and not told, "it may get on at any moment"
    for name in ("alpha", "beta"):
        said = one_line(ctl(lab, name, "why").stdout)
        assert "its disk has stood still for" in said, said
        assert "power alpha off or kill twinblockd there" in said, said
        assert "`twinblock promote r0 --peer-is-dead`" in said, said
    for words in ([], ["--peer-is-dead"]):
        refused = ctl(lab, "beta", "promote", *words)
        assert refused.returncode == 8, refused.stderr
        assert "its disk has stood still" in one_line(refused.stderr), refused.stderr
    lab.kill("alpha")
    promoted = ctl(lab, "beta", "promote", "--peer-is-dead")
    assert promoted.returncode == 0, promoted.stderr
    with connection(lab, "beta") as handle:
        assert handle.pread(len(DATA), 0) == DATA
    disk.end()
    lab.start("alpha")
    lab.wait_state("beta", "duplex")
    assert lab.down()
    assert_identical(lab)


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_cluster_manager_is_told_to_move_the_service(scratch, make_lab):
    disk = FaultyDisk(scratch, make_lab, "alpha", settings={**SETTINGS, "on_restart": "secondary"}, peer_timeout="1s")
    agents = [Agent(disk.lab, name, scratch) for name in ("alpha", "beta")]
    disk.lab.wait_state("beta", "duplex")
    writer, told = waiting_writer(disk, functools.partial(disk.begin_delay, FOR_A_WHILE_S))
    wait_stalled(disk.lab)
    assert [agent.monitor() for agent in agents] == [DEGRADED_PROMOTED, SUCCESS]
    assert [agent.score() for agent in agents] == [10, 10000]
    disk.end()
    writer.join()
    assert told == ["done"]
    wait_until(lambda: agents[0].monitor() == PROMOTED, what="the end of the alarm")
    assert agents[0].score() == 10000


def test_with_a_witness_the_peer_goes_on_without_a_word(scratch, make_lab):
    disk = FaultyDisk(scratch, make_lab, "alpha", settings=SETTINGS, peer_timeout="1s", witness="etcd")
    lab = disk.lab
    lab.wait_state("beta", "duplex")
    entry_key(lab)
    writer, told = waiting_writer(disk, functools.partial(disk.begin_delay, FOR_A_WHILE_S))
    wait_stalled(lab)
    disk.end()  # what has begun takes its time
    promote(lab, "beta")
    assert not told, "what waits for the disk waits on"
    assert lab.status("alpha")["disk"]["stalled_s"] > 0 and not lab.status("alpha")["peer"]["connected"]
    with connection(lab, "beta") as handle:
        assert handle.pread(len(DATA), 0) == DATA
        handle.pwrite(DATA, 2 << 20)
        handle.flush()
    writer.join()
    assert told != ["done"], "it was not on both, and beta has gone on"
    wait_until(lambda: lab.status("alpha")["role"] == "secondary", what="alpha's way to secondary")
    lab.wait_state("beta", "duplex")
    assert lab.down()
    assert_identical(lab)


def test_with_a_witness_a_disk_that_fails_in_the_end_costs_no_client_an_error(scratch, make_lab):
    disk = FaultyDisk(scratch, make_lab, "alpha", settings=SETTINGS, peer_timeout="1s", witness="etcd")
    lab = disk.lab
    lab.wait_state("beta", "duplex")
    entry_key(lab)
    writer, told = waiting_writer(disk, disk.begin_hang)
    wait_until(lambda: not lab.status("alpha")["peer"]["connected"], what="the end of the session")
    assert not told
    disk.begin(errno.EIO, only_writes=True)
    writer.join()
    assert told == ["done"], "beta was there all the time"
    lab.wait_state("alpha", "diskless")
    with connection(lab) as handle:
        assert handle.pread(len(DATA), 0) == DATA
        assert handle.pread(len(DATA), 1 << 20) == bytes(len(DATA))
        handle.pwrite(DATA, 2 << 20)
        handle.flush()
    assert ctl(lab, "alpha", "demote").returncode == 0
    promote(lab, "beta")
    lab.kill("alpha")
    disk.end()
    lab.start("alpha")
    lab.wait_state("beta", "duplex")
    with connection(lab, "beta") as handle:
        assert handle.pread(len(DATA), 2 << 20) == DATA
    assert lab.down()
    assert_identical(lab)
