"""The metadata file of real processes: damaged, cut short, lost, elsewhere, on a full or failing
disk. A node repairs it from what is good, or refuses and says what to do."""

import contextlib
import errno
import fcntl
import os
import random
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from lablib import LabError
from support import (IS_ROOT, KIB, MIB, SUPERBLOCKS, Fio, assert_identical, connection, ctl, loop_device,
                     promote, wait_for_log, wait_for_writes, wait_until, wait_until_noted)
from test_disk_errors import FaultyDisk, words_of

INTENTS = 128 * KIB
SNAPSHOT = INTENTS + 4 * KIB  # of a volume with one page of intents

needs_root = pytest.mark.skipif(not IS_ROOT, reason="mounts and loop devices need root")


def damage(lab, name, *offsets):
    with open(lab.node(name)["metadata"], "r+b") as file:
        for offset in offsets:
            at = offset + random.randrange(300)
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1 << random.randrange(8)]))


def record(lab, name):
    """The bytes of the node's record. What follows them, the intents, changes with time."""
    with open(lab.node(name)["metadata"], "rb") as file:
        return file.read(INTENTS)


def refused_start(lab, name):
    """The words with which it refuses; the metadata is left as it is."""
    metadata = Path(lab.node(name)["metadata"])
    before = metadata.read_bytes()
    with pytest.raises(LabError) as refused:
        lab.start(name)
    assert metadata.read_bytes() == before
    assert lab.exit_code(name) not in (None, 0)
    return str(refused.value)


def write_some(lab, name="alpha", count=50):
    with connection(lab, name) as handle:
        for _ in range(count):
            handle.pwrite(random.randbytes(4 * KIB), random.randrange(16 * KIB) * 4 * KIB)
        handle.flush()


@pytest.mark.sanitize
def test_what_a_node_finds_at_its_start_is_synced_before_it_counts(scratch, make_lab):
    """Whoever wrote it may have died before the sync: a power cut must not take it back."""
    disk = FaultyDisk(scratch, make_lab, "beta")
    lab = disk.lab
    lab.kill("beta")
    log = scratch / "calls"
    lab.start("beta", extra_env={"DISK_FAULT_LOG": str(log)})
    lab.wait_state("alpha", "duplex", 20)
    calls = log.read_text(encoding="utf-8").splitlines()
    metadata = os.path.realpath(lab.node("beta")["metadata"])
    written = [at for at, call in enumerate(calls)
               if call.split()[0].startswith("pwrite") and call.endswith(f" {metadata}")]
    synced = calls[:written[0]]
    assert f"fdatasync {metadata}" in synced
    for path in (metadata, os.path.realpath(lab.node("beta")["backing"])):
        assert f"fsync {os.path.dirname(path)}" in synced


@pytest.mark.sanitize
def test_a_node_that_can_t_sync_what_it_finds_does_not_start(scratch, make_lab):
    """It may be in memory alone."""
    disk = FaultyDisk(scratch, make_lab, "beta", what="metadata")
    lab = disk.lab
    lab.kill("beta")
    disk.begin(errno.EIO, only="flushes")
    words = refused_start(lab, "beta")
    assert f"flush {lab.node('beta')['metadata']}" in words and os.strerror(errno.EIO) in words, words
    disk.end()
    lab.start("beta")
    lab.wait_state("alpha", "duplex", 20)


def opened_for_writing(lab, name, what):
    """Whether the node's process has it open so."""
    path = os.path.realpath(lab.node(name)[what])
    for link in Path(f"/proc/{lab.node(name)['pid']}/fd").glob("*"):
        with contextlib.suppress(OSError):
            flags = (link.parent.parent / "fdinfo" / link.name).read_text(encoding="ascii").split("flags:")[1].split()[0]
            if os.readlink(link) == path and int(flags, 8) & os.O_ACCMODE == os.O_RDWR:
                return True
    return False


def test_what_a_node_finds_at_its_start_is_what_the_one_before_it_left(make_lab):
    """Who has the metadata locked may write them yet, as the kernel does for a process that was killed: they are not read
    before the lock is this node's."""
    lab = make_lab(backing_io="direct")
    write_some(lab)
    lab.stop("beta")
    with open(lab.node("beta")["metadata"], "r+b") as metadata:
        left = metadata.read()
        metadata.seek(0)
        metadata.write(bytes(len(left)))
        metadata.flush()
        fcntl.flock(metadata, fcntl.LOCK_EX)
        lab.start("beta", wait=False)
        wait_until(lambda: opened_for_writing(lab, "beta", "metadata"), what="a process that waits for its metadata")
        metadata.seek(0)
        metadata.write(left)
        metadata.flush()
    lab.wait_state("alpha", "duplex")
    assert_identical(lab)


def duplex_again(lab, name="alpha"):
    promote(lab, name)
    write_some(lab, name)
    lab.wait_state(name, "duplex", 20)
    assert_identical(lab)


@pytest.mark.sanitize
@pytest.mark.parametrize("copy", [0, 1])
def test_one_bad_copy_is_told_and_mended(lab, copy):
    write_some(lab)
    assert lab.stop("alpha")
    damage(lab, "alpha", SUPERBLOCKS[copy])
    since = len(lab.log_text("alpha"))
    lab.start("alpha")
    wait_for_log(lab, "alpha", f"copy {copy + 1} is bad", "using the other one", since=since)
    duplex_again(lab)
    assert lab.stop("alpha")
    since = len(lab.log_text("alpha"))
    lab.start("alpha")
    assert "is bad" not in lab.log_text("alpha")[since:]


@pytest.mark.sanitize
def test_two_bad_copies_are_refused_and_the_node_is_copied_anew(lab):
    write_some(lab)
    lab.kill("alpha")
    damage(lab, "alpha", *SUPERBLOCKS)
    words = refused_start(lab, "alpha")
    assert "both copies of the metadata are bad" in words and "init --join" in words
    assert "a backup of the file" in words and "must not be used" in words
    # What it says is what helps.
    promote(lab, "beta", "--peer-is-dead")
    write_some(lab, "beta")
    metadata = Path(lab.node("alpha")["metadata"])
    metadata.rename(metadata.with_suffix(".bad"))
    lab.start("alpha")
    assert lab.status("alpha")["state"] in ("blank", "refused"), "its data is not given up unasked"
    wait_until(lambda: ctl(lab, "alpha", "init", "--join").returncode == 0, 5, "init --join")
    lab.wait_state("beta", "duplex", 20)
    assert_identical(lab)


@pytest.mark.parametrize("length", [100, 4 * KIB - 1])
def test_file_cut_short_before_the_second_copy_is_refused(lab, length):
    assert lab.stop("alpha")
    os.truncate(lab.node("alpha")["metadata"], length)
    words = refused_start(lab, "alpha")
    assert "both copies of the metadata are bad" in words and "truncated" in words


@pytest.mark.parametrize("length", [4 * KIB, 66 * KIB, INTENTS - 1, INTENTS + 100])
def test_file_cut_short_behind_a_good_copy_is_repaired(lab, length):
    write_some(lab)
    assert lab.stop("alpha")
    os.truncate(lab.node("alpha")["metadata"], length)
    since = len(lab.log_text("alpha"))
    lab.start("alpha")
    wait_for_log(lab, "alpha", "warning", "bad", since=since)
    duplex_again(lab)
    assert lab.stop("alpha")
    since = len(lab.log_text("alpha"))
    lab.start("alpha")
    assert "bad" not in lab.log_text("alpha")[since:]


def test_empty_file_is_no_metadata_but_the_data_is_kept(lab):
    write_some(lab)
    assert lab.stop("beta")
    with open(lab.node("beta")["metadata"], "r+b") as file:
        file.truncate(0)
    data = Path(lab.node("beta")["backing"]).read_bytes()
    write_some(lab)
    lab.start("beta")
    wait_for_log(lab, "beta", "warning", "--join")
    status = lab.status("beta")
    assert status["data"] == "blank" and "init" in status["action"], status
    assert ctl(lab, "beta", "promote", "--peer-is-dead").returncode == 7
    assert Path(lab.node("beta")["backing"]).read_bytes() == data
    assert lab.status("alpha")["role"] == "primary"


@pytest.mark.sanitize
def test_bad_intent_page_after_a_crash_makes_the_resync_larger_only(make_lab):
    lab = make_lab(settings={"on_restart": "secondary"})
    with connection(lab) as handle:
        handle.pwrite(random.randbytes(32 * MIB), 0)
        handle.flush()
    write_some(lab, count=10)
    lab.kill("alpha")
    with open(lab.node("alpha")["backing"], "r+b") as image:  # a difference
        image.seek(5 * MIB)
        image.write(bytes(4 * KIB))
    damage(lab, "alpha", INTENTS)
    lab.pause("beta")  # which would have it compared before the look
    lab.start("alpha")
    wait_for_log(lab, "alpha", "1 of 1 intent pages are bad")
    assert lab.status("alpha")["dirty_bytes"] == 64 * MIB
    lab.resume("beta")
    promote(lab, "beta", "--peer-is-dead")
    lab.wait_state("beta", "duplex", 20)
    assert_identical(lab)


@pytest.mark.sanitize
def test_bad_snapshot_falls_back_to_the_intents(lab):
    lab.kill("beta")
    lab.wait_state("alpha", "simplex", 5)
    write_some(lab)
    assert lab.stop("alpha")
    damage(lab, "alpha", SNAPSHOT)
    since = len(lab.log_text("alpha"))
    lab.start("alpha")
    wait_for_log(lab, "alpha", "list of changed blocks can't be used", since=since)
    promote(lab, "alpha")
    lab.start("beta")
    lab.wait_state("alpha", "duplex", 20)
    sent = lab.status("alpha")["last_resync"]["sent"]
    assert sent["compared_bytes"] >= 4 * MIB and sent["data_bytes"] <= 50 * 4 * KIB
    assert_identical(lab)


def test_init_refuses_where_there_is_a_volume(lab):
    write_some(lab)
    wait_until_noted(lab)
    before = record(lab, "alpha")
    for words in ((), ("--join",)):
        refused = ctl(lab, "alpha", "init", *words)
        assert refused.returncode == 1
    refused = ctl(lab, "alpha", "init")
    assert "already initialised" in refused.stderr and "--force" in refused.stderr
    assert "worthless" in refused.stderr, "what --force destroys"
    assert ctl(lab, "alpha", "init", "--force").returncode == 1, "in use"
    assert record(lab, "alpha") == before
    theirs = record(lab, "beta")
    refused = ctl(lab, "beta", "init", "--force")
    assert refused.returncode == 1 and "in use" in refused.stderr, "a secondary is in use by its primary"
    assert record(lab, "beta") == theirs
    assert lab.stop("beta") and lab.stop("alpha")
    lab.start("alpha")
    done = ctl(lab, "alpha", "init", "--force")
    assert done.returncode == 0, done.stderr
    promote(lab, "alpha")
    data = Path(lab.node("beta")["backing"]).read_bytes()
    lab.start("beta")
    status = lab.wait_state("beta", "refused", 10)
    assert "beta" in status["status"] or "alpha" in status["status"]
    assert Path(lab.node("beta")["backing"]).read_bytes() == data


def test_somebody_elses_file_is_no_metadata(make_lab):
    lab = make_lab(start=False)
    Path(lab.node("alpha")["metadata"]).write_bytes(b"minutes of the meeting\n" * 10000)
    words = refused_start(lab, "alpha")
    assert "not a twinblock superblock" in words


def lab_with_metadata_at(make_lab, paths, start=True, **options):
    """`paths`: node to file or device."""
    lab = make_lab(start=False, **options)
    for name, path in paths.items():
        lab.node(name)["metadata"] = str(path)
    Path(lab.state["config"]).write_text(lab.config_text(lab.state["replication"]),
                                         encoding="utf-8")
    if start:
        lab.up()
    return lab


def crash_and_return(lab):
    write_some(lab)
    lab.kill("alpha")
    promote(lab, "beta", "--peer-is-dead")
    write_some(lab, "beta")
    lab.start("alpha")
    lab.wait_state("beta", "duplex", 20)
    assert_identical(lab)
    assert lab.down()


def test_metadata_whose_directory_is_missing_are_not_made_elsewhere(make_lab, scratch):
    """Their disk is not mounted, say: what was made in its place would be hidden when it is."""
    away = scratch / "away"
    lab = lab_with_metadata_at(make_lab, {"alpha": away / "alpha" / "meta"}, start=False)
    with pytest.raises(LabError):
        lab.start("alpha")
    wait_for_log(lab, "alpha", f"the directory of metadata {away}")
    wait_for_log(lab, "alpha", f"mkdir -p {away / 'alpha'}")
    assert not away.exists()


def test_metadata_in_another_directory(make_lab, scratch):
    paths = {name: scratch / "fast" / name / "meta" for name in ("alpha", "beta")}
    for path in paths.values():
        path.parent.mkdir(parents=True)
    lab = lab_with_metadata_at(make_lab, paths)
    crash_and_return(lab)
    assert all(path.stat().st_size > INTENTS for path in paths.values())
    assert not (lab.dir / "alpha" / "r0.meta").exists()


@needs_root
def test_metadata_on_a_block_device(make_lab, scratch):
    with loop_device(scratch / "loop.img", MIB) as device:
        lab = lab_with_metadata_at(make_lab, {"alpha": device})
        try:
            crash_and_return(lab)
        finally:
            lab.down()


@needs_root
def test_block_device_that_is_too_small_is_refused(make_lab, scratch):
    with loop_device(scratch / "loop.img", INTENTS) as device:
        lab = lab_with_metadata_at(make_lab, {"alpha": device}, start=False)
        words = refused_start(lab, "alpha")
        assert device in words and "enlarge the device" in words


@contextmanager
def small_tmpfs(scratch, size):
    mount = scratch / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(mount)], check=True)
    try:
        yield mount
    finally:
        wait_until(lambda: subprocess.run(["umount", str(mount)], capture_output=True,
                                          check=False).returncode == 0, 10, "umount")


@needs_root
def test_init_on_a_full_disk_fails_in_words(make_lab, scratch):
    with small_tmpfs(scratch, "16k") as mount:
        lab = lab_with_metadata_at(make_lab, {"alpha": mount / "r0.meta"}, start=False)
        try:
            (mount / "filler").write_bytes(bytes(16 * KIB))
            lab.start("alpha")
            failed = ctl(lab, "alpha", "init")
            assert failed.returncode == 1
            assert os.strerror(errno.ENOSPC) in failed.stderr and str(mount) in failed.stderr
            assert lab.status("alpha")["data"] == "blank"
            (mount / "filler").unlink()
            assert lab.stop("alpha")
            lab.start("alpha")
            assert ctl(lab, "alpha", "init").returncode == 0
        finally:
            lab.down()


@needs_root
def test_full_disk_at_an_orderly_stop_costs_only_the_snapshot(make_lab, scratch):
    with small_tmpfs(scratch, "24k") as mount:
        lab = lab_with_metadata_at(make_lab, {"alpha": mount / "r0.meta"})
        try:
            lab.kill("beta")
            lab.wait_state("alpha", "simplex", 5)
            write_some(lab)
            filler = mount / "filler"
            with open(filler, "wb", buffering=0) as file, pytest.raises(OSError):
                while True:
                    file.write(bytes(4 * KIB))
            assert lab.stop("alpha")
            wait_for_log(lab, "alpha", "whole regions are compared", str(mount))
            filler.unlink()
            lab.start("alpha")
            promote(lab, "alpha")
            lab.start("beta")
            lab.wait_state("alpha", "duplex", 20)
            assert lab.status("alpha")["last_resync"]["sent"]["data_bytes"] <= 50 * 4 * KIB
            assert_identical(lab)
        finally:
            lab.down()


@pytest.mark.sanitize
def test_failing_metadata_disk_of_the_primary_is_not_the_clients_affair(roomy, scratch, make_lab):
    disk = FaultyDisk(scratch, make_lab, "alpha", what="metadata", size="1GiB", backing=roomy)
    lab = disk.lab
    fio = Fio(lab.node("alpha")["nbd"], scratch, rw="randwrite", bs="4k", iodepth=8, fsync=100,
              runtime=None, norandommap=None, rate_iops=200, randrepeat=0)
    wait_for_writes(lab, 20)
    disk.begin(errno.EIO)  # most regions are still cold
    lab.wait_state("alpha", "diskless")
    wait_for_writes(lab, 100)
    fio.finish()
    status = lab.status("alpha")
    assert lab.node("alpha")["metadata"] in words_of(status)
    assert os.strerror(errno.EIO) in words_of(status)
    assert "promote r0 --peer-is-dead` on beta" in status["action"], status["action"]
    assert lab.status("beta")["state"] == "diskless"
    data = random.randbytes(MIB)
    with connection(lab) as handle:
        handle.pwrite(data, 5 * MIB)
        handle.flush()
        assert handle.pread(MIB, 5 * MIB) == data
    disk.end()


@pytest.mark.sanitize
def test_failing_metadata_disk_of_the_secondary_is_not_the_clients_affair(scratch, make_lab):
    """It fails when the node has to record that it is half-copied."""
    disk = FaultyDisk(scratch, make_lab, "beta", what="metadata")
    lab = disk.lab
    metadata = lab.node("beta")["metadata"]
    with connection(lab) as handle:
        handle.pwrite(random.randbytes(MIB), 0)
        handle.flush()
        wait_until_noted(lab)
        lab.pause("beta")
        handle.pwrite(random.randbytes(MIB), MIB)
        lab.wait_state("alpha", "simplex", 5)
        disk.begin(errno.EIO)
        lab.resume("beta")
        # One that was stopped for long puts its flush on record, which may fail before there is a session to tell of it.
        status = lab.wait_status("alpha", lambda s: os.strerror(errno.EIO) in words_of(s)
                                 or "beta's disk fails" in words_of(s), 10, "the disk that fails in the status")
        if os.strerror(errno.EIO) in words_of(status):
            assert status["state"] == "simplex" and "beta" in words_of(status)
            assert metadata in status["status"] and metadata in status["action"], words_of(status)
        else:
            assert status["state"] == "refused", words_of(status)
            assert "`twinblock status r0` on beta" in status["action"], words_of(status)
        lab.wait_status("beta", lambda s: metadata in words_of(s) and os.strerror(errno.EIO) in words_of(s), 10,
                        "the disk that fails, and which")
        handle.pwrite(random.randbytes(MIB), 2 * MIB)
        handle.flush()
        disk.end()
        assert lab.stop("beta")
        lab.start("beta")
        lab.wait_state("alpha", "duplex", 20)
    assert_identical(lab)
