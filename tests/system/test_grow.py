"""A volume becomes larger, on both nodes, while it is used."""

import os
import random
import shutil
import threading
import time
from pathlib import Path

import nbd
import pytest

from faulty_disk import FaultyDisk
from lablib import LabError
from support import KIB, MIB, assert_identical, connection, ctl, promote, twinblock, wait_for_log, wait_until

BEFORE = 32 * MIB
# In a row, in the test that kills nodes meanwhile.
GROWTHS = int(os.environ.get("TWINBLOCK_GROWTHS", "10"))


def enlarge(lab, size, names=("alpha", "beta"), fill=None):
    """The backings, as a file is: by a hole; or as a device is, by whatever was there."""
    for name in names:
        path = lab.node(name)["backing"]
        if fill is None:
            os.truncate(path, size)
            continue
        # A node may be waiting for the size: what is there comes with it.
        with open(path, "ab") as file:
            file.write(fill * (size - os.path.getsize(path)))


def grow(lab, name, size):
    return ctl(lab, name, "grow", str(size))


def size_of(lab, name):
    return lab.status(name)["size_bytes"]


def grown_lab(make_lab, size, **more):
    lab = make_lab(size="32MiB", **more)
    enlarge(lab, size)
    done = grow(lab, "alpha", size)
    assert done.returncode == 0, done.stdout + done.stderr
    lab.state["size"] = str(size)
    return lab


class Writer(threading.Thread):
    """Writes each block of the volume that it sees, again and again, with another number, and remembers what it
    was answered; opens the export anew each time."""

    def __init__(self, lab):
        super().__init__()
        self.lab, self.ending, self.error = lab, threading.Event(), None
        self.blocks, self.sizes = {}, []
        self.chances, self.number = random.Random(1), 0

    def run(self):
        while not self.ending.is_set() and self.error is None:
            try:
                self.write_some()
            except nbd.Error as error:
                self.failed(error)

    def write_some(self):
        with connection(self.lab) as handle:
            size = handle.get_size()
            self.sizes.append(size)
            for _ in range(64):
                block = self.chances.randrange(size // (4 * KIB))
                self.number += 1
                self.begins(block)
                handle.pwrite(self.number.to_bytes(8, "little") * 512, block * 4 * KIB)
                self.blocks[block] = self.number

    def begins(self, block):
        pass

    def failed(self, error):
        self.error = error

    def end(self):
        self.ending.set()
        self.join()
        assert self.error is None, self.error


class WriterThroughDeaths(Writer):
    """… and goes on when its node died: what was under way then may be there, or not."""

    def __init__(self, lab):
        super().__init__(lab)
        self.under_way, self.unsure = None, {}
        self.may_fail = threading.Event()  # its node is about to die, or is not primary yet

    def begins(self, block):
        self.under_way = block

    def failed(self, error):
        if not self.may_fail.is_set():
            self.error = error
        elif self.under_way is not None:
            self.unsure.setdefault(self.under_way, set()).add(self.number)
            self.under_way = None
        time.sleep(0.01)

    def check(self, handle):
        for block, number in self.blocks.items():
            found = handle.pread(4 * KIB, block * 4 * KIB)
            good = [each.to_bytes(8, "little") * 512
                    for each in {number} | {each for each in self.unsure.get(block, ()) if each > number}]
            assert found in good, (block, number, found[:8])


@pytest.mark.sanitize
@pytest.mark.parametrize("fill", [None, b"\xa5"], ids=["hole", "device"])
def test_a_volume_grows_under_load(make_lab, fill):
    lab = make_lab(size="32MiB")
    writer = Writer(lab)
    writer.start()
    try:
        for size in (40 * MIB, 40 * MIB + 4 * KIB, 96 * MIB):
            wait_until(lambda: len(writer.sizes) > 1 or writer.error, what="some writes")
            enlarge(lab, size, fill=fill)
            done = grow(lab, "alpha", size)
            assert done.returncode == 0, done.stdout + done.stderr
            assert 'size = "' in done.stdout
            assert size_of(lab, "alpha") == size_of(lab, "beta") == size
            wait_until(lambda size=size: writer.sizes[-1] == size or writer.error,
                       what="a connection that sees the new size")
            assert lab.status("alpha")["state"] == "duplex"
    finally:
        writer.end()
    with connection(lab) as handle:
        for block in range(96 * MIB // (4 * KIB)):
            number = writer.blocks.get(block, 0)
            assert handle.pread(4 * KIB, block * 4 * KIB) == number.to_bytes(8, "little") * 512, block
    lab.state["size"] = str(96 * MIB)
    assert lab.down()
    assert_identical(lab)


def test_what_can_not_be_is_refused_and_says_what_to_do(make_lab):
    lab = make_lab(size="32MiB")
    for name, words, told in (
            ("alpha", ["16MiB"], ["can't be made smaller"]),
            ("alpha", [str(BEFORE + 1)], ["4096"]),
            ("alpha", ["65TiB"], ["64 TiB"]),
            ("alpha", ["64MiB"], [lab.node("alpha")["backing"], f"truncate -s {64 * MIB}"]),
            ("beta", ["64MiB"], ["alpha is primary", "there"])):
        refused = ctl(lab, name, "grow", *words)
        assert refused.returncode == 1, refused.stdout
        for word in told:
            assert word in " ".join(refused.stderr.split()), refused.stderr
    assert ctl(lab, "alpha", "grow", "much").returncode == 2
    # The peer's backing is too small: it says so, and nothing has changed.
    enlarge(lab, 64 * MIB, names=["alpha"])
    refused = grow(lab, "alpha", 64 * MIB)
    said = " ".join(refused.stderr.split())
    assert refused.returncode == 1 and "beta refuses" in said, said
    assert lab.node("beta")["backing"] in said and "truncate" in said, said
    assert size_of(lab, "alpha") == size_of(lab, "beta") == BEFORE
    # It was a slip: what was enlarged for it may be cut back, and the disk is a good one.
    os.truncate(lab.node("alpha")["backing"], 48 * MIB)
    with connection(lab) as handle:
        handle.pwrite(b"y" * 4096, 4096)
        handle.flush()
    assert lab.status("alpha")["state"] == "duplex" and not lab.status("alpha")["disk"]["error"]
    lab.kill("beta")
    lab.wait_peer_lost("alpha")
    refused = grow(lab, "alpha", 64 * MIB)
    assert refused.returncode == 1 and "not connected" in refused.stderr, refused.stderr
    with connection(lab) as handle:
        handle.pwrite(b"x" * 4096, BEFORE - 4096)
        assert handle.get_size() == BEFORE


def test_a_backing_that_is_cut_back_after_it_has_grown_is_noticed(make_lab):
    """What was written behind the cut is gone, and a flush says that it is on both disks."""
    lab = make_lab(size="32MiB")
    enlarge(lab, 64 * MIB)
    assert grow(lab, "alpha", 64 * MIB).returncode == 0
    os.truncate(lab.node("alpha")["backing"], 48 * MIB)
    with connection(lab) as handle:
        handle.pwrite(b"z" * 4096, 4096)
        handle.flush()  # beta has it
    lab.wait_state("alpha", "diskless")


def test_a_backing_that_was_cut_off_behind_the_file_s_size_is_not_just_to_be_enlarged(make_lab):
    """An older copy was put back, say. It has room for what the configuration says, and not for the volume's data."""
    lab = make_lab(size="32MiB")
    enlarge(lab, 64 * MIB)
    assert grow(lab, "alpha", 64 * MIB).returncode == 0
    lab.stop("beta")
    os.truncate(lab.node("beta")["backing"], 48 * MIB)
    with pytest.raises(LabError):
        lab.start("beta")
    said = wait_for_log(lab, "beta", lab.node("beta")["backing"], "are needed", "move the metadata", "twinblock init r0 --join")
    assert "truncate" not in said, said


def test_a_peer_that_takes_longer_than_any_request_may_is_waited_for(scratch, make_lab):
    """What its device held is overwritten, which takes its time; nobody is promoted meanwhile, and no session is lost."""
    disk = FaultyDisk(scratch, make_lab, "beta", size="32MiB", settings={"disk_timeout": "3s"})
    lab = disk.lab
    enlarge(lab, 160 * MIB, fill=b"\xa5")
    before = lab.status("alpha")["counters"]["peer_losses"]
    disk.begin_delay(0.8)  # each of eight pieces, and the flush
    order = threading.Thread(target=grow, args=(lab, "alpha", 160 * MIB))
    order.start()
    wait_until(lambda: lab.status("beta")["growing_to_bytes"] == 160 * MIB, what="the growth at beta")
    refused = ctl(lab, "beta", "promote")
    assert refused.returncode != 0 and "the volume is just growing" in " ".join(refused.stderr.split()), refused.stderr
    order.join()
    disk.end()
    assert size_of(lab, "alpha") == size_of(lab, "beta") == 160 * MIB
    assert lab.status("alpha")["counters"]["peer_losses"] == before
    lab.state["size"] = str(160 * MIB)
    assert lab.down()
    assert_identical(lab)


def test_where_neither_is_primary_either_node_takes_the_order(make_lab):
    lab = make_lab(size="32MiB")
    assert ctl(lab, "alpha", "demote").returncode == 0
    enlarge(lab, 64 * MIB)
    lab.wait_state("beta", "connected")
    done = grow(lab, "beta", 64 * MIB)
    assert done.returncode == 0, done.stderr
    promote(lab, "beta")
    with connection(lab, "beta") as handle:
        assert handle.get_size() == 64 * MIB
        handle.pwrite(b"y" * 4096, 64 * MIB - 4096)
    again = grow(lab, "beta", 64 * MIB)
    assert again.returncode == 0 and "already" in again.stdout, again.stdout


def test_the_size_outlives_the_process_and_the_file_is_told_to_be_out_of_date(make_lab):
    lab = grown_lab(make_lab, 64 * MIB)
    with connection(lab) as handle:
        handle.pwrite(b"z" * 4096, 60 * MIB)
    assert lab.down()
    for name in ("alpha", "beta"):
        lab.start(name)
    promote(lab, "alpha")
    lab.wait_state("alpha", "duplex")
    status = lab.status("alpha")
    assert status["size_bytes"] == 64 * MIB and status["file_size_bytes"] == BEFORE
    assert 'says size = "32MiB"' in status["status"], status["status"]
    assert 'size = "64MiB"' in status["action"], status["action"]
    with connection(lab) as handle:
        assert handle.pread(4096, 60 * MIB) == b"z" * 4096
    # Its operator does so.
    assert lab.down()
    for name in ("alpha", "beta"):
        lab.set_node_config(name, lab.config_text({}, size="64MiB"))
        lab.start(name)
    promote(lab, "alpha")
    lab.wait_state("alpha", "duplex")
    assert "file" not in lab.status("alpha")["status"]


def test_a_file_that_says_more_is_told_how_to_get_it(make_lab):
    lab = make_lab(size="32MiB")
    assert lab.down()
    enlarge(lab, 64 * MIB)
    for name in ("alpha", "beta"):
        lab.set_node_config(name, lab.config_text({}, size="64MiB"))
        lab.start(name)
    promote(lab, "alpha")
    lab.wait_state("alpha", "duplex")
    status = lab.status("alpha")
    assert status["size_bytes"] == BEFORE
    assert "twinblock grow r0 64MiB" in status["action"], status["action"]
    assert grow(lab, "alpha", 64 * MIB).returncode == 0
    assert lab.status("alpha")["action"] == ""


@pytest.mark.sanitize
@pytest.mark.parametrize("behind", ["alpha", "beta"])
def test_a_node_that_missed_a_growth_grows_when_the_two_meet(make_lab, behind):
    """Its disk is put back as it was before, with its metadata."""
    lab = make_lab(size="32MiB")
    ahead = "beta" if behind == "alpha" else "alpha"
    assert lab.down()
    kept = [Path(lab.node(behind)[what]) for what in ("backing", "metadata")]
    for path in kept:
        shutil.copyfile(path, f"{path}.before")
    for name in ("alpha", "beta"):
        lab.start(name)
    promote(lab, ahead)
    lab.wait_state(ahead, "duplex")
    enlarge(lab, 64 * MIB)
    assert grow(lab, ahead, 64 * MIB).returncode == 0
    lab.kill(behind)
    lab.wait_peer_lost(ahead)
    with connection(lab, ahead) as handle:
        handle.pwrite(b"n" * MIB, 50 * MIB)
    for path in kept:
        shutil.copyfile(f"{path}.before", path)
    lab.start(behind)
    # It has not the room, and says so, on both nodes.
    wait_for_log(lab, behind, "can't grow", "truncate -s")
    enlarge(lab, 64 * MIB, names=[behind], fill=b"\xa5")
    lab.wait_state(ahead, "duplex")
    assert size_of(lab, behind) == 64 * MIB
    lab.state["size"] = str(64 * MIB)
    assert lab.down()
    assert_identical(lab)


@pytest.mark.slow
def test_nodes_that_are_killed_while_a_volume_grows_agree_on_one_size(make_lab):
    """Either, at any moment of each second growth, while somebody writes: one size, and nothing is lost."""
    lab = make_lab(size="32MiB")
    chances = random.Random(4)
    size = BEFORE
    writer = WriterThroughDeaths(lab)
    writer.start()
    try:
        for number in range(GROWTHS):
            size += 4 * MIB
            enlarge(lab, size)
            if number % 2:
                die_while_it_grows(lab, writer, chances, size)
            assert grow(lab, "alpha", size).returncode == 0
            assert size_of(lab, "alpha") == size_of(lab, "beta") == size
            wait_until(lambda: writer.sizes[-1] == size or writer.error, what="a connection that sees the new size")
            assert writer.error is None, writer.error
    finally:
        writer.end()
    with connection(lab) as handle:
        assert handle.get_size() == size
        writer.check(handle)
    lab.state["size"] = str(size)
    assert lab.down()
    assert_identical(lab)


def die_while_it_grows(lab, writer, chances, size):
    victim = chances.choice(["alpha", "beta"])
    if victim == "alpha":
        writer.may_fail.set()
    order = threading.Thread(target=grow, args=(lab, "alpha", size))
    order.start()
    threading.Event().wait(chances.random() * 0.02)
    lab.kill(victim)
    order.join()
    lab.start(victim)
    wait_until(lambda: lab.status("alpha")["peer"]["connected"], what="a session")
    promote(lab, "alpha")
    seen = len(writer.sizes)
    wait_until(lambda: len(writer.sizes) > seen or writer.error, what="a connection of the writer")
    writer.may_fail.clear()  # what failed before has been noted by then
    lab.wait_state("alpha", "duplex")
    now = size_of(lab, "alpha")
    assert now == size_of(lab, "beta") and now in (size, size - 4 * MIB)


def test_the_help_says_what_comes_first(lab):
    shown = twinblock(lab, "grow", "--help").stdout
    assert "Enlarge the backing on both hosts first" in " ".join(shown.split())
