"""What a client may see of a request that is in flight: nothing, as a crash could still undo it.
The peer is suspended, so that what the primary has done already is not acknowledged."""

import errno
import random

import nbd
import pytest

from faulty_disk import FaultyDisk
from support import KIB, MIB, connection, wait_until

PATIENT = {"peer_timeout": "60s"}  # the suspended peer is not given up


def begin(call, *arguments, **options):
    """An asynchronous request, and a list that has its error number once it is answered."""
    answer = []

    def done(error):
        answer.append(error.value)
        return 1

    call(*arguments, completion=done, **options)
    return answer


def extents(handle, length):
    """(length, is a hole) of each extent from 0 on."""
    found = []

    def note(_context, _offset, entries, _error):
        found.extend((entries[at], bool(entries[at + 1] & nbd.STATE_HOLE))
                     for at in range(0, len(entries), 2))

    handle.block_status(length, 0, note)
    return found


def pump(*handles):
    for handle in handles:
        while handle.aio_in_flight() and handle.poll(0) > 0:
            pass


def pump_until(condition, *handles, what):
    def holds():
        pump(*handles)
        return condition()

    wait_until(holds, what=what)


class Suspended:
    """Both nodes, connected to by two clients, with beta suspended; `data` is what is at 0."""

    def __init__(self, lab, one, two):
        self.lab, self.one, self.two = lab, one, two
        self.data = random.randbytes(MIB)
        one.pwrite(self.data, 0)
        one.pwrite(self.data, 8 * MIB)
        one.flush()
        lab.pause("beta")

    def local_zeroes(self):
        """The primary's own replica is zeroed already."""
        with open(self.lab.node("alpha")["backing"], "rb") as image:
            return image.read(MIB) == bytes(MIB)

    def resume(self, *answers):
        self.lab.resume("beta")

        def answered():
            pump(self.one, self.two)
            return all(answers)
        wait_until(answered, 60, "answers after the peer went on")
        assert all(answer == [0] for answer in answers)


@pytest.fixture
def suspended(make_lab):
    lab = make_lab(**PATIENT)
    with connection(lab) as one, connection(lab) as two:
        state = Suspended(lab, one, two)
        try:
            yield state
        finally:
            lab.resume("beta")


@pytest.mark.parametrize("verb", ["trim", "zero"])
def test_zeroes_in_flight_are_not_read(suspended, verb):
    one, two = suspended.one, suspended.two
    if verb == "trim":
        zeroes = begin(one.aio_trim, MIB, 0)
    else:
        zeroes = begin(one.aio_zero, MIB, 0, flags=nbd.CMD_FLAG_NO_HOLE)
    wait_until(suspended.local_zeroes, 30, "zeroes on the primary's own replica")
    buffer = nbd.Buffer(4 * KIB)
    read = begin(two.aio_pread, buffer, 512 * KIB)
    # Reads of other places are answered meanwhile: this one is not just slow.
    for _ in range(20):
        assert one.pread(4 * KIB, 8 * MIB) == suspended.data[:4 * KIB]
        assert two.pread(4 * KIB, 8 * MIB) == suspended.data[:4 * KIB]
        pump(two)
    assert not zeroes and not read
    suspended.resume(zeroes, read)
    assert buffer.to_bytearray() == bytes(4 * KIB)


def test_a_hole_that_a_trim_in_flight_makes_is_data(suspended):
    one, two = suspended.one, suspended.two
    trim = begin(one.aio_trim, MIB, 0)
    wait_until(suspended.local_zeroes, 30, "a hole in the primary's own replica")
    assert not any(hole for _, hole in extents(two, MIB))
    pump(one)
    assert not trim
    suspended.resume(trim)
    assert extents(two, MIB) == [(MIB, True)]


def test_a_read_is_not_torn_by_a_write_that_came_and_went(scratch, make_lab):
    """It finds nothing in flight, neither before nor after it has read."""
    disk = FaultyDisk(scratch, make_lab, "alpha")
    old, new = random.randbytes(4 * KIB), random.randbytes(4 * KIB)
    buffer = nbd.Buffer(4 * KIB)
    with connection(disk.lab) as one, connection(disk.lab) as two:
        one.pwrite(old, 0)
        disk.begin_halfway()
        read = begin(two.aio_pread, buffer, 0)

        pump_until(disk.is_halfway, two, what="half of the read")
        one.pwrite(new, 0)
        assert not read
        disk.end()

        pump_until(lambda: read, two, what="the read's answer")
        assert read == [0]
    assert bytes(buffer.to_bytearray()) in (old, new)


def test_a_read_that_waited_for_an_equal_one_in_vain_is_not_torn(scratch, make_lab):
    """The other one, of an equal block at another place, hangs: it reads by itself after all, beside a write."""
    disk = FaultyDisk(scratch, make_lab, "alpha", cache="16MiB")
    old, new = random.randbytes(4 * KIB), random.randbytes(4 * KIB)
    places = (0, MIB)
    buffers = [nbd.Buffer(4 * KIB) for _ in places]
    with connection(disk.lab) as one, connection(disk.lab) as two:
        for place in places:
            one.pwrite(old, place)
        disk.begin_halfway()
        # Whichever comes first is waited for.
        reads = [begin(two.aio_pread, buffer, place) for buffer, place in zip(buffers, places)]
        pump_until(lambda: disk.is_halfway(len(reads)), two, what="half of both reads")
        for place in places:
            one.pwrite(new, place)
        assert reads == [[], []]
        disk.end()
        pump_until(lambda: all(reads), two, what="answers of both reads")
        assert reads == [[0], [0]]
    for buffer in buffers:
        assert bytes(buffer.to_bytearray()) in (old, new)


def test_a_hole_of_a_disk_that_is_given_up_meanwhile_is_data(scratch, make_lab):
    """What was written there since is at the peer, and the disk knows nothing of it."""
    disk = FaultyDisk(scratch, make_lab, "alpha")
    found = []
    with connection(disk.lab) as one, connection(disk.lab) as two:
        one.pwrite(random.randbytes(MIB), 0)
        assert extents(one, 16 * MIB)[-1][1], "the disk tells its holes"
        disk.begin_seek()
        asked = begin(two.aio_block_status, MIB, 8 * MIB,
                      lambda _context, _offset, entries, _error: found.extend(entries[1::2]))
        pump_until(disk.is_halfway, two, what="the disk's answer")
        disk.begin(errno.EIO, only_writes=True)
        one.pwrite(random.randbytes(MIB), 8 * MIB)
        disk.lab.wait_state("alpha", "diskless")
        assert not asked
        disk.end()
        pump_until(lambda: asked, two, what="the extents")
        assert asked == [0]
    assert found == [0]
