"""A wire that flips bits or breaks off in the middle of a frame: the damage is noticed, the
connection is given up, and the replicas stay equal."""

import os
import random
import selectors
import socket
import threading
import time

import pytest

from lablib.links import free_ports
from support import MIB, Fio, assert_identical, connection

pytestmark = pytest.mark.sanitize


class Wire:
    """A TCP relay in front of one node that can damage what passes to it."""

    def __init__(self, listen_port, target):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.server = socket.create_server(("127.0.0.1", listen_port))
        self.flip_at = None  # bytes from now on, then one bit is flipped
        self.cut_at = None
        self.damaged = 0
        self.closing = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        self.server.settimeout(0.2)
        while not self.closing:
            try:
                near, _ = self.server.accept()
            except TimeoutError:
                continue
            threading.Thread(target=self.relay, args=(near,), daemon=True).start()

    def relay(self, near):
        try:
            far = socket.create_connection(self.target, 5)
        except OSError:
            near.close()
            return
        with near, far, selectors.DefaultSelector() as selector:
            selector.register(near, selectors.EVENT_READ, far)
            selector.register(far, selectors.EVENT_READ, near)
            try:
                while not self.closing:
                    for key, _ in selector.select(0.2):
                        data = key.fileobj.recv(65536)
                        if not data:
                            return
                        data, cut = self.damage(bytearray(data))
                        key.data.sendall(data)
                        if cut:
                            return
            except OSError:
                return

    def damage(self, data):
        if self.flip_at is not None:
            if self.flip_at < len(data):
                data[self.flip_at] ^= 1 << random.randrange(8)
                self.flip_at = None
                self.damaged += 1
            else:
                self.flip_at -= len(data)
        if self.cut_at is not None:
            if self.cut_at < len(data):
                data, self.cut_at = data[:self.cut_at], None
                self.damaged += 1
                return data, True
            self.cut_at -= len(data)
        return data, False

    def close(self):
        self.closing = True
        self.thread.join()
        self.server.close()


@pytest.fixture
def wired(make_lab):
    """A lab whose two nodes reach each other through a Wire each."""
    lab = make_lab(start=False)
    true = {name: lab.node(name)["replication"] for name in ("alpha", "beta")}
    ports = dict(zip(("alpha", "beta"), free_ports(2)))
    wires = {name: Wire(ports[name], true[name]) for name in ports}
    for name, peer in (("alpha", "beta"), ("beta", "alpha")):
        lab.set_node_config(name, lab.config_text({"peer_timeout": "2s"}).replace(
            true[peer], f"127.0.0.1:{ports[peer]}"))
    try:
        lab.up()
        yield lab, list(wires.values())
    finally:
        lab.down()
        for wire in wires.values():
            wire.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flip_at", "cut_at"])
def test_damaged_frames_never_reach_the_secondarys_disk(wired, scratch, kind):
    lab, wires = wired
    fio = Fio(lab.node("alpha")["nbd"], scratch, rw="randwrite", bsrange="512-64k", iodepth=8,
              time_based=None, runtime=10, norandommap=None, randrepeat=0, rate="8m", fsync=100)
    end = time.monotonic() + 8
    while time.monotonic() < end:
        for wire in wires:
            setattr(wire, kind, random.randrange(200000))
        time.sleep(0.7)
    for wire in wires:
        setattr(wire, kind, None)
    fio.result()
    assert sum(wire.damaged for wire in wires) >= 3
    lab.wait_state("alpha", "duplex", 20)
    with connection(lab) as handle:
        handle.pwrite(os.urandom(MIB), 0)
        handle.flush()
    assert_identical(lab)
    said = lab.log_text("alpha") + lab.log_text("beta")
    if kind == "flip_at":
        assert "checksum" in said.lower() or "crc" in said.lower()
