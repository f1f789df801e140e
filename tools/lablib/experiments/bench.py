"""What an experiment has started, and how all of it ends, whatever happens."""

import shutil
import signal
import socket
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from ..compiled import compiled
from ..error import LIVENESS_S, LabError
from ..fio import fill
from ..guardian import Guardian
from ..lab import Lab, parse_size
from ..links import NODES
from ..processes import Process

PEER_TIMEOUT = "5s"
START_S = LIVENESS_S


def say(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    """A scratch directory, the labs and servers in it, and whatever else was registered with
    `at_end`. Everything is undone in reverse order."""

    def __init__(self, parent, build):
        # Sockets live in it: their paths are short.
        self.dir = Path(tempfile.mkdtemp(prefix="tb-exp-", dir=parent))
        self.build = build
        self._undo = []
        self._guardian = Guardian()
        self._guardian.remove(self.dir)

    def at_end(self, function, *arguments):
        self._undo.append((function, arguments))

    def close(self):
        for function, arguments in reversed(self._undo):
            try:
                function(*arguments)
            except Exception as error:  # pylint: disable=broad-exception-caught
                say(f"experiment: while cleaning up: {error}")
        self._undo = []
        shutil.rmtree(self.dir, ignore_errors=True)
        self._guardian.close()

    def remove_at_end(self, path):
        """A file outside the scratch directory; also when this process is killed."""
        self._guardian.remove(path)
        self.at_end(lambda: path.unlink(missing_ok=True))

    def lab(self, name, size, rate=None, init=True, filled=True, **options):
        """A lab of two nodes with one link, link1, in duplex; in network namespaces unless `options` say
        otherwise. Images are
        written in full where none are given, so that no point pays for allocation."""
        directory = self.dir / name
        lab = Lab(directory)
        if filled and "backing" not in options:
            options["backing"] = {}
            for node in NODES:
                image = self.dir / f"{name}-{node}.img"
                fill(image, parse_size(size))
                options["backing"][node] = image
        self.at_end(lab.purge)
        lab.create(size=size, build=self.build, links=1, rates=[rate] if rate else (),
                   **{"host_namespaces": True, "peer_timeout": PEER_TIMEOUT, **options})
        lab.up(init=init, timeout_s=120)
        return lab

    def spawn(self, command, name):
        """A server that ends with the bench; its log is NAME.log."""
        process = Process.spawn([str(word) for word in command], self.dir / f"{name}.log")
        self.at_end(process.stop, 10)
        return process

    def compiled(self, name, source, *flags):
        """A program or library NAME out of a C file, made once; its path."""
        path = self.dir / name
        return path if path.exists() else compiled(path, source, *flags)

    def first_line(self, name):
        """What a server that was spawned says first; waits for it."""
        deadline = time.monotonic() + START_S
        while True:
            line, end, _ = (self.dir / f"{name}.log").read_text(encoding="utf-8").partition("\n")
            if end or time.monotonic() > deadline:
                return line
            time.sleep(0.02)

    def first_answer(self, sock, name):
        """Waits for a server that was spawned to listen there."""
        deadline = time.monotonic() + START_S
        while True:
            with socket.socket(socket.AF_UNIX) as client:
                if client.connect_ex(str(sock)) == 0:
                    return
            if time.monotonic() > deadline:
                raise LabError(f"{name} does not answer: {self.log_tail(name)}")
            time.sleep(0.02)

    def log_tail(self, name):
        text = (self.dir / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-8:])


def in_turn(names, number):
    """All of them, from another one each time: whatever slows the machine for a while hits all."""
    names = list(names)
    at = number % len(names)
    return names[at:] + names[:at]


def must_be(lab, state, node="alpha"):
    """A point counts only if the mirror was what it should be, to its end."""
    now = lab.status(node)["state"]
    if now != state:
        raise LabError(f"{node} should be in {state}, and is in {now}\n{lab.log_tail(node)}")


@contextmanager
def undisturbed():
    """Cleaning up goes on when the user is impatient."""
    before = {number: signal.signal(number, signal.SIG_IGN)
              for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def benches(parent, build):
    """A Bench that ends with the block, also on Ctrl-C, SIGTERM and SIGHUP."""
    def interrupted(_number, _frame):
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupted)
              for number in (signal.SIGTERM, signal.SIGHUP)}
    bench = Bench(parent, build)
    try:
        yield bench
    finally:
        with undisturbed():
            bench.close()
        for number, handler in before.items():
            signal.signal(number, handler)
