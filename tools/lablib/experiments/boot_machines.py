"""The machines that boot at once: a process each (boot_reader.c), which begin together."""

import select
import struct
import subprocess
import time
from pathlib import Path

from ..error import LIVENESS_S, LabError
from .boot_trace import BLOCK

SOURCE = Path(__file__).resolve().with_name("boot_reader.c")
READ = struct.Struct("QQQ")
URI = "nbd+unix:///?socket="
STORM_S_MAX = 900
TAIL = 1500


def boot(bench, clones, uri, check=True):
    """All clones at once. When each was done, in s, the first to the last. Raises LabError where one got other
    bytes than it had to, unless nobody is to `check`."""
    program = bench.compiled("boot_reader", SOURCE)
    commands = [[program, uri.removeprefix(URI), str(clone * clones.stride), *_files(bench, clones, clone)]
                for clone in range(clones.count)]
    machines = []
    try:
        for command in commands:
            machines.append(subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=subprocess.PIPE))
        deadline = time.monotonic() + LIVENESS_S
        for machine in machines:
            if _line(machine, deadline) != "ready":
                raise LabError(f"a reader does not start: {_complaint(machine)}")
        began = time.monotonic()
        for machine in machines:
            machine.stdin.write(b"\n")
        ended = [_result(machine, began + STORM_S_MAX, check) for machine in machines]
    finally:
        for machine in machines:
            machine.kill()
            machine.communicate()
    return sorted(each - began for each in ended)


def _files(bench, clones, clone):
    """What the program is told of the reads, and of what it must get; made once."""
    reads = bench.dir / "boot-reads"
    if not reads.exists():
        reads.write_bytes(b"".join(READ.pack(*each) for each in clones.trace.reads))
    stamps = bench.dir / f"boot-stamps-{'distinct-' if clones.distinct else ''}{clone}"
    if not stamps.exists():
        of_block = clones.stamps(clone)
        stamps.write_bytes(b"".join(of_block[block] for offset, length, _ in clones.trace.reads
                                    for block in range(-(-offset // BLOCK), (offset + length) // BLOCK)))
    return [str(reads), str(stamps)]


def _line(machine, deadline):
    """What it says next; nothing where it says nothing in time."""
    ready, _, _ = select.select([machine.stdout], [], [], max(0.0, deadline - time.monotonic()))
    return machine.stdout.readline().decode().strip() if ready else ""


def _complaint(machine):
    machine.kill()
    _, error = machine.communicate()
    return error.decode(errors="replace").strip()[-TAIL:] or "it does not answer"


def _result(machine, deadline, check):
    """When it was done, by the clock of time.monotonic()."""
    words = _line(machine, deadline).split()
    if len(words) != 3:
        raise LabError(f"a reader did not come to its end: {_complaint(machine)}")
    ended_ns, failed, wrong = map(int, words)
    if failed or (check and wrong):
        raise LabError(f"a reader got {failed} errors, and {wrong} blocks that do not hold what was written")
    return ended_ns / 1e9
