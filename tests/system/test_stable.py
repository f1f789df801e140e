"""What a client is promised about stable storage and quick zeroes, looked at where it is kept: in the
calls that each node makes, since a read of the image is answered by the page cache."""

import errno
import os
import subprocess

import nbd
import pytest

from faulty_disk import HERE
from support import KIB, MIB, connection


@pytest.fixture(name="watched")
def watched_lab(scratch, make_lab):
    """A pair whose calls on files are listed, in order; the list of a node is at scratch/NAME."""
    library = scratch / "disk_fault.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library),
                    str(HERE / "disk_fault.c"), "-ldl"], check=True)
    lab = make_lab(start=False)
    for name in ("alpha", "beta"):
        lab.set_env(name, LD_PRELOAD=str(library), TWINBLOCK_DISK="threads",
                    DISK_FAULT_LOG=str(scratch / name))
    lab.up()
    lab.wait_state("alpha", "duplex", 20)
    return lab, scratch


REQUESTS = {
    "write": lambda handle, at, flags: handle.pwrite(os.urandom(16 * KIB), at, flags),
    "short write": lambda handle, at, flags: handle.pwrite(os.urandom(512), at, flags),
    "write of zeroes": lambda handle, at, flags: handle.pwrite(bytes(16 * KIB), at, flags),
    "zero": lambda handle, at, flags: handle.zero(64 * KIB, at, flags),
    "zero without a hole":
        lambda handle, at, flags: handle.zero(64 * KIB, at, flags | nbd.CMD_FLAG_NO_HOLE),
    "trim": lambda handle, at, flags: handle.trim(64 * KIB, at, flags),
}


def calls_on_backing(lab, scratch, name, since):
    """What was called on the node's backing since its list had so many bytes."""
    backing = os.path.realpath(lab.node(name)["backing"])
    text = (scratch / name).read_bytes()
    lines = text[since:].decode().splitlines()
    return [line.split()[0] for line in lines if line.endswith(f" {backing}")]


CHANGES = ("pwrite", "fallocate")


@pytest.mark.parametrize("what", REQUESTS)
def test_fua_is_followed_by_a_sync_on_both_nodes_before_the_answer(watched, what):
    lab, scratch = watched
    with connection(lab) as handle:
        # More than once: a sync of the node's own, which closes an epoch, may come at any time.
        for turn in range(5):
            handle.pwrite(os.urandom(64 * KIB), MIB * turn)
            before = {name: os.path.getsize(scratch / name) for name in ("alpha", "beta")}
            REQUESTS[what](handle, MIB * turn, nbd.CMD_FLAG_FUA)
            for name, since in before.items():
                calls = calls_on_backing(lab, scratch, name, since)
                changed = [at for at, call in enumerate(calls) if call.startswith(CHANGES)]
                assert changed, f"{what} changed nothing on {name}: {calls}"
                assert "fdatasync" in calls[changed[-1]:], f"{what} with FUA on {name}: {calls}"


def test_flush_is_a_sync_on_both_nodes_before_the_answer(watched):
    lab, scratch = watched
    with connection(lab) as handle:
        for turn in range(5):
            handle.pwrite(os.urandom(64 * KIB), MIB * turn)
            before = {name: os.path.getsize(scratch / name) for name in ("alpha", "beta")}
            handle.flush()
            for name, since in before.items():
                assert "fdatasync" in calls_on_backing(lab, scratch, name, since), name


@pytest.mark.parametrize("slow", ["alpha", "beta"])
def test_fast_zero_is_refused_where_either_disk_would_have_to_write(scratch, make_lab, slow):
    library = scratch / "no_fallocate.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library),
                    str(HERE / "no_fallocate.c")], check=True)
    lab = make_lab(start=False)
    lab.set_env(slow, LD_PRELOAD=str(library))
    lab.up()
    lab.wait_state("alpha", "duplex", 20)
    data = os.urandom(MIB)
    with connection(lab) as handle:
        assert handle.can_fast_zero()
        handle.pwrite(data, 0)
        with pytest.raises(nbd.Error) as refused:
            handle.zero(MIB, 0, nbd.CMD_FLAG_FAST_ZERO)
        assert refused.value.errnum == errno.EOPNOTSUPP
        assert handle.pread(MIB, 0) == data
        handle.zero(MIB, 0)
        assert handle.pread(MIB, 0) == bytes(MIB)
    if slow == "beta":  # without it, the primary's own disk is quick
        lab.kill("beta")
        lab.wait_state("alpha", "simplex", 60)
        with connection(lab) as handle:
            handle.pwrite(data, 0)
            handle.zero(MIB, 0, nbd.CMD_FLAG_FAST_ZERO)
            assert handle.pread(MIB, 0) == bytes(MIB)
