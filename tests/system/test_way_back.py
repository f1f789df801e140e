"""A way back before a resync: a target whose source dies in the middle is what it was before; copies that fail, hang
or are killed keep nobody waiting beyond their deadline."""

import os
import re
import subprocess
import threading
import time
from pathlib import Path

import pytest

from lablib.filesystems import run
from support import IS_ROOT, MIB, assert_identical, connection, ctl, demote, promote, wait_for_log, wait_until
from registers import Load, Registers
from test_fence_command import Fence
from witness_support import entry_key

SIZE = "48MiB"
FILE_SYSTEM_BYTES = 32 * MIB
# How often a rollback is done at a random point of a resync: 20 take some three minutes.
TIMES = int(os.environ.get("TWINBLOCK_ROLLBACKS") or 4)

needs_root = pytest.mark.skipif(not IS_ROOT, reason="mounting needs root")


@pytest.fixture
def xfs(scratch):
    """A directory on a file system with reflinks."""
    image, mount = scratch / "xfs", scratch / "mnt"
    mount.mkdir()
    with open(image, "wb") as file:
        file.truncate(400 * MIB)
    run("mkfs.xfs", "-q", "-m", "reflink=1", image)
    device = run("losetup", "-f", "--show", image).strip()
    try:
        run("mount", device, mount)
        yield mount
    finally:  # (the lab ends before it: tests ask for this one first)
        subprocess.run(["umount", str(mount)], capture_output=True, check=False)
        subprocess.run(["losetup", "-d", device], capture_output=True, check=False)
        assert not os.path.ismount(mount)


def lab_with_copies(make_lab, copies, backing=None, settings=None, **more):
    lab = make_lab(size=SIZE, start=False, peer_timeout="1s", backing=backing,
                   settings={"on_restart": "secondary", **(settings or {})}, **more)
    with open(lab.state["config"], "a", encoding="utf-8") as file:
        file.write("\n[copies]\n" + copies)
    lab.up()
    return lab


def on_xfs(xfs):
    return {name: xfs / f"{name}.img" for name in ("alpha", "beta")}


def put(lab, name, data, offset=0):
    with connection(lab, name) as handle:
        for at in range(0, len(data), MIB):
            handle.pwrite(data[at:at + MIB], offset + at)
        handle.flush()


def file_system(scratch, rng, generation):
    """An ext4 with files of that generation."""
    tree, image = scratch / "tree", scratch / "ext4"
    subprocess.run(["rm", "-rf", str(tree), str(image)], check=True)
    tree.mkdir()
    for number in range(40):
        (tree / f"{generation}-{number}").write_bytes(rng.randbytes(rng.randrange(400_000)))
    run("mkfs.ext4", "-q", "-d", tree, image, f"{FILE_SYSTEM_BYTES >> 10}k")
    return image.read_bytes()


def held(lab, name):
    return Path(lab.node(name)["backing"]).read_bytes()


def rate(lab, name, words):
    assert ctl(lab, name, "resync", *words.split()).returncode == 0


def half_copied(lab, source, target):
    """The target was away while the source wrote, and is on its way back, slowly; what it held before."""
    lab.kill(target)
    lab.wait_state(source, "simplex")
    before = held(lab, target)
    return before


def begin_slow_resync(lab, source, target, kept=True):
    rate(lab, source, "rate 2MiB")
    lab.start(target)
    if kept:
        wait_until(lambda: lab.status(target)["way_back"]["kept"], what="the way back:\n" + lab.log_tail(target))


def order_rollback(lab, name):
    """Again and again: the source's last writes may still be on their way to the disk."""
    answers = []

    def is_answered():
        answers.append(ctl(lab, name, "rollback"))
        return "has not finished what" not in answers[-1].stderr

    wait_until(is_answered, what="the disk to have what the source had sent")
    return answers[-1]


def roll_back(lab, name):
    """Once the session is lost."""
    wait_until(lambda: not lab.status(name)["peer"]["connected"], what="the end of the session")
    done = order_rollback(lab, name)
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join(done.stdout.split())


@needs_root
@pytest.mark.seconds(900)
def test_source_dies_at_a_random_point_and_the_target_is_what_it_was(xfs, make_lab, scratch, rng):
    lab = lab_with_copies(make_lab, 'before_resync = "reflink"\n', on_xfs(xfs))
    source, target = "alpha", "beta"
    put(lab, source, file_system(scratch, rng, 0))
    for number in range(1, TIMES + 1):
        before = half_copied(lab, source, target)
        put(lab, source, file_system(scratch, rng, number))
        begin_slow_resync(lab, source, target)
        time.sleep(rng.random() * 8)  # of the 16 s that it takes
        lab.kill(source)
        said = roll_back(lab, target)
        assert "again what it was at" in said and "lacks what" in said and "--peer-is-dead" in said, said
        assert held(lab, target) == before, f"rollback {number}"
        run("e2fsck", "-fn", lab.node(target)["backing"])
        assert not os.path.exists(str(lab.node(target)["backing"]) + ".before-resync.part")
        refused = ctl(lab, target, "promote")
        assert refused.returncode != 0, "it lacks what the source has acknowledged"
        promote(lab, target, "--peer-is-dead")
        put(lab, target, rng.randbytes(MIB), 40 * MIB)
        lab.start(source)
        lab.wait_state(source, "refused")
        lab.wait_state(target, "refused")
        keep = "local" if rng.random() < 0.5 else "peer"
        if keep == "peer":
            demote(lab, target)
        resolved = ctl(lab, target, "resolve", "--keep", keep, "--yes")
        assert resolved.returncode == 0, resolved.stdout + resolved.stderr
        if keep == "local":
            source, target = target, source
            lab.wait_state(source, "duplex", 60)
        else:
            lab.wait_state(source, "connected", 60)
            promote(lab, source)
        assert_identical(lab)
        wait_until(lambda: not any(Path(xfs).glob("*.before-resync")), what="the removal of copies")


@needs_root
def test_status_says_how_to_go_back_and_orders_that_can_t_be_are_refused(xfs, make_lab, rng):
    lab = lab_with_copies(make_lab, 'before_resync = "reflink"\n', on_xfs(xfs))
    refused = ctl(lab, "beta", "rollback")
    assert refused.returncode != 0 and "not half-copied" in refused.stderr
    half_copied(lab, "alpha", "beta")
    put(lab, "alpha", rng.randbytes(32 * MIB))
    begin_slow_resync(lab, "alpha", "beta")
    status = lab.status("beta")
    assert status["state"] == "resync" and status["data"] == "inconsistent" and status["way_back"]["since"]
    refused = ctl(lab, "beta", "rollback")
    assert refused.returncode != 0 and "alpha is connected" in refused.stderr, refused.stderr
    lab.kill("alpha")
    wait_until(lambda: "twinblock rollback r0" in lab.status("beta")["action"], what="the advice")
    assert "is kept" in " ".join(ctl(lab, "beta", "why").stdout.split())
    assert ctl(lab, "beta", "promote", "--peer-is-dead").returncode != 0
    # The source is back: the copy goes on, and the way back is gone.
    lab.start("alpha")
    lab.wait_state("beta", "connected", 60)
    promote(lab, "alpha")
    assert_identical(lab)
    assert not lab.status("beta")["way_back"]["kept"]


@needs_root
def test_who_was_rolled_back_is_told_of_the_split_to_come_and_of_no_writes_that_were_not(xfs, make_lab, rng):
    lab = lab_with_copies(make_lab, 'before_resync = "reflink"\n', on_xfs(xfs))
    half_copied(lab, "alpha", "beta")
    put(lab, "alpha", rng.randbytes(32 * MIB))
    begin_slow_resync(lab, "alpha", "beta")
    lab.kill("alpha")
    roll_back(lab, "beta")
    promote(lab, "beta", "--peer-is-dead")
    for _life in range(2):
        told = lab.status("beta")
        assert "was rolled back" in told["status"] and "up to date by itself" not in told["action"], told["action"]
        assert "have diverged" in told["action"] and "twinblock resolve r0" in told["action"], told["action"]
        assert ctl(lab, "beta", "demote").returncode == 0
        lab.kill("beta")  # it is on record
        lab.start("beta")
        promote(lab, "beta", "--peer-is-dead")
    lab.start("alpha")
    lab.wait_state("alpha", "refused")
    for name in ("alpha", "beta"):
        shown = ctl(lab, name, "resolve", "--keep", "local")
        assert shown.returncode == 0, shown.stderr
        said = " ".join(shown.stdout.split())
        assert "in blocks written since" not in said and "if any, in blocks that differ, at most 48 MiB" in said, said
    assert ctl(lab, "alpha", "resolve", "--keep", "peer", "--yes").returncode == 0
    lab.wait_state("beta", "duplex", 60)
    lab.kill("alpha")
    lab.wait_state("beta", "simplex")
    told = lab.status("beta")
    assert "rolled back" not in told["status"] and "up to date by itself" in told["action"], told


class Command:
    """A command of [copies], which does what the file `how` says."""

    def __init__(self, scratch):
        self.path, self.how, self.pids = scratch / "copies", scratch / "how", scratch / "pids"
        self.set("work")
        self.path.write_text(f"""#!/bin/sh
echo "$TWINBLOCK_STEP" >> {scratch}/steps
echo $$ >> {self.pids}
copy={scratch}/copy-of-$TWINBLOCK_NODE
case $(cat {self.how}) in
  hang) trap '' TERM; while :; do sleep 1; done ;;
  fail) echo "there is no room"; exit 7 ;;
  killed) kill -9 $$ ;;
  slow) touch {scratch}/waits; while [ ! -e {scratch}/go ]; do sleep 0.05; done ;;
esac
case $TWINBLOCK_STEP in
  before-resync) cp "$TWINBLOCK_BACKING" "$copy" && sync "$copy" ;;
  after-resync) rm "$copy" ;;
  rollback) dd if="$copy" of="$TWINBLOCK_BACKING" bs=1M conv=notrunc,fsync status=none ;;
esac
""", encoding="utf-8")
        self.path.chmod(0o755)

    def set(self, how):
        self.how.write_text(how, encoding="utf-8")

    def table(self, on_failure, timeout="60s"):
        return (f'before_resync = "{self.path}"\nafter_resync = "{self.path}"\nrollback = "{self.path}"\n'
                f'timeout = "{timeout}"\non_failure = "{on_failure}"\n')

    def none_runs(self):
        pids = self.pids.read_text(encoding="utf-8").split() if self.pids.exists() else []
        return not any(os.path.exists(f"/proc/{pid}") for pid in pids)


@pytest.mark.parametrize("how", ["hang", "fail", "killed"])
@pytest.mark.parametrize("on_failure", ["go on", "wait"])
def test_a_copy_that_is_not_taken_is_told_and_keeps_nobody_waiting(make_lab, scratch, rng, how, on_failure):
    command = Command(scratch)
    # What hangs is given up; what works may take its time.
    lab = lab_with_copies(make_lab, command.table(on_failure, "5s" if how == "hang" else "60s"))
    put(lab, "alpha", rng.randbytes(4 * MIB))
    half_copied(lab, "alpha", "beta")
    command.set(how)
    put(lab, "alpha", rng.randbytes(4 * MIB))
    since = len(lab.log_text("beta"))
    lab.start("beta")
    wait_for_log(lab, "beta", "no way back before the resync", since=since)
    put(lab, "alpha", rng.randbytes(MIB))  # nobody waits for it
    wait_until(command.none_runs, what="the end of the command")
    if on_failure == "wait":
        wait_until(lambda: "could not be taken" in lab.status("beta")["status"], what="the reason in status")
        assert lab.status("alpha")["state"] in ("simplex", "resync")
        assert lab.status("beta")["data"] == "current", "it is what it was"
        command.set("work")
    lab.wait_state("alpha", "duplex", 60)
    command.set("work")
    assert_identical(lab)
    wait_until(command.none_runs, what="the end of the commands")


@pytest.mark.parametrize("how", ["slow", "fail"])
def test_a_primary_that_begins_anew_does_not_wait_for_a_copy_either(make_lab, scratch, rng, how):
    """Its device waits for its process, and not for its peer's copy, which may take long or never be there."""
    command = Command(scratch)
    lab = lab_with_copies(make_lab, command.table("wait", "10min"), settings={"on_restart": "resume"})
    registers = Registers(int(SIZE[:-3]) * MIB)
    command.set(how)
    for _ in range(2):
        load = Load(lab, "alpha", registers, seed=rng.getrandbits(32))
        load.wait_for(200)
        lab.kill("alpha")
        load.ended()
        lab.start("alpha")
        status = lab.wait_status("alpha", lambda status: status["role"] == "primary" and not status["resumes"],
                                 what="alpha to go on")
        assert lab.status("beta")["data"] == "current", "it is not half-copied yet"
        assert status["state"] in ("simplex", "resync"), status["state"]
        with connection(lab, "alpha") as handle:
            registers.check(lambda offset, length: handle.pread(length, offset), False, "the volume on alpha")
    put(lab, "alpha", rng.randbytes(MIB))
    command.set("work")
    (scratch / "go").touch()
    lab.wait_state("alpha", "duplex", 60)
    assert_identical(lab)
    wait_until(command.none_runs, what="the end of the commands")


def test_an_order_to_go_on_alone_holds_while_no_copy_can_be_taken(make_lab, scratch, rng):
    """A peer that comes again and again, and takes no part, does not freeze what the operator has let go on."""
    command = Command(scratch)
    lab = lab_with_copies(make_lab, command.table("wait"), settings={"on_peer_loss": "freeze"})
    lab.kill("beta")
    lab.wait_state("alpha", "frozen")
    assert ctl(lab, "alpha", "continue").returncode == 0
    put(lab, "alpha", rng.randbytes(MIB))
    command.set("fail")
    lab.start("beta")
    wait_for_log(lab, "beta", "no way back before the resync")
    put(lab, "alpha", rng.randbytes(MIB), MIB)
    command.set("work")
    lab.wait_state("alpha", "duplex", 60)
    lab.kill("beta")
    lab.wait_state("alpha", "frozen")  # the order has done its part
    lab.start("beta")
    lab.wait_state("alpha", "duplex", 60)
    assert_identical(lab)


def test_a_rollback_by_commands_that_fails_can_be_ordered_again(scratch_in_memory, make_lab, rng):
    """In memory: of the time that a copy has, no disk takes a part."""
    command = Command(scratch_in_memory)
    lab = lab_with_copies(make_lab, command.table("wait", "15s"), below=scratch_in_memory)
    put(lab, "alpha", rng.randbytes(4 * MIB))
    before = half_copied(lab, "alpha", "beta")
    put(lab, "alpha", rng.randbytes(40 * MIB))
    begin_slow_resync(lab, "alpha", "beta")
    lab.kill("alpha")
    wait_until(lambda: not lab.status("beta")["peer"]["connected"], what="the end of the session")
    for how in ("fail", "hang", "killed"):
        command.set(how)
        failed = order_rollback(lab, "beta")
        assert failed.returncode != 0 and "the rollback failed" in failed.stderr, failed.stderr
        wait_until(command.none_runs, what="the end of the command")
        assert lab.status("beta")["way_back"]["kept"] and not lab.status("beta")["way_back"]["rolling_back"]
    command.set("work")
    lab.kill("beta")
    lab.start("beta")
    roll_back(lab, "beta")
    assert held(lab, "beta") == before
    wait_until(lambda: not (scratch_in_memory / "copy-of-beta").exists(), what="the removal of the copy")
    # The old source's data counts after all.
    lab.start("alpha")
    lab.wait_state("beta", "refused")
    assert ctl(lab, "beta", "resolve", "--keep", "peer", "--yes").returncode == 0
    lab.wait_state("beta", "connected", 60)
    promote(lab, "alpha")
    assert_identical(lab)


def test_a_rollback_command_does_not_outlive_its_node_into_the_next_life(make_lab, scratch, rng):
    """What a dead process has left running would write old blocks into a replica that is whole by then."""
    command = Command(scratch)
    lab = lab_with_copies(make_lab, command.table("wait").replace("1500ms", "10min"))
    put(lab, "alpha", rng.randbytes(4 * MIB))
    half_copied(lab, "alpha", "beta")
    put(lab, "alpha", rng.randbytes(40 * MIB))
    begin_slow_resync(lab, "alpha", "beta")
    lab.kill("alpha")
    wait_until(lambda: not lab.status("beta")["peer"]["connected"], what="the end of the session")
    command.set("slow")
    order = threading.Thread(target=order_rollback, args=(lab, "beta"))
    order.start()
    wait_until((scratch / "waits").exists, what="the command")
    assert not command.none_runs()
    lab.kill("beta")
    order.join()
    assert not command.none_runs(), "it lives on"
    command.set("work")
    lab.start("beta")
    wait_until(command.none_runs, what="the end of the command")
    (scratch / "go").touch()
    lab.start("alpha")
    lab.wait_state("alpha", "connected", 60)
    promote(lab, "alpha")
    assert_identical(lab)


def test_who_was_rolled_back_asks_the_fence_command(make_lab, scratch, rng):
    fence = Fence(scratch)
    fence.says(7)
    command = Command(scratch)
    lab = lab_with_copies(make_lab, command.table("go on"), witness="command", fence_command=str(fence.path),
                          witness_settings={"timeout": "5s"})
    put(lab, "alpha", rng.randbytes(4 * MIB))
    half_copied(lab, "alpha", "beta")
    put(lab, "alpha", rng.randbytes(40 * MIB))
    begin_slow_resync(lab, "alpha", "beta")
    lab.kill("alpha")
    roll_back(lab, "beta")
    fence.forget()
    fence.says(6)
    refused = ctl(lab, "beta", "promote", "--peer-is-dead")
    assert refused.returncode != 0 and "exit status 6" in refused.stderr, refused.stdout + refused.stderr
    assert fence.runs()
    fence.says(7)
    assert ctl(lab, "beta", "promote", "--peer-is-dead").returncode == 0
    put(lab, "beta", rng.randbytes(MIB))


def test_what_a_rollback_advises_beside_an_etcd_works(make_lab, scratch, rng):
    command = Command(scratch)
    lab = lab_with_copies(make_lab, command.table("go on"), witness="etcd", witness_settings={"timeout": "1s"})
    entry_key(lab)
    put(lab, "alpha", rng.randbytes(4 * MIB))
    half_copied(lab, "alpha", "beta")
    put(lab, "alpha", rng.randbytes(40 * MIB))
    begin_slow_resync(lab, "alpha", "beta")
    lab.kill("alpha")
    said = roll_back(lab, "beta")
    order = re.search(r"To go on with it: twinblock promote r0 (.*?);", said)[1].split()
    assert f"`twinblock promote r0 {' '.join(order)}`" in lab.status("beta")["action"]
    refused = ctl(lab, "beta", "promote")
    assert refused.returncode != 0 and "was rolled back to" in refused.stderr, refused.stdout + refused.stderr
    assert " ".join(order) in refused.stderr, refused.stderr
    promote(lab, "beta", *order)
    put(lab, "beta", rng.randbytes(MIB))
    # What alpha acknowledged alone is one side of a split brain.
    lab.start("alpha")
    lab.wait_state("alpha", "refused", 60)
    assert "resolve" in lab.status("alpha")["action"]
