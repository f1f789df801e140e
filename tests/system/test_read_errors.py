"""A disk whose reads fail, while the peer answers in its stead: told, counted, and given up after a
bounded number of places."""

import errno
import json
import os
import time

import pytest

from faulty_disk import FaultyDisk
from support import KIB, MIB, assert_identical, connection, ctl

PLACES_MAX = 16


def metric(lab, name, which):
    lines = ctl(lab, name, "metrics").stdout.splitlines()
    return [float(line.split()[-1]) for line in lines if line.startswith(which)][0]


def told_disk_errors(lab, name):
    return [event for event in map(json.loads, ctl(lab, name, "events", "--json").stdout.splitlines())
            if event["event"] == "disk-error"]


@pytest.mark.sanitize
def test_primarys_reads_that_fail_are_told_and_then_its_disk_is_left(scratch, make_lab):
    disk = FaultyDisk(scratch, make_lab, "alpha")
    lab = disk.lab
    data = os.urandom(MIB)
    with connection(lab) as handle:
        handle.pwrite(data, 0)
        disk.begin(errno.EIO, only="reads")
        for _ in range(2 * PLACES_MAX):  # one place, however often
            assert handle.pread(4 * KIB, 0) == data[:4 * KIB]
        status = lab.wait_state("alpha", "degraded", 5)
        assert "1 place" in status["status"] and "alpha" in status["action"], status
        assert status["disk"]["read_errors"] >= 2 * PLACES_MAX
        assert metric(lab, "alpha", "twinblock_disk_read_errors_total") >= 2 * PLACES_MAX
        assert len(told_disk_errors(lab, "alpha")) == 1
        for place in range(PLACES_MAX):
            at = place * 8 * KIB
            assert handle.pread(4 * KIB, at) == data[at:at + 4 * KIB]
        lab.wait_state("alpha", "diskless", 5)
        disk.end()
        assert handle.pread(MIB, 0) == data
        handle.pwrite(data, MIB)
        handle.flush()
    assert lab.status("beta")["state"] == "diskless"


@pytest.mark.sanitize
def test_what_could_not_be_read_is_not_learned_by_a_cache(scratch, make_lab):
    """The peer answers for the disk; the buffer that the disk was to fill holds something else meanwhile."""
    disk = FaultyDisk(scratch, make_lab, "alpha", cache="16MiB")
    lab = disk.lab
    data = os.urandom(MIB)
    with connection(lab) as handle:
        handle.pwrite(data, 0)
        handle.pwrite(os.urandom(MIB), 8 * MIB)  # which buffers hold from now on
        disk.begin(errno.EIO, only="reads")
        for _ in range(3):
            for at in (4 * KIB, 12 * KIB, 40 * KIB):
                assert handle.pread(4 * KIB, at) == data[at:at + 4 * KIB], f"offset {at}"
        disk.end()


@pytest.mark.sanitize
def test_resync_goes_on_without_what_its_source_can_not_be_read_at(scratch, make_lab):
    """The session stays, what is written goes to both, and the resync ends when the places are written anew."""
    disk = FaultyDisk(scratch, make_lab, "alpha", peer_timeout="30s")  # no machine is as late as that
    lab = disk.lab
    with connection(lab) as handle:
        handle.pwrite(os.urandom(MIB), 0)
        handle.flush()
        lab.kill("beta")
        lab.wait_state("alpha", "simplex", 10)
        handle.pwrite(os.urandom(8 * KIB), 64 * KIB)
        disk.begin(errno.EIO, only="reads")
        lab.start("beta")
        status = lab.wait_status("alpha", lambda s: s["resync"]["unreadable_bytes"] >= 8 * KIB, 10, "bad places")
        assert "offset 65536" in status["status"] and "anew" in status["action"], status
        assert lab.status("beta")["data"] == "inconsistent"
        assert ctl(lab, "beta", "promote").returncode != 0
        losses = status["counters"]["peer_losses"]
        for place in range(30):  # it goes to both
            handle.pwrite(os.urandom(4 * KIB), MIB + place * 4 * KIB)
            time.sleep(0.5)
        status = lab.status("alpha")
        assert status["state"] == "resync" and status["counters"]["peer_losses"] == losses, status
        assert "resync-waits" in ctl(lab, "alpha", "events").stdout
        disk.end()
        handle.pwrite(os.urandom(MIB), 0)
        lab.wait_state("alpha", "duplex", 10)
        handle.flush()
    assert_identical(lab)


@pytest.mark.sanitize
def test_secondarys_reads_that_fail_are_told_there(scratch, make_lab):
    """They are asked for by a comparison only; in the end its disk counts as failed."""
    disk = FaultyDisk(scratch, make_lab, "beta")
    lab = disk.lab
    with connection(lab) as handle:
        handle.pwrite(os.urandom(MIB), 0)
        handle.flush()
        disk.begin(errno.EIO, only="reads")
        ctl(lab, "alpha", "verify")
        lab.wait_status("beta", lambda s: s["disk"]["read_errors"] > 0, 10, "read errors")
        # Not only, some places later, that the disk as a whole counts as failed.
        assert "at offset" in told_disk_errors(lab, "beta")[0]["reason"]
        lab.wait_status("beta", lambda s: s["data"] == "failed", 10, "a failed disk")
        # Though nobody writes: a primary that counted on it would leave its own disk to it.
        lab.wait_state("alpha", "simplex", 10)
        disk.end()
        handle.pwrite(os.urandom(MIB), 0)
