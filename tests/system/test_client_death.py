"""Clients that die with requests in flight, and a stop under load: the node and its other clients
go on, or end in order."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbd
import pytest

from faulty_disk import FaultyDisk
from support import MIB, Fio, assert_identical, demote, wait_for_log, wait_until

KILLS = 25
# Asks for more than a socket holds and takes no answer: one of nbdkit's workers is stuck in
# sending, the others wait for their turn, and all learn at once that the client has died.
GREEDY = """
import fcntl, sys, termios, time, nbd
handle = nbd.NBD()
handle.connect_uri(sys.argv[1])
block = nbd.Buffer.from_bytearray(bytearray(b"g" * 65536))
buffers = [nbd.Buffer(1 << 20) for _ in range(24)]
for i, buffer in enumerate(buffers):
    handle.aio_pread(buffer, i << 20)
for i in range(int(sys.argv[2])):
    handle.aio_pwrite(block, (48 << 20) + (i << 16))
while not int.from_bytes(fcntl.ioctl(handle.aio_get_fd(), termios.FIONREAD, bytes(4)), "little"):
    time.sleep(0.01)  # until an answer has begun, of which the socket does not hold all
print("asked", flush=True)
time.sleep(3600)
"""


class GreedyClient:
    def __init__(self, lab, writes=8):
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [sys.executable, "-c", GREEDY, lab.node("alpha")["nbd"], str(writes)],
            stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"asked\n"
        time.sleep(0.05)  # until the other workers have got that far

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def workers(lab):
    """How many threads are nbdkit's own. The engine's have names, and its pools keep what a load
    made them grow to."""
    count = 0
    for task in Path(f"/proc/{lab.node('alpha')['pid']}/task").iterdir():
        try:
            count += (task / "comm").read_text().strip() == "nbdkit"
        except OSError:
            pass  # it has just ended
    return count


def steady_load(lab, scratch):
    """Another client, which must not notice; modest, and in a range of its own."""
    return Fio(lab.node("alpha")["nbd"], scratch, bs="16k", iodepth=8, offset=32 * MIB,
               size=8 * MIB, rate_iops=400, runtime=None)


@pytest.mark.sanitize
def test_clients_killed_while_they_are_answered_do_no_harm(make_lab, scratch):
    lab = make_lab(peer_timeout="30s")  # no machine is as late as that
    pid = lab.node("alpha")["pid"]
    copied = lab.status("alpha")["counters"]["resync_bytes"]  # by the initialisation
    before = workers(lab)
    load = steady_load(lab, scratch)
    try:
        for _ in range(KILLS):
            with GreedyClient(lab):
                pass
            assert lab.alive("alpha"), lab.log_tail("alpha")
            assert lab.status("alpha")["state"] == "duplex"
        load.finish()
    finally:
        load.stop()
    wait_for_log(lab, "alpha", "write data: NBD_CMD_READ: Broken pipe")
    wait_until(lambda: workers(lab) <= before, 5, "the end of the dead clients' workers")
    status = lab.status("alpha")
    assert status["pid"] == pid and status["state"] == "duplex"
    assert status["counters"]["resync_bytes"] == copied
    assert_identical(lab)


def test_writers_killed_under_load_do_no_harm(make_lab, scratch):
    lab = make_lab(peer_timeout="30s")
    pid = lab.node("alpha")["pid"]
    copied = lab.status("alpha")["counters"]["resync_bytes"]  # by the initialisation
    for _ in range(KILLS):
        fio = Fio(lab.node("alpha")["nbd"], scratch, bs="64k", iodepth=32, size=32 * MIB,
                  runtime=None, norandommap=None, fsync=100)
        writes = lab.status("alpha")["counters"]["writes"]
        wait_until(lambda: lab.status("alpha")["counters"]["writes"] > writes + 50, 10, "writes")
        fio.stop()
        assert lab.alive("alpha"), lab.log_tail("alpha")
    status = lab.status("alpha")
    assert status["pid"] == pid and status["state"] == "duplex"
    assert status["counters"]["resync_bytes"] == copied
    wait_until(lambda: lab.status("alpha")["clients"] == 0, 5, "the end of the dead clients")
    assert_identical(lab)


@pytest.mark.sanitize
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_of_a_primary_under_load_is_in_order(lab, scratch, number):
    load = Fio(lab.node("alpha")["nbd"], scratch, bs="16k", iodepth=32, size=32 * MIB, runtime=None,
               norandommap=None, fsync=100)
    wait_until(lambda: lab.status("alpha")["counters"]["writes"] > 100, 10, "some writes")
    process = lab.process("alpha")
    process.signal(number)
    wait_until(lambda: not process.alive(), 8, "the end under load")
    load.stop()
    assert process.exit_code == 0
    assert "demoted to secondary" in lab.log_text("alpha")
    lab.wait_peer_lost("beta")
    assert_identical(lab)


@pytest.mark.sanitize
def test_stop_does_not_wait_for_a_client_that_takes_no_answers(lab):
    process = lab.process("alpha")
    with GreedyClient(lab, writes=0):
        process.signal(signal.SIGTERM)
        wait_until(lambda: not process.alive(), 15, "the end with a client that does not read")
    assert process.exit_code == 0
    assert "demoted to secondary" in lab.log_text("alpha")
    assert_identical(lab)
    # nbdkit says nothing of the clients that it ended: it was in use all the same, and who used it may come back.
    lab.start("alpha")
    lab.wait_status("alpha", lambda status: status["role"] == "primary", what="the primary that it was")


class LongHint:
    """A client that has said that it is going to read most of the volume (NBD_CMD_CACHE), with the first part of that
    under way; `end()` lets it go on. Counts what is read of the disk from then on."""

    def __init__(self, scratch, make_lab, length):
        self.calls = scratch / "calls"
        self.disk = FaultyDisk(scratch, make_lab, "alpha", up=False, size="256MiB")
        self.lab = self.disk.lab
        self.lab.set_env("alpha", DISK_FAULT_LOG=str(self.calls))
        self.lab.up()
        self.lab.wait_state("alpha", "duplex")
        self.backing = os.path.realpath(self.lab.node("alpha")["backing"])
        self.client = nbd.NBD()
        self.client.connect_uri(self.lab.node("alpha")["nbd"])
        self.disk.begin_halfway()
        self.before = self._all_reads()
        self.client.aio_cache(length, 0)
        wait_until(self.disk.is_halfway, what="the first part of it")

    def _all_reads(self):
        calls = self.calls.read_text(encoding="utf-8").splitlines()
        return sum(call.startswith("pread") and call.endswith(f" {self.backing}") for call in calls)

    def reads(self):
        return self._all_reads() - self.before

    def end(self):
        self.disk.end()


def test_a_dead_client_is_one_for_no_longer_than_its_largest_request(scratch, make_lab):
    """What it was going to read is 200 parts of 1 MiB. While they are read it counts as a client, and nobody can demote."""
    hint = LongHint(scratch, make_lab, 200 * MIB)
    hint.client = None
    hint.end()
    demote(hint.lab, "alpha")
    assert 1 <= hint.reads() <= 40


def is_stopping(lab):
    client = nbd.NBD()
    try:
        client.connect_uri(lab.node("alpha")["nbd"])
    except nbd.Error:
        return "this node is stopping" in lab.log_text("alpha")
    return False


def test_a_stop_does_not_wait_for_what_a_client_is_going_to_read(scratch, make_lab):
    hint = LongHint(scratch, make_lab, 32 * MIB)
    process = hint.lab.process("alpha")
    process.signal(signal.SIGTERM)
    wait_until(lambda: is_stopping(hint.lab), what="the node to know of it")
    hint.end()
    wait_until(lambda: not process.alive(), what="the end")
    assert process.exit_code == 0
    assert 1 <= hint.reads() <= 8
