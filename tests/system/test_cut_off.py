"""What is cut off half-way leaves nothing wrong behind: a copy by an orderly restart, a resync by a
read error, a verification by its stop, a wait by the operator's word."""

import errno
import os
import shutil
import threading

import pytest

from lablib.error import LIVENESS_S
from support import KIB, MIB, assert_identical, connection, ctl, promote, wait_until
from test_disk_errors import FaultyDisk

SLOW = str(4 * MIB)  # bytes a second


def write(lab, name, data, offset=0):
    with connection(lab, name) as handle:
        handle.pwrite(data, offset)
        handle.flush()


def settle(lab, name="alpha"):
    lab.wait_state(name, "duplex", 30)


@pytest.mark.sanitize
def test_full_copy_cut_off_by_an_orderly_restart_is_not_taken_for_the_list_before(lab):
    """alpha stops in order and keeps a list of what beta misses. Then beta is replaced, and all has
    to be copied: a restart in the middle of that must not go on with the list."""
    write(lab, "alpha", os.urandom(32 * MIB))
    lab.kill("beta")
    lab.wait_state("alpha", "simplex", 5)
    write(lab, "alpha", os.urandom(64 * KIB), 4 * MIB)
    assert lab.stop("alpha")
    lab.start("alpha")
    assert lab.status("alpha")["dirty_bytes"] == 64 * KIB
    beta = lab.node("beta")
    os.remove(beta["metadata"])
    os.truncate(beta["backing"], 0)
    os.truncate(beta["backing"], lab.status("alpha")["size_bytes"])
    assert ctl(lab, "alpha", "resync", "rate", SLOW).returncode == 0
    lab.start("beta")
    lab.wait_status("alpha", lambda s: s["resync"]["bytes_done"] > 0, 15, "a part of the copy")
    assert lab.status("alpha")["resync"]["bytes_total"] > 32 * MIB
    assert lab.stop("alpha")
    lab.start("alpha")
    lab.wait_state("alpha", "connected", 60)
    assert lab.status("beta")["data"] == "current"
    promote(lab, "alpha")
    settle(lab)
    assert_identical(lab)


@pytest.mark.sanitize
def test_range_that_a_resync_could_not_read_is_free_again(scratch, make_lab):
    """A client's write to it does not wait for ever, and mends it."""
    disk = FaultyDisk(scratch, make_lab, "alpha")
    lab = disk.lab
    write(lab, "alpha", os.urandom(8 * MIB))
    lab.kill("beta")
    lab.wait_state("alpha", "simplex", 5)
    write(lab, "alpha", os.urandom(2 * MIB), MIB)
    # Reads fail, writes do not.
    disk.begin(errno.EIO, only_reads=True)
    lab.start("beta")
    lab.wait_status("alpha", lambda s: s["resync"]["unreadable_bytes"] > 0, 20, "the failed read")
    disk.end()
    with connection(lab) as handle:
        wrote = threading.Thread(target=lambda: handle.pwrite(os.urandom(2 * MIB), MIB), daemon=True)
        wrote.start()
        wrote.join(LIVENESS_S)
        assert not wrote.is_alive(), "the write waits for a range that nobody gives back"
    settle(lab)
    assert_identical(lab)


def test_verification_can_be_stopped_and_begun_at_once_again(lab):
    pid = lab.node("alpha")["pid"]
    write(lab, "alpha", os.urandom(16 * MIB))
    for _ in range(20):
        started = ctl(lab, "alpha", "verify", "--no-wait")
        assert started.returncode in (0, 1), started.stderr
        assert ctl(lab, "alpha", "verify", "--stop").returncode == 0
    wait_until(lambda: ctl(lab, "alpha", "verify", "--no-wait").returncode == 0, 10, "its begin")
    lab.wait_status("alpha", lambda s: s["verify"]["ended"] == "complete", 30, "its end")
    assert lab.status("alpha")["verify"]["differing_bytes"] == 0
    assert lab.node("alpha")["pid"] == pid and lab.alive("alpha")


@pytest.mark.sanitize
def test_frozen_beside_a_refused_peer_goes_on_by_order(make_lab):
    """beta came back as a stranger whose data nobody gave up: it is refused, and writes wait."""
    lab = make_lab(settings={"on_peer_loss": "freeze"})
    write(lab, "alpha", os.urandom(MIB))
    assert lab.stop("beta")
    beta = lab.node("beta")
    shutil.move(beta["metadata"], beta["metadata"] + ".away")
    lab.start("beta")
    lab.wait_state("alpha", "refused", 15)
    with connection(lab) as handle:
        done = threading.Event()

        def write_and_flush():
            handle.pwrite(os.urandom(64 * KIB), 0)
            handle.flush()
            done.set()

        threading.Thread(target=write_and_flush, daemon=True).start()
        assert not done.wait(1), "a write passed although the peer is away"
        assert "continue" in lab.status("alpha")["status"]
        assert ctl(lab, "alpha", "continue").returncode == 0
        assert done.wait(LIVENESS_S), "the write still waits"
    assert ctl(lab, "beta", "init", "--join").returncode == 0
    settle(lab)
    assert_identical(lab)
