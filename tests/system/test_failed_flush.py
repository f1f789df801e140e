"""A failed flush is final whatever its errno value, and outlives the process: the page cache shows as
written what the disk does not hold, and the next process is told nothing. (The kernel's part is
played by disk_fault.c.)"""

import errno
import json
import os
import shutil
from pathlib import Path

import nbd
import pytest

from faulty_disk import FaultyDisk
from support import (FLAG_FLUSHING, MIB, assert_identical, connection, ctl, has_on_record, promote, wait_for_log,
                     wait_until)

KEEPS_CACHE = {"DISK_FAULT_KEEPS_CACHE": "1"}


def last_resync(lab, name):
    said = ctl(lab, name, "events", "--json").stdout.splitlines()
    return [event for event in map(json.loads, said) if event["event"] == "resync-ended"][-1]


def copy_of(lab, name, scratch):
    medium = scratch / "medium"
    shutil.copyfile(lab.node(name)["backing"], medium)
    return {"DISK_FAULT_MEDIUM": str(medium)}


def write_what_beta_does_not_flush(disk, scratch, handle, fault):
    """Over what both hold. The environment that shows what beta's medium holds then: what was there before."""
    handle.pwrite(os.urandom(MIB), MIB)
    handle.flush()
    medium = copy_of(disk.lab, "beta", scratch)
    disk.begin(fault, only="flushes")
    handle.pwrite(os.urandom(MIB), MIB)
    return medium


def both_die_after_betas_flush_failed(scratch, make_lab):
    """The disk, and as environment for beta the means to show what its medium held before."""
    disk = FaultyDisk(scratch, make_lab, "beta", backing_io="buffered",
                      settings={"on_restart": "secondary"})
    lab = disk.lab
    with connection(lab) as handle:
        medium = write_what_beta_does_not_flush(disk, scratch, handle, errno.EIO)
        handle.flush()
    lab.wait_status("beta", lambda s: s["disk"]["error"], 10, "the error of the disk")
    lab.kill("alpha")
    lab.kill("beta")
    disk.end()
    return disk, medium


def both_come_back_and_nothing_is_compared(lab):
    lab.start("alpha")
    lab.start("beta", extra_env=KEEPS_CACHE)
    lab.wait_state("alpha", "connected", 20)
    told = last_resync(lab, "alpha")
    assert told["data_bytes"] >= MIB and told["compared_bytes"] == 0, told


@pytest.mark.sanitize
def test_after_a_failed_flush_a_comparison_counts_for_nothing(scratch, make_lab):
    disk, _ = both_die_after_betas_flush_failed(scratch, make_lab)
    lab = disk.lab
    both_come_back_and_nothing_is_compared(lab)
    # It is made good.
    assert lab.stop("beta")
    lab.start("beta", extra_env=KEEPS_CACHE)
    lab.wait_state("alpha", "connected", 20)
    promote(lab, "beta")


@pytest.mark.sanitize
def test_who_is_killed_in_a_flush_that_hangs_does_not_know_how_it_ended(scratch, make_lab):
    """Only the thread that waited for it would have been told that it failed."""
    disk = FaultyDisk(scratch, make_lab, "beta", backing_io="buffered",
                      settings={"on_restart": "secondary"})
    lab = disk.lab
    with connection(lab) as handle:
        handle.pwrite(os.urandom(MIB), MIB)
        handle.flush()
        wait_until(lambda: not has_on_record(lab, "beta", FLAG_FLUSHING), what="that no flush is on record")
        disk.begin(f"delay {3600 * 10**6}", only="flushes")
        handle.pwrite(os.urandom(MIB), MIB)
        handle.aio_flush()
        wait_until(lambda: has_on_record(lab, "beta", FLAG_FLUSHING), what="a record of a flush that hangs")
        lab.kill("beta")
        lab.kill("alpha")
    disk.end()
    both_come_back_and_nothing_is_compared(lab)
    # Taken back by who stops in order.
    assert lab.stop("beta")
    assert not has_on_record(lab, "beta", FLAG_FLUSHING)


def test_memory_that_can_not_be_compared_with_the_disk_is_not_believed(scratch, make_lab):
    """Nor served as the truth by a promotion that nobody has thought about: a power cut would take it away."""
    disk = FaultyDisk(scratch, make_lab, "beta", backing_io="buffered", settings={"on_restart": "secondary"})
    lab = disk.lab
    with connection(lab) as handle:
        handle.pwrite(os.urandom(MIB), MIB)
        lab.kill("beta")
        lab.kill("alpha")
    disk.begin_halfway()
    lab.start("beta")
    wait_for_log(lab, "beta", "does not answer: it is not known whether it holds what memory shows of it")
    refused = ctl(lab, "beta", "promote", "--peer-is-dead")
    assert refused.returncode != 0 and "flush" in refused.stderr, refused.stdout + refused.stderr
    disk.end()


def beta_dies_before_its_failed_flush_is_on_record(scratch, make_lab):
    disk = FaultyDisk(scratch, make_lab, "beta", backing_io="buffered",
                      settings={"on_restart": "secondary"})
    lab = disk.lab
    with connection(lab) as handle:
        medium = write_what_beta_does_not_flush(disk, scratch, handle, f"delay {3600 * 10**6}")
        handle.aio_flush()
        wait_until(disk.is_slow, what="a flush that is under way")
        lab.kill("beta")
        if has_on_record(lab, "beta", FLAG_FLUSHING):
            pytest.skip("the flush was on record already: this machine is too slow")
        lab.kill("alpha")
    disk.end()
    return lab, medium


def what_beta_lost_is_found_in_memory_and_made_good(lab, medium):
    since = len(lab.log_text("beta"))
    lab.start("beta", extra_env=medium)
    wait_for_log(lab, "beta", "before that was on record", "what the disk does not hold", since=since)
    wait_for_log(lab, "beta", "flush", "as after a power cut", since=since)
    lab.start("alpha")
    lab.wait_state("alpha", "connected", 20)
    assert last_resync(lab, "alpha")["data_bytes"] >= MIB
    assert_identical(lab)


@pytest.mark.sanitize
def test_a_failed_flush_that_nobody_had_on_record_is_found_in_memory(scratch, make_lab):
    lab, medium = beta_dies_before_its_failed_flush_is_on_record(scratch, make_lab)
    what_beta_lost_is_found_in_memory_and_made_good(lab, medium)


@pytest.mark.sanitize
def test_a_failed_flush_of_a_buffered_process_is_found_by_one_with_direct_io(scratch, make_lab):
    """It reads what the disk holds, and would take that for what was written."""
    lab, medium = beta_dies_before_its_failed_flush_is_on_record(scratch, make_lab)
    text = Path(lab.state["config"]).read_text(encoding="utf-8")
    lab.set_node_config("beta", text.replace('"buffered"', '"direct"'))
    what_beta_lost_is_found_in_memory_and_made_good(lab, medium)
    assert lab.status("beta")["disk"]["io"] == "direct"


@pytest.mark.sanitize
def test_what_was_found_in_memory_is_on_record_where_it_stays_there(scratch, make_lab):
    lab, medium = beta_dies_before_its_failed_flush_is_on_record(scratch, make_lab)
    log = scratch / "calls"
    lab.start("beta", extra_env=medium | KEEPS_CACHE | {"DISK_FAULT_LOG": str(log)})
    wait_for_log(lab, "beta", "before that was on record", "what the disk does not hold")
    # Each of the record's two copies is stable before anything else is written.
    metadata = os.path.realpath(lab.node("beta")["metadata"])
    calls = [line.split()[0] for line in log.read_text(encoding="utf-8").splitlines() if line.endswith(f" {metadata}")]
    written = [at for at, call in enumerate(calls) if call.startswith("pwrite")][:2]
    assert len(written) == 2 and all(calls[at + 1:at + 2] == ["fdatasync"] for at in written), calls
    # Nobody looks once more.
    lab.kill("beta")
    both_come_back_and_nothing_is_compared(lab)
    assert_identical(lab)


@pytest.mark.sanitize
def test_memory_is_not_dropped_before_it_is_on_record_that_it_deceives(scratch, make_lab):
    """Else nothing tells the next process of what a flush has lost."""
    lab, medium = beta_dies_before_its_failed_flush_is_on_record(scratch, make_lab)
    lab.start("beta", extra_env=medium | {"DISK_FAULT_METADATA": os.path.realpath(lab.node("beta")["metadata"])})
    wait_for_log(lab, "beta", "before that was on record", "what the disk does not hold")
    wait_for_log(lab, "beta", "write to the metadata", os.strerror(errno.EIO))
    lab.kill("beta")
    what_beta_lost_is_found_in_memory_and_made_good(lab, medium)


@pytest.mark.sanitize
def test_what_the_kernel_could_not_write_after_a_kill_counts_once(scratch, make_lab):
    """It tells each open file description of the next process: that has dropped what memory held, and no flush fails later."""
    disk = FaultyDisk(scratch, make_lab, "beta", backing_io="buffered", settings={"on_restart": "secondary"})
    lab = disk.lab
    with connection(lab) as handle:
        handle.pwrite(os.urandom(MIB), MIB)
        lab.kill("beta")
        lab.start("beta", extra_env={"DISK_FAULT_UNSEEN": "1"})
        wait_for_log(lab, "beta", "before that was on record", "the disk does not take, or give, what memory holds")
        wait_for_log(lab, "beta", "flush", "as after a power cut")
        lab.wait_state("alpha", "duplex", 20)
        for block in range(100):
            handle.pwrite(os.urandom(4096), 4096 * block)
            handle.flush()
    assert lab.status("beta")["disk"]["error"] == "" and lab.status("alpha")["state"] == "duplex"
    assert_identical(lab)


@pytest.mark.sanitize
def test_a_cache_that_can_be_dropped_shows_what_the_failed_flush_lost(scratch, make_lab):
    disk, medium = both_die_after_betas_flush_failed(scratch, make_lab)
    lab = disk.lab
    lab.start("beta", extra_env=medium)
    wait_for_log(lab, "beta", "flush", "as after a power cut")
    lab.start("alpha")
    lab.wait_state("alpha", "connected", 20)
    told = last_resync(lab, "alpha")
    assert MIB <= told["data_bytes"] < told["compared_bytes"], told
    assert_identical(lab)


@pytest.mark.sanitize
def test_failed_flush_of_a_primary_is_known_when_it_returns(scratch, make_lab):
    disk = FaultyDisk(scratch, make_lab, "alpha")
    lab = disk.lab
    with connection(lab) as handle:
        handle.pwrite(os.urandom(MIB), MIB)
        disk.begin(errno.EIO, only="flushes")
        handle.flush()
        lab.wait_state("beta", "diskless", 10)
    lab.kill("alpha")
    disk.end()
    lab.start("alpha", extra_env=KEEPS_CACHE)
    lab.wait_state("beta", "connected", 20)
    told = last_resync(lab, "beta")
    assert told["data_bytes"] >= MIB and told["compared_bytes"] == 0, told
    assert_identical(lab)


@pytest.mark.sanitize
def test_the_last_replica_is_not_promoted_before_its_disk_tells_the_truth(scratch, make_lab):
    disk = FaultyDisk(scratch, make_lab, "alpha", backing_io="buffered")
    lab = disk.lab
    lab.kill("beta")
    lab.wait_peer_lost("alpha")
    kept = os.urandom(MIB)
    with connection(lab) as handle:
        handle.pwrite(kept, 0)
        handle.flush()
        medium = copy_of(lab, "alpha", scratch)
        disk.begin(errno.ENOSPC, only="flushes")
        handle.pwrite(os.urandom(MIB), 0)
        with pytest.raises(nbd.Error):
            handle.flush()
        disk.end()
        with pytest.raises(nbd.Error):
            handle.flush()
    lab.kill("alpha")
    lab.start("alpha", extra_env=KEEPS_CACHE)
    refused = ctl(lab, "alpha", "promote", "--peer-is-dead")
    assert refused.returncode != 0 and "flush failed" in refused.stderr, refused
    assert "restart this host" in refused.stderr
    shown = lab.status("alpha")
    assert "flush" in shown["status"] and "restart this host" in shown["action"], shown
    lab.kill("alpha")
    lab.start("alpha", extra_env=medium)
    promote(lab, "alpha", "--peer-is-dead")
    with connection(lab) as handle:
        assert handle.pread(MIB, 0) == kept


@pytest.mark.sanitize
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_secondary_whose_flush_failed_is_not_sent_everything_again_and_again(scratch, make_lab,
                                                                               error):
    disk = FaultyDisk(scratch, make_lab, "beta")
    lab = disk.lab
    with connection(lab) as handle:
        handle.pwrite(os.urandom(MIB), 0)
        disk.begin(error, only="flushes")
        handle.flush()
        disk.end()
        status = lab.wait_state("alpha", "refused", 30)
        assert "disk" in status["status"]
    assert not [line for line in ctl(lab, "alpha", "events").stdout.splitlines()
                if "event:resync-begun" in line and "to-peer" in line and "away" in line]


@pytest.mark.sanitize
def test_a_secondary_that_has_room_again_needs_nobody(scratch, make_lab):
    """A write that failed for want of room is tried again; nothing is restarted."""
    disk = FaultyDisk(scratch, make_lab, "beta")
    lab = disk.lab
    with connection(lab) as handle:
        handle.pwrite(os.urandom(MIB), 0)
        disk.begin(errno.ENOSPC, only="transfers")
        handle.pwrite(os.urandom(MIB), 0)
        lab.wait_state("alpha", "simplex", 5)
        disk.end()
        handle.pwrite(os.urandom(MIB), 2 * MIB)
        lab.wait_state("alpha", "duplex", 40)
        handle.flush()
    assert_identical(lab)
    assert lab.status("beta")["disk"]["error"] == ""
