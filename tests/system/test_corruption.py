"""A wire that flips bits or breaks off in the middle of a frame: the damage is noticed, the
connection is given up, and the replicas stay equal."""

import os
import random
import time

import pytest

from relay import Relay, lab_over
from support import MIB, Fio, assert_identical, connection, wait_until

pytestmark = pytest.mark.sanitize


class Wire(Relay):
    """Flips a bit, or breaks off, so many bytes from now on."""

    dice = None
    flip_at = None
    cut_at = None

    def passed(self, data, _stream):
        if self.flip_at is not None:
            if self.flip_at < len(data):
                data[self.flip_at] ^= 1 << self.dice.randrange(8)
                self.flip_at = None
                self.damaged += 1
            else:
                self.flip_at -= len(data)
        if self.cut_at is not None:
            if self.cut_at < len(data):
                data, self.cut_at = data[:self.cut_at], None
                self.damaged += 1
                return data, True
            self.cut_at -= len(data)
        return data, False


@pytest.fixture
def wired(make_lab):
    with lab_over(Wire, make_lab) as lab_and_wires:
        yield lab_and_wires


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flip_at", "cut_at"])
def test_damaged_frames_never_reach_the_secondarys_disk(wired, scratch, rng, kind):
    lab, wires = wired
    for wire in wires:
        wire.dice = random.Random(rng.getrandbits(32))
    fio = Fio(lab.node("alpha")["nbd"], scratch, rw="randwrite", bsrange="512-64k", iodepth=8,
              runtime=None, norandommap=None, randrepeat=0, rate="8m", fsync=100)
    for _ in range(8):
        damaged = sum(wire.damaged for wire in wires)
        for wire in wires:
            setattr(wire, kind, rng.randrange(200000))
        wait_until(lambda: sum(wire.damaged for wire in wires) > damaged,  # noqa: B023
                   what="damage")
        time.sleep(rng.uniform(0.2, 0.7))
    for wire in wires:
        setattr(wire, kind, None)
    fio.finish()
    lab.wait_state("alpha", "duplex")
    with connection(lab) as handle:
        handle.pwrite(os.urandom(MIB), 0)
        handle.flush()
    assert_identical(lab)
    said = lab.log_text("alpha") + lab.log_text("beta")
    if kind == "flip_at":
        assert "checksum" in said.lower() or "crc" in said.lower()
