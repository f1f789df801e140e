"""What was recorded of a connection is of no use on another one: nothing of it is applied, no
session begins with it, and none ends."""

import os
import time

import pytest

import wire
from relay import Recorder, dialled, lab_over
from support import MIB, assert_identical, connection, ctl, promote, wait_for_log, wait_until

pytestmark = pytest.mark.sanitize

OLD, NEW = b"\x11" * 4096, b"\x22" * 4096
AT = MIB


def recorders(make_lab):
    return lab_over(Recorder, make_lab, encryption="off")  # what is said can be read


def block(lab, name):
    with open(lab.node(name)["backing"], "rb") as image:
        image.seek(AT)
        return image.read(4096)


def write(lab, data):
    with connection(lab) as handle:
        handle.pwrite(data, AT)
        handle.flush()


def replay(lab, name, recording, seconds=2):
    """Says all of it to a node, which may close the connection, and listens for a while."""
    with wire.dial(lab.node(name)["replication"], timeout_s=seconds) as sock:
        try:
            sock.sendall(recording)
            wire.read_until_closed(sock)
        except (TimeoutError, BrokenPipeError, ConnectionResetError):
            pass


def sessions(lab, name, since=0):
    return lab.log_text(name)[since:].count(") is up: ")


def begin_anew(lab):
    """A session that begins between two nodes that are the same, as later ones do."""
    lab.stop("beta")
    lab.start("beta")
    lab.wait_state("alpha", "duplex", 20)


def test_the_dialler_s_part_opens_no_session(make_lab):
    with recorders(make_lab) as (lab, relays):
        begin_anew(lab)
        write(lab, OLD)
        recording = dialled(lab, relays).latest("dialler")
        assert OLD in recording
        write(lab, NEW)
        lab.stop("alpha")
        lab.wait_status("beta", lambda status: not status["peer"]["connected"])
        before = len(lab.log_text("beta"))
        for _ in range(3):
            replay(lab, "beta", recording)
        assert block(lab, "beta") == NEW
        assert sessions(lab, "beta", before) == 0
        wait_for_log(lab, "beta", "recording", since=before)
        lab.start("alpha")
        promote(lab, "alpha")
        lab.wait_state("alpha", "duplex", 20)
        with connection(lab) as handle:
            assert handle.pread(4096, AT) == NEW
        assert_identical(lab)


def test_the_acceptor_s_part_opens_no_session(make_lab):
    with recorders(make_lab) as (lab, relays):
        assert ctl(lab, "alpha", "demote").returncode == 0
        begin = sessions(lab, "alpha")
        lab.stop("beta")
        lab.start("beta")
        wait_until(lambda: sessions(lab, "alpha") > begin and
                   lab.status("alpha")["state"] == "connected", 20, "the session to record")
        relay = dialled(lab, relays)
        time.sleep(0.3)  # some heartbeats more, as a ghost would go on for a while
        recording = relay.latest("acceptor")
        lab.stop("beta")
        lab.wait_status("alpha", lambda status: not status["peer"]["connected"])
        before = len(lab.log_text("alpha"))
        relay.ghost = recording
        wait_until(lambda: relay.visits >= 3, 20, "alpha to dial three times")
        assert sessions(lab, "alpha", before) == 0
        relay.ghost = None
        lab.start("beta")
        wait_until(lambda: lab.status("alpha")["state"] == "connected", 20, "the true peer")


@pytest.mark.parametrize("name, side", [("beta", "dialler"), ("alpha", "acceptor")])
def test_a_session_that_stands_is_not_ended_by_it(make_lab, name, side):
    with recorders(make_lab) as (lab, relays):
        begin_anew(lab)
        write(lab, OLD)
        recording = dialled(lab, relays).latest(side)
        write(lab, NEW)
        before = {each: sessions(lab, each) for each in ("alpha", "beta")}
        for _ in range(3):
            replay(lab, name, recording, seconds=1)
        write(lab, os.urandom(4096))
        assert {each: sessions(lab, each) for each in ("alpha", "beta")} == before
        assert lab.status("alpha")["state"] == "duplex"
        assert lab.status("alpha")["counters"]["peer_losses"] == 1, "the one of begin_anew"
        assert_identical(lab)
