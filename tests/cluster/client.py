"""A client of the database, wherever it is: commits one row after the other and notes which were acknowledged, and how
long none was. It stays connected, since a program's start is a second's work for an emulated host."""

import itertools
import threading
import time

ROWS_A_CONNECTION = 1_000_000
STATEMENT = ("insert into promised select coalesce(max(number), {base}) + 1 from promised "
             "where number > {base} and number <= {end} returning number \\watch {pause}\\n")
PAUSE_S = 0.1


class Client:
    CONNECTIONS = itertools.count(1)  # whose numbers no other one writes: none comes twice

    def __init__(self, cluster):
        self._cluster = cluster
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.acknowledged = []  # (seconds, number)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ending.set()
        self._thread.join()

    def _write(self):
        while not self._ending.is_set():
            host = self._cluster.where()
            if host is not None:
                base = next(self.CONNECTIONS) * ROWS_A_CONNECTION
                statement = STATEMENT.format(base=base, end=base + ROWS_A_CONNECTION, pause=PAUSE_S)
                for line in self._cluster.lines(host, statement, self._ending):
                    if line.isdigit():
                        self.acknowledged.append((time.monotonic(), int(line)))
            self._ending.wait(0.1)

    def count(self):
        return len(self.acknowledged)

    def outage_s(self, since):
        """The longest time without an acknowledgement that began after `since`, or just before."""
        times = [at for at, _ in self.acknowledged]
        gaps = [(after - before, before) for before, after in zip(times, times[1:]) if after > since]
        return max(gaps)[0] if gaps else float("inf")
