"""Direct I/O (backing_io): clients may write any bytes, the kernel takes whole blocks; nothing is lost
by a process that is killed, and nothing of a node's disk stays in its host's memory."""

import errno
import random

import nbd
import pytest

from faulty_disk import FaultyDisk
from support import KIB, MIB, assert_identical, connection

WINDOW = 256 * KIB


def write_odd_places(handle, expected, dice, count):
    """Parts of blocks, side by side and over each other."""
    for _ in range(count):
        length = dice.choice((1, 100, 511, 512, 4096, 5000, 70000))
        offset = dice.randrange(WINDOW - length)
        data = dice.randbytes(length)
        handle.pwrite(data, offset, nbd.CMD_FLAG_FUA if dice.random() < 0.1 else 0)
        expected[offset:offset + length] = data
        if dice.random() < 0.1:
            handle.zero(length, offset)
            expected[offset:offset + length] = bytes(length)


@pytest.mark.sanitize
@pytest.mark.parametrize("engine", ["io_uring", "threads"])
def test_odd_writes_survive_a_killed_primary_and_are_the_same_on_both(make_lab, engine):
    lab = make_lab(backing_io="direct", env={name: {"TWINBLOCK_DISK": engine}
                                             for name in ("alpha", "beta")})
    for name in ("alpha", "beta"):
        disk = lab.status(name)["disk"]
        assert (disk["io"], disk["engine"]) == ("direct", engine)
    expected, dice = bytearray(WINDOW), random.Random(5)
    for _ in range(3):
        with connection(lab) as handle:
            write_odd_places(handle, expected, dice, 100)
            assert handle.pread(WINDOW, 0) == expected
            lab.kill("alpha")
        lab.start("alpha")
        lab.wait_state("alpha", "duplex", 20)
        with connection(lab) as handle:
            assert handle.pread(WINDOW, 0) == expected
    assert_identical(lab)


@pytest.mark.sanitize
def test_one_node_may_be_direct_and_the_other_not(make_lab):
    lab = make_lab(start=False, backing_io="direct")
    text = (lab.dir / "r0.toml").read_text(encoding="utf-8")
    lab.set_node_config("beta", text.replace('"direct"', '"buffered"'))
    lab.up()
    assert lab.status("beta")["disk"]["io"] == "buffered"
    expected = bytearray(WINDOW)
    with connection(lab) as handle:
        write_odd_places(handle, expected, random.Random(6), 100)
        assert handle.pread(WINDOW, 0) == expected
    assert not lab.status("alpha")["status"].count("differ")
    assert_identical(lab)


@pytest.mark.sanitize
def test_a_failed_flush_is_as_final_as_ever(make_lab, scratch):
    disk = FaultyDisk(scratch, make_lab, "alpha", backing_io="direct")
    lab = disk.lab
    with connection(lab) as handle:
        handle.pwrite(b"\x16" * MIB, MIB)
        disk.begin(errno.EIO, only="flushes")
        handle.flush()
        lab.wait_state("beta", "diskless", 10)
        disk.end()
        handle.pwrite(b"\x17" * MIB, MIB)
        handle.flush()
        assert handle.pread(MIB, MIB) == b"\x17" * MIB
        assert lab.status("alpha")["data"] == "failed"
