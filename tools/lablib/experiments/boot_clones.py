"""Many machines' disks on one volume: clones of one system, each with some blocks of its own. Only the blocks that
the recorded boot reads are there; what they hold follows from their numbers, so that a reader knows what it must get."""

import hashlib
import random

from .boot_trace import BLOCK

APART = 1 << 20  # clones begin at multiples of it
WRITE_BLOCKS_MAX = 32
WRITES_UNDER_WAY = 16
STAMP_BYTES = 16


class Clones:
    """`changed_percent` of the blocks that are read are each clone's own. Where they are `distinct`, all are, as if each
    clone were encrypted with a key of its own: then no two blocks of the volume are equal."""

    def __init__(self, trace, count, changed_percent, distinct=False):
        self.trace = trace
        self.count = count
        self.changed_percent = changed_percent
        self.distinct = distinct
        self.stride = -(-trace.span // APART) * APART
        self.spare = count * self.stride  # a place that no clone reads
        self.size = self.spare + APART

    def own_blocks(self, clone):
        blocks = self.trace.blocks
        if self.distinct:
            return set(blocks)
        return set(random.Random(f"clone {clone}").sample(blocks, round(len(blocks) * self.changed_percent / 100)))

    def names(self, clone):
        """What each block of the clone holds, as something that two blocks share if they are equal: its number to a
        text, or to None for zeroes."""
        own, twins = self.own_blocks(clone), self.trace.twins
        return {block: f"{clone} {block}" if block in own else
                None if (twin := twins.get(block, block)) is None else f"all {twin}"
                for block in self.trace.blocks}

    def stamps(self, clone):
        """The first bytes of each of its blocks."""
        return {block: content(name, STAMP_BYTES) for block, name in self.names(clone).items()}

    def unique_bytes(self):
        """The working set, each block that is equal to another one counted once."""
        return len({name for clone in range(self.count) for name in self.names(clone).values()}) * BLOCK

    def working_set_bytes(self):
        return self.count * len(self.trace.blocks) * BLOCK

    def pieces(self):
        """(offset, bytes) of all that is to be written, in order; neighbours together."""
        shared = {}
        for clone in range(self.count):
            base, offset, piece = clone * self.stride, None, []
            for block, name in self.names(clone).items():
                if piece and (len(piece) == WRITE_BLOCKS_MAX or base + block * BLOCK != offset + len(piece) * BLOCK):
                    yield offset, b"".join(piece)
                    piece = []
                if not piece:
                    offset = base + block * BLOCK
                if name is None or name.startswith("all"):
                    data = shared.get(name) or shared.setdefault(name, content(name))
                else:
                    data = content(name)
                piece.append(data)
            if piece:
                yield offset, b"".join(piece)


def content(name, length=BLOCK):
    return bytes(length) if name is None else hashlib.shake_128(name.encode()).digest(length)


def write(clones, uri):
    """All of them, through the device; stable when it returns."""
    import nbd  # pylint: disable=import-outside-toplevel
    handle = nbd.NBD()
    handle.connect_uri(uri)
    failed = []
    # By length, and used again: libnbd 1.14 keeps what each write was given.
    free = {}

    def write_piece(offset, data):
        buffers = free.setdefault(len(data), [])
        buffer = buffers.pop() if buffers else nbd.Buffer(len(data))
        buffer.to_buffer()[:] = data

        def done(error):
            if error.value:
                failed.append(error.value)
            buffers.append(buffer)
            return 1

        handle.aio_pwrite(buffer, offset, done)

    for offset, data in clones.pieces():
        while handle.aio_in_flight() >= WRITES_UNDER_WAY:
            handle.poll(-1)
        write_piece(offset, data)
    while handle.aio_in_flight():
        handle.poll(-1)
    handle.flush()
    handle.shutdown()
    if failed:
        raise OSError(failed[0], "a write of the clones failed")
