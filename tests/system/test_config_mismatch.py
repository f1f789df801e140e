"""Two nodes that disagree about what they mirror: they stay apart, and both say which and why."""

import socket
import threading

import pytest

import wire
from lablib import request
from support import MIB, wait_for_log

pytestmark = pytest.mark.sanitize


def lab_with_other_beta(make_lab, **difference):
    lab = make_lab(start=False)
    lab.set_node_config("beta", lab.config_text({"peer_timeout": "2s"}, **difference))
    if "volume" in difference:
        for key, suffix in (("control", "ctl"), ("nbd", "nbd")):
            lab.node("beta")[key] = lab.node("beta")[key].replace(
                f"r0.{suffix}", f"{difference['volume']}.{suffix}")
    lab.up(init=False)
    request(lab.node("alpha")["control"], "init")
    return lab


def test_other_volume_name(make_lab):
    lab = lab_with_other_beta(make_lab, volume="r1")
    for name in ("alpha", "beta"):
        wait_for_log(lab, name, "r0", "r1")
    assert_apart(lab, "r1")


def test_other_size(make_lab):
    lab = lab_with_other_beta(make_lab, size="32MiB")
    for name in ("alpha", "beta"):
        wait_for_log(lab, name, "size")
    assert_apart(lab, "size")


def assert_apart(lab, word):
    status = lab.status("alpha")
    link = status["links"][0]
    assert status["state"] != "duplex" and link["state"] != "up"
    said = f"{status['status']} {status['peer']['error']} {link['last_error']}"
    assert word.lower() in said.lower()


def test_other_protocol_version_is_refused_with_both_versions(make_lab):
    lab = make_lab(start=False, encryption="off")
    lab.start("alpha")
    with wire.dial(lab.node("alpha")["replication"]) as sock:
        echo = wire.read_challenge(sock)
        sock.sendall(wire.frame(wire.HELLO, wire.hello_payload(version=99, echo=echo)))
        frames = []
        while (frame := wire.read_frame(sock)) is not None:
            frames.append(frame)
    reasons = [payload.decode() for kind, payload in frames if kind == wire.REFUSE]
    assert reasons and "version" in reasons[0] and "99" in reasons[0]
    wait_for_log(lab, "alpha", "version", "99")


def test_refusal_by_the_peer_is_logged_and_shown(make_lab):
    """Beta's place is taken by a listener that refuses whatever comes."""
    lab = make_lab(start=False, encryption="off")
    host, port = lab.node("beta")["replication"].rsplit(":", 1)
    with socket.create_server((host, int(port))) as server:
        server.settimeout(1)
        done = threading.Event()

        def refuse():
            while not done.is_set():
                try:
                    sock, _ = server.accept()
                except TimeoutError:
                    continue
                with sock:
                    sock.settimeout(3)
                    try:
                        sock.sendall(wire.frame(wire.CHALLENGE, offset=5))
                        _, hello = wire.read_header_and_payload(sock)
                        nonce = wire.HELLO_FIXED.unpack(hello)[-5]
                        sock.sendall(wire.frame(wire.REFUSE, b"this peer speaks version 7 only",
                                                aux0=nonce))
                        wire.read_until_closed(sock)
                    except (TimeoutError, TypeError):
                        pass  # it went on, or went away

        thread = threading.Thread(target=refuse)
        thread.start()
        try:
            lab.start("alpha")
            wait_for_log(lab, "alpha", "version 7 only", timeout_s=15)
            shown = lab.status("alpha")
            assert "version 7 only" in f"{shown['peer']['error']} {shown['links'][0]['last_error']}"
        finally:
            done.set()
            thread.join()


def test_volume_that_is_larger_than_the_backing_does_not_start(make_lab):
    lab = make_lab(start=False)
    with open(lab.node("beta")["backing"], "r+b") as image:
        image.truncate(10 * MIB)
    with pytest.raises(Exception, match="backing"):
        lab.start("beta")
