"""What a peer orders that is not to be trusted: nothing but what this node's own file allows."""

import contextlib
import errno
import socket
import threading

import pytest

import wire
from lablib.error import LIVENESS_S
from lablib.links import free_ports
from support import ctl, wait_for_log, wait_until

pytestmark = pytest.mark.sanitize

ADD, REMOVE, ENABLE, DISABLE = range(1, 5)
BLANK_AND_JOINABLE = 3
TARGET_OF_ALL = 5


class FalsePeer:
    """In beta's place, with everything that a peer knows: takes alpha's connection, comes to a
    session, and gives orders."""

    def __init__(self, lab):
        host, port = lab.node("beta")["replication"].rsplit(":", 1)
        self.server = socket.create_server((host, int(port)))
        self.server.settimeout(LIVENESS_S)
        # Until the session with the beta that was killed is given up, what comes is a join of it; or one that is given
        # up with it, and says nothing.
        while True:
            self.sock, _ = self.server.accept()
            self.sock.settimeout(LIVENESS_S)
            with contextlib.suppress(ConnectionError):
                self.sock.sendall(wire.frame(wire.CHALLENGE, offset=77))
            header, hello = wire.read_header_and_payload(self.sock) or (None, None)
            if header and header[2] == wire.HELLO:
                break
            self.sock.close()
        nonce, echo = wire.HELLO_FIXED.unpack(hello)[-5:-3]
        assert echo == 77
        self.sock.sendall(wire.frame(wire.HELLO, wire.hello_payload(
            link=b"link1", flags=BLANK_AND_JOINABLE, nonce=77, echo=nonce)))
        self.sock.sendall(wire.frame(wire.VERDICT, sequence=TARGET_OF_ALL))
        self.sent = 0

    def order(self, *fields, **more):
        """(status, text) of the answer."""
        self.sent += 1
        self.sock.sendall(wire.frame(wire.LINK_CHANGE, wire.link_change(*fields, **more),
                                     flags=wire.CONTROL, sequence=self.sent, aux1=self.sent))
        while frame := wire.read_header_and_payload(self.sock):
            header, payload = frame
            if header[2] == wire.ACK and header[3] & wire.CONTROL and header[6] == self.sent:
                return header[10], payload.decode()
        raise AssertionError("no answer")

    def close(self):
        self.sock.close()
        self.server.close()


@pytest.fixture
def lab(make_lab):
    """Without encryption: what is said here is to be heard. A false peer does not answer alpha's heartbeats, and has so
    much time before it is lost."""
    return make_lab(encryption="off", peer_timeout="10s")


@pytest.fixture
def false_peer(lab):
    lab.kill("beta")
    lab.wait_peer_lost("alpha")  # at once, as nobody listens in its place; later it would take alpha the peer_timeout
    peers = []

    def begin():
        peers.append(FalsePeer(lab))
        return peers[0]

    yield begin
    for peer in peers:
        peer.close()


def links(lab):
    return {each["name"]: each["state"] for each in lab.status("alpha")["links"]}


def ends(alpha="127.0.9.1", beta="127.0.9.1"):
    ports = free_ports(2, "127.0.9.1")
    return {"alpha": f"{alpha}:{ports[0]}".encode(), "beta": f"{beta}:{ports[1]}".encode()}


def test_a_peer_adds_links_within_the_file_s_networks_only(lab, false_peer):
    peer = false_peer()
    for at in ({"beta": "203.0.113.9"}, {"alpha": "203.0.113.9"}, {"alpha": "10.0.0.1"},
               {"beta": "10.0.0.1"}):
        status, why = peer.order(ADD, 1, b"evil", **ends(**at))
        assert status != 0 and "does not allow" in why and "allow_links" in why, (at, status, why)
    status, why = peer.order(ADD, 1, b"link1", **ends())
    assert status == errno.EEXIST and "other addresses" in why and links(lab).keys() == {"link1"}
    status, why = peer.order(ADD, 2, b"good", **ends())
    assert status == 0, why
    assert links(lab).keys() == {"link1", "good"}
    wait_for_log(lab, "alpha", "refused")


def test_the_last_link_of_the_file_stays(lab, false_peer):
    peer = false_peer()
    status, why = peer.order(ADD, 1, b"good", **ends())
    assert status == 0, why
    for number, change in enumerate((REMOVE, DISABLE), 2):
        status, why = peer.order(change, number, b"link1")
        assert status != 0 and "the last one in use" in why, why
    assert links(lab)["link1"] == "up"


def test_a_number_beyond_all_others_does_not_hold_for_ever(lab, false_peer):
    peer = false_peer()
    third = ends()
    for number in ((1 << 32) - 1, (1 << 64) - 1, (1 << 20) + 1):
        status, why = peer.order(ADD, number, b"third", **third)
        assert status != 0 and str(number) in why, why
    status, why = peer.order(ADD, 1000, b"third", **third)
    assert status == 0, why
    peer.close()
    lab.wait_state("alpha", "simplex", 20)
    assert ctl(lab, "alpha", "link", "remove", "third").returncode == 0
    lab.start("beta")
    lab.wait_state("alpha", "duplex", 30)
    assert set(links(lab)) == {"link1"}


def test_orders_with_fields_of_another_version_are_not_taken(lab, false_peer):
    peer = false_peer()
    payload = bytearray(wire.link_change(ADD, 1, b"third", **ends()))
    payload[4] = 1
    peer.sock.sendall(wire.frame(wire.LINK_CHANGE, bytes(payload), flags=wire.CONTROL, sequence=1,
                                 aux1=1))
    wire.read_until_closed(peer.sock)
    wait_for_log(lab, "alpha",
                 "is lost: beta sent link-change frame whose reserved field is not zero")
    assert set(links(lab)) == {"link1"}


def flood(address, connections, until):
    """Opens so many connections, each without a word, and leaves them for others."""
    held = []
    for _ in range(connections):
        if until.is_set():
            break
        try:
            held.append(wire.dial(address))
        except OSError:
            pass
        if len(held) > 40:
            held.pop(0).close()
    for sock in held:
        sock.close()


def test_strangers_do_not_fill_the_log(lab):
    before = len(lab.log_text("alpha").splitlines())
    done = threading.Event()
    threads = [threading.Thread(target=flood, args=(lab.node("alpha")["replication"], 1000, done))
               for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(100):
        with wire.dial(lab.node("alpha")["replication"]) as sock:
            try:
                wire.read_challenge(sock)
                sock.sendall(wire.frame(wire.GOODBYE, b"x"))
                wire.read_until_closed(sock)
            except (AssertionError, OSError):
                pass
    wait_until(lambda: " more in the last " in lab.log_text("alpha"), 30, "the count")
    lines = lab.log_text("alpha").splitlines()[before:]
    assert len(lines) < 60, lines
    assert lab.status("alpha")["state"] == "duplex"
