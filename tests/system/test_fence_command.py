"""A command that fences, with DRBD's exit statuses: what each of them means, and what happens when it comes late or
never."""

import contextlib
import json
import os
from pathlib import Path

import pytest

from held import Held, lose_peer, still_frozen
from support import KIB, MIB, assert_identical, connection, ctl, promote, wait_until
from witness_support import wait_witness

CONSENT = (3, 4, 5, 7)  # inconsistent, outdated, unreachable, shot
REFUSAL = 6
NO_ANSWER = (0, 1, 2, 8, 77, 127, 255)
# It notes each run, waits for as long as there is a file `hold`, and ends with the status that a file says.
SCRIPT = """#!/bin/sh
cd {directory} || exit 99
env | sort > environment
echo "$$ $#" >> runs
while [ -e hold ]; do sleep 0.05; done
status=$(cat status)
[ "$status" = signal ] && kill -TERM $$
exit "$status"
"""


class Fence:
    """The command, and what is to become of it."""

    def __init__(self, directory):
        self.directory = directory
        self.path = directory / "fence"
        self.path.write_text(SCRIPT.format(directory=directory), encoding="utf-8")
        self.path.chmod(0o755)

    def says(self, status):
        """From the next run on."""
        new = self.directory / "status.new"
        new.write_text(f"{status}\n", encoding="ascii")
        new.replace(self.directory / "status")

    def holds(self, held=True):
        if held:
            (self.directory / "hold").touch()
        else:
            (self.directory / "hold").unlink()

    def runs(self):
        """The pids so far."""
        path = self.directory / "runs"
        lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
        return [int(line.split()[0]) for line in lines]

    def is_under_way(self):
        """In any process: one that was begun and is not needed any more goes on."""
        def is_one(cmdline):
            with contextlib.suppress(OSError):  # that process has ended
                return os.fsencode(self.path) in cmdline.read_bytes()
            return False

        return any(is_one(cmdline) for cmdline in Path("/proc").glob("[0-9]*/cmdline"))

    def forget(self):
        """What it ran for so far."""
        wait_until(lambda: not self.is_under_way(), what="the end of earlier runs of the fence command")
        for name in ("runs", "environment"):
            (self.directory / name).unlink(missing_ok=True)

    def wait_for_runs(self, more):
        before = len(self.runs())
        wait_until(lambda: len(self.runs()) >= before + more, what=f"{more} runs of the fence command")

    def environment(self):
        text = (self.directory / "environment").read_text(encoding="utf-8", errors="replace")
        return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

    def was_told(self):
        """Of what its last run was for."""
        environment = self.environment()
        return {key: environment.get(f"TWINBLOCK_{key}") for key in ("VOLUME", "NODE", "PEER", "PEER_ADDRESS", "REASON")}


def call(lab, node, peer, reason):
    """What the command has to be told: it is the peer that is to be fenced."""
    return {"VOLUME": "r0", "NODE": node, "PEER": peer, "REASON": reason,
            "PEER_ADDRESS": lab.node(peer)["replication"].rsplit(":", 1)[0]}


@pytest.fixture
def fence(scratch):
    return Fence(scratch)


@pytest.fixture
def pair(make_lab, fence):
    """A lab in duplex whose witness is that command; with 10 s for each run. It is not run for alpha's promotion, which
    waits for beta: a run that was begun in vain may come to note itself after all this."""
    lab = make_lab(init=False, witness="command", fence_command=str(fence.path), peer_timeout="5s",
                   witness_settings={"timeout": "10s"})
    lab.ctl("beta", "init", join=True)
    lab.ctl("alpha", "init")
    lab.wait_state("alpha", "connected")
    promote(lab, "alpha")
    lab.wait_state("alpha", "duplex")
    fence.forget()
    return lab


def goes_on(lab, requests):
    requests.wait_done()
    status = lab.wait_state("alpha", "simplex")
    assert not status["frozen"] and status["witness"]["state"] == "agreed"
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    with connection(lab) as handle:
        handle.flush()
    assert_identical(lab)


@pytest.mark.sanitize
@pytest.mark.parametrize("status", CONSENT)
def test_consent(pair, fence, status):
    fence.says(status)
    with Held(pair) as requests:
        requests.handle.pwrite(b"x" * KIB, 0)
        assert not fence.runs(), "in duplex nobody is fenced"
        pair.kill("beta")
        requests.begin()
        goes_on(pair, requests)
    assert len(fence.runs()) == 1
    assert fence.was_told() == call(pair, "alpha", "beta", "loss")


@pytest.mark.sanitize
def test_refusal(pair, fence):
    """Whoever shares the peer's fate says that it is the peer which goes on."""
    fence.says(REFUSAL)
    with Held(pair) as requests:
        lose_peer(pair, requests)
        wait_witness(pair, "alpha", "refused", str(fence.path))
        fence.wait_for_runs(1)
        still_frozen(pair, requests)
        fence.says(7)
        goes_on(pair, requests)


@pytest.mark.parametrize("status", [*NO_ANSWER, "signal"])
def test_no_answer_is_asked_again(pair, fence, status):
    fence.says(status)
    with Held(pair) as requests:
        lose_peer(pair, requests)
        wait_witness(pair, "alpha", "unreachable", str(fence.path), str(status))
        fence.wait_for_runs(2)
        still_frozen(pair, requests)
        fence.says(4)
        goes_on(pair, requests)


@pytest.mark.sanitize
def test_late_answer(pair, fence):
    fence.says(7)
    fence.holds()
    with Held(pair) as requests:
        lose_peer(pair, requests)
        fence.wait_for_runs(0)
        wait_until(fence.runs, what="the run")
        still_frozen(pair, requests)
        assert pair.status("alpha")["witness"]["state"] == "asking"
        fence.holds(False)
        goes_on(pair, requests)
    assert len(fence.runs()) == 1, "one at a time"


@pytest.mark.sanitize
def test_late_answer_after_the_peer_is_back(pair, fence):
    """It may have fenced the peer all the same; who is there, is there."""
    fence.says(7)
    fence.holds()
    with Held(pair) as requests:
        lose_peer(pair, requests)
        wait_until(fence.runs, what="the run")
        pair.start("beta")
        requests.wait_done()
        pair.wait_state("alpha", "duplex")
        fence.holds(False)
        with connection(pair) as handle:
            handle.pwrite(os.urandom(64 * KIB), MIB)
            handle.flush()
        assert pair.status("alpha")["state"] == "duplex"
    assert_identical(pair)


def test_no_answer_ever(make_lab, fence):
    """At its deadline the command is ended, with all that it has started, and run again."""
    lab = make_lab(witness="command", fence_command=str(fence.path), peer_timeout="1s",
                   witness_settings={"timeout": "1s"})
    fence.says(7)
    fence.holds()
    with Held(lab) as requests:
        lose_peer(lab, requests)
        wait_witness(lab, "alpha", "unreachable", str(fence.path), "did not end within 1")
        fence.wait_for_runs(2)
        ended = fence.runs()[:-1]
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in ended), what="the end of earlier runs")
        still_frozen(lab, requests)
        fence.holds(False)
        goes_on(lab, requests)


def test_command_that_is_not_there(pair, fence):
    fence.says(7)
    away = fence.path.with_suffix(".away")
    fence.path.rename(away)
    with Held(pair) as requests:
        lose_peer(pair, requests)
        wait_witness(pair, "alpha", "unreachable", str(fence.path))
        still_frozen(pair, requests)
        away.rename(fence.path)
        goes_on(pair, requests)


@pytest.mark.sanitize
@pytest.mark.parametrize("status", CONSENT)
def test_promotion_with_consent(pair, fence, status):
    fence.says(status)
    pair.kill("alpha")
    wait_until(lambda: ctl(pair, "beta", "promote").returncode == 0, what="beta's promotion")
    assert fence.was_told() == call(pair, "beta", "alpha", "promotion")
    with connection(pair, "beta") as handle:
        handle.pwrite(os.urandom(64 * KIB), MIB)
        handle.flush()
    pair.start("alpha")
    pair.wait_state("beta", "duplex")
    assert pair.status("alpha")["role"] == "secondary"
    assert_identical(pair)


@pytest.mark.sanitize
@pytest.mark.parametrize("status, kind", [(REFUSAL, "now"), (1, "later")])
def test_promotion_that_is_refused(pair, fence, status, kind):
    fence.says(status)
    pair.kill("alpha")
    pair.wait_peer_lost("beta")
    done = ctl(pair, "beta", "promote", "--json")
    assert done.returncode != 0
    assert f'"refused": "{kind}"' in json.dumps(json.loads(done.stdout or done.stderr)), done.stdout + done.stderr
    assert pair.status("beta")["role"] == "secondary"
    assert ctl(pair, "beta", "promote", "--peer-is-dead").returncode != 0
    assert ctl(pair, "beta", "promote", "--peer-is-dead", "--without-witness").returncode == 0


def test_node_that_is_asked_to_stop_does_not_wait_for_the_command(pair, fence):
    fence.says(7)
    fence.holds()
    with Held(pair) as requests:
        lose_peer(pair, requests)
        wait_until(fence.runs, what="the run")
        assert pair.stop("alpha"), "SIGTERM waited for the fence command"
        wait_until(lambda: not os.path.exists(f"/proc/{fence.runs()[-1]}"), what="the end of the command")
        assert not any(answer == 0 for answer in requests.answers.values())
