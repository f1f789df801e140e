"""What a device may hold, by the notes of those who wrote to it (guest/blocks.py)."""

WORKERS = 4  # as in guest/blocks.py


class Promises:
    """Of one device, whoever serves it. Versions grow with each writer."""

    def __init__(self, blocks):
        self.blocks = blocks
        self.writes = 0
        self.flushes = 0
        self._next_first = 1
        self._settle({})

    def _settle(self, held):
        self._held = held              # version by block, on stable storage
        self._later = []               # (version, block, flushed) acknowledged since, the oldest first
        self._under_way = set()        # the version that each worker writes next
        self._flushing = {}            # by worker: how much of _later its flush covers

    def new_writer(self):
        """Its first version. What the last one wrote was checked."""
        assert not self._later
        first = self._next_first
        self._next_first += 1_000_000_000
        self._under_way = {first + worker for worker in range(WORKERS)}
        self._flushing = {}
        return first

    def note(self, text):
        """Notes of the writer that was made last, as far as they have come."""
        for line in text.splitlines(keepends=True):
            if not line.endswith("\n"):
                continue  # its write was under way when the power went
            kind, worker, *rest = line.split()
            if kind == "w":
                version, block = map(int, rest)
                self._under_way.discard(version)
                self._under_way.add(version + WORKERS)
                self._later.append([version, block, False])
                self.writes += 1
            elif kind == "b":
                self._flushing[worker] = len(self._later)
            elif kind == "f":
                for entry in self._later[:self._flushing.pop(worker)]:
                    entry[2] = True
                self.flushes += 1
            else:
                raise AssertionError(f"the writer had an error: {line}")

    def give_up(self):
        """What was not checked yet, by order."""
        self._settle(self._held)

    def check(self, versions, all_acknowledged):
        """`versions`: what was read, by block, and flushed after. Without `all_acknowledged` what was not flushed may
        be lost. From here on all of it is held."""
        may = [{self._held.get(block, 0)} for block in range(self.blocks)]
        for version, block, flushed in self._later:
            if flushed or all_acknowledged:
                may[block] = {version}
            else:
                may[block].add(version)
        wrong = []
        for block, there in enumerate(versions):
            if there not in may[block] and not self._may_be_under_way(there, block):
                wrong.append(f"block {block} has {there}, may have {sorted(may[block])}")
        assert len(versions) == self.blocks and not wrong, \
            f"{len(wrong)} of {len(versions)} blocks are wrong:\n" + "\n".join(wrong[:20])
        lost = 0
        for version, block, _ in self._later:
            lost += version > versions[block]
        self._settle(dict(enumerate(versions)))
        return lost

    def _may_be_under_way(self, version, block):
        return version in self._under_way and isinstance(version, int) and block % WORKERS == version_worker(version)


def version_worker(version):
    return (version - 1) % 1_000_000_000 % WORKERS
