"""A change-rate generator: writes so many MB of seeded, verifiable data, waits, deletes (trims), and
writes again elsewhere, at an even rate; or as fast as it goes."""

import hashlib
import time

BLOCK = 64 << 10
BATCH_BYTES = 4 << 20
WORDS = b"the quick brown fox jumps over lazy dogs while mirrored blocks travel along links "


class ChangeRate:
    """On one NBD connection. `handle` is connected; [0, size_bytes) is all the generator's own. It
    goes through the device in batches; the batch before the last one is deleted, so that what is
    there is always known: the last batches written, and zeroes where it deleted."""

    def __init__(self, handle, size_bytes, seed, kept_batches=2):
        self.handle = handle
        self.batches = size_bytes // BATCH_BYTES
        self.seed = seed
        self.kept = kept_batches
        self.content = {}  # batch: the number of what was written there; None: deleted
        self.order = []    # what is there, oldest first
        self.number = 0
        self._bodies = [body(seed, each) for each in range(16)]

    def run(self, seconds, bytes_per_s):
        """Whole batches until the time is over: bytes written, and the seconds that it took.
        `bytes_per_s` None: as fast as it goes."""
        begin = time.monotonic()
        written = 0
        while time.monotonic() - begin < seconds:
            place = self.number % self.batches
            for at in range(0, BATCH_BYTES, BLOCK):
                self.handle.pwrite(self.data(self.number, at), place * BATCH_BYTES + at)
                written += BLOCK
                if bytes_per_s:
                    # Even, not in bursts: each block has its time.
                    ahead = written / bytes_per_s - (time.monotonic() - begin)
                    if ahead > 0:
                        time.sleep(ahead)
            self._remember(place)  # a batch is always written in full: what is there is known
        return written, time.monotonic() - begin

    def _remember(self, place):
        if place in self.order:
            self.order.remove(place)
        self.content[place] = self.number
        self.order.append(place)
        self.number += 1
        while len(self.order) > self.kept:
            gone = self.order.pop(0)
            self.handle.trim(BATCH_BYTES, gone * BATCH_BYTES)
            self.content[gone] = None

    def data(self, number, at):
        """What a block holds: a head that no other block has, then half text, half random bytes."""
        head = hashlib.blake2b(f"{self.seed}:{number}:{at}".encode(), digest_size=64).digest()
        return head + self._bodies[(number * 64 + at // BLOCK) % len(self._bodies)]

    def wrong(self, read):
        """Batches that do not hold what they should, by `read(length, offset)`."""
        found = []
        for place, number in self.content.items():
            for at in range(0, BATCH_BYTES, BLOCK):
                there = bytes(read(BLOCK, place * BATCH_BYTES + at))
                wanted = bytes(BLOCK) if number is None else self.data(number, at)
                if there != wanted:
                    found.append((place, at))
        return found


def body(seed, number):
    """Of a block, deterministic: compresses to somewhat more than a third, as documents do."""
    rest = BLOCK - 64
    noise = hashlib.shake_128(f"{seed}/{number}".encode()).digest(rest // 3)
    text = bytearray()
    for at in range(0, len(noise), 16):
        start = noise[at] % len(WORDS)
        text += noise[at:at + 16] + (WORDS[start:] + WORDS[:start])[:32]
    return bytes(text[:rest]).ljust(rest, b" ")
