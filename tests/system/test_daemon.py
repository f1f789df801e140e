"""The process: readiness, end, one instance, both disk engines."""

import contextlib
import grp
import os
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path

import nbd
import pytest

from faulty_disk import FaultyDisk
from lablib.error import LabError
from lablib.lab import default_build
from lateness import Lateness
from support import (FLAG_FLUSHING, IS_ROOT, MIB, assert_identical, connection, ctl, has_on_record, promote,
                     status_field, wait_for_log, wait_until, wait_until_left)


@pytest.mark.sanitize
def test_readiness_is_announced_once_it_answers(make_lab, scratch):
    lab = make_lab(start=False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(scratch / "notify"))
        notify.settimeout(60)
        lab.start("alpha", wait=False, extra_env={"NOTIFY_SOCKET": str(scratch / "notify")})
        received = b""
        while b"READY=1" not in received:
            received += notify.recv(4096) + b"\n"
        assert lab.status("alpha")["state"] == "blank"
        # Then how it is, once, and each second that it lives.
        received = b""
        while received.count(b"WATCHDOG=1\n") < 3:
            received += notify.recv(4096) + b"\n"
        assert received.count(b"STATUS=secondary, blank\n") == 1
    assert lab.stop("alpha")


@pytest.mark.sanitize
def test_sigterm_ends_in_order_and_in_time(scratch_in_memory, make_lab):
    lab = make_lab(below=scratch_in_memory)  # what it takes is no matter of a disk that others use
    with connection(lab) as handle:
        handle.pwrite(b"\x12" * MIB, 0)
        with Lateness() as machine:
            started = time.monotonic()
            assert lab.stop("beta")
            took_s = time.monotonic() - started
        assert lab.exit_code("beta") == 0
        assert took_s < 5 + machine.allowance_s()
        handle.pwrite(b"\x13" * MIB, 0)
    assert lab.stop("alpha")
    assert lab.exit_code("alpha") == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
def test_stop_does_not_wait_for_an_idle_client(lab, number):
    with contextlib.suppress(Exception):  # the handle's own goodbye finds nobody
        with connection(lab) as handle:
            handle.pwrite(b"\x14" * MIB, 0)
            process = lab.process("alpha")
            process.signal(number)
            wait_until(lambda: not process.alive(), 5, "the end with a client")
    assert process.exit_code == 0
    assert "demoted to secondary" in lab.log_text("alpha")
    lab.wait_peer_lost("beta")
    assert_identical(lab)


@pytest.mark.sanitize
def test_stop_of_a_primary_with_clients_is_no_crash(lab):
    data = os.urandom(4 * MIB)
    with contextlib.suppress(nbd.Error):  # the handles' own goodbyes find nobody
        with connection(lab) as handle, connection(lab):
            handle.pwrite(data, 8 * MIB)
            handle.flush()
            handle.pwrite(data, 16 * MIB)  # nobody flushed this one
            assert lab.stop("alpha", 8)
    assert lab.exit_code("alpha") == 0
    assert "demoted to secondary" in lab.log_text("alpha")
    lab.wait_peer_lost("beta")
    assert_identical(lab)
    lab.start("alpha")
    lab.wait_state("alpha", "duplex", 10)
    # Duplex a moment before it serves: it is primary again when that is on record.
    lab.wait_status("alpha", lambda status: status["role"] == "primary", 10,
                    what="primary, as those clients may wait for it")
    assert "without demotion" not in lab.log_text("alpha")
    for name in ("alpha", "beta"):
        assert lab.status(name)["counters"]["resync_bytes"] == 0


def test_second_instance_of_a_node_is_refused(lab):
    result = subprocess.run([f"{lab.state['build']}/daemon/twinblockd", lab.state["config"],
                             "--node", "alpha"], capture_output=True, text=True, check=False,
                            timeout=120)
    assert result.returncode == 1
    assert str(lab.node("alpha")["pid"]) in result.stderr
    assert lab.status("alpha")["state"] == "duplex"


def test_no_program_of_the_current_directory_is_run(make_lab, scratch):
    """Where PATH says so: who starts a node by hand may be anywhere, and nbdkit becomes the node."""
    lab = make_lab(start=False)
    other = scratch / "nbdkit"
    other.write_text(f"#!/bin/sh\n: >{scratch}/ran\n")
    other.chmod(0o755)
    lab.start("alpha", cwd=scratch, extra_env={"PATH": f".:{os.environ['PATH']}"})
    assert lab.status("alpha")["state"] == "blank"
    assert not (scratch / "ran").exists()


def test_a_socket_on_which_somebody_listens_is_not_taken_away(lab):
    """Whoever tidies up a runtime directory has not stopped the node that runs."""
    os.unlink(os.path.join(os.path.dirname(lab.node("alpha")["control"]), "r0.pid"))
    result = subprocess.run([f"{lab.state['build']}/daemon/twinblockd", lab.state["config"],
                             "--node", "alpha"], capture_output=True, text=True, check=False,
                            timeout=120)
    assert result.returncode == 1
    assert f"another process listens on {socket_of(lab)}" in result.stderr
    with connection(lab) as handle:
        handle.pwrite(b"\x14" * 4096, 0)


@pytest.mark.sanitize
@pytest.mark.parametrize("make", [os.symlink, os.link])
def test_a_pid_file_that_is_another_file_is_not_written(make_lab, scratch, make):
    lab = make_lab(start=False)
    victim = scratch / "victim"
    victim.write_text("precious")
    runtime = os.path.dirname(lab.node("alpha")["control"])
    os.makedirs(runtime, exist_ok=True)
    make(victim, os.path.join(runtime, "r0.pid"))
    with pytest.raises(Exception):  # noqa: B017: how the lab says so is its own business
        lab.start("alpha")
    assert "r0.pid" in lab.log_text("alpha") and "remove it" in lab.log_text("alpha")
    assert victim.read_text() == "precious"


def said_without_its_backing(lab, path):
    """By alpha, which does not start."""
    node = lab.node("alpha")
    there, node["backing"] = str(node["backing"]), path
    lab.set_node_config("alpha", lab.config_text(lab.state["replication"]))
    with pytest.raises(LabError):
        lab.start("alpha")
    node["backing"] = there
    return lab.log_text("alpha")


@pytest.mark.parametrize("backing, says", [("/dev/twinblock-is-not-here", "attach or activate that device"),
                                           ("{scratch}/nothing", "create it: (umask 077; truncate -s ")])
def test_a_backing_that_is_missing_is_made_only_where_it_is_a_file(make_lab, scratch, backing, says):
    """A file in a device's place would be in memory."""
    said = said_without_its_backing(make_lab(start=False), backing.format(scratch=scratch))
    assert says in said and ("truncate" in said) == ("truncate" in says)


def test_who_has_metadata_is_asked_for_the_disk_before_another_one_is_made(make_lab, scratch):
    """It held data: an empty file, made where its file system is not mounted, would stand in the place of those."""
    lab = make_lab(start=False)
    Path(lab.node("alpha")["metadata"]).touch()
    said = said_without_its_backing(lab, f"{scratch}/nothing")
    assert "so there were data: is it mounted?" in said and "create it" not in said, said
    assert said.index("is it mounted") < said.index("If the disk was replaced, move the metadata away") < said.index("truncate")


def build_for_all(directory):
    """What a node needs of the build, where every user can read it."""
    for pattern in ("daemon/twinblockd", "plugins/twinblock/*.so", "tests/system/libsanitizer_first.so"):
        for file in default_build().glob(pattern):
            copy = directory / "build" / file.relative_to(default_build())
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
    return str(directory / "build")


def symlink(path):
    real = path.with_name("real")
    own(real)
    path.symlink_to(real)


def of_another_user(path):
    path.mkdir()
    shutil.chown(path, "root", "nogroup")
    path.chmod(0o770)


def writable_by_all(path):
    own(path)
    path.chmod(0o777)


def own(path):
    path.mkdir(mode=0o755)
    shutil.chown(path, "nobody", "nogroup")


@pytest.mark.parametrize("make", [symlink, of_another_user, writable_by_all])
def test_a_runtime_directory_that_is_not_this_user_s_own_is_not_used(make_lab, scratch, scratch_in_tmp, make):
    """Whoever has made it can put another socket there than the node's, and has what clients write."""
    if not IS_ROOT:
        pytest.skip("only root can start a node as another user")
    for directory in (scratch, scratch_in_tmp):
        directory.chmod(0o755)
    lab = make_lab(start=False, build=build_for_all(scratch), encryption="off")
    node, runtime = lab.node("alpha"), scratch_in_tmp / "run"
    node.update(run=str(runtime), control=f"{runtime}/r0.ctl", nbd=f"nbd+unix:///?socket={runtime}/r0.nbd")
    lab.set_node_config("alpha", lab.config_text(lab.state["replication"]))
    for path in (node["backing"], os.path.dirname(node["metadata"])):
        shutil.chown(path, "nobody")
    nobody = {"user": "nobody", "group": "nogroup", "extra_groups": []}
    make(runtime)
    with pytest.raises(LabError):
        lab.start("alpha", **nobody)
    assert f"the runtime directory {runtime} is not this user's own" in lab.log_text("alpha")
    assert not os.listdir(runtime)
    runtime.rename(scratch_in_tmp / "theirs")
    own(runtime)
    lab.start("alpha", **nobody)
    assert lab.status("alpha")["state"] == "blank"


def test_data_that_everybody_can_read_gets_a_warning(make_lab):
    lab = make_lab(start=False)
    os.chmod(lab.node("alpha")["backing"], 0o644)
    lab.start("alpha")
    wait_for_log(lab, "alpha", "every user of this host can read")
    lab.start("beta")
    assert "every user" not in lab.log_text("beta")


def socket_of(lab):
    return lab.node("alpha")["nbd"].split("socket=")[1]


def test_clients_of_other_users_find_no_way_in_whatever_the_umask(make_lab):
    """Whoever connects has all that the volume holds. nbdkit makes the socket as the umask says."""
    lab = make_lab(start=False)
    lab.start("alpha", umask=0)
    ours = any(each.gr_gid == os.getegid() and each.gr_name == "twinblock" for each in grp.getgrall())
    for path in (socket_of(lab), lab.node("alpha")["control"]):
        assert stat.S_IMODE(os.stat(path).st_mode) == (0o660 if ours else 0o600), path


@pytest.mark.sanitize
def test_only_the_volume_s_name_is_served(lab):
    term = lab.status("alpha")["term"]
    for name in ("", "r0", f"r0@{term}"):
        handle = nbd.NBD()
        handle.set_export_name(name)
        handle.connect_unix(socket_of(lab))
        assert handle.get_size() == 64 * MIB
        handle.shutdown()
    for name in ("r1", "r", "r00", "..", "x" * 4000, "r0@", "r0@0", "r0@1x", f"r0@{term + 1}", f"@{term}", f"r0@{2**64}"):
        handle = nbd.NBD()
        handle.set_export_name(name)
        with pytest.raises(nbd.Error):
            handle.connect_unix(socket_of(lab))
    wait_for_log(lab, "alpha", "this is volume 'r0'")
    wait_until_left(lab)


def test_a_promotion_of_the_volume_before_is_none_of_this_one(lab):
    """A guest that waits for its node (reconnect-delay) does not write what it has cached over a volume that was begun anew."""
    term = lab.status("alpha")["term"]
    lab.stop("beta")
    lab.stop("alpha")
    Path(lab.node("alpha")["metadata"]).unlink()
    lab.start("alpha")
    assert ctl(lab, "alpha", "init").returncode == 0
    promote(lab, "alpha")
    handle = nbd.NBD()
    handle.set_export_name(f"r0@{term}")
    with pytest.raises(nbd.Error):
        handle.connect_unix(socket_of(lab))
    wait_for_log(lab, "alpha", f"and not by {term}: what a client has read since that one may be old")
    handle = nbd.NBD()
    handle.set_export_name(f"r0@{lab.status('alpha')['term']}")
    handle.connect_unix(socket_of(lab))
    handle.shutdown()
    wait_until_left(lab)


@pytest.mark.parametrize("engine", ["io_uring", "threads"])
def test_disk_engine_can_be_chosen(make_lab, engine):
    environment = {"TWINBLOCK_DISK": engine}
    lab = make_lab(env={"alpha": environment, "beta": environment})
    data = os.urandom(2 * MIB)
    with connection(lab) as handle:
        handle.pwrite(data, MIB)
        handle.zero(MIB, 2 * MIB)
        handle.trim(MIB, 8 * MIB)
        handle.flush()
        assert handle.pread(MIB, MIB) == data[:MIB]
    for name in ("alpha", "beta"):
        assert lab.status(name)["disk"]["engine"] == engine
    assert_identical(lab)


def test_node_that_was_killed_starts_again_over_its_stale_sockets(lab):
    lab.kill("beta")
    assert os.path.exists(lab.node("beta")["control"])
    lab.start("beta")
    lab.wait_state("alpha", "duplex", 20)


def test_a_stop_waits_for_a_slow_flush(make_lab, scratch):
    """What clients wrote is stable on both nodes then, and the peer can be promoted without a word. Longer than most
    things take, and the service manager is asked for its patience."""
    disk = FaultyDisk(scratch, make_lab, "alpha", up=False, backing_io="buffered")
    lab = disk.lab
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(scratch / "notify"))
        notify.settimeout(60)
        lab.set_env("alpha", NOTIFY_SOCKET=str(scratch / "notify"), **lab.node("alpha")["env"])
        lab.up()
        with connection(lab) as handle:
            handle.pwrite(b"\x12" * MIB, 0)
        disk.begin("delay 13000000", only="flushes")
        stopped = []
        stop = threading.Thread(target=lambda: stopped.append(lab.stop("alpha")))
        stop.start()
        while b"EXTEND_TIMEOUT_USEC=" not in notify.recv(4096):
            pass
        wait_until(disk.is_slow, what="a flush that takes its time")
        disk.end()  # the next ones are quick
        asked = 0
        while stop.is_alive():
            notify.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                asked += b"EXTEND_TIMEOUT_USEC=" in notify.recv(4096)
        assert stopped == [True]
        assert asked >= 3, "patience that was asked for once ends at the manager's own limit"
    assert lab.exit_code("alpha") == 0
    assert not has_on_record(lab, "alpha", FLAG_FLUSHING), "it took long, and ended well"
    promote(lab, "beta")


def test_orderly_restart_of_both_needs_no_resync(lab):
    with connection(lab) as handle:
        handle.pwrite(os.urandom(4 * MIB), 0)
    assert lab.stop("alpha") and lab.stop("beta")
    lab.up()
    status = lab.status("alpha")
    assert status["counters"]["resync_bytes"] <= MIB
    assert_identical(lab)


def test_two_labs_run_side_by_side(make_lab):
    one, two = make_lab(), make_lab()
    with connection(one) as first, connection(two) as second:
        first.pwrite(b"1" * MIB, 0)
        second.pwrite(b"2" * MIB, 0)
        first.flush()
        second.flush()
        assert first.pread(512, 0) == b"1" * 512
    assert_identical(one)
    assert_identical(two)


def test_log_of_a_node_tells_its_story(lab):
    lab.kill("beta")
    lab.wait_state("alpha", "simplex", 10)
    lab.start("beta")
    lab.wait_state("alpha", "duplex", 20)
    for words in ("promoted to primary", "session with beta is lost", "beta is whole and current"):
        wait_for_log(lab, "alpha", words)
    assert "assert" not in lab.log_text("alpha").lower()


def test_sigint_ends_like_sigterm(lab):
    process = lab.process("beta")
    process.signal(signal.SIGINT)
    wait_until(lambda: not process.alive(), 5, "the end after SIGINT")
    assert process.exit_code == 0


def thread_flags(pid):
    """PF_… of each thread."""
    for task in os.scandir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), \
                open(f"{task.path}/stat", encoding="utf-8", errors="replace") as file:  # unless it has ended
            yield int(file.read().rpartition(")")[2].split()[6])


def test_each_thread_is_ready_for_a_shortage_of_memory_or_status_says_why_not(lab):
    no_io_and_local_throttle = 0x00080000 | 0x00100000  # of Linux: PF_MEMALLOC_NOIO, PF_LOCAL_THROTTLE
    with connection(lab) as handle:
        handle.pwrite(b"\x15" * MIB, 0)
        for name in ("alpha", "beta"):
            status = lab.status(name)
            memory, pid = status["memory"], status["pid"]
            if memory["io_flusher"]:
                assert all(flags & no_io_and_local_throttle == no_io_and_local_throttle
                           for flags in thread_flags(pid))
            assert memory["locked"] == (int(status_field(pid, "VmLck")) > 0)
            with open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as file:
                assert memory["oom_score_adj"] == int(file.read())
            all_granted = memory["io_flusher"] and memory["locked"] and memory["oom_score_adj"] < 0
            assert bool(memory["refused"]) == (not all_granted)
            wait_until(lambda: lab.log_text(name).count("When memory is short") == (not all_granted),  # noqa: B023
                       what="the log to say so where something was refused")
            said = ctl(lab, name, "status").stdout
            assert ("When memory is short" in " ".join(said.split())) == (not all_granted)
