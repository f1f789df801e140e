"""A load that remembers every block that it wrote, to ask later whether it is still there."""

import random
import struct
import threading

BLOCK = 4096
FLUSH_EVERY = 64


def content(block, number):
    return struct.pack("<QQ", block, number) * (BLOCK // 16)


class RememberingLoad:
    """Writes random blocks of [offset, offset + length) from one thread over NBD, until stop() or
    until the node ends. Every block holds its own number and that of the write."""

    def __init__(self, offset, length):
        self.offset = offset
        self.blocks = length // BLOCK
        self.acknowledged = {}  # block: number of its last acknowledged write
        self.unanswered = {}    # block: the number of a write that may have happened or not
        self.attempts = 0
        self.writes = 0  # acknowledged ones
        self._stop = threading.Event()
        self._thread = None

    def start(self, uri):
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, args=(uri,), daemon=True)
        self._thread.start()

    def request_stop(self):
        self._stop.set()

    def stop(self):
        """Also waits for it, where the node ended it."""
        self._stop.set()
        self._thread.join(60)
        if self._thread.is_alive():
            raise TimeoutError("a write is not answered")

    def _run(self, uri):
        import nbd  # pylint: disable=import-outside-toplevel
        handle = nbd.NBD()
        try:
            handle.connect_uri(uri)
            while not self._stop.is_set():
                block = random.randrange(self.blocks)
                self.attempts += 1
                self.unanswered[block] = self.attempts
                handle.pwrite(content(block, self.attempts), self.offset + block * BLOCK)
                self.writes += 1
                self.acknowledged[block] = self.unanswered.pop(block)
                if self.writes % FLUSH_EVERY == 0:
                    handle.flush()
            handle.flush()
            handle.shutdown()
        except nbd.Error:
            pass  # the node is gone: what was acknowledged counts

    def missing(self, uri):
        """The blocks that do not hold what was acknowledged last. A write that was never answered
        may have happened or not."""
        import nbd  # pylint: disable=import-outside-toplevel
        handle = nbd.NBD()
        handle.connect_uri(uri)
        wrong = []
        for block, number in self.acknowledged.items():
            data = handle.pread(BLOCK, self.offset + block * BLOCK)
            if data not in (content(block, number),
                            content(block, self.unanswered.get(block, number))):
                wrong.append(block)
        handle.shutdown()
        return wrong
