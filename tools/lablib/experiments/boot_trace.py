"""The reads of one boot, as they were recorded (boot_record.py), and the file that keeps them."""

from pathlib import Path

from ..error import LabError

BLOCK = 4096
SECTOR = 512
RECORDED = Path(__file__).resolve().with_name("boot.trace")
FORMAT = """\
# After these lines: one read each, in the order in which they were sent. Milliseconds from one to the next; offset
# and length in sectors of 512 bytes, hexadecimal; how many others were under way when it was sent.
# Then what is equal among the blocks of 4 KiB that were read, numbers hexadecimal: "= BLOCK OTHER" is a block with
# the bytes of one that has a lower number, "z BLOCK" one of zeroes.
"""


class Trace:
    """`reads` are (offset, length, under way) in bytes; `twins` map a block's number to that of an equal one, or to
    None where it is all zeroes."""

    def __init__(self, reads, twins):
        self.reads = reads
        self.twins = twins
        self.blocks = sorted({block for offset, length, _ in reads
                              for block in range(offset // BLOCK, -(-(offset + length) // BLOCK))})
        self.bytes = sum(length for _, length, _ in reads)
        self.span = (self.blocks[-1] + 1) * BLOCK if reads else 0

    def first(self, count):
        """A shorter one: its first reads, for a trial."""
        return Trace(self.reads[:count], self.twins)

    def unique(self):
        """The numbers of its blocks without those that equal another one of them."""
        read = set(self.blocks)
        return [block for block in self.blocks if block not in self.twins
                or (self.twins[block] is not None and self.twins[block] not in read)]


def load(path=RECORDED):
    """Raises LabError where there is none, or where it is none."""
    try:
        lines = Path(path).read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"no recorded boot in {path} ({error}); record one with: tools/lab experiment boot-storm "
                       "--record FILE") from error
    reads, twins = [], {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        try:
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "=":
                twins[int(words[1], 16)] = int(words[2], 16)
            elif words[0] == "z":
                twins[int(words[1], 16)] = None
            else:
                _, offset, length, depth = words
                reads.append((int(offset, 16) * SECTOR, int(length, 16) * SECTOR, int(depth)))
        except (ValueError, IndexError) as error:
            raise LabError(f"{path}:{number} is no line of a trace: {line}") from error
    if not reads:
        raise LabError(f"{path} holds no reads")
    return Trace(reads, twins)


def store(path, head, reads, twins):
    """`head` are sentences; `reads` as (us since the first, offset, length, under way)."""
    lines = [*(f"# {sentence}\n" for sentence in head), FORMAT]
    before = 0
    for at_us, offset, length, depth in reads:
        at_ms = at_us // 1000
        lines.append(f"{at_ms - before} {offset // SECTOR:x} {length // SECTOR:x} {depth}\n")
        before = at_ms
    for block, twin in sorted(twins.items()):
        lines.append(f"z {block:x}\n" if twin is None else f"= {block:x} {twin:x}\n")
    Path(path).write_text("".join(lines), encoding="ascii")
