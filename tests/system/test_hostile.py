"""Strangers at the replication port and at the control socket: they are turned away with a reason
in the log, and the node goes on serving, in bounded memory."""

import json
import os
import socket
import time

import pytest

import wire
from lablib import request
from lablib.error import LIVENESS_S
from lablib.processes import resident_bytes
from lateness import Lateness
from support import KIB, MIB, assert_identical, connection, ctl, wait_until

pytestmark = pytest.mark.sanitize

HANDSHAKE_TIMEOUT_S = 5


def hello(echo, **fields):
    return wire.frame(wire.HELLO, wire.hello_payload(echo=echo, **fields))


def hello_framed(echo, **header):
    return wire.frame(wire.HELLO, wire.hello_payload(echo=echo), **header)


# What is said to a node, given the number that it began the connection with, and a word of the
# reason that it has to give. The log has a line for each reason, and counts what follows it.
ATTACKS = {
    "random bytes": ("magic", lambda _: os.urandom(100 * KIB)),
    "zeroes": ("magic", lambda _: bytes(100 * KIB)),
    "text of another protocol": ("magic", lambda _: b"GET / HTTP/1.1\r\nHost: r0\r\n\r\n" +
                                 b"x" * 100),
    "wrong header checksum": ("wrong checksum", lambda echo: hello_framed(echo, header_crc=1)),
    "wrong payload checksum": ("payload checksum", lambda echo: hello_framed(echo, payload_crc=1)),
    "wrong magic": ("magic", lambda echo: hello_framed(echo, magic=0x12345678)),
    "reserved bits": ("version 1 does not have", lambda echo: hello_framed(echo, reserved=1)),
    "a field that a hello does not have": ("with a field", lambda echo: hello_framed(echo,
                                                                                     offset=7)),
    "hello of huge length": ("payload of 4294967295", lambda _: wire.frame(
        wire.HELLO, b"", payload_bytes=0xFFFFFFFF)),
    "hello of no length": ("payload of 0", lambda _: wire.frame(wire.HELLO, b"")),
    "unknown kind": ("type 200", lambda _: wire.frame(200, b"abc")),
    "data before hello": ("data frame before", lambda _: wire.frame(
        wire.DATA, b"z" * 4096, sequence=1, length=4096)),
    "data of huge length": ("data frame with a payload", lambda _: wire.frame(
        wire.DATA, b"", payload_bytes=0xFFFFFFF0, length=0xFFFFFFF0, sequence=1)),
    "zero of huge length": ("data frame before", lambda _: wire.frame(
        wire.DATA, b"", flags=2, length=1 << 62, sequence=1)),
    "ack before hello": ("ack frame before", lambda _: wire.frame(wire.ACK, b"", sequence=1)),
    "goodbye before hello": ("goodbye frame before", lambda _: wire.frame(wire.GOODBYE, b"bye")),
    "verdict before hello": ("out of turn", lambda _: wire.frame(wire.VERDICT, sequence=1)),
    "hello that answers nothing": ("a recording", lambda _: hello(0)),
    "hello of another connection": ("a recording", lambda echo: hello(echo ^ 1)),
    "hello with unknown flags": ("does not know", lambda echo: hello(echo, flags=1 << 31)),
    "hello with unknown features": ("does not know", lambda echo: hello(echo, features=1)),
    "hello of another node": ("mallory", lambda echo: hello(echo, node=b"mallory")),
    "hello of another volume": ("'r9'", lambda echo: hello(echo, volume=b"r9")),
    "hello of another version": ("version", lambda echo: hello(echo, version=99)),
    "names without an end": ("vvvv", lambda echo: hello(
        echo, volume=b"v" * 64, node=b"n" * 64, peer=b"p" * 64, link=b"l" * 64)),
}


@pytest.fixture
def lab(make_lab):
    """Without encryption: what is said here is to be heard."""
    return make_lab(encryption="off")


def assert_serving(lab):
    data = os.urandom(64 * KIB)
    with connection(lab) as handle:
        handle.pwrite(data, MIB)
        handle.flush()
        assert handle.pread(len(data), MIB) == data
    lab.wait_state("alpha", "duplex", 10)
    assert_identical(lab)


def test_nonsense_at_the_replication_port_is_refused_with_a_reason(make_lab):
    lab = make_lab(encryption="off", peer_timeout="30s")  # no machine is as late as that
    pids = [lab.node(name)["pid"] for name in ("alpha", "beta")]
    for name in ("alpha", "beta"):
        for title, (reason, attack) in ATTACKS.items():
            with wire.dial(lab.node(name)["replication"]) as sock:
                try:
                    sock.sendall(attack(wire.read_challenge(sock)))
                except (ConnectionResetError, BrokenPipeError):
                    pass  # closed before all was sent
                try:
                    wire.read_until_closed(sock)
                except TimeoutError:
                    pytest.fail(f"{name} keeps the connection open after: {title}")
            # More reasons than are told apart in one while are one.
            wait_until(lambda: reason in lab.log_text(name) or  # noqa: B023
                       "yet other reasons" in lab.log_text(name),  # noqa: B023
                       15, f"the reason in {name}'s log after: {title}")
        assert_serving(lab)
    assert pids == [lab.node(name)["pid"] for name in ("alpha", "beta")]
    assert lab.alive("alpha") and lab.alive("beta")
    assert lab.status("alpha")["counters"]["peer_losses"] == 0


def test_silent_and_truncated_hellos_are_dropped_after_a_while(lab):
    whole = wire.frame(wire.HELLO, wire.hello_payload())
    with Lateness() as machine:
        started = time.monotonic()
        socks = [wire.dial(lab.node("alpha")["replication"]) for _ in range(4)]
        for sock, part in zip(socks, (0, 10, 64, 200)):
            sock.sendall(whole[:part])
        for sock in socks:
            wire.read_until_closed(sock)
            sock.close()
        took_s = time.monotonic() - started
    assert took_s < HANDSHAKE_TIMEOUT_S + 2 + machine.allowance_s()
    assert_serving(lab)


def test_many_connections_do_not_take_memory_or_the_port(lab):
    before = resident_bytes(lab.node("alpha")["pid"])
    socks = []
    for _ in range(200):
        try:
            sock = wire.dial(lab.node("alpha")["replication"])
            sock.sendall(wire.frame(wire.HELLO, b"", payload_bytes=0x7FFFFFFF)[:63])
            socks.append(sock)
        except OSError:
            pass  # turned away at once
    assert_serving(lab)
    assert resident_bytes(lab.node("alpha")["pid"]) - before < 64 * MIB
    # While they hold on, the true peer must still get in.
    lab.kill("beta")
    lab.wait_state("alpha", "simplex", 10)
    lab.start("beta")
    lab.wait_state("alpha", "duplex", 30)
    for sock in socks:
        sock.close()
    assert_serving(lab)


def test_replayed_hello_does_not_keep_the_true_peer_out(lab):
    with wire.dial(lab.node("beta")["replication"]) as sock:
        echo = wire.read_challenge(sock)
        sock.sendall(wire.frame(wire.HELLO, wire.hello_payload(node=b"alpha", peer=b"beta",
                                                               echo=echo)))
        kind, payload = wire.read_frame(sock)
        assert kind in (wire.HELLO, wire.REFUSE)
    if kind == wire.HELLO:
        for _ in range(3):
            with wire.dial(lab.node("alpha")["replication"]) as sock:
                try:
                    sock.sendall(wire.frame(wire.HELLO, payload))
                    sock.sendall(wire.frame(wire.VERDICT, b"", sequence=1))
                    time.sleep(0.2)
                    sock.sendall(wire.frame(wire.DATA, b"evil" * 1024, sequence=1, length=4096))
                    time.sleep(0.2)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # seen through, and closed
    lab.wait_state("alpha", "duplex", 20)
    assert_serving(lab)


def test_address_that_is_not_configured_is_refused(lab):
    for name in ("alpha", "beta"):
        before = len(lab.log_text(name))
        with wire.dial(lab.node(name)["replication"], source="127.0.0.2") as sock:
            try:
                sock.sendall(wire.frame(wire.HELLO, wire.hello_payload()))
            except (ConnectionResetError, BrokenPipeError):
                pass
            assert wire.read_until_closed(sock) == b""
        wait_until(lambda: "127.0.0.2" in lab.log_text(name)[before:],  # noqa: B023
                   5, f"the refused address in {name}'s log")
    assert_serving(lab)


def test_strangers_names_fill_neither_the_log_nor_the_events_while_the_peer_is_away(lab):
    """Nor do they hide what the peer itself said last."""
    lab.kill("beta")
    lab.wait_state("alpha", "simplex")
    events = len(ctl(lab, "alpha", "events").stdout.splitlines())
    lines = len(lab.log_text("alpha").splitlines())
    began = time.monotonic()
    for number in range(200):
        with wire.dial(lab.node("alpha")["replication"]) as sock:
            echo = wire.read_challenge(sock)
            sock.sendall(hello(echo, node=b"mallory%d" % number))
            assert wire.read_frame(sock)[0] == wire.REFUSE
    assert len(ctl(lab, "alpha", "events").stdout.splitlines()) <= events + 10
    # In each ten seconds so many reasons at most, and their counts.
    intervals = 1 + int((time.monotonic() - began) / 10)
    assert len(lab.log_text("alpha").splitlines()) <= lines + 40 * intervals
    lab.start("beta")
    lab.wait_state("alpha", "duplex", 30)
    assert_serving(lab)


def control_connection(lab, name="alpha"):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(LIVENESS_S)
    sock.connect(lab.node(name)["control"])
    return sock


@pytest.mark.parametrize("line", [
    b"\n", b"{\n", b"[]\n", b"null\n", b"42\n", b'"status"\n', b"{}\n", b'{"verb":1}\n',
    b'{"verb":"nonsense"}\n', b'{"verb":"status","args":[]}\n', b'{"verb":"init","args":{"force":3}}\n',
    b'{"verb":"promote","args":{"peer_is_dead":"yes"}}\n', b"\xff\xfe\x00\x01\n", bytes(1000) + b"\n",
    b"[" * 30000 + b"\n", b'{"a":' * 10000 + b"\n", b'{"verb":"' + b"s" * 60000 + b'"}\n',
    b'{"verb":"\\ud800"}\n',
])
def test_nonsense_at_the_control_socket_gets_an_error(lab, line):
    with control_connection(lab) as sock:
        sock.sendall(line)
        answer = sock.makefile("rb").readline()
    if answer:
        reply = json.loads(answer)
        assert reply["ok"] is False and reply["error"]
    assert lab.status("alpha")["state"] == "duplex"


def test_request_without_an_end_is_cut_off(lab):
    before = resident_bytes(lab.node("alpha")["pid"])
    with control_connection(lab) as sock:
        sent = 0
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while sent < 64 * MIB:
                sent += sock.send(b"x" * 65536)
        assert sent < 2 * MIB
    assert resident_bytes(lab.node("alpha")["pid"]) - before < 16 * MIB
    assert_serving(lab)


def test_half_requests_do_not_keep_others_out(lab):
    socks = []
    for _ in range(40):
        try:
            sock = control_connection(lab)
        except BlockingIOError:
            break  # the queue of those who wait is full
        try:
            sock.sendall(b'{"verb":"sta')
        except (BrokenPipeError, ConnectionResetError):
            pass
        socks.append(sock)

    def answers():
        try:
            return request(lab.node("alpha")["control"], "status", timeout_s=5)["state"] == "duplex"
        except Exception:  # pylint: disable=broad-exception-caught
            return False

    wait_until(answers, 30, "an answer while others hold the control socket")
    for sock in socks:
        sock.close()
    assert_serving(lab)


def test_client_that_does_not_read_answers_costs_nothing(lab):
    before = resident_bytes(lab.node("alpha")["pid"])
    with control_connection(lab) as sock:
        sock.settimeout(2)
        try:
            for _ in range(20000):
                sock.sendall(b'{"verb":"status"}\n')
        except (TimeoutError, BrokenPipeError, ConnectionResetError):
            pass
        assert_serving(lab)
    assert resident_bytes(lab.node("alpha")["pid"]) - before < 32 * MIB
