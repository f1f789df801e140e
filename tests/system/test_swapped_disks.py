"""Disks are taken out with their metadata, others are put in, and the first ones come back: what they
missed is recognised by their record alone. And who is the source when both nodes died."""

import os
import shutil

import pytest

from support import MIB, assert_identical, connection, ctl, demote, promote, wait_for_log, wait_until

SESSION_AT = 512  # daemon/metadata/disk_format.h


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

    def copy(self):
        """What it has now, while it does not run; it goes on with that."""
        for kind in ("backing", "metadata"):
            shutil.copyfile(self.lab.node(self.name)[kind], self.folder / kind)

    def put_back(self):
        self.lab.kill(self.name)
        for kind in ("backing", "metadata"):
            os.replace(self.folder / kind, self.lab.node(self.name)[kind])


def session_in(metadata):
    """The last session that stood, by a record."""
    with open(metadata, "rb") as file:
        file.seek(SESSION_AT)
        return int.from_bytes(file.read(8), "little")


def session_on_record(lab, name):
    return session_in(lab.node(name)["metadata"])


def write(lab, offset, length=MIB):
    with connection(lab) as handle:
        handle.pwrite(os.urandom(length), offset)
        handle.flush()


def comes_back_compared_in_full(lab, shelf):
    """With beta's disks from there."""
    shelf.put_back()
    since = len(lab.log_text("alpha"))
    lab.start("beta")
    wait_for_log(lab, "alpha", "beta is sent the whole volume", since=since)
    lab.wait_state("alpha", "duplex")
    lab.wait_state("beta", "duplex")
    assert_identical(lab)


def copy_of_beta(lab, scratch):
    """Of its disks, as they are before a session."""
    write(lab, 0, 4 * MIB)
    copy = Shelf(lab, "beta", scratch / "copy")
    assert lab.stop("beta")
    copy.copy()
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    return copy


def test_a_disk_that_was_away_is_compared_in_full(lab, scratch):
    write(lab, 0, 4 * MIB)
    old = Shelf(lab, "beta", scratch / "old")
    old.take_out()
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    write(lab, 8 * MIB)  # acknowledged by alpha and the new disk
    comes_back_compared_in_full(lab, old)
    assert ctl(lab, "alpha", "verify").returncode == 0


def test_disks_that_were_put_back_from_a_copy_are_compared_in_full(lab, scratch):
    """Of the same generation, and nobody's record says what they lack."""
    copy = copy_of_beta(lab, scratch)
    lab.wait_state("beta", "duplex")
    write(lab, 8 * MIB)
    wait_until(lambda: session_on_record(lab, "beta") != session_in(copy.folder / "metadata"),
               what="the session on record")
    comes_back_compared_in_full(lab, copy)


def test_who_wrote_alone_after_it_was_put_back_has_diverged(make_lab, scratch):
    lab = make_lab(settings={"on_restart": "secondary"})
    copy = copy_of_beta(lab, scratch)
    write(lab, 8 * MIB)  # acknowledged by both
    wait_until(lambda: session_on_record(lab, "alpha") != session_in(copy.folder / "metadata"),
               what="the session on record")
    assert lab.stop("alpha")
    copy.put_back()
    lab.start("beta")
    promote(lab, "beta", "--peer-is-dead")
    with connection(lab, "beta") as handle:
        handle.pwrite(os.urandom(MIB), 0)
        handle.flush()
    lab.start("alpha")
    lab.wait_status("beta", lambda status: "split brain" in status["status"], 20, "a split brain")


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
