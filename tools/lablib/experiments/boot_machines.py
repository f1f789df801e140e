"""The machines that boot at once: a process each (boot_reader.py), which begin together."""

import json
import select
import subprocess
import sys
import time
from pathlib import Path

from ..error import LIVENESS_S, LabError

TOOLS = Path(__file__).resolve().parents[2]
STORM_S_MAX = 900
TAIL = 1500


def boot(clones, trace_path, reads, uri, check=True):
    """All clones at once. When each was done, in s, the first to the last. Raises LabError where one got other
    bytes than it had to, unless nobody is to `check`."""
    machines = []
    try:
        for clone in range(clones.count):
            machines.append(_start({"trace": str(trace_path), "reads": reads, "count": clones.count, "clone": clone,
                                    "changed_percent": clones.changed_percent, "distinct": clones.distinct,
                                    "uri": uri}))
        deadline = time.monotonic() + LIVENESS_S + 2 * clones.count
        for machine in machines:
            if _line(machine, deadline) != "ready":
                raise LabError(f"a reader does not start: {_complaint(machine)}")
        began = time.monotonic()
        for machine in machines:
            machine.stdin.write(b"go\n")
            machine.stdin.flush()
        ended = [_result(machine, began + STORM_S_MAX, check) for machine in machines]
    finally:
        for machine in machines:
            machine.kill()
            machine.communicate()
    return sorted(each - began for each in ended)


def _start(order):
    return subprocess.Popen([sys.executable, "-m", "lablib.experiments.boot_reader", json.dumps(order)],
                            cwd=TOOLS, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _line(machine, deadline):
    """What it says next; nothing where it says nothing in time."""
    ready, _, _ = select.select([machine.stdout], [], [], max(0.0, deadline - time.monotonic()))
    return machine.stdout.readline().decode().strip() if ready else ""


def _complaint(machine):
    machine.kill()
    _, error = machine.communicate()
    return error.decode(errors="replace").strip()[-TAIL:] or "it does not answer"


def _result(machine, deadline, check):
    line = _line(machine, deadline)
    if not line:
        raise LabError(f"a reader did not come to its end: {_complaint(machine)}")
    result = json.loads(line)
    if result["failed"] or (check and result["wrong"]):
        raise LabError(f"a reader got {result['failed']} errors, and {result['wrong']} blocks that do not hold what "
                       "was written")
    return result["ended"]
