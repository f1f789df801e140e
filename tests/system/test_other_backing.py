"""A backing that is not the one that the node's record is about (a disk that was away, an older copy) passes for nothing:
it is compared in full, and serves nobody before that."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support import MIB, assert_identical, connection, ctl, demote, promote, wait_for_log, wait_until_noted

FAR = 2 * MIB
BACKING_NUMBER_AT = 776  # daemon/metadata/disk_format.h
TELLS_NOTHING = 1  # daemon/io/posix/backing_number.h


def backing(lab, name):
    return Path(lab.node(name)["backing"])


def write(lab, name, data, offset=FAR):
    with connection(lab, name) as handle:
        handle.pwrite(data, offset)
        handle.flush()


def copied(lab, name):
    """What its backing holds now, beside it."""
    return Path(shutil.copyfile(backing(lab, name), backing(lab, name).with_suffix(".copy")))


def tells_files_apart(path):
    def said(*options):
        return subprocess.run(["stat", *options, path], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    return said("-f", "-c", "%T") in ("ext2/ext3", "xfs", "btrfs", "f2fs", "tmpfs") and said("-c", "%W") not in ("0", "-")


def starts_with(lab, name, file):
    """That file in the place of its backing; the log says so, or not."""
    if not tells_files_apart(file):
        pytest.skip("this file system does not tell files apart for good")
    with open(lab.node(name)["metadata"], "rb") as metadata:
        metadata.seek(BACKING_NUMBER_AT)
        assert int.from_bytes(metadata.read(8), "little") > TELLS_NOTHING
    os.replace(file, backing(lab, name))
    since = len(lab.log_text(name))
    lab.start(name)
    wait_for_log(lab, name, "is another file or disk than the one that this node's record is about", since=since)


def told(lab, name):
    return "event:other-backing" in ctl(lab, name, "events").stdout


def both_end_in_order(lab):
    """With what is returned, which alpha has written."""
    data = os.urandom(MIB)
    write(lab, "alpha", data)
    demote(lab, "alpha")
    for name in ("alpha", "beta"):
        assert lab.stop(name)
    return data


def alpha_serves(lab, data):
    promote(lab, "alpha")
    lab.wait_state("alpha", "duplex")
    with connection(lab) as handle:
        assert handle.pread(MIB, FAR) == data
    assert_identical(lab)


@pytest.fixture(name="swapped")
def fixture_swapped(lab, request):
    """Alpha's copy of its backing lacks what both have acknowledged since, beta or alpha primary; alpha has ended."""
    primary, in_order = request.param
    write(lab, "alpha", os.urandom(MIB))
    if primary == "beta":
        demote(lab, "alpha")
        promote(lab, "beta")
        lab.wait_state("beta", "duplex")
        assert lab.stop("alpha")
        old = copied(lab, "alpha")
        lab.start("alpha")
    else:
        old = copied(lab, "alpha")  # nobody writes
    lab.wait_state(primary, "duplex")
    data = os.urandom(MIB)
    write(lab, primary, data)
    wait_until_noted(lab)
    (lab.stop if in_order else lab.kill)("alpha")
    return lab, old, data


@pytest.mark.parametrize("swapped", [("beta", True), ("beta", False)], indirect=True)
def test_an_older_copy_beside_a_primary_is_brought_up_to_date(swapped):
    lab, old, _ = swapped
    starts_with(lab, "alpha", old)
    lab.wait_state("beta", "duplex")
    assert told(lab, "alpha")
    assert_identical(lab)
    # By then the record is about that one.
    assert lab.stop("alpha")
    lab.start("alpha")
    lab.wait_state("beta", "duplex")
    assert not told(lab, "alpha")
    assert_identical(lab)


@pytest.mark.parametrize("swapped", [("beta", True)], indirect=True)
def test_an_older_copy_is_no_source_where_nobody_is_primary(swapped):
    lab, old, data = swapped
    assert lab.stop("beta")
    lab.start("beta")
    starts_with(lab, "alpha", old)
    waited = ctl(lab, "alpha", "wait", "--for", "promotable", "--timeout", "60s")
    assert waited.returncode == 0, waited.stderr
    lab.wait_status("beta", lambda status: status["state"] == "connected", what="both the same")
    alpha_serves(lab, data)


@pytest.mark.parametrize("swapped", [("alpha", False)], indirect=True)
def test_a_primary_whose_process_was_killed_does_not_go_on_with_an_older_copy(swapped):
    lab, old, data = swapped
    starts_with(lab, "alpha", old)
    lab.wait_status("beta", lambda status: status["state"] == "connected", what="both the same")
    assert lab.status("alpha")["role"] == "secondary"
    alpha_serves(lab, data)


@pytest.mark.parametrize("swapped", [("beta", True)], indirect=True)
def test_the_right_one_that_is_back_before_anything_was_written_costs_nothing(swapped):
    lab, old, _ = swapped
    assert lab.stop("beta")
    right = backing(lab, "alpha").rename(backing(lab, "alpha").with_suffix(".right"))
    starts_with(lab, "alpha", old)
    assert lab.stop("alpha")
    os.replace(right, backing(lab, "alpha"))
    for name in ("alpha", "beta"):
        lab.start(name)
    promote(lab, "beta")
    lab.wait_state("beta", "duplex")
    assert not told(lab, "alpha")
    assert lab.status("beta")["last_resync"] is None or lab.status("beta")["last_resync"]["sent"]["compared_bytes"] == 0
    assert_identical(lab)


@pytest.mark.parametrize("whose", [("alpha",), ("beta",), ("alpha", "beta")])
def test_backings_that_were_copied_on_purpose_cost_one_comparison(lab, whose):
    data = both_end_in_order(lab)
    for name in ("alpha", "beta"):
        if name in whose:
            starts_with(lab, name, copied(lab, name))
        else:
            lab.start(name)
    if len(whose) == 2:  # nobody knows but the operator
        lab.wait_status("alpha", lambda status: "backings of both nodes are other" in str(status), what="refused")
        promote(lab, "alpha", "--peer-is-dead")
    alpha_serves(lab, data)
    for name in ("beta", "alpha"):
        assert lab.stop(name)
        lab.start(name)
        lab.wait_status(name, lambda status: status["state"] in ("duplex", "connected"), what="both together")
        assert not told(lab, name)


def test_disks_of_both_that_were_copied_with_their_records_come_together(lab):
    """Both hosts were moved, or put back from a copy of both; nobody has to say who is the source."""
    data = both_end_in_order(lab)
    for name in ("alpha", "beta"):
        metadata = Path(lab.node(name)["metadata"])
        os.replace(shutil.copyfile(metadata, metadata.with_suffix(".copy")), metadata)
        starts_with(lab, name, copied(lab, name))
    lab.wait_state("alpha", "connected")
    alpha_serves(lab, data)


def test_a_wrong_disk_is_copied_over_nobody_and_the_right_one_is_believed_when_it_is_back(lab):
    """Beta is older than what alpha's record is about: before there is a word nothing of what stands there goes to it."""
    write(lab, "alpha", os.urandom(MIB))
    assert lab.stop("beta")
    data = os.urandom(MIB)
    write(lab, "alpha", data)
    demote(lab, "alpha")
    assert lab.stop("alpha")
    held = backing(lab, "beta").read_bytes()
    right = backing(lab, "alpha").rename(backing(lab, "alpha").with_suffix(".right"))
    wrong = backing(lab, "alpha").with_suffix(".wrong")
    wrong.write_bytes(os.urandom(right.stat().st_size))
    starts_with(lab, "alpha", wrong)
    lab.start("beta")
    for name in ("alpha", "beta"):
        lab.wait_status(name, lambda status: "backing is another file or disk" in str(status), what="refused")
    assert backing(lab, "beta").read_bytes() == held
    assert lab.stop("alpha")
    os.replace(right, backing(lab, "alpha"))
    lab.start("alpha")
    lab.wait_status("alpha", lambda status: status["state"] == "connected", what="both the same")
    promote(lab, "alpha")
    with connection(lab) as handle:
        assert handle.pread(MIB, FAR) == data
    assert_identical(lab)


def test_a_copy_is_promoted_by_a_word_and_stays_the_source(lab):
    """Beta is away: what alpha writes with it counts when beta is back, as with the backing that it had."""
    write(lab, "alpha", os.urandom(MIB))
    demote(lab, "alpha")
    for name in ("beta", "alpha"):
        assert lab.stop(name)
    starts_with(lab, "alpha", copied(lab, "alpha"))
    assert "another file or disk" in lab.status("alpha")["status"]
    refused = ctl(lab, "alpha", "promote")
    assert refused.returncode != 0 and "--peer-is-dead" in refused.stderr, refused.stderr
    promote(lab, "alpha", "--peer-is-dead")
    data = os.urandom(MIB)
    write(lab, "alpha", data)
    lab.kill("alpha")
    lab.start("alpha")
    lab.wait_status("alpha", lambda status: status["role"] == "primary", what="primary again")
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    with connection(lab) as handle:
        assert handle.pread(MIB, FAR) == data
    assert_identical(lab)
    assert ctl(lab, "alpha", "verify").returncode == 0
