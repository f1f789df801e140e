"""A register checker: load whose every sector says which write it came from, and a model that knows
which values a sector may hold after nodes have crashed.

Each write has a stamp of its own; each 512 bytes that it writes hold the stamp and their place. The
model records when each request began and when it was answered. What a sector may hold follows from
that alone: the value of a write that was not answered, or of one that was answered, unless a later
write is bound to have survived. Later: it began after the other was answered. A write is bound to
have survived when it was answered and, where a power cut is played, also flushed: a flush or a FUA
write that began after its answer was answered, too."""

import copy
import itertools
import random
import struct
import threading
import time

import nbd

from lablib.error import LIVENESS_S
from support import KIB, MIB

SECTOR = 512
EXTENT = 512 * KIB  # the load's sectors lie in one such piece of each 4 MiB
STRIDE = 4 * MIB
FLUSHED_WHEN_IDLE_NS = 500_000_000  # the nodes wait for 1 s without writes
LENGTHS = [1, 1, 2, 3, 7, 8, 8, 8, 8, 16, 32, 128]  # sectors


def sector_bytes(stamp, index):
    return struct.pack("<QQ", stamp, index) * (SECTOR // 16) if stamp else bytes(SECTOR)


class Request:
    """A write, or a flush (then without sectors). `answered` is None until it has succeeded."""

    __slots__ = ("stamp", "first", "end", "flushes", "began", "answered")

    def __init__(self, stamp, first, end, flushes):
        self.stamp = stamp
        self.first = first
        self.end = end
        self.flushes = flushes
        self.began = time.monotonic_ns()
        self.answered = None

    def as_of(self, time_ns):
        """As it was known then."""
        known = copy.copy(self)
        if self.answered and self.answered > time_ns:
            known.answered = None
        return known


class Registers:
    """What may be where. Any thread may add requests; the rest is for times without load."""

    def __init__(self, size):
        self.size = size
        self.held = [0] * (size // SECTOR)  # by the last check
        self.requests = []
        self.stamps = itertools.count(1)

    def begin(self, first, end, zero=False, flushes=False):
        request = Request(0 if zero or first == end else next(self.stamps), first, end, flushes)
        self.requests.append(request)
        return request

    def _allowed(self, sector, requests, survives):
        newest = max((each.began for each in requests if survives(each)), default=None)
        values = {each.stamp for each in requests
                  if newest is None or each.answered is None or each.answered >= newest}
        return values if newest is not None else values | {self.held[sector]}

    def check(self, read, only_flushed=False, what="the volume"):
        """`read(offset, length)` gives what is there. From then on that is what was there."""
        before = max((each.began for each in self.requests if each.flushes and each.answered),
                     default=0)
        survives = survivors(before if only_flushed else None)
        allowed = {sector: self._allowed(sector, requests, survives)
                   for sector, requests in written(self.requests).items()}
        found = self.found(read)
        wrong = [(sector, stamp, sorted(allowed.get(sector, {self.held[sector]})))
                 for sector, stamp in enumerate(found)
                 if stamp not in allowed.get(sector, (self.held[sector],))]
        assert not wrong, f"{what}: {len(wrong)} sectors hold what they may not; (sector, stamp " \
                          f"found, stamps allowed): {wrong[:4]}; requests on the first: " \
                          f"{self.story(wrong[0][0])}"
        self.held = found
        self.requests = []

    def found(self, read):
        """The stamp of each sector; 'torn' where a sector is not what any write made."""
        stamps = []
        nothing = bytes(SECTOR)
        for offset in range(0, self.size, 4 * MIB):
            data = read(offset, min(4 * MIB, self.size - offset))
            for at in range(0, len(data), SECTOR):
                piece = data[at:at + SECTOR]
                if piece == nothing:
                    stamps.append(0)
                    continue
                stamp, index = struct.unpack_from("<QQ", piece)
                right = index == (offset + at) // SECTOR and piece == sector_bytes(stamp, index)
                stamps.append(stamp if right else f"torn {piece[:16].hex()}")
        return stamps

    def story(self, sector):
        began = self.requests[0].began if self.requests else 0
        return [(each.stamp, (each.began - began) // 1000,
                 each.answered and (each.answered - began) // 1000, each.flushes)
                for each in self.requests
                if each.first <= sector < each.end or (each.flushes and each.first == each.end)]

    def cut_power(self, image, death, since_ns, rng):
        """Plays what a power cut does to the image of a killed node: of the sectors written since
        the last flush, some fall back to older values. `death`: when it died, as (not before, not
        after); `since_ns`: the time of the last flush that the nodes made on their own, as at the
        end of a resync. The load may go on with the other node. Returns how many fell."""
        not_before, not_after = death
        until = [each.as_of(not_before) for each in list(self.requests)
                 if each.began < not_after]
        flushes = [each for each in until if each.flushes]
        # A flush that was under way may have reached the disk: nothing is known to be unflushed.
        # Nor is it after a pause, in which the nodes flush on their own.
        if any(each.answered is None for each in flushes) or pauses(until, not_before):
            return 0
        since_ns = max([since_ns, *(each.answered for each in flushes)])
        before = max((each.began for each in flushes), default=0)
        fallen = 0
        with open(image, "r+b") as file:
            for sector, requests in written(until).items():
                answered = [each for each in requests if each.answered]
                if not any(each.began > since_ns for each in answered) or rng.random() < 0.5:
                    continue
                older = self._allowed(sector, answered, survivors(before))
                file.seek(sector * SECTOR)
                file.write(sector_bytes(rng.choice(sorted(older)), sector))
                fallen += 1
        return fallen


def pauses(requests, until_ns):
    answers = sorted([*(each.answered for each in requests if each.answered), until_ns])
    return any(later - earlier > FLUSHED_WHEN_IDLE_NS
               for earlier, later in zip(answers, answers[1:]))


def written(requests):
    """The requests that touch each sector."""
    touched = {}
    for request in requests:
        for sector in range(request.first, request.end):
            touched.setdefault(sector, []).append(request)
    return touched


def survivors(flushed_before=None):
    """Which requests are bound to survive: all that were answered, as a process that is killed
    loses nothing; or, after a power cut, those answered before the last flush began."""
    def survives(each):
        if each.answered is None:
            return False
        return flushed_before is None or each.answered < flushed_before or each.flushes
    return survives


class Requester:
    """Makes requests, by whatever connection, and tells the model of them. Returns those that were answered."""

    def __init__(self, registers, fua=True):
        self.registers = registers
        self.fua = fua

    def flush(self, handle, _rng):
        request = self.registers.begin(0, 0, flushes=True)
        handle.flush()
        return request

    def write(self, handle, rng):
        length = rng.choice(LENGTHS)
        extent = rng.randrange(self.registers.size // STRIDE) * STRIDE
        first = (extent + rng.randrange(EXTENT)) // SECTOR
        if length == 8:
            first -= first % 8
        kind = rng.random()
        fua = self.fua and rng.random() < 0.03
        zero = kind < 0.1
        request = self.registers.begin(first, first + length, zero, flushes=fua)
        flags = nbd.CMD_FLAG_FUA if fua else 0
        at, size = first * SECTOR, length * SECTOR
        if kind < 0.05:
            handle.trim(size, at, flags)
        elif zero:
            handle.zero(size, at, flags)
        else:
            handle.pwrite(b"".join(sector_bytes(request.stamp, sector)
                                   for sector in range(first, first + length)), at, flags)
        return request


class Load(Requester):
    """Overlapping writes, zeroes, trims and flushes by several connections until stop(), or until
    the server dies (`ended`)."""

    def __init__(self, lab, name, registers, writers=5, fua=True, flush_every_s=0.15, seed=None):
        super().__init__(registers, fua)
        self.flush_every_s = flush_every_s
        self.stopping = threading.Event()
        self.errors = []
        self.began_ns = time.monotonic_ns()
        handles = [nbd.NBD() for _ in range(writers + 1)]
        for handle in handles:
            handle.connect_uri(lab.node(name)["nbd"])
        seed = seed if seed is not None else random.SystemRandom().getrandbits(32)
        self.threads = [threading.Thread(target=self._run, args=(handle, random.Random(seed + n),
                                                                 n == writers), daemon=True)
                        for n, handle in enumerate(handles)]
        for thread in self.threads:
            thread.start()

    def _run(self, handle, rng, flusher):
        step = self.flush if flusher else self.write
        request = None
        try:
            while not self.stopping.is_set():
                request = step(handle, rng)
                request.answered = time.monotonic_ns()
                if flusher:
                    self.stopping.wait(rng.uniform(0, 2 * self.flush_every_s))
            handle.shutdown()
        except nbd.Error as error:
            self.errors.append(str(error))

    def answered(self):
        return sum(1 for each in self.registers.requests if each.answered)

    def wait_for(self, requests):
        """Until so many requests have been answered: a load that proves something."""
        deadline = time.monotonic() + LIVENESS_S
        while self.answered() < requests and not self.errors:
            assert time.monotonic() < deadline, f"{self.answered()} answers in {LIVENESS_S:.0f} s"
            time.sleep(0.02)

    def ended(self):
        """The server was killed: waits until all connections have noticed."""
        for thread in self.threads:
            thread.join(LIVENESS_S)
            assert not thread.is_alive(), "a client still waits for a server that is dead"

    def stop(self):
        """An orderly end; no request may have failed."""
        self.stopping.set()
        self.ended()
        assert not self.errors, self.errors
