"""Whether a backing holds anybody's data is seen wherever they lie on a device: nothing is overwritten without an
order, and a replica whose data lie far behind the beginning is not taken for a disk that was lost."""

import os
import re
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import (FLAG_HELD_DATA, IS_ROOT, MIB, assert_identical, attached, connection, ctl, has_on_record,
                     loop_device, promote, wait_for_log, wait_until_noted)

pytestmark = pytest.mark.skipif(not IS_ROOT, reason="loop devices need root")

SIZE = 64 * MIB
FAR = 2 * MIB  # behind the first MiB
TOO_LARGE = 48 << 40  # to be read to its end in the time of a look
NODES = ("alpha", "beta")


@contextmanager
def lab_on_device(make_lab, name, image, size=SIZE, **options):
    """The backing of that node is a device, which outlives it; the other one's is a file."""
    with loop_device(image, size) as device:
        backing = {each: device if each == name else image.parent / "file.img" for each in NODES}
        lab = make_lab(size=f"{SIZE}", peer_timeout="1s", start=False, backing=backing, **options)
        try:
            yield lab
        finally:
            assert lab.down()


@pytest.fixture(name="on_alpha")
def fixture_on_alpha(make_lab, scratch):
    """A lab in duplex, alpha primary and on a device, with data far behind the beginning, of which it has a record."""
    with lab_on_device(make_lab, "alpha", scratch / "device.img") as lab:
        lab.up()
        with connection(lab) as handle:
            handle.pwrite(os.urandom(MIB), FAR)
            handle.flush()
        wait_until_noted(lab)
        yield lab


@pytest.fixture(name="on_beta")
def fixture_on_beta(make_lab, scratch):
    """Not started yet; beta is on a device."""
    with lab_on_device(make_lab, "beta", scratch / "device.img") as lab:
        yield lab


def on_device(lab, name, data, offset):
    with open(lab.node(name)["backing"], "r+b") as device:
        device.seek(offset)
        device.write(data)
        device.flush()
        os.fsync(device.fileno())


def bytes_of_device(lab, name):
    with open(lab.node(name)["backing"], "rb") as device:
        return device.read(SIZE)


def refused(lab, name):
    return lab.wait_status(name, lambda status: status["state"] == "refused", what="a refusal")


def write_alone(lab, data, offset):
    """By alpha, without beta."""
    lab.stop("beta")
    lab.wait_peer_lost("alpha")
    with connection(lab) as handle:
        handle.pwrite(data, offset)
        handle.flush()


@pytest.mark.parametrize("offset", [FAR, 37 * MIB + 512, SIZE - 512])
def test_data_anywhere_on_a_device_are_not_overwritten_without_an_order(on_beta, offset):
    lab = on_beta
    theirs = os.urandom(512)
    on_device(lab, "beta", theirs, offset)
    before = bytes_of_device(lab, "beta")
    lab.up(init=False)
    assert ctl(lab, "alpha", "init").returncode == 0
    status = refused(lab, "beta")
    assert "its backing, which holds data" in status["status"] and "init r0 --join" in status["action"]
    begun = ctl(lab, "beta", "init")
    assert begun.returncode == 1 and "is initialised already" in begun.stderr, "there would be two volumes"
    assert lab.status("beta")["data"] == "blank"
    promote(lab, "alpha")
    with connection(lab) as handle:
        handle.pwrite(os.urandom(MIB), 0)
        handle.flush()
    refused(lab, "beta")
    assert bytes_of_device(lab, "beta") == before
    assert ctl(lab, "beta", "init", "--join").returncode == 0
    lab.wait_state("alpha", "duplex")
    assert_identical(lab)


def test_an_order_to_join_is_for_the_volume_that_the_peer_held_then(on_beta):
    """It names what the data are given up for: another volume, begun at the peer meanwhile, overwrites nothing."""
    lab = on_beta
    on_device(lab, "beta", os.urandom(512), FAR)
    lab.up(init=False)
    assert ctl(lab, "alpha", "init").returncode == 0
    refused(lab, "beta")
    assert lab.stop("alpha")
    before = bytes_of_device(lab, "beta")
    assert ctl(lab, "beta", "init", "--join").returncode == 0
    os.unlink(lab.node("alpha")["metadata"])
    lab.start("alpha")
    assert ctl(lab, "alpha", "init").returncode == 0
    lab.wait_status("beta", lambda status: "ordered to join another volume" in status["status"], what="a void order")
    promote(lab, "alpha")
    assert bytes_of_device(lab, "beta") == before


@pytest.mark.parametrize("by_order", [False, True])
def test_data_that_came_while_the_node_waited_are_not_overwritten(on_beta, by_order):
    """An image is restored on a node whose process has seen an empty device; then the other one is told to begin."""
    lab = on_beta
    lab.up(init=False)
    on_device(lab, "beta", os.urandom(512), FAR)
    before = bytes_of_device(lab, "beta")
    if by_order:
        said = ctl(lab, "beta", "init", "--join")
        assert said.returncode == 0 and "no data that could be lost" not in said.stdout, said
    assert ctl(lab, "alpha", "init").returncode == 0
    promote(lab, "alpha")
    if by_order:
        lab.wait_state("alpha", "duplex")
        assert_identical(lab)
        return
    status = refused(lab, "beta")
    assert "its backing, which holds data" in status["status"] and "init r0 --join" in status["action"]
    wait_for_log(lab, "beta", "was not there when this process began", "--join")
    assert bytes_of_device(lab, "beta") == before


def test_a_file_that_has_another_name_by_now_is_looked_at_itself(make_lab):
    """It is the one that would be overwritten."""
    lab = make_lab(size=f"{SIZE}", peer_timeout="1s", start=False)
    lab.up(init=False)
    backing = Path(lab.node("beta")["backing"])
    on_device(lab, "beta", os.urandom(512), FAR)
    kept = backing.rename(backing.with_suffix(".kept"))
    with open(backing, "wb") as other:
        other.truncate(SIZE)
    before = kept.read_bytes()
    assert ctl(lab, "alpha", "init").returncode == 0
    promote(lab, "alpha")
    refused(lab, "beta")
    wait_for_log(lab, "beta", "was not there when this process began", "--join")
    assert kept.read_bytes() == before


def test_an_empty_device_joins_by_itself(on_beta):
    lab = on_beta
    lab.up(init=False)
    assert ctl(lab, "alpha", "init").returncode == 0
    promote(lab, "alpha")
    lab.wait_state("alpha", "duplex")


def test_a_sole_replica_with_its_data_far_behind_the_beginning_counts(on_alpha):
    """Both stop and start in order: alpha holds what only it has acknowledged."""
    data = os.urandom(MIB)
    write_alone(on_alpha, data, FAR)
    on_alpha.stop("alpha")
    for name in NODES:
        on_alpha.start(name)
    promote(on_alpha, "alpha")
    on_alpha.wait_state("alpha", "duplex")
    with connection(on_alpha) as handle:
        assert handle.pread(MIB, FAR) == data
    assert_identical(on_alpha)


def test_a_primary_with_its_data_far_behind_the_beginning_goes_on(on_alpha):
    on_alpha.kill("alpha")
    on_alpha.start("alpha")
    on_alpha.wait_status("alpha", lambda status: status["role"] == "primary", what="primary again")
    on_alpha.wait_state("alpha", "duplex")
    assert_identical(on_alpha)


def test_what_one_process_wrote_and_is_flushed_by_the_next_process_is_missed(make_lab, scratch):
    """By nobody else: it is alone, and the process that wrote it was killed before it flushed anything."""
    with lab_on_device(make_lab, "alpha", scratch / "device.img") as lab:
        lab.start("alpha")
        assert ctl(lab, "alpha", "init").returncode == 0
        promote(lab, "alpha", "--peer-is-dead")
        with connection(lab) as handle:
            handle.pwrite(os.urandom(MIB), FAR)
        assert not has_on_record(lab, "alpha", FLAG_HELD_DATA)
        lab.kill("alpha")
        lab.start("alpha")
        promote(lab, "alpha", "--peer-is-dead")
        with connection(lab) as handle:
            handle.flush()
        wait_until_noted(lab, "alpha")


def test_a_primary_whose_disk_was_attached_anew_gives_way_to_the_memory_of_the_other_node(make_lab, scratch_in_memory):
    """What it had acknowledged and not flushed went with the attachment, though its host, and the disk of its metadata, ran
    all the time. (Who is killed in a flush that takes long does not go on anyway: this is where none does.)"""
    image, disk = scratch_in_memory / "device.img", scratch_in_memory / "disk"
    flushed, acknowledged = os.urandom(MIB), os.urandom(MIB)
    with loop_device(image, SIZE) as device:
        disk.symlink_to(device)
        lab = make_lab(size=f"{SIZE}", peer_timeout="1s", backing={"alpha": disk}, below=scratch_in_memory)
        try:
            with connection(lab) as handle:
                handle.pwrite(flushed, FAR)
                handle.flush()
                wait_until_noted(lab)
                handle.pwrite(acknowledged, FAR)
                lab.kill("alpha")
            with open(device, "rb+") as whole:
                os.fsync(whole.fileno())  # nothing of it comes later
        except BaseException:
            lab.down()
            raise
    with open(image, "rb+") as medium:
        medium.seek(FAR)
        medium.write(flushed)
    with attached(image) as device:
        disk.unlink()
        disk.symlink_to(device)
        try:
            lab.start("alpha")
            lab.wait_status("alpha", lambda status: status["state"] in ("connected", "duplex"), what="both together")
            assert lab.status("alpha")["role"] == "secondary", lab.log_tail("alpha")
            promote(lab, "alpha")
            lab.wait_state("alpha", "duplex")
            with connection(lab) as handle:
                assert handle.pread(MIB, FAR) == acknowledged
            assert_identical(lab)
        finally:
            assert lab.down()


def test_zeroes_that_only_memory_shows_are_compared_with_the_disk_before_they_are_dropped(make_lab, scratch):
    """They were acknowledged, and lost by a flush of whose failure nobody was told. Who looks for data reads them first."""
    image = scratch / "device.img"
    before = os.urandom(MIB)
    with lab_on_device(make_lab, "alpha", image, backing_io="buffered") as lab:
        # What memory holds of a device outlives the node where another program has that open, too.
        with open(lab.node("alpha")["backing"], "rb", buffering=0) as other:
            lab.up()
            with connection(lab) as handle:
                handle.pwrite(os.urandom(MIB), FAR)
                handle.pwrite(before, 0)
                handle.flush()
                wait_until_noted(lab)
                handle.pwrite(bytes(MIB), 0)
                handle.flush()
            lab.kill("alpha")
            with open(image, "r+b") as medium:
                medium.write(before)
                medium.flush()
                os.fsync(medium.fileno())
            assert other.read(MIB) == bytes(MIB), "memory shows what is below no longer"
            lab.start("alpha")
            wait_for_log(lab, "alpha", "before that was on record", "what the disk does not hold")
            lab.wait_status("alpha", lambda status: status["state"] in ("duplex", "connected"), what="both together")
        assert_identical(lab)
        assert Path(lab.node("beta")["backing"]).read_bytes()[:MIB] == bytes(MIB)


def test_a_device_whose_data_are_gone_is_told_and_nothing_is_thrown_away(on_alpha):
    """What is there reads as zeroes: is it another disk? The other replica is not current, and not filled with them."""
    write_alone(on_alpha, os.urandom(MIB), FAR)
    on_alpha.stop("alpha")
    on_device(on_alpha, "alpha", bytes(2 * MIB), FAR)
    before = bytes_of_device(on_alpha, "beta")
    for name in NODES:
        on_alpha.start(name)
    for name, whose in (("alpha", "this node"), ("beta", "alpha")):
        said = refused(on_alpha, name)
        assert f"{whose}'s backing holds nothing but zeroes" in said["status"], said
        assert "right disk" in said["action"], said
        assert "metadata" not in re.split(r"[.;?]", said["action"])[0], "that is for when there is no other way"
    refusal = ctl(on_alpha, "alpha", "promote")
    assert refusal.returncode != 0 and "holds nothing but zeroes" in refusal.stderr, refusal.stderr
    assert "right disk" in refusal.stderr and "no data at all" not in refusal.stderr
    assert bytes_of_device(on_alpha, "beta") == before
    promote(on_alpha, "alpha", "--peer-is-dead")  # the operator vouches for the disk
    on_alpha.wait_state("alpha", "duplex")
    assert_identical(on_alpha)


@pytest.mark.parametrize("in_order", [True, False])
def test_two_backings_whose_data_are_gone_are_not_served_without_a_word(on_alpha, in_order):
    """Both hosts have come up without their disks: what is the same there is nothing."""
    lab = on_alpha
    with connection(lab) as handle:
        handle.pwrite(os.urandom(MIB), FAR)
        handle.flush()
    wait_until_noted(lab)
    for name in ("alpha", "beta"):
        (lab.stop if in_order else lab.kill)(name)
    on_device(lab, "alpha", bytes(SIZE), 0)
    os.truncate(lab.node("beta")["backing"], 0)  # a file that was made where its file system is not mounted
    os.truncate(lab.node("beta")["backing"], SIZE)
    for name in NODES:
        lab.start(name)
    lab.wait_state("beta", "connected")
    for name, peer in (("alpha", "beta"), ("beta", "alpha")):
        said = lab.wait_status(name, lambda status: status["state"] == "connected")
        assert f"in {peer}'s backing either" in said["status"] and "mounted" in said["action"], said
        assert not said["promotable"]
        refusal = ctl(lab, name, "promote")
        assert refusal.returncode != 0 and f"in {peer}'s backing either" in refusal.stderr, refusal.stderr
        assert "would serve what is here" in ctl(lab, name, "why").stdout
    # Nor when the other one has gone, or is back without its disk once more.
    lab.stop("beta")
    lab.wait_peer_lost("alpha")
    refusal = ctl(lab, "alpha", "promote")
    assert refusal.returncode != 0 and "holds nothing but zeroes" in refusal.stderr, refusal.stderr
    lab.start("beta")
    lab.wait_state("beta", "connected")
    assert "either" in ctl(lab, "beta", "promote").stderr
    promote(lab, "alpha", "--peer-is-dead")
    lab.wait_state("alpha", "duplex")
    # It was said once, for both.
    assert ctl(lab, "alpha", "demote").returncode == 0
    promote(lab, "beta")
    lab.wait_state("beta", "duplex")
    lab.kill("beta")
    lab.wait_peer_lost("alpha")
    assert "nothing but zeroes" not in ctl(lab, "alpha", "promote").stderr
    lab.start("beta")
    lab.wait_status("beta", lambda status: status["state"] in ("duplex", "connected"))
    assert_identical(lab)


def test_who_is_filled_from_a_disk_that_was_lost_is_not_promoted_without_a_word(on_alpha):
    """Alpha has come up without its disk; beta's was replaced."""
    lab = on_alpha
    for name in NODES:
        lab.stop(name)
    on_device(lab, "alpha", bytes(SIZE), 0)
    beta = lab.node("beta")
    os.unlink(beta["metadata"])
    os.truncate(beta["backing"], 0)
    os.truncate(beta["backing"], SIZE)
    for name in NODES:
        lab.start(name)
    lab.wait_state("beta", "connected")
    for name in NODES:
        assert "holds nothing but zeroes" in ctl(lab, name, "promote").stderr
    promote(lab, "alpha", "--peer-is-dead")
    lab.wait_state("alpha", "duplex")
    # By then it is the truth, and what is missed is on record: a link that comes back costs no copy of all.
    data = os.urandom(MIB)
    write_alone(lab, data, FAR)
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    assert lab.status("alpha")["last_resync"]["sent"]["data_bytes"] <= 2 * MIB
    assert_identical(lab)


def test_a_disk_that_comes_back_shows_the_other_one_what_it_lacks(on_alpha):
    """Both have come up without theirs, and were the same so."""
    lab = on_alpha
    data = os.urandom(MIB)
    with connection(lab) as handle:
        handle.pwrite(data, FAR)
        handle.flush()
    wait_until_noted(lab)
    for name in NODES:
        lab.stop(name)
    kept = bytes_of_device(lab, "alpha")
    on_device(lab, "alpha", bytes(SIZE), 0)
    backing = lab.node("beta")["backing"]
    os.truncate(backing, 0)
    os.truncate(backing, SIZE)
    for name in NODES:
        lab.start(name)
    lab.wait_state("beta", "connected")
    lab.stop("beta")
    on_device(lab, "beta", kept, 0)
    lab.start("beta")
    lab.wait_status("beta", lambda status: status["state"] == "connected" and status["promotable"])
    promote(lab, "beta")
    lab.wait_state("beta", "duplex")
    with connection(lab, name="beta") as handle:
        assert handle.pread(MIB, FAR) == data
    assert_identical(lab)


def test_a_device_that_was_not_read_to_its_end_waits_for_the_order(make_lab, roomy):
    """There may be data where nobody has looked."""
    with lab_on_device(make_lab, "beta", roomy["beta"], TOO_LARGE) as lab:
        lab.up(init=False)
        assert ctl(lab, "alpha", "init").returncode == 0
        status = refused(lab, "beta")
        assert "No data were found" in status["status"] and "not all of it was read" in status["status"], status
        assert "init r0 --join" in status["action"], status
        wait_for_log(lab, "beta", "no data were found", "does not join by itself", "--join")
        ordered = ctl(lab, "beta", "init", "--join")
        assert ordered.returncode == 0 and "will be overwritten" in ordered.stdout, ordered
        promote(lab, "alpha")
        lab.wait_state("alpha", "duplex")
