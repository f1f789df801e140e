"""A wire between the nodes that a test can damage: a TCP relay in front of each."""

import heapq
import itertools
import selectors
import socket
import threading
import time
from contextlib import contextmanager

from lablib.error import LIVENESS_S
from lablib.links import free_ports


class Relay:
    """In front of one node; `passed` sees, and may change, everything that goes through."""

    connections = 0
    delay_s = 0  # of each piece, whatever is on its way before it
    bytes_per_s = float("inf")  # in each direction of a connection: a piece waits for those before it

    def __init__(self, listen_port, target):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.server = socket.create_server(("127.0.0.1", listen_port))
        self.damaged = 0
        self.numbers = itertools.count(1)
        self.closing = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def passed(self, data, stream):
        """What goes on in place of `data`, and whether the connection ends behind it. `stream` is a
        dictionary of each direction of each connection, for what has to be remembered of it: at the
        start the `connection`'s number and who speaks, `from` the dialler or the acceptor."""
        return data, False

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
            far = socket.create_connection(self.target, LIVENESS_S)
        except OSError:
            near.close()
            return
        near.settimeout(LIVENESS_S)
        with near, far, selectors.DefaultSelector() as selector:
            number = self.connections = next(self.numbers)  # two may begin at once
            for here, there, side in ((near, far, "dialler"), (far, near, "acceptor")):
                stream = {"connection": number, "from": side, "line_free": 0, "due": 0}
                selector.register(here, selectors.EVENT_READ, (there, stream))
            on_the_way = []  # a heap of (when it is due, a number, where to, what)
            pieces = itertools.count()
            try:
                while not self.closing:
                    wait_s = min(0.2, max(0, on_the_way[0][0] - time.monotonic())) if on_the_way else 0.2
                    for key, _ in selector.select(wait_s):
                        data = key.fileobj.recv(65536)
                        if not data:
                            return
                        towards, stream = key.data
                        data, cut = self.passed(bytearray(data), stream)
                        stream["line_free"] = (max(time.monotonic(), stream["line_free"])
                                               + len(data) / self.bytes_per_s)
                        # A shorter delay than before lets nothing overtake.
                        stream["due"] = max(stream["line_free"] + self.delay_s, stream["due"])
                        heapq.heappush(on_the_way, (stream["due"], next(pieces), towards, data))
                        if cut:
                            self.deliver(on_the_way, float("inf"))
                            return
                    self.deliver(on_the_way, time.monotonic())
            except OSError:
                return

    @staticmethod
    def deliver(on_the_way, until):
        while on_the_way and on_the_way[0][0] <= until:
            _, _, towards, data = heapq.heappop(on_the_way)
            towards.sendall(data)

    def close(self):
        self.closing = True
        self.thread.join()
        self.server.close()


class Recorder(Relay):
    """Keeps what each side has said, by connection; or plays the acceptor's part of one."""

    def __init__(self, *arguments):
        self.said = {}
        self.ghost = None
        self.visits = 0
        super().__init__(*arguments)

    def passed(self, data, stream):
        key = stream["connection"], stream["from"]
        self.said.setdefault(key, bytearray()).extend(data)
        return data, False

    def relay(self, near):
        if self.ghost is None:
            super().relay(near)
            return
        self.visits += 1
        with near:
            near.settimeout(1)
            try:
                near.sendall(self.ghost)
                while near.recv(65536):
                    pass
            except OSError:
                pass

    def latest(self, side):
        """What was said so far on the last connection that came to be a session."""
        with_data = [number for (number, of), data in self.said.items()
                     if of == side and len(data) > 500]
        return bytes(self.said[max(with_data), side])


def dialled(lab, relays):
    """The relay at which the node with the lower name, who dials, is taken in."""
    by_target = {f"{relay.target[0]}:{relay.target[1]}": relay for relay in relays}
    return by_target[lab.node("beta")["replication"]]


@contextmanager
def lab_over(relay_class, make_lab, encryption=None, rate=None, **replication):
    """A lab whose two nodes reach each other through a relay each, and the relays. `rate`: what their files say
    that the link carries."""
    lab = make_lab(start=False, encryption=encryption)
    true = {name: lab.node(name)["replication"] for name in ("alpha", "beta")}
    ports = dict(zip(("alpha", "beta"), free_ports(2)))
    relays = {name: relay_class(ports[name], true[name]) for name in ports}
    replication.setdefault("peer_timeout", "2s")
    for name, peer in (("alpha", "beta"), ("beta", "alpha")):
        text = lab.config_text(replication).replace(true[peer], f"127.0.0.1:{ports[peer]}")
        if rate:
            text = text.replace("[[link]]", f'[[link]]\nrate = "{rate}"')
        lab.set_node_config(name, text)
    try:
        lab.up()
        yield lab, list(relays.values())
    finally:
        lab.down()
        for relay in relays.values():
            relay.close()
