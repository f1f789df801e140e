"""Requests of a client that nobody answers until somebody has consented."""

import contextlib
import errno
import os
import threading

import nbd

from support import KIB, MIB, wait_until

DATA = os.urandom(64 * KIB)
DATA_AT = MIB


class Held:
    """A write, a flush and a read that wait for their answers; a context manager."""

    def __init__(self, lab, name="alpha"):
        self.answers = {}
        self.begun = 0
        self.handle = nbd.NBD()
        self.handle.connect_uri(lab.node(name)["nbd"])

    def begin(self):
        """A write, which nobody can acknowledge alone."""
        self.begun += 1
        self.handle.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(DATA)), DATA_AT, self.note("write"))

    def begin_more(self):
        """A read and a flush, once the node is frozen: before, it knows for a while yet that nobody else can have
        written."""
        self.begun += 2
        self.handle.aio_pread(nbd.Buffer(4 * KIB), 0, self.note("read"))
        self.handle.aio_flush(self.note("flush"))

    def note(self, what):
        answers = self.answers  # and nothing of this object, which could not end the connection then

        def done(error):
            answers[what] = error.value
            return 1
        return done

    def poll(self):
        while self.handle.aio_in_flight() and self.handle.poll(0):
            pass
        return self.answers

    def wait_done(self):
        wait_until(lambda: len(self.poll()) == self.begun, what=f"{self.begun} answers")
        assert not any(self.answers.values()), self.answers

    def wait_cut_off(self):
        """The connection ends, and nothing was answered: what libnbd says then is its own word."""
        def ended():
            with contextlib.suppress(nbd.Error):
                self.handle.poll(0)
            return not self.handle.aio_in_flight()

        wait_until(ended, what="the end of the connection")
        assert self.answers and set(self.answers.values()) == {errno.ENOTCONN}, self.answers

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.handle = None  # as a client that is killed


def lose_peer(lab, requests, take_away=None):
    """By its death, or otherwise. Something is acknowledged and not flushed then: there is something to promise for a
    flush. So one write follows the other until one waits: what lies there for a second a primary flushes by itself."""
    taken = threading.Thread(target=take_away or (lambda: lab.kill("beta")))
    requests.handle.pwrite(DATA, DATA_AT + len(DATA))
    requests.begin()
    taken.start()

    def waits():
        if "write" in requests.poll():
            requests.answers.clear()
            requests.begun = 0
            requests.begin()
        return lab.status("alpha")["frozen"] and "write" not in requests.poll()

    wait_until(waits, what="that it is frozen, and a write waits")
    taken.join()
    requests.begin_more()


def still_frozen(lab, requests):
    assert not requests.poll(), f"answered without the witness' consent: {requests.answers}"
    assert lab.status("alpha")["frozen"]
