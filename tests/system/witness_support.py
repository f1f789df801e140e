"""What the tests of the witness share: clients of both nodes that come back as often as they are cut off, the
failures, and what must hold between and after them."""

import contextlib
import random
import threading
import time

import nbd

from lablib import ControlError, LabError, NotReachable
from lablib.etcd import EtcdError
from lablib.lab import NODES, WITNESS
from lablib.witness import VOLUMES
from registers import Registers, Requester
from support import MIB, assert_identical, connection, ctl, demote, wait_until

OTHER = {"alpha": "beta", "beta": "alpha"}
SIZE = 16 * MIB
PEER_TIMEOUT = "3s"  # who stands still for longer is lost, and its peer's promotion rightly granted
HASTY_PEER_TIMEOUT = "1s"  # where that is as good as any other failure
WRITERS = 3
NUMBER = 30  # more answers than there can be requests on their way
RETRY_S = 0.2
PACE_S = 0.002
STILL_S = 1.0  # how long nobody is watched


class Clients:
    """Of one node: some who write and one who flushes, each by a connection of its own, from the first moment that
    the node takes it. Who is cut off comes again; what was answered with an error is an error."""

    def __init__(self, lab, name, registers, rng):
        self.lab = lab
        self.name = name
        self.requester = Requester(registers)
        self.answered = 0
        self.latest_ns = 0  # when the latest began of those that were answered
        self.errors = []
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self.threads = [threading.Thread(target=self._run, daemon=True,
                                         args=(random.Random(rng.getrandbits(32)), number == WRITERS))
                        for number in range(WRITERS + 1)]
        for thread in self.threads:
            thread.start()

    def _run(self, rng, flusher):
        while not self.stopping.is_set():
            handle = nbd.NBD()
            try:
                handle.connect_uri(self.lab.node(self.name)["nbd"])
            except nbd.Error:  # it does not run, or is not primary
                self.stopping.wait(RETRY_S)
                continue
            try:
                self._use(handle, rng, flusher)
            except nbd.Error as error:
                if not (handle.aio_is_dead() or handle.aio_is_closed()):
                    self.errors.append(f"{self.name}: {error}")

    def _use(self, handle, rng, flusher):
        while not self.stopping.is_set():
            request = self.requester.flush(handle, rng) if flusher else self.requester.write(handle, rng)
            request.answered = time.monotonic_ns()
            with self._lock:
                self.answered += 1
                self.latest_ns = max(self.latest_ns, request.began)
            self.stopping.wait(rng.uniform(0, 0.2) if flusher else PACE_S)
        with contextlib.suppress(nbd.Error):
            handle.shutdown()

    def answers_since(self, time_ns):
        """Whether a request that began since then was answered. Answers of earlier ones may still be on their way
        to a client that has not had the processor."""
        return self.latest_ns > time_ns

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            wait_until(lambda thread=thread: not thread.is_alive(), what=f"a client of {self.name} to end")
        assert not self.errors, self.errors


class Manager:
    """Somebody who tries to promote whatever is not primary, all the time: the worst that automatic promotion
    can do. A context manager."""

    def __init__(self, lab):
        self.lab = lab
        self.promotions = []
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(name,), daemon=True) for name in NODES]

    def _run(self, name):
        while not self.stopping.wait(RETRY_S):
            with contextlib.suppress(ControlError, NotReachable, LabError, ValueError):
                if self.lab.status(name, timeout_s=2.0)["role"] != "primary":
                    self.lab.ctl(name, "promote", timeout_s=20.0)
                    self.promotions.append(name)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *failure):
        self.stopping.set()
        for thread in self.threads:
            thread.join()


class Failures:
    """By name: what happens to a node, the link(s) between the nodes, the witness, and a node's link to it; and
    how it ends."""

    def __init__(self, lab):
        self.lab = lab
        self.links = [link["name"] for link in lab.state["links"]]
        self.names = [*NODES, *self.links[:1], *(["links"] if len(self.links) > 1 else []), WITNESS,
                      *(f"{WITNESS}-{name}" for name in NODES)]

    def _links_of(self, name):
        return self.links if name == "links" else [name]

    def happen(self, name, way="cut"):
        """`way`: cut, or silent. Of a process the latter is that it is stopped."""
        if name in (*NODES, WITNESS):
            (self.lab.pause if way == "silent" else self.lab.kill)(name)
            return
        for link in self._links_of(name):
            (self.lab.network().drop if way == "silent" else self.lab.network().cut)(link)

    def heal(self, name):
        if name in (*NODES, WITNESS):
            if self.lab.alive(name):
                self.lab.resume(name)
            else:
                self.lab.start(name)
            return
        for link in self._links_of(name):
            self.lab.network().restore(link)


class Service:
    """A lab in duplex with clients at both nodes, and what they were told."""

    def __init__(self, lab, rng):
        self.lab = lab
        self.rng = rng
        self.registers = Registers(SIZE)
        self.failures = Failures(lab)
        self.clients = {}
        entry_key(lab)  # before that, nobody is alone by the witness' consent
        self.begin()

    def begin(self):
        self.clients = {name: Clients(self.lab, name, self.registers, self.rng) for name in NODES}

    # --- what must hold meanwhile ---

    def alone_or_not_writes(self, name):
        """Clients of that node are answered, and those of the other one are not."""
        self._wait_answers(name)
        since = time.monotonic_ns()
        self._wait_answers(name)
        assert not self.clients[OTHER[name]].answers_since(since), f"{OTHER[name]} answers beside {name}"
        self.no_errors()

    def _wait_answers(self, name):
        clients = self.clients[name]
        before = clients.answered
        self._wait(lambda: clients.answered >= before + NUMBER or clients.errors, f"{NUMBER} answers of {name}")

    def _wait(self, condition, what):
        try:
            wait_until(condition, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.said()}") from error

    def nobody_writes(self):
        """Who is primary is frozen, and says so. Clients wait, and are told no error."""
        for name in filter(self.lab.alive, NODES):
            self.lab.wait_status(name, lambda status: status["role"] != "primary" or status["frozen"],
                                 what="that it is frozen, or not primary")
        since = time.monotonic_ns()
        time.sleep(STILL_S)
        answering = [name for name, each in self.clients.items() if each.answers_since(since)]
        assert not answering, f"{answering} answers where nobody may; {self.said()}"
        self.no_errors()

    def promotes(self, name):
        """Again and again, without a word that the peer were dead: it may have to find out first."""
        self._wait(lambda: ctl(self.lab, name, "promote").returncode == 0, f"{name}'s promotion")

    def is_refused(self, name, why):
        """Its promotion, and in the end for that reason: it may have to find its way to the witness first."""
        said = []

        def look():
            done = ctl(self.lab, name, "promote")
            assert done.returncode != 0, f"{name} was promoted: {done.stdout}"
            said.append(" ".join(done.stderr.split()))
            return why in said[-1]

        self._wait(look, f"a refusal of {name}'s promotion that says '{why}'")

    def goes_on_by_itself(self, name):
        self._wait(lambda: self.lab.status(name)["role"] == "primary", f"{name} to be primary again")

    def nobody_else_is_promoted(self, writer):
        """Nobody, where `writer` is None: of a node that is primary nobody asks it."""
        for name in filter(self.lab.alive, NODES):
            if name != writer and self.lab.status(name)["role"] != "primary":
                done = ctl(self.lab, name, "promote")
                assert done.returncode != 0, f"{name} was promoted beside {writer}: {done.stdout}"

    def no_errors(self):
        errors = [error for each in self.clients.values() for error in each.errors]
        assert not errors, errors

    def said(self):
        """By the nodes, for messages."""
        said = {}
        for name in filter(self.lab.alive, NODES):
            with contextlib.suppress(NotReachable, ControlError):
                status = self.lab.status(name, timeout_s=2.0)
                said[name] = {key: status.get(key) for key in ("role", "state", "frozen", "status", "witness")}
        return said

    # --- what must hold afterwards ---

    def primary(self):
        """The one, where there is one and both are in duplex; else None."""
        statuses = {name: self.lab.status(name) for name in NODES}
        primaries = [name for name, status in statuses.items() if status["role"] == "primary"]
        duplex = all(status["state"] == "duplex" for status in statuses.values())
        return primaries[0] if duplex and len(primaries) == 1 else None

    def heals(self):
        """Without an operator: one side writes, both are in duplex and hold the same, which is everything that
        was ever acknowledged, by whichever node."""
        writer = self._one_writes()
        for each in self.clients.values():
            each.stop()
        self.lab.wait_state(writer, "duplex")
        with connection(self.lab, writer) as handle:
            handle.flush()
            self.registers.check(lambda offset, length: handle.pread(length, offset),
                                 what=f"the volume on {writer}")
        assert_identical(self.lab)
        return writer

    def _one_writes(self):
        """Who that is. A manager may move the service once more meanwhile: a busy machine may lose a session."""
        while True:
            found = []
            self._wait(lambda: found.append(self.primary()) or found[-1], "one primary, and duplex")
            try:
                self.alone_or_not_writes(found[-1])
                return found[-1]
            except AssertionError:
                if self.primary() in (None, found[-1]):
                    raise

    def change_sides(self, name):
        """For the next round; the clients have ended."""
        if self.primary() != name:
            demote(self.lab, OTHER[name])
            self.promotes(name)
            self.lab.wait_state(name, "duplex")


def entry_key(lab, etcd=None):
    """Of the volume's entry, which a node has written by then. `etcd`: one that is logged in."""
    keys = []

    def look():
        with contextlib.suppress(EtcdError):
            keys[:] = list((etcd or lab.etcd()).entries(VOLUMES))
        return keys

    wait_until(look, what="the volume's entry at the witness")
    assert len(keys) == 1, keys
    return keys[0]


def wait_witness(lab, name, state, *words):
    """Until the node's status says that of the witness, and the words; that object."""
    def says(status):
        witness = status.get("witness") or {}
        text = " ".join([witness.get("error", ""), witness.get("action", ""), status["status"],
                         status["action"]]).lower()
        return witness.get("state") == state and all(word.lower() in text for word in words)

    return lab.wait_status(name, says, what=f"a witness that is {state}: {words}")["witness"]
