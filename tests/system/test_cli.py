"""The command line: exit codes, JSON, messages that say what to do."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from lablib.error import LIVENESS_S
from lablib.processes import Process, boot_id
from lateness import Lateness
from support import MIB, assert_identical, can_mount_alone, connection, ctl, promote, twinblock

VERBS = ("status", "why", "init", "promote", "grow", "rollback", "snapshot", "demote", "continue", "resolve", "attach",
         "detach", "resync", "verify", "wait", "link", "compression", "latency", "stats", "events",
         "metrics")


def test_help_of_every_verb(lab):
    shown = twinblock(lab, "--help")
    assert shown.returncode == 0
    for verb in VERBS:
        assert verb in shown.stdout
        own = twinblock(lab, verb, "--help")
        assert own.returncode == 0 and "--json" in own.stdout


@pytest.mark.parametrize("words", [[], ["nonsense"], ["status", "--nonsense"],
                                   ["wait", "--timeout", "soon"], ["wait", "--for", "nirvana"],
                                   ["wait", "r0", "nirvana"], ["help", "nonsense"],
                                   ["link"], ["link", "cut", "link1"], ["link", "remove"],
                                   ["probe", "--link", b"stra\xdfe"]])
def test_wrong_usage_exits_with_2(lab, words):
    if words:
        words += ["--socket", lab.node("alpha")["control"]]
    result = twinblock(lab, *words)
    assert result.returncode == 2
    assert result.stderr


@pytest.mark.sanitize
def test_status_for_people_and_for_programs(lab):
    text = ctl(lab, "alpha", "status")
    assert text.returncode == 0
    for word in ("r0", "alpha", "primary", "duplex", "beta"):
        assert word in text.stdout
    shown = json.loads(ctl(lab, "beta", "status", "--json").stdout)
    shown = shown.get("result", shown)
    assert shown["role"] == "secondary" and shown["peer"]["name"] == "alpha"
    assert shown["state"] == "duplex" and shown["size_bytes"] == 64 * MIB


def test_compression_is_shown_and_set(lab):
    assert ctl(lab, "alpha", "compression").stdout.startswith("off")
    changed = ctl(lab, "alpha", "compression", "auto", "--level", 3)
    assert changed.returncode == 0 and "auto" in changed.stdout
    shown = json.loads(ctl(lab, "alpha", "compression", "--json").stdout)["compression"]
    assert (shown["mode"], shown["level"]) == ("auto", 3)
    assert "compress: auto, level 3" in ctl(lab, "alpha", "status").stdout
    for words in (["sometimes"], ["on", "--level", "0"], ["on", "--level", "20"], ["r0", "r1", "on"]):
        wrong = ctl(lab, "alpha", "compression", *words)
        assert wrong.returncode == 2 and wrong.stderr, words


@pytest.mark.parametrize("words", [["demote", "other"], ["promote", "other"], ["status", "other"],
                                   ["wait", "duplx"], ["resolve", "other", "--keep", "local"]])
def test_a_verb_for_another_volume_is_not_carried_out(lab, words):
    refused = ctl(lab, "alpha", *words)
    assert refused.returncode == 2
    assert "has volume 'r0', not" in refused.stderr
    assert lab.status("alpha")["role"] == "primary"
    assert ctl(lab, "alpha", "status", "r0").returncode == 0


def test_status_by_config_and_node(lab):
    shown = twinblock(lab, "status", "--config", lab.state["config"], "--node", "beta", "--json")
    assert shown.returncode == 0, shown.stderr
    assert '"beta"' in shown.stdout


@pytest.mark.parametrize("words", [["status"], ["metrics"], ["status", "--watch"], ["status", "--json", "--watch"]])
def test_what_finds_no_room_on_the_disk_is_a_failure(lab, words):
    """The metrics are longer than what is written at a time."""
    program = Path(lab.state["build"]) / "tools" / "twinblock"
    with open("/dev/full", "wb") as full:
        done = subprocess.run([str(program), *words, "--socket", lab.node("alpha")["control"]], stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False, timeout=2 * LIVENESS_S)
    assert done.returncode == 1 and "No space left on device" in done.stderr, done


def test_unreachable_daemon_exits_with_3(lab):
    lab.kill("beta")
    result = ctl(lab, "beta", "status")
    assert result.returncode == 3
    assert "twinblockd" in result.stderr or "start" in result.stderr
    assert ctl(lab, "beta", "wait", "--timeout", "1s").returncode in (3, 4)


def test_refused_order_says_why_and_by_its_exit_status_whether_to_try_again(lab):
    result = ctl(lab, "alpha", "init")
    assert result.returncode == 1
    assert result.stderr.strip()
    result = ctl(lab, "beta", "promote", "--json")
    assert result.returncode == 8
    reply = json.loads(result.stdout)
    assert reply["ok"] is False and reply["error"]
    # Of other verbs no exit status but 1 says it.
    for words in (("rollback",), ("snapshot", "r0", "x")):
        result = ctl(lab, "alpha", *words, "--json")
        assert result.returncode == 1, words
        assert "refused" not in json.loads(result.stdout)


def test_a_node_that_stands_still_is_not_to_be_started(lab):
    lab.pause("beta")
    try:
        result = ctl(lab, "beta", "status")
    finally:
        lab.resume("beta")
    assert result.returncode == 3
    assert "does not answer" in result.stderr and "Start it" not in result.stderr, result.stderr


def test_a_snapshot_without_a_name_is_not_called_as_the_volume(lab):
    result = ctl(lab, "alpha", "snapshot", "r0")
    assert result.returncode == 1 and "is the volume's name" in result.stderr, result.stderr


def test_verify_names_no_node_that_can_t_either(lab):
    assert "run it on alpha" in ctl(lab, "beta", "verify").stderr
    assert ctl(lab, "alpha", "demote").returncode == 0
    lab.wait_state("beta", "connected")  # it has heard of it
    result = ctl(lab, "beta", "verify")
    assert "run it on" not in result.stderr and "promote" in result.stderr, result.stderr


def test_wait_takes_the_goal_as_a_word(lab):
    assert ctl(lab, "alpha", "wait", "r0", "duplex").returncode == 0
    assert ctl(lab, "alpha", "wait", "primary").returncode == 0
    assert ctl(lab, "alpha", "wait", "r0", "simplex", "--timeout", "0").returncode == 4


def test_wait_times_out_with_4_and_reports_success_with_0(lab):
    assert ctl(lab, "alpha", "wait").returncode == 0
    lab.kill("beta")
    lab.wait_peer_lost("alpha")
    with Lateness() as machine:
        started = time.monotonic()
        assert ctl(lab, "alpha", "wait", "--for", "duplex", "--timeout", "1s").returncode == 4
        took_s = time.monotonic() - started
    assert 0.8 < took_s < 3 + machine.allowance_s()
    assert ctl(lab, "alpha", "wait", "--for", "simplex", "--timeout", "10s").returncode == 0


def test_demote_is_refused_while_clients_are_connected_or_leaves_no_writer(lab):
    with connection(lab) as handle:
        handle.pwrite(b"\x01" * 4096, 0)
        result = ctl(lab, "alpha", "demote")
        if result.returncode == 0:
            with pytest.raises(Exception):
                handle.pwrite(b"\x02" * 4096, 0)
        else:
            assert "client" in result.stderr
            handle.pwrite(b"\x02" * 4096, 0)


def test_promote_and_demote_are_idempotent(lab):
    assert ctl(lab, "alpha", "promote").returncode == 0
    assert ctl(lab, "beta", "demote").returncode == 0
    assert lab.status("alpha")["state"] == "duplex"


def test_blank_volume_says_what_to_do(make_lab):
    lab = make_lab(init=False)
    status = lab.status("alpha")
    assert status["state"] == "blank" and "init" in status["action"]
    promoted = ctl(lab, "alpha", "promote")
    assert promoted.returncode == 7 and "init" in promoted.stderr
    assert ctl(lab, "alpha", "init").returncode == 0


def test_a_node_that_answers_is_not_to_be_started(make_lab):
    """Whatever is wrong with alpha: it runs, and beta says so, until it is gone."""
    lab = make_lab()
    assert lab.stop("alpha")
    lab.wait_status("beta", lambda status: "Start twinblockd on alpha" in status["action"], 15)
    host, port = lab.node("alpha")["replication"].rsplit(":", 1)
    with socket.create_server((host, int(port))) as deaf:
        ended = threading.Event()

        def hang_up():
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    deaf.accept()[0].close()

        answering = threading.Thread(target=hang_up)
        answering.start()
        try:
            shown = lab.wait_status(
                "beta", lambda status: "The address of alpha answers" in status["action"], 15)
            assert "Start twinblockd" not in shown["action"]
        finally:
            ended.set()
            with contextlib.suppress(OSError):
                socket.create_connection((host, int(port)), 1).close()
            answering.join()
    lab.wait_status("beta", lambda status: "Start twinblockd on alpha" in status["action"], 15)


def test_joining_says_no_more_than_that_it_joins(make_lab):
    lab = make_lab(start=False)
    with open(lab.node("beta")["backing"], "r+b") as image:
        image.write(b"old")
    lab.up(init=False)
    assert ctl(lab, "alpha", "init").returncode == 0
    lab.wait_status("beta", lambda status: "--join" in status["action"], 10)
    joined = ctl(lab, "beta", "init", "--join")
    assert joined.returncode == 0 and "overwritten" in joined.stdout
    assert "to do" not in joined.stdout and "refused" not in joined.stdout
    lab.wait_state("alpha", "connected", 20)


@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="there is no /dev/fuse")
def test_attached_file_holds_the_volume_until_detach(lab):
    with connection(lab) as handle:
        handle.pwrite(b"\x5a" * MIB, MIB)
    attached = ctl(lab, "alpha", "attach", "--method", "nbdfuse-file", "--json")
    assert attached.returncode == 0, attached.stderr
    device = json.loads(attached.stdout)["device"]
    try:
        assert os.path.getsize(device) == 64 * MIB
        again = ctl(lab, "alpha", "attach")
        assert again.returncode == 1 and device in again.stderr
        with open(device, "r+b") as file:
            file.seek(MIB)
            assert file.read(512) == b"\x5a" * 512
            file.seek(2 * MIB)
            file.write(b"\x5b" * MIB)
        assert lab.status("alpha")["clients"] >= 1
    finally:
        detached = ctl(lab, "alpha", "detach")
    assert detached.returncode == 0, detached.stderr
    assert not os.path.exists(device)
    assert ctl(lab, "alpha", "detach").returncode == 1
    assert_identical(lab)
    with open(lab.node("beta")["backing"], "rb") as image:
        image.seek(2 * MIB)
        assert image.read(MIB) == b"\x5b" * MIB


@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="there is no /dev/fuse")
@pytest.mark.parametrize("method", ["nbdfuse-file", "auto"])
def test_attach_after_a_crash_of_the_node_replaces_the_dead_device(lab, method):
    attached = ctl(lab, "alpha", "attach", "--method", method, "--json")
    assert attached.returncode == 0, attached.stderr
    lab.kill("alpha")
    lab.start("alpha")
    promote(lab, "alpha")
    with connection(lab):  # not the attachment's
        again = ctl(lab, "alpha", "attach", "--method", method)
    try:
        assert again.returncode == 0, again.stderr
        # A device of the kernel's nbd goes on, where the promotion is still the same.
        assert "dead" in again.stderr or "reconnected" in again.stderr
        with open(again.stdout.strip(), "r+b") as device:
            device.write(b"\x5c" * MIB)
            device.flush()
            os.fsync(device.fileno())
    finally:
        detached = ctl(lab, "alpha", "detach")
    assert detached.returncode == 0, detached.stderr
    with open(lab.node("beta")["backing"], "rb") as image:
        assert image.read(MIB) == b"\x5c" * MIB


@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="there is no /dev/fuse")
def test_attach_after_the_death_of_nbdfuse_replaces_the_dead_device(lab):
    """Its mount is there still, and in the way of another one."""
    attached = ctl(lab, "alpha", "attach", "--method", "nbdfuse-file")
    assert attached.returncode == 0, attached.stderr
    note = json.loads(Path(lab.node("alpha")["control"]).with_suffix(".attach.json").read_text(encoding="utf-8"))
    nbdfuse = Process(note["nbdfuse_pid"], note["nbdfuse_start_ticks"], boot_id())
    assert nbdfuse.signal(signal.SIGKILL) and nbdfuse.wait_gone(LIVENESS_S)
    try:
        again = ctl(lab, "alpha", "attach", "--method", "nbdfuse-file")
        assert again.returncode == 0 and "dead" in again.stderr, again.stderr
        assert os.path.getsize(again.stdout.strip()) == 64 * MIB
        detached = ctl(lab, "alpha", "detach")
        assert detached.returncode == 0, detached.stderr
        assert not os.path.exists(note["mount_dir"])
    finally:  # what a detach has left
        subprocess.run(["fusermount3", "-q", "-u", "-z", note["mount_dir"]], check=False)


def test_attach_on_the_secondary_names_the_primary(lab):
    result = ctl(lab, "beta", "attach")
    assert result.returncode == 1
    assert "alpha" in result.stderr and "module" not in result.stderr, result.stderr


def daemon(lab, config, *words):
    return subprocess.run([f"{lab.state['build']}/daemon/twinblockd", str(config), *words],
                          capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("old, new, expected", [
    ('volume = "r0"', 'volume = "r0"\ncolour = "red"', "colour"),
    ('volume = "r0"', "volume = ", "r0.toml:1"),
    ('size = "64MiB"', 'size = "64 bananas"', "size"),
    ('size = "64MiB"', 'size = "0"', "size"),
    ("[node.beta]", "[node.alpha]", "alpha"),
    ("[link.link1]", "[link.link1]\nrate = \"fast\"", "rate"),
    ("peer_timeout", "peer_timeuot", "peer_timeuot"),
])
def test_configuration_errors_name_file_and_line(make_lab, scratch, old, new, expected):
    lab = make_lab(start=False)
    text = Path(lab.state["config"]).read_text(encoding="utf-8")
    assert old in text
    config = scratch / "r0.toml"
    config.write_text(text.replace(old, new, 1), encoding="utf-8")
    result = daemon(lab, config, "--node", "alpha")
    assert result.returncode == 78, result.stderr
    assert f"{config}:" in result.stderr
    assert result.stderr.split(f"{config}:", 1)[1][0].isdigit()
    assert expected in result.stderr


def test_equal_addresses_are_a_configuration_error(make_lab, scratch):
    lab = make_lab(start=False)
    text = Path(lab.state["config"]).read_text(encoding="utf-8")
    config = scratch / "r0.toml"
    config.write_text(text.replace(lab.node("beta")["replication"],
                                   lab.node("alpha")["replication"]), encoding="utf-8")
    assert daemon(lab, config, "--node", "alpha").returncode == 78


def test_check_says_what_would_keep_a_node_from_starting(make_lab, scratch):
    lab = make_lab(start=False)
    text = Path(lab.state["config"]).read_text(encoding="utf-8")
    good = daemon(lab, lab.state["config"], "--node", "alpha", "--check")
    assert good.returncode == 0 and "fine" in good.stdout, good.stderr
    elsewhere = daemon(lab, lab.state["config"], "--check")
    assert elsewhere.returncode == 2 and "fine" not in elsewhere.stdout
    assert os.uname().nodename in elsewhere.stderr and "--node" in elsewhere.stderr
    config = scratch / "r0.toml"
    assert "[replication]\n" in text
    config.write_text(text.replace("[replication]\n", '[replication]\ncongestion = "nosuch"\n'),
                      encoding="utf-8")
    unknown = daemon(lab, config, "--node", "alpha", "--check")
    assert unknown.returncode == 1 and "fine" not in unknown.stdout
    assert "nosuch" in unknown.stderr and "tcp_available_congestion_control" in unknown.stderr


@pytest.mark.parametrize("missing", ["before_resync", "after_resync", "rollback"])
def test_check_finds_that_a_command_for_copies_is_missing(make_lab, scratch, missing):
    """Before it is needed: the way back, say, when the source of a resync has died."""
    lab = make_lab(start=False)
    steps = {step: "/bin/true" for step in ("before_resync", "after_resync", "rollback")} | {missing: "/nowhere/back"}
    config = scratch / "r0.toml"
    config.write_text(Path(lab.state["config"]).read_text(encoding="utf-8") + "\n[copies]\n" +
                      "".join(f'{step} = "{path}"\n' for step, path in steps.items()), encoding="utf-8")
    told = daemon(lab, config, "--node", "alpha", "--check")
    assert told.returncode == 1 and "fine" not in told.stdout
    assert "/nowhere/back" in told.stderr and missing in told.stderr, told.stderr


def test_missing_configuration_and_unknown_node(make_lab, scratch):
    lab = make_lab(start=False)
    assert daemon(lab, scratch / "nothing.toml").returncode == 78
    unknown = daemon(lab, lab.state["config"], "--node", "gamma")
    assert unknown.returncode == 2 and "alpha" in unknown.stderr
    assert daemon(lab, lab.state["config"], "--nonsense").returncode == 2


# Another /run than this host's, with nodes' sockets in it, and one that nobody listens at.
SEVERAL = """mount -t tmpfs tmpfs /run && mkdir /run/twinblock && cd /run/twinblock
ln -s "$1" r0.ctl; ln -s "$2" r1.ctl; shift 2
[ "$1" != gone ] || { shift; touch r2.ctl; }
exec "$@"
"""


@pytest.mark.skipif(not can_mount_alone(), reason="another /run takes root, and a root directory that is a mount point")
def test_without_a_name_all_volumes_of_the_host_are_told_of(lab):
    def of_all(*words, gone=False):
        sockets = [lab.node(name)["control"] for name in ("alpha", "beta")]
        program = str(Path(lab.state["build"]) / "tools" / "twinblock")
        return subprocess.run(["unshare", "--mount", "sh", "-c", SEVERAL, "sh", *sockets,
                               *(["gone"] if gone else []), program, *words],
                              text=True, capture_output=True, timeout=LIVENESS_S, check=False)

    shown = of_all("status")
    assert shown.returncode == 0, shown.stderr
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert lines[1][1:4] == ["alpha", "primary", "duplex"] and lines[2][1:4] == ["beta", "secondary", "duplex"]
    told = json.loads(of_all("status", "--json").stdout)
    assert [each["node"] for each in told["volumes"]] == ["alpha", "beta"]
    shown = of_all("status", gone=True)
    assert shown.returncode == 3 and "no answer" in shown.stdout and "alpha" in shown.stdout
    shown = of_all("latency")
    assert shown.returncode == 0 and shown.stdout.count("No writes") == 2
    shown = of_all("promote")
    assert shown.returncode == 2 and "several volumes" in shown.stderr, "that is never meant for all"
