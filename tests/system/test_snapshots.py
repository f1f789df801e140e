"""Copies of both backings that are equal, taken under load."""

import hashlib
import json
import os
import stat
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import IS_ROOT, KIB, MIB, Fio, connection, ctl, wait_for_log, wait_for_writes, wait_until

pytestmark = pytest.mark.skipif(not IS_ROOT, reason="mounts and loop devices need root")
NODES = ("alpha", "beta")
SIZE = 64 * MIB


@contextmanager
def xfs(scratch):
    """A mounted file system that has reflinks."""
    image, mount = scratch / "xfs.img", scratch / "xfs"
    mount.mkdir()
    with open(image, "wb") as file:
        file.truncate(1024 * MIB)
    made = subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", str(image)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no XFS: {made.stderr.strip()}")
    mounted = subprocess.run(["mount", "-o", "loop", str(image), str(mount)], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no XFS: {mounted.stderr.strip()}")
    try:
        yield mount
    finally:
        # The loop device goes with the mount.
        wait_until(lambda: subprocess.run(["umount", str(mount)], capture_output=True, check=False).returncode == 0,
                   what="umount")


@pytest.fixture
def xfs_lab(scratch, make_lab):
    """xfs_lab(**options): a lab whose backings lie on XFS."""
    labs = []
    with xfs(scratch) as mount:
        def make(copies="", **options):
            lab = make_lab(start=False, size="64MiB", backing={name: mount / f"{name}.img" for name in NODES}, **options)
            return with_copies(lab, copies, labs)

        yield make
        for lab in labs:
            lab.down()


def with_copies(lab, copies, labs=None):
    if labs is not None:
        labs.append(lab)
    if copies:
        for name in NODES:
            text = copies if isinstance(copies, str) else copies.get(name, "")
            lab.set_node_config(name, lab.config_text(lab.state["replication"]) + f"\n[copies]\n{text}\n")
    lab.up()
    return lab


def command(path, body):
    path.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path


def snapshot(lab, node, name):
    shown = ctl(lab, node, "snapshot", name, "--json")
    return json.loads(shown.stdout or shown.stderr)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else \
            hashlib.sha256(file.read()).hexdigest()


def copies_of(lab, name):
    return [Path(f"{lab.node(each)['backing']}.snapshot.{name}") for each in NODES]


def nothing_left(lab):
    for name in NODES:
        backing = Path(lab.node(name)["backing"])
        if list(backing.parent.glob(f"{backing.name}.snapshot.*")):
            return False
    return True


def events(lab, name, event):
    lines = (json.loads(line) for line in ctl(lab, name, "events", "--json").stdout.splitlines())
    return [line for line in lines if line["event"] == event]


def load(lab, scratch, **more):
    fio = Fio(lab.node("alpha")["nbd"], scratch, runtime=None, size="64m", iodepth=16,
              bssplit="4k/60:16k/20:64k/20", **more)
    wait_for_writes(lab, 200)
    return fio


@pytest.mark.parametrize("backing_io", ["buffered", "direct"])
def test_snapshots_under_load_are_equal_and_the_pause_is_told(xfs_lab, scratch, backing_io):
    lab = xfs_lab(backing_io=backing_io, peer_timeout="30s")  # no machine is as late as that
    fio = load(lab, scratch)
    pauses, digests = [], set()
    try:
        for number in range(20):
            wait_for_writes(lab, 100)
            told = snapshot(lab, "alpha", f"s{number}")
            assert "pause_ns" in told, told
            mine, theirs = copies_of(lab, f"s{number}")
            assert told["copies"] == {"alpha": str(mine), "beta": str(theirs)} and "writes waited" in told["message"]
            pauses.append(told["pause_ns"] / 1e6)
            one = digest(mine)
            assert one == digest(theirs), f"snapshot {number} differs"
            digests.add(one)
            mine.unlink()
            theirs.unlink()
    finally:
        fio.finish()
    print(f"pauses in ms, {backing_io}: " + ", ".join(f"{each:.1f}" for each in sorted(pauses)))
    assert len(digests) == 20, "each has what was written meanwhile"
    assert len(events(lab, "alpha", "snapshot")) == 20
    assert all(int(event["pause_ms"]) >= 1 for event in events(lab, "alpha", "snapshot"))
    assert lab.status("alpha")["state"] == "duplex" and lab.status("alpha")["counters"]["peer_losses"] == 0
    assert nothing_left(lab)


def test_a_snapshot_has_what_was_acknowledged_before_it(xfs_lab):
    lab = xfs_lab()
    with connection(lab) as handle:
        handle.pwrite(b"before" * 1000, 123)
        assert "pause_ns" in snapshot(lab, "alpha", "one")
        handle.pwrite(b"after!" * 1000, 123)
    for path in copies_of(lab, "one"):
        with open(path, "rb") as file:
            file.seek(123)
            assert file.read(6000) == b"before" * 1000
    # A name that is there is not taken anew, on either host.
    copies_of(lab, "one")[0].unlink()
    before = digest(copies_of(lab, "one")[1])
    told = snapshot(lab, "alpha", "one")
    assert "beta: " in told["error"] and "there is a snapshot" in told["error"], told
    assert digest(copies_of(lab, "one")[1]) == before
    wait_until(lambda: not list(copies_of(lab, "one")[0].parent.glob("alpha.img.snapshot.*")), what="alpha to drop its copy")
    assert not Path(f"{copies_of(lab, 'one')[1]}.part").exists()


def test_who_takes_the_order_and_which_name(xfs_lab):
    lab = xfs_lab()
    told = snapshot(lab, "beta", "x")
    assert "alpha is primary" in told["error"] and "there" in told["action"], told
    for name in ("../x", ".x", "x.part", "a" * 64):
        refused = ctl(lab, "alpha", "snapshot", "r0", name)
        assert refused.returncode == 2 and "can't be a name" in refused.stderr, refused.stderr
    assert ctl(lab, "alpha", "demote").returncode == 0
    lab.wait_state("beta", "connected")  # it has heard of it
    assert "pause_ns" in snapshot(lab, "beta", "x")
    mine, theirs = copies_of(lab, "x")
    assert digest(mine) == digest(theirs)
    lab.kill("beta")
    lab.wait_peer_lost("alpha")
    told = snapshot(lab, "alpha", "y")
    assert "not connected" in told["error"] and "twinblock wait" in told["action"], told
    assert not copies_of(lab, "y")[0].exists()


# By name: what the command does at beta, and what is to be told.
TROUBLES = {"hangs": ("sleep 100 & wait", ["did not"]),
            "fails": ("echo no room >&2; exit 7", ["beta: ", "status 7"]),
            "is killed": ("kill -KILL $$", ["beta: ", "signal 9"])}


@pytest.mark.parametrize("trouble", list(TROUBLES))
def test_a_command_in_trouble_leaves_nothing_suspended(xfs_lab, scratch, trouble):
    does, words = TROUBLES[trouble]
    record = scratch / "record"
    record.touch()
    good = command(scratch / "good", f'echo "$TWINBLOCK_NODE $TWINBLOCK_STEP $TWINBLOCK_SNAPSHOT" >> {record}')
    bad = command(scratch / "bad", f'[ "$TWINBLOCK_STEP" = snapshot ] || exit 0; {does}')
    # Alpha's, as that is what ends the pause; its good command has no more time, and gets by with that on any machine.
    timeout = "5s" if trouble == "hangs" else "60s"
    lab = xfs_lab(copies={name: f'snapshot = "{path}"\ntimeout = "{timeout}"' for name, path in
                          (("alpha", good), ("beta", bad))})
    fio = load(lab, scratch)
    began = time.monotonic()
    told = snapshot(lab, "alpha", "s")
    took_s = time.monotonic() - began
    for word in words:
        assert word in told["error"], told
    wait_for_writes(lab, 200)
    fio.finish()
    failed = events(lab, "alpha", "snapshot-failed")
    assert len(failed) == 1 and failed[0]["name"] == "s", failed
    # The file says how long a pause may be; all else is the machine's.
    print(f"{trouble}: told after {took_s:.2f} s, writes waited {failed[0]['pause_ms']} ms")
    wait_for_log(lab, "alpha", "snapshot s")
    wait_until(lambda: "alpha drop-snapshot s" in record.read_text(encoding="utf-8"), what="alpha to drop its copy")
    assert lab.status("alpha")["state"] == "duplex"
    # All of that is over some time, and the next one is possible.
    command(scratch / "bad", "exit 0")
    wait_until(lambda: "pause_ns" in snapshot(lab, "alpha", "next"), what="the next one")


def test_what_a_failed_snapshot_may_have_left_is_told(xfs_lab, scratch):
    """Nobody drops it a second time."""
    fails = {name: command(scratch / name, f'[ "$TWINBLOCK_STEP" != {step} ] || exit 7')
             for name, step in (("alpha", "snapshot"), ("beta", "drop-snapshot"))}
    lab = xfs_lab(copies={name: f'snapshot = "{path}"' for name, path in fails.items()})
    told = snapshot(lab, "alpha", "s")
    assert "status 7" in told["error"], told
    wait_for_log(lab, "beta", "something of snapshot s, which failed, may be left", "see what its command has left")


def test_where_there_are_no_reflinks_it_is_said_what_to_do(scratch_in_memory, make_lab):
    """tmpfs has none."""
    lab = make_lab(backing={name: scratch_in_memory / f"{name}.img" for name in NODES})
    told = snapshot(lab, "alpha", "s")
    said = told["error"] + told["action"]
    assert os.strerror(95) in said and "XFS" in said and "[copies]" in said, told
    assert events(lab, "alpha", "snapshot-failed")[0]["pause_ms"] in (0, "0"), "it is seen before anybody waits"
    with connection(lab) as handle:
        handle.pwrite(b"x" * 4 * KIB, 0)
    assert nothing_left(lab)


def test_what_a_killed_process_left_of_a_snapshot_is_gone_with_the_next_start(make_lab):
    lab = make_lab(start=False)
    backing = Path(lab.node("alpha")["backing"])
    left, whole = Path(f"{backing}.snapshot.monday.part"), Path(f"{backing}.snapshot.sunday")
    left.write_bytes(b"a part of it")
    whole.write_bytes(b"all of it")
    lab.up()
    assert not left.exists() and whole.exists()
    wait_for_log(lab, "alpha", f"removed {left}, of a snapshot that was not finished")


def test_copies_lie_beside_the_backing_and_not_beside_a_link_to_it(scratch, make_lab):
    """Where the link is, there may be no room, or another file system."""
    with xfs(scratch) as mount:
        links = {name: scratch / f"{name}.link" for name in NODES}
        for name, link in links.items():
            link.symlink_to(mount / f"{name}.img")
        lab = make_lab(start=False, size="64MiB", backing=links)
        try:
            lab.up()
            told = snapshot(lab, "alpha", "s")
            places = {name: mount / f"{name}.img.snapshot.s" for name in NODES}
            assert told.get("copies") == {name: str(place) for name, place in places.items()}, told
            assert digest(places["alpha"]) == digest(places["beta"])
            assert not list(scratch.glob("*.link.*"))
        finally:
            lab.down()


def slow_copies(scratch):
    """By a command that waits until the file `go` is there."""
    slow = command(scratch / "slow", f'[ "$TWINBLOCK_STEP" = snapshot ] && touch {scratch}/begun-$TWINBLOCK_NODE && '
                                     f'while [ -e {scratch} ] && ! [ -e {scratch}/go ]; do sleep 0.1; done; exit 0')
    return f'snapshot = "{slow}"\ntimeout = "300s"'


@contextmanager
def slow_snapshot(lab, scratch):
    """While both nodes' commands run; what has ordered it."""
    with subprocess.Popen([str(Path(lab.state["build"]) / "tools" / "twinblock"), "snapshot", "--socket",
                           lab.node("alpha")["control"], "s"], stderr=subprocess.PIPE, text=True) as order:
        try:
            wait_until(lambda: all((scratch / f"begun-{name}").exists() for name in NODES), what="the command on both nodes")
            yield order
        finally:
            (scratch / "go").touch()


def test_a_second_process_of_a_node_ends_no_command_of_the_one_that_runs(make_lab, scratch):
    """Started by hand, as plain nbdkit with a socket of its own: it is refused before it touches anything."""
    lab = with_copies(make_lab(start=False), slow_copies(scratch))
    words = Path(f"/proc/{lab.node('alpha')['pid']}/cmdline").read_bytes().decode().split("\0")[:-1]
    environ = Path(f"/proc/{lab.node('alpha')['pid']}/environ").read_bytes().decode().split("\0")[:-1]
    words[words.index("--unix") + 1] = str(scratch / "second.nbd")
    with slow_snapshot(lab, scratch) as order:
        second = subprocess.run(words, env=dict(each.split("=", 1) for each in environ), capture_output=True, text=True,
                                check=False, timeout=120)
        assert second.returncode != 0 and "is in use by another process" in second.stderr, second
        (scratch / "go").touch()
        assert order.wait() == 0, order.stderr.read()


def test_a_node_that_dies_meanwhile_leaves_nobody_waiting(xfs_lab, scratch):
    lab = xfs_lab(copies=slow_copies(scratch))
    fio = load(lab, scratch)
    with slow_snapshot(lab, scratch) as order:
        wait_until(lambda: lab.status("alpha")["counters"]["writes"] == (time.sleep(0.3) or
                                                                         lab.status("alpha")["counters"]["writes"]),
                   what="writes to be held")
        lab.kill("beta")
        wait_for_writes(lab, 200)
        assert order.wait() != 0 and "session" in order.stderr.read()
    fio.finish()
