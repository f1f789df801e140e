"""Disks are taken out with their metadata, others are put in, and the first ones come back: what they
missed is recognised by their record alone. And who is the source when both nodes died."""

import os

import pytest

from support import MIB, assert_identical, connection, ctl, demote, promote, wait_for_log


class Shelf:
    """Where the disks of a node are laid; what it has then is blank."""

    def __init__(self, lab, name, folder):
        self.lab, self.name, self.folder = lab, name, folder
        folder.mkdir()

    def take_out(self):
        self.lab.kill(self.name)
        for kind in ("backing", "metadata"):
            os.rename(self.lab.node(self.name)[kind], self.folder / kind)
        with open(self.lab.node(self.name)["backing"], "wb") as blank:
            blank.truncate((self.folder / "backing").stat().st_size)

    def put_back(self):
        self.lab.kill(self.name)
        for kind in ("backing", "metadata"):
            os.replace(self.folder / kind, self.lab.node(self.name)[kind])


def write(lab, offset, length=MIB):
    with connection(lab) as handle:
        handle.pwrite(os.urandom(length), offset)
        handle.flush()


def test_a_disk_that_was_away_is_compared_in_full(lab, scratch):
    write(lab, 0, 4 * MIB)
    old = Shelf(lab, "beta", scratch / "old")
    old.take_out()
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    write(lab, 8 * MIB)  # acknowledged by alpha and the new disk
    old.put_back()
    since = len(lab.log_text("alpha"))
    lab.start("beta")
    wait_for_log(lab, "alpha", "beta is sent the whole volume", since=since)
    lab.wait_state("alpha", "duplex")
    lab.wait_state("beta", "duplex")
    assert_identical(lab)
    assert ctl(lab, "alpha", "verify").returncode == 0


@pytest.mark.parametrize("last", ["alpha", "beta"])
def test_after_both_died_the_last_primary_is_the_source_and_either_can_be_promoted(make_lab, last):
    lab = make_lab(settings={"on_restart": "secondary"})  # what dies stands for a host
    other = "beta" if last == "alpha" else "alpha"
    write(lab, 0)
    if last == "beta":
        demote(lab, "alpha")
        promote(lab, "beta")
        lab.wait_state("beta", "duplex")
    for name in (last, other):
        lab.kill(name)
    since = len(lab.log_text(last))
    for name in (other, last):
        lab.start(name)
    wait_for_log(lab, last, f"{other} is sent the blocks that it missed", since=since)
    waited = ctl(lab, other, "wait", "--for", "promotable", "--timeout", "60s")
    assert waited.returncode == 0, waited.stderr
    promoted = ctl(lab, other, "promote")
    assert promoted.returncode == 0, promoted.stderr
    lab.wait_state(other, "duplex")
    assert_identical(lab)
