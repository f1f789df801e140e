"""The orders of the operator: resync, verify, continue, init --force, and what `why` answers."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lablib.error import LIVENESS_S
from lateness import Lateness
from support import (KIB, MIB, Fio, assert_identical, connection, ctl, demote, promote, wait_for_log, wait_for_writes,
                     wait_until, wait_until_noted)

BLOCK = 4 * KIB
DIFFER = 5  # exit status of `verify`


def fill(lab, name="alpha"):
    with connection(lab, name) as handle:
        for offset in range(0, handle.get_size(), 8 * MIB):
            handle.pwrite(os.urandom(8 * MIB), offset)
        handle.flush()
    wait_until_noted(lab)


def why(lab, name):
    """The sentences, joined."""
    shown = ctl(lab, name, "why", "--json")
    assert shown.returncode == 0, shown.stderr
    sentences = json.loads(shown.stdout)["why"]
    assert sentences and all(sentence.endswith(".") for sentence in sentences), sentences
    text = ctl(lab, name, "why")
    assert text.returncode == 0
    lines = text.stdout.splitlines()
    assert sum(line.startswith("- ") for line in lines) == len(sentences)
    assert all(len(line) <= 92 for line in lines), lines
    return " ".join(sentences)


# --- clients of one process are hung up on ---

# Says when it is connected, and when it is not any more.
CLIENT = """
import sys, nbd
handle = nbd.NBD()
handle.connect_uri(sys.argv[1])
print("connected", flush=True)
try:
    while not (handle.aio_is_dead() or handle.aio_is_closed()):
        handle.poll(-1)
except nbd.Error:
    pass
print("ended", flush=True)
"""


def test_no_client_of_another_process_is_hung_up_on(lab):
    """Growth ends one kernel client, which comes back for the new size; the others would not."""
    with connection(lab) as handle, subprocess.Popen([sys.executable, "-c", CLIENT, lab.node("alpha")["nbd"]],
                                                     stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "connected\n"
            for nobody in (0, 1, (1 << 32) + other.pid):
                assert lab.ctl("alpha", "hang-up", pid=nobody)["connections"] == 0, nobody
            assert lab.status("alpha")["clients"] == 2
            assert lab.ctl("alpha", "hang-up", pid=other.pid)["connections"] == 1
            assert other.stdout.readline() == "ended\n"
        finally:
            other.kill()
        lab.wait_status("alpha", lambda status: status["clients"] == 1, what="the end of one client")
        handle.pwrite(b"x" * BLOCK, 0)
        assert handle.pread(BLOCK, 0) == b"x" * BLOCK


# --- an order that was withdrawn ---


def test_an_order_whose_giver_went_before_it_began_is_not_carried_out(lab):
    lab.pause("alpha")
    try:
        with socket.socket(socket.AF_UNIX) as giver:
            giver.connect(lab.node("alpha")["control"])
            giver.sendall(b'{"verb":"demote"}\n')
    finally:
        lab.resume("alpha")
    wait_for_log(lab, "alpha", "not carried out", "demote")
    assert lab.status("alpha")["role"] == "primary"
    lab.wait_state("alpha", "duplex")


# --- why ---


@pytest.mark.sanitize
def test_why_follows_a_volume_from_blank_to_duplex(make_lab):
    lab = make_lab(init=False)
    assert "init" in why(lab, "alpha")
    lab.ctl("beta", "init", join=True)
    lab.ctl("alpha", "init")
    lab.wait_state("alpha", "connected", 20)
    assert "promote" in why(lab, "alpha")
    lab.wait_state("beta", "connected")
    assert "would lose nothing" in why(lab, "beta")
    promote(lab, "alpha")
    lab.wait_state("alpha", "duplex")
    assert "on both before it is acknowledged" in why(lab, "alpha")
    assert "alpha is primary" in why(lab, "beta")


@pytest.mark.parametrize("_attempt", range(4))
def test_promotion_right_after_init_costs_no_session(make_lab, _attempt):
    """beta still records what the new volume is when it is asked to let alpha be primary."""
    lab = make_lab(init=False, peer_timeout="20s")
    lab.ctl("alpha", "init")
    lab.ctl("alpha", "promote")
    lab.wait_state("alpha", "duplex", 20)
    for name in ("alpha", "beta"):
        assert "does not suit" not in lab.log_tail(name, 1000)


@pytest.mark.sanitize
def test_why_explains_simplex_and_the_resync_that_follows(lab):
    fill(lab)
    assert "If this node lost power now" in why(lab, "alpha"), "regions written lately"
    lab.kill("beta")
    lab.wait_state("alpha", "simplex", 5)
    with connection(lab) as handle:
        handle.pwrite(os.urandom(3 * MIB), 0)
    said = why(lab, "alpha")
    assert "The session with beta was lost at 20" in said
    assert "beta may miss 3 MiB" in said
    lab.ctl("alpha", "resync", pace="pause")
    lab.start("beta")
    for name in ("alpha", "beta"):
        lab.wait_state(name, "resync", 10)
        assert "beta was away while the volume was written" in why(lab, name)
    assert "paused by an operator" in why(lab, "alpha")
    assert "can't be promoted now" in why(lab, "beta")
    lab.ctl("alpha", "resync", pace="resume")
    lab.wait_state("alpha", "duplex", 20)
    assert "The last resync: beta was away" in why(lab, "alpha")


def test_why_tells_what_a_promotion_would_lose(lab):
    fill(lab)
    lab.kill("alpha")
    lab.wait_state("beta", "waiting", 5)
    said = why(lab, "beta")
    assert "--peer-is-dead" in said and "alpha accepted alone" in said
    lab.kill("beta")
    lab.start("alpha")
    said = why(lab, "alpha")
    assert "no session with beta" in said
    assert "compared before they are copied" in said, "after a crash regions are known coarsely"
    assert "beta may have been promoted since" in said


# --- resync ---


@pytest.fixture
def outdated(lab):
    """beta is down and misses 48 MiB."""
    fill(lab)
    lab.kill("beta")
    lab.wait_state("alpha", "simplex", 5)
    with connection(lab) as handle:
        for offset in range(0, 48 * MIB, 8 * MIB):
            handle.pwrite(os.urandom(8 * MIB), offset)
        handle.flush()
    return lab


def begun(lab, name, verb, *words):
    """The command line tool, under way."""
    program = Path(lab.state["build"]) / "tools" / "twinblock"
    return subprocess.Popen([str(program), verb, "--socket", lab.node(name)["control"], *words],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.sanitize
def test_a_paused_resync_stands_still_and_says_so(outdated):
    lab = outdated
    paused = ctl(lab, "alpha", "resync", "pause")
    assert paused.returncode == 0 and "resume" in paused.stdout
    lab.start("beta")
    lab.wait_state("alpha", "resync", 10)
    time.sleep(0.7)
    first = lab.status("alpha")["resync"]
    time.sleep(0.7)
    second = lab.status("alpha")["resync"]
    assert first["bytes_done"] == second["bytes_done"]
    assert second["pace"] == "paused" and second["eta_s"] is None
    text = ctl(lab, "alpha", "status").stdout
    assert "paused by an operator" in text and "no estimate" in text
    waited = ctl(lab, "alpha", "wait", "--progress", "--timeout", "1s")
    assert waited.returncode == 4 and "paused" in waited.stderr
    with connection(lab) as handle:  # clients are not paused
        handle.pwrite(os.urandom(MIB), 60 * MIB)
        handle.flush()
    # One that begins to wait when all is done has nothing to tell of it.
    with begun(lab, "alpha", "wait", "--progress", "--timeout", "10min") as waiting:
        said = ""
        while "paused" not in said:  # its first line, or the one after
            line = waiting.stderr.readline()
            assert line, said
            said += line
        resumed = ctl(lab, "alpha", "resync", "resume")
        assert resumed.returncode == 0
        said += waiting.communicate(timeout=2 * LIVENESS_S)[1]
    assert waiting.returncode == 0
    assert "resync done" in said and "sent as data" in said
    assert_identical(lab)


def test_a_resync_keeps_to_its_rate_until_told_otherwise(outdated):
    lab = outdated
    limited = ctl(lab, "alpha", "resync", "rate", "8MiB")
    assert limited.returncode == 0 and "8 MiB/s" in limited.stdout
    with Lateness() as machine:
        began = time.monotonic()
        lab.start("beta")
        lab.wait_status("alpha", lambda s: s["resync"]["bytes_done"] > 0, what="its begin")
        seen = time.monotonic()
        resync = lab.wait_status("alpha", lambda s: s["resync"]["bytes_done"] >= 20 * MIB, what="20 MiB")["resync"]
        ended = time.monotonic()
    assert resync["active"] and resync["pace"] == "8 MiB/s"
    # No quicker, by either's clock; slower only where the machine is.
    assert ended - began >= 20 / 10 and resync["average_bytes_per_s"] <= 10 * MIB, (ended - began, resync)
    assert ended - seen <= 20 / 4 + 2 + 5 * machine.allowance_s(), ended - seen
    # From here on it does not end by itself, however long these looks take.
    assert ctl(lab, "alpha", "resync", "rate", "64KiB").returncode == 0
    assert resync["eta_s"] is not None and resync["eta_s"] > 0
    told = lab.status("beta")["resync"]
    assert told["active"] and told["direction"] == "target" and told["bytes_done"] > 0
    assert "limited to 64 KiB/s" in ctl(lab, "alpha", "status").stdout
    wrong = ctl(lab, "beta", "resync", "auto")
    assert "alpha is the source" in wrong.stdout, "the order belongs there"
    assert ctl(lab, "alpha", "resync", "auto").returncode == 0
    lab.wait_state("alpha", "duplex", 10)
    last = lab.status("alpha")["last_resync"]
    assert last["bytes"] >= 48 * MIB and last["sent"]["data_bytes"] >= 48 * MIB
    assert_identical(lab)


@pytest.mark.parametrize("words, expected", [
    (["resync"], "pause"), (["resync", "rate", "fast"], "rate"), (["resync", "rate", "7"], "rate"),
    (["resolve"], "--keep"), (["resolve", "--keep", "alpha"], "--keep"),
    (["verify", "--stop", "--repair"], "--stop"), (["verify", "--nonsense"], "--nonsense")])
def test_wrong_words_are_named(lab, words, expected):
    result = ctl(lab, "alpha", *words)
    assert result.returncode == 2 and expected in result.stderr


# --- verify ---


def flip(lab, name, *offsets):
    """As a disk that changes a byte by itself. Through the page cache, which the node reads too."""
    with open(lab.node(name)["backing"], "r+b") as image:
        for offset in offsets:
            image.seek(offset)
            byte = image.read(1)[0]
            image.seek(offset)
            image.write(bytes([byte ^ 0x40]))


def verify(lab, *words, name="alpha"):
    done = ctl(lab, name, "verify", *words, "--json")
    return done.returncode, json.loads(done.stdout)


@pytest.mark.sanitize
@pytest.mark.parametrize("beta_runs", [True, False])
def test_verify_finds_and_repairs_bytes_that_a_disk_changed(lab, beta_runs):
    fill(lab)
    assert verify(lab)[0] == 0
    offsets = [5 * MIB + 17, 33 * MIB + BLOCK - 1, 64 * MIB - 1]
    if not beta_runs:
        assert lab.stop("beta")
    flip(lab, "beta", *offsets)
    if not beta_runs:
        lab.start("beta")
        lab.wait_state("alpha", "duplex", 20)
    code, report = verify(lab)
    assert code == DIFFER
    assert report["ended"] == "complete" and report["bytes_done"] == 64 * MIB
    assert report["differing_bytes"] == len(offsets) * BLOCK and report["repaired_bytes"] == 0
    for offset, found in zip(offsets, report["differences"]):
        assert found["offset"] <= offset < found["offset"] + found["length"]
    text = ctl(lab, "alpha", "verify", "--repair")
    assert text.returncode == DIFFER and "12 KiB repaired" in text.stdout
    again = ctl(lab, "alpha", "verify")
    assert again.returncode == 0 and "identical" in again.stdout and "verify [" in again.stderr
    assert "verify: 64 MiB compared" in ctl(lab, "alpha", "status").stdout
    assert_identical(lab)


@pytest.mark.long
@pytest.mark.sanitize
def test_verify_under_load_finds_no_difference_that_is_none(lab, scratch):
    fill(lab)
    fio = Fio(lab.node("alpha")["nbd"], scratch, rw="randwrite", bsrange="512-64k", iodepth=8,
              runtime=None, size=64 * MIB, fsync=64, norandommap=None)
    wait_for_writes(lab, 100)
    for _ in range(2):
        code, report = verify(lab)
        assert (code, report["differing_bytes"]) == (0, 0), report
    flip_at = 64 * MIB - 1
    fio.finish()
    flip(lab, "beta", flip_at)
    assert verify(lab, "--repair")[0] == DIFFER
    assert_identical(lab)


@pytest.mark.long
def test_verify_can_be_detached_followed_and_stopped(make_lab):
    lab = make_lab(size="1GiB")
    with connection(lab) as handle:
        for offset in range(0, 512 * MIB, 32 * MIB):
            handle.pwrite(os.urandom(MIB) * 32, offset)
        handle.flush()
    begun = ctl(lab, "alpha", "verify", "--detach")
    assert begun.returncode == 0 and "began" in begun.stdout
    second = ctl(lab, "alpha", "verify")
    assert second.returncode == 1 and "under way" in second.stderr
    stopped = ctl(lab, "alpha", "verify", "--stop")
    assert stopped.returncode == 0 and "stopped" in stopped.stdout
    status = lab.status("alpha")["verify"]
    assert not status["active"] and "operator" in status["ended"]
    assert "ended early" in ctl(lab, "alpha", "status").stdout
    begun = ctl(lab, "alpha", "verify", "--no-wait")
    assert begun.returncode == 0
    repairing = ctl(lab, "alpha", "verify", "--repair", "--wait")
    assert repairing.returncode == 1 and "--stop" in repairing.stderr
    followed = ctl(lab, "alpha", "verify", "--wait")
    assert followed.returncode == 0 and "identical" in followed.stdout


@pytest.mark.long
def test_verify_ends_with_the_session_and_is_refused_outside_duplex(make_lab):
    lab = make_lab(size="1GiB")
    with connection(lab) as handle:
        for offset in range(0, 1024 * MIB, 32 * MIB):
            handle.pwrite(os.urandom(MIB) * 32, offset)
        handle.flush()
    assert ctl(lab, "beta", "verify").returncode == 1
    results = []
    waiter = threading.Thread(target=lambda: results.append(ctl(lab, "alpha", "verify")))
    waiter.start()
    lab.wait_status("alpha", lambda status: (status["verify"] or {}).get("active"), 5)
    lab.kill("beta")
    waiter.join(LIVENESS_S)
    assert results[0].returncode == 1 and "session was lost" in results[0].stdout
    lab.wait_state("alpha", "simplex", 5)
    refused = ctl(lab, "alpha", "verify")
    assert refused.returncode == 1 and "wait" in refused.stderr


# --- continue ---


class Writer(threading.Thread):
    """One write, which may take long."""

    def __init__(self, lab, offset, data):
        super().__init__(daemon=True)
        self.lab, self.offset, self.data = lab, offset, data
        self.done = False
        self.start()

    def run(self):
        with connection(self.lab) as handle:
            handle.pwrite(self.data, self.offset)
            self.done = True


@pytest.mark.sanitize
def test_a_frozen_primary_goes_on_alone_when_told_to(make_lab):
    lab = make_lab(settings={"on_peer_loss": "freeze"})
    fill(lab)
    idle = ctl(lab, "alpha", "continue")
    assert idle.returncode == 1 and "freeze" in idle.stderr
    for _ in range(2):  # the order holds until the peer is back, and no longer
        lab.kill("beta")
        lab.wait_state("alpha", "frozen", 5)
        writer = Writer(lab, 3 * MIB, os.urandom(MIB))
        time.sleep(0.5)
        assert not writer.done, "the write waits"
        assert "twinblock continue r0" in why(lab, "alpha")
        told = ctl(lab, "alpha", "continue")
        assert told.returncode == 0 and "goes on alone" in told.stdout
        wait_until(lambda: writer.done, 5, "the write")
        lab.wait_state("alpha", "simplex", 5)
        assert ctl(lab, "alpha", "continue").returncode == 1
        lab.start("beta")
        lab.wait_state("alpha", "duplex", 20)
    assert_identical(lab)


def test_a_frozen_primary_does_not_wait_for_its_own_flush_before_it_demotes(make_lab):
    """After a second without writes a node flushes on its own. Here the peer is gone before it answers that."""
    lab = make_lab(settings={"on_peer_loss": "freeze"}, peer_timeout="4s")
    fill(lab)
    with connection(lab, "alpha") as handle:
        handle.pwrite(os.urandom(MIB), 5 * MIB)
    lab.pause("beta")
    lab.wait_state("alpha", "frozen", 15)
    demote(lab, "alpha")
    assert lab.status("alpha")["role"] == "secondary"
    lab.resume("beta")


# --- init --force ---


def test_init_does_not_overwrite_unless_forced_and_then_names_what_is_gone(lab):
    refused = ctl(lab, "alpha", "init")
    generation = lab.status("alpha")["generation"]["current"]
    assert refused.returncode == 1
    assert generation in refused.stderr and "--force" in refused.stderr
    busy = ctl(lab, "alpha", "init", "--force")
    assert busy.returncode == 1 and "in use" in busy.stderr
    assert lab.stop("beta")
    assert ctl(lab, "alpha", "demote").returncode == 0
    generation = lab.status("alpha")["generation"]["current"]
    refused = ctl(lab, "alpha", "init")
    assert refused.returncode == 1 and re.search(r"since 20\d\d-", refused.stderr)
    forced = ctl(lab, "alpha", "init", "--force")
    assert forced.returncode == 0
    assert generation in forced.stdout and re.search(r"since\s20\d\d-", forced.stdout)
    assert "nothing in common" in " ".join(forced.stdout.split())
    lab.start("beta")
    for name in ("alpha", "beta"):
        status = lab.wait_state(name, "refused", 10)
        assert "no history in common" in status["status"] or "another volume" in status["status"]
