"""A failing disk stays its node's affair: the client sees no error while one replica is good, and
`status` says which node, which error, and what to do."""

import errno
import os
import resource
import signal
import subprocess
from pathlib import Path

import nbd
import pytest

from faulty_disk import FaultyDisk
from support import (IS_ROOT, KIB, MIB, Fio, assert_identical, connection, ctl, demote, promote, wait_for_writes,
                     wait_until)

HERE = Path(__file__).resolve().parent
LOAD = {"rw": "randrw", "bs": "4k", "iodepth": 8, "runtime": None,
        "norandommap": None, "randrepeat": 0, "rate_iops": "1000,1000", "fsync": 200}


def words_of(status):
    return f"{status['status']} {status['action']} {status['disk']['error']} " \
           f"{status['peer']['error']}"


def assert_status_names(lab, name, node, error_number):
    text = os.strerror(error_number)
    status = lab.wait_status(name, lambda s: text in words_of(s), 10, f"the words '{text}'")
    names = [node] if node != name else ["this node", "local disk"]
    assert any(word in words_of(status).lower() for word in names), words_of(status)
    assert status["action"], "status says nothing about what to do"
    shown = " ".join(ctl(lab, name, "status").stdout.split())  # it is wrapped
    assert text in shown and node in shown and status["action"][:20] in shown


@pytest.mark.sanitize
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_error_on_the_secondarys_disk_is_not_the_clients(scratch, make_lab, error):
    disk = FaultyDisk(scratch, make_lab, "beta")
    lab = disk.lab
    fio = Fio(lab.node("alpha")["nbd"], scratch, **LOAD)
    wait_for_writes(lab, 500)
    disk.begin(error)
    lab.wait_state("alpha", "simplex")
    assert_status_names(lab, "alpha", "beta", error)
    assert_status_names(lab, "beta", "beta", error)
    wait_for_writes(lab, 500)
    fio.finish()
    assert lab.status("alpha")["disk"]["error"] == ""


@pytest.mark.sanitize
def test_repaired_secondary_is_brought_up_to_date_again(scratch, make_lab):
    disk = FaultyDisk(scratch, make_lab, "beta")
    lab = disk.lab
    with connection(lab) as handle:
        handle.pwrite(os.urandom(8 * MIB), 0)
        disk.begin(errno.EIO)
        handle.pwrite(os.urandom(MIB), MIB)
        handle.flush()
        lab.wait_state("alpha", "simplex", 5)
        disk.end()
        assert lab.stop("beta")
        lab.start("beta")
        lab.wait_state("alpha", "duplex", 20)
        handle.flush()
    assert_identical(lab)


@pytest.mark.sanitize
def test_failed_flush_on_the_secondary_is_a_failed_disk(scratch, make_lab):
    """Not retried into success: the page cache may have dropped the data meanwhile."""
    disk = FaultyDisk(scratch, make_lab, "beta")
    with connection(disk.lab) as handle:
        handle.pwrite(b"\x66" * MIB, 0)
        disk.begin(errno.EIO)
        handle.flush()
        disk.end()
        handle.flush()
        assert_status_names(disk.lab, "alpha", "beta", errno.EIO)


@pytest.mark.sanitize
def test_failed_primary_disk_is_served_from_the_peer(scratch, make_lab):
    disk = FaultyDisk(scratch, make_lab, "alpha")
    lab = disk.lab
    data = os.urandom(4 * MIB)
    with connection(lab) as handle:
        handle.pwrite(data, MIB)
        disk.begin(errno.EIO)
        assert handle.pread(len(data), MIB) == data
        handle.pwrite(data, 20 * MIB)
        assert handle.pread(len(data), 20 * MIB) == data
        handle.zero(MIB, 20 * MIB)
        assert handle.pread(MIB, 20 * MIB) == bytes(MIB)
        handle.flush()
    assert_status_names(lab, "alpha", "alpha", errno.EIO)
    for name, peer_data in (("alpha", "current"), ("beta", "failed")):
        status = lab.status(name)
        assert status["state"] == "diskless" and status["peer"]["data"] == peer_data
        assert "only good copy" in status["status"] and "demote" in status["action"]
        assert ctl(lab, name, "wait", "--for", "duplex", "--timeout", "200ms").returncode == 4
    with open(lab.node("beta")["backing"], "rb") as image:
        image.seek(20 * MIB)
        assert image.read(len(data)) == bytes(MIB) + data[MIB:]


@pytest.mark.sanitize
def test_extents_of_a_disk_that_fails_are_data(scratch, make_lab):
    """No error while the peer is good, and never a hole by guess."""
    disk = FaultyDisk(scratch, make_lab, "alpha")
    extents = []

    def ask(handle):
        extents.clear()
        handle.block_status(8 * MIB, 0, lambda _context, _offset, list_, _error:
                            extents.extend(list_))
        return list(zip(extents[::2], extents[1::2]))

    with connection(disk.lab) as handle:
        handle.pwrite(b"\x11" * MIB, 0)
        assert ask(handle)[-1][1] & nbd.STATE_HOLE
        disk.begin(errno.EIO, only_reads=True)
        assert [kind for _, kind in ask(handle)] == [0]
        disk.begin(errno.EIO)
        handle.pwrite(b"\x12" * MIB, 0)
        assert [kind for _, kind in ask(handle)] == [0]


@pytest.mark.sanitize
def test_node_with_the_only_good_copy_takes_over(scratch, make_lab):
    """As the action of a diskless volume says; also when the session was lost in between."""
    disk = FaultyDisk(scratch, make_lab, "alpha")
    lab = disk.lab
    data = os.urandom(MIB)
    with connection(lab) as handle:
        disk.begin(errno.EIO)
        handle.pwrite(data, MIB)
        assert lab.stop("beta")
        lab.wait_state("alpha", "failed", 5)
        lab.start("beta")
        lab.wait_state("alpha", "diskless", 20)
        lab.wait_state("beta", "diskless", 5)
    demote(lab, "alpha")
    promote(lab, "beta")
    status = lab.status("beta")
    assert status["state"] in ("simplex", "refused"), status
    assert "failed" in status["peer"]["data"]
    with connection(lab, "beta") as handle:
        assert handle.pread(len(data), MIB) == data
        handle.pwrite(data, 2 * MIB)
        handle.flush()
        disk.end()
        assert lab.stop("alpha")
        lab.start("alpha")
        lab.wait_state("beta", "duplex", 20)
    lab.wait_state("alpha", "duplex", 5)
    assert_identical(lab)


@pytest.mark.slow
def test_primary_disk_that_fails_under_load_is_not_the_clients_affair(scratch, make_lab):
    disk = FaultyDisk(scratch, make_lab, "alpha")
    fio = Fio(disk.lab.node("alpha")["nbd"], scratch, **LOAD)
    wait_for_writes(disk.lab, 1000)
    disk.begin(errno.EIO)
    wait_for_writes(disk.lab, 2000)
    fio.finish()
    assert disk.lab.status("beta")["state"] != "failed"


def alone_with_faulty_disk(scratch, make_lab):
    disk = FaultyDisk(scratch, make_lab, "alpha")
    disk.lab.kill("beta")
    disk.lab.wait_peer_lost("alpha")
    return disk


def test_client_gets_the_error_when_no_replica_is_left(scratch, make_lab):
    disk = alone_with_faulty_disk(scratch, make_lab)
    with connection(disk.lab) as handle:
        handle.pwrite(b"\x01" * 4096, 0)
        disk.begin(errno.EIO)
        with pytest.raises(nbd.Error):
            handle.pwrite(b"\x02" * 4096, 0)
        assert_status_names(disk.lab, "alpha", "alpha", errno.EIO)


@pytest.mark.slow
def test_full_disk_of_the_last_replica_is_forgotten_when_it_takes_writes_again(scratch, make_lab):
    disk = alone_with_faulty_disk(scratch, make_lab)
    with connection(disk.lab) as handle:
        disk.begin(errno.ENOSPC)
        with pytest.raises(nbd.Error):
            handle.pwrite(b"\x02" * 4096, 0)
        disk.end()
        for _ in range(3):
            handle.pwrite(b"\x03" * 4096, 0)
        assert_status_names(disk.lab, "alpha", "alpha", errno.ENOSPC)  # it is kept for some seconds
        status = disk.lab.wait_status("alpha", lambda s: not s["disk"]["error"], 15)
    assert status["state"] == "simplex" and "disk" not in status["status"]


def test_failed_flush_of_the_last_replica_is_not_retried_into_success(scratch, make_lab):
    disk = alone_with_faulty_disk(scratch, make_lab)
    with connection(disk.lab) as handle:
        handle.pwrite(b"\x01" * 4096, 0)
        disk.begin(errno.EIO)
        with pytest.raises(nbd.Error):
            handle.flush()
        disk.end()
        with pytest.raises(nbd.Error):
            handle.flush()


@pytest.mark.parametrize("engine", ["io_uring", "threads"])
def test_file_size_limit_on_the_primary_is_an_error_of_its_disk(make_lab, engine):
    """Also where a client's own thread writes, as a lone caller's does: SIGXFSZ would end the node again and again."""
    limit = 48 * MIB
    lab = make_lab(start=False, env={"alpha": {"TWINBLOCK_DISK": engine}})

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    lab.start("alpha", preexec_fn=limited)
    lab.start("beta")
    lab._make_primary("alpha", 30)  # pylint: disable=protected-access
    with connection(lab) as handle:
        for block in range(2000):  # it comes so often, and alone, that it runs the loop itself
            handle.pwrite(b"\x10" * 4096, block * 4096)
        for block in range(100):
            handle.pwrite(b"\x20" * 4096, limit + MIB + block * 4096)
        handle.flush()
        lab.wait_state("alpha", "diskless", 10)
        assert handle.pread(4096, limit + MIB) == b"\x20" * 4096
    assert_status_names(lab, "alpha", "alpha", errno.EFBIG)


@pytest.mark.sanitize
@pytest.mark.parametrize("engine", ["io_uring", "threads"])
def test_file_size_limit_on_the_secondary_is_reported(make_lab, engine):
    """EFBIG from RLIMIT_FSIZE: a real error of the kernel, with both disk engines."""
    limit = 48 * MIB
    lab = make_lab(start=False, env={"beta": {"TWINBLOCK_DISK": engine}})
    lab.start("alpha")

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    lab.start("beta", preexec_fn=limited, restore_signals=False)
    lab._make_primary("alpha", 30)  # pylint: disable=protected-access
    with connection(lab) as handle:
        handle.pwrite(b"\x10" * MIB, 0)
        handle.flush()
        assert lab.status("alpha")["state"] == "duplex"
        handle.pwrite(b"\x20" * MIB, limit + MIB)
        handle.flush()
    lab.wait_state("alpha", "simplex", 10)
    assert_status_names(lab, "alpha", "beta", errno.EFBIG)


@pytest.mark.sanitize
@pytest.mark.parametrize("engine", ["io_uring", "threads"])
def test_file_size_limit_on_both_nodes_costs_no_replica(make_lab, engine):
    """Two disks that fill at the same write: neither stands in for the other, and all but that write goes on."""
    limit = 48 * MIB
    lab = make_lab(start=False, env={name: {"TWINBLOCK_DISK": engine} for name in ("alpha", "beta")})

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    for name in ("alpha", "beta"):
        lab.start(name, preexec_fn=limited, restore_signals=False)
    lab._make_primary("alpha", 30)  # pylint: disable=protected-access
    with connection(lab) as handle:
        handle.pwrite(b"\x10" * MIB, 0)
        handle.flush()
        for block in range(3):
            with pytest.raises(nbd.Error):
                handle.pwrite(b"\x20" * 4096, limit + MIB + block * 4096)
            assert handle.pread(4096, 0) == b"\x10" * 4096
            handle.pwrite(bytes([0x30 + block]) * 4096, MIB)
            handle.flush()
            assert handle.pread(4096, MIB) == bytes([0x30 + block]) * 4096
        status = lab.status("alpha")
        assert status["data"] == "current" and status["state"] != "diskless", status


@pytest.mark.skipif(not IS_ROOT, reason="mounting a small tmpfs needs root")
@pytest.mark.parametrize("engine", ["io_uring", "threads"])
def test_full_disk_of_the_secondary_is_reported(scratch, make_lab, engine):
    mount = scratch / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(mount)], check=True)
    lab = None
    try:
        lab = make_lab(backing={"beta": mount / "r0.img"},
                       env={"beta": {"TWINBLOCK_DISK": engine}})
        fio = Fio(lab.node("alpha")["nbd"], scratch, rw="write", bs="64k", iodepth=4, size="64m",
                  fsync=64)
        fio.result()
        assert_status_names(lab, "alpha", "beta", errno.ENOSPC)
        lab.wait_state("alpha", "simplex", 10)
        with connection(lab) as handle:
            handle.pwrite(b"\x31" * (64 * KIB), 0)
            handle.flush()
            assert handle.pread(64 * KIB, 0) == b"\x31" * (64 * KIB)
    finally:
        if lab:
            lab.down()
        wait_until(lambda: subprocess.run(["umount", str(mount)], capture_output=True,
                                          check=False).returncode == 0, 10, "umount")
