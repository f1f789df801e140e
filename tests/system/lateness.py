"""What the machine itself is to blame for: the reference for promises that are made in seconds.

A thread that only sleeps and wakes notes when it woke late. Whoever had to be awake at the same time may
have been as late, each time that one thread had to wait for another."""

import threading
import time
import warnings

TICK_S = 0.005
# A request wakes so many threads one after the other: client, nbdkit's worker, loop, the peer's loop and
# its disk's worker, and back.
PASSES = 8


class Lateness:
    """From its begin to its end; a context manager."""

    def __init__(self):
        self.gaps = []  # (since, until): this thread should have run, and did not
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        last = time.monotonic()
        while not self._ending.wait(TICK_S):
            now = time.monotonic()
            if now - last > 2 * TICK_S:
                self.gaps.append((last + TICK_S, now))
            self.ticked()
            last = time.monotonic()

    def ticked(self):
        """For what else is to be looked at now and then."""

    def longest_s(self, begin=0.0, end=float("inf")):
        return max((until - since for since, until in list(self.gaps)
                    if since < end and until > begin), default=0.0)

    def allowance_s(self, begin=0.0, end=float("inf")):
        """What may come on top of a promise in seconds, that much later on this machine just then."""
        return PASSES * self.longest_s(begin, end)

    def close(self):
        self._ending.set()
        self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()


def in_one_of_three(run):
    """`run` says what broke a promise in seconds, or nothing. Where it did, it is run anew: the thread that notes how
    late the machine is may have run when a node did not. What is said is told at the end of the tests in any case."""
    for last in (False, False, True):
        said = run()
        if not said:
            return
        assert not last, said
        warnings.warn(said, stacklevel=2)
