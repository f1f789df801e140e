"""A connection joins a session only with what shows that it means this session, and is not a recording: each check
alone keeps out who has everything else right. Without encryption, where somebody on the wire could speak at all."""

import os
from contextlib import contextmanager

import pytest

import wire
from lablib.error import LIVENESS_S
from relay import Recorder, Relay, lab_over
from support import MIB, assert_identical, connection, wait_until

pytestmark = pytest.mark.sanitize

LATER = 2000  # than any connection so far
FIRST_IN_HELLO = 16  # of the fields of a hello: who says it adds a number


class Forger(Relay):
    """Cuts the session's connections once, then answers joins with something else."""

    forge = None  # the fields to change, of a join's answer
    cut = False
    forged = 0

    def passed(self, data, stream):
        if self.cut:
            return data, True
        if self.forge and stream["from"] == "acceptor" and len(data) >= wire.HEADER.size:
            fields = wire.HEADER.unpack(data[:wire.HEADER.size])
            if fields[2] == wire.JOIN:
                said = {"sequence": fields[6], "offset": fields[7], "length": fields[8]}
                data[:wire.HEADER.size] = wire.frame(wire.JOIN, **(said | self.forge(said)))
                self.forged += 1
        return data, False


def session_of(lab, relays):
    """Who accepted the session's only connection, and what both sides have drawn, as a listener hears it: the session's
    id. Most was said on that connection: the other one, where both had dialled, ended with a refusal."""
    said, relay, number = max(((sum(map(len, (relay.said[number, "dialler"], relay.said[number, "acceptor"]))), relay,
                                number) for relay in relays for number, side in list(relay.said) if side == "dialler"),
                              key=lambda each: each[0])
    assert said > MIB, "all that was written"
    challenge = wire.HEADER.unpack(relay.said[number, "acceptor"][:wire.HEADER.size])
    hello = relay.said[number, "dialler"][wire.HEADER.size:][:wire.HELLO_FIXED.size]
    target = "{}:{}".format(*relay.target)
    name = next(name for name in ("alpha", "beta") if lab.node(name)["replication"] == target)
    return name, (wire.HELLO_FIXED.unpack(hello)[FIRST_IN_HELLO], challenge[7])


@contextmanager
def asking(address, change, ids, number):
    """Joins, with everything right but for what `change` has of it; the answer's kind and payload."""
    with wire.dial(address) as sock:
        asked = {"sequence": number, "offset": ids[0], "length": ids[1],
                 "aux0": wire.read_challenge(sock)}
        sock.sendall(wire.frame(wire.JOIN, **(asked | change(asked))))
        yield wire.read_frame(sock)


WRONG = {
    "another dialler's session": (lambda asked: {"offset": asked["offset"] ^ 1}, b"has ended on"),
    "another acceptor's session": (lambda asked: {"length": asked["length"] ^ 1}, b"has ended on"),
    "an answer to another challenge": (lambda asked: {"aux0": asked["aux0"] ^ 1}, None),
    "no answer to the challenge": (lambda _: {"aux0": 0}, None),
    "the other node's numbers": (lambda asked: {"sequence": asked["sequence"] + 1}, b"there was a later connection"),
}


def test_only_who_means_this_session_joins_it(make_lab):
    with lab_over(Recorder, make_lab, encryption="off") as (lab, relays):
        with connection(lab) as handle:
            handle.pwrite(os.urandom(MIB), 0)
        name, ids = session_of(lab, relays)
        address = lab.node(name)["replication"]
        number = LATER + (name == "alpha")  # the peer's: even ones are of the node with the lower name
        for what, (change, why) in WRONG.items():
            with asking(address, change, ids, number) as answer:
                if why is None:
                    assert answer is None, f"{what}: {answer}"
                else:
                    assert answer is not None and answer[0] == wire.REFUSE and why in answer[1], f"{what}: {answer}"
        assert "joined it anew" not in lab.log_text(name)
        with asking(address, lambda _: {}, ids, number) as answer:
            assert answer is not None and answer[0] == wire.JOIN, "what is all right is let in"
        with asking(address, lambda _: {}, ids, number) as answer:
            assert answer is None or answer[0] == wire.REFUSE, "a number counts once"
        lab.wait_state("alpha", "duplex", LIVENESS_S)
        assert_identical(lab)


@pytest.mark.parametrize("forge", [lambda said: {"offset": said["offset"] ^ 1},
                                   lambda said: {"length": said["length"] ^ 1},
                                   lambda said: {"sequence": said["sequence"] + 2}],
                         ids=["dialler", "acceptor", "incarnation"])
def test_only_an_answer_for_this_session_is_taken(make_lab, forge):
    with lab_over(Forger, make_lab, encryption="off", peer_timeout="60s") as (lab, relays):
        for relay in relays:
            relay.forge = forge
            relay.cut = True
        wait_until(lambda: lab.status("alpha")["links"][0]["state"] != "up", what="the end of the connection")
        for relay in relays:
            relay.cut = False
        wait_until(lambda: sum(relay.forged for relay in relays) >= 3, what="three answers for another session")
        for relay in relays:
            relay.forge = None
        lab.wait_state("alpha", "duplex", LIVENESS_S)
        assert_identical(lab)
