"""What several system tests need: NBD handles, load, comparison of replicas."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import nbd
import pytest

from lablib import control
from lablib.error import LIVENESS_S
from lablib.lab import parse_size

KIB = 1 << 10
MIB = 1 << 20
IS_ROOT = os.geteuid() == 0
COMPARE_CHUNK = 4 * MIB
ENDLESS_S = 3600
SUPERBLOCKS = (0, 64 * KIB)  # daemon/metadata/disk_format.h
FLAGS_AT, FLAG_HELD_DATA, FLAG_FLUSHING = 48, 512, 4096


def can_mount_alone():
    """Whether a process can have mounts of its own: as root, and not in a chroot whose root is a mere directory."""
    return IS_ROOT and os.path.ismount("/") and subprocess.run(["unshare", "--mount", "true"], capture_output=True,
                                                               check=False).returncode == 0


@contextmanager
def loop_device(image, size):
    """A block device over `image`, which is made."""
    with open(image, "wb") as file:
        file.truncate(size)
    with attached(image) as device:
        yield device


@contextmanager
def attached(image):
    """A block device over `image` as it is."""
    made = subprocess.run(["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    device = made.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def clients_of(lab, name):
    """How many clients the node has; 0 where it has ended."""
    try:
        return lab.status(name)["clients"]
    except control.NotReachable:
        return 0


@contextmanager
def connection(lab, name="alpha"):
    """Ended, too, as far as the node is concerned: who stops it in the moment after would stop one that is in use."""
    handle = nbd.NBD()
    handle.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    handle.connect_uri(lab.node(name)["nbd"])
    try:
        yield handle
    finally:
        with_it = clients_of(lab, name)
        handle.shutdown()
        # One that has come meanwhile may stand in its place: it is not waited for without end.
        deadline = time.monotonic() + LIVENESS_S
        while with_it and clients_of(lab, name) >= with_it and time.monotonic() < deadline:
            time.sleep(0.02)


def write_all(handle, writes, depth=32):
    """Writes of (offset, data), so many at a time. Raises when one fails."""
    errors = []

    def done(error):
        if error.value:
            errors.append(os.strerror(error.value))
        return 1

    for offset, data in writes:
        while handle.aio_in_flight() >= depth:
            handle.poll(-1)
        handle.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(data)), offset, done)
    while handle.aio_in_flight():
        handle.poll(-1)
    assert not errors, errors


def twinblock(lab, *words, timeout_s=2 * LIVENESS_S):
    """Runs the command line tool of the lab's build."""
    program = Path(lab.state["build"]) / "tools" / "twinblock"
    return subprocess.run([str(program), *map(str, words)], capture_output=True, text=True,
                          check=False, timeout=timeout_s)


def ctl(lab, name, verb, *words, timeout_s=2 * LIVENESS_S):
    return twinblock(lab, verb, "--socket", lab.node(name)["control"], *words, timeout_s=timeout_s)


def promote(lab, name, *words, timeout_s=LIVENESS_S):
    """Again and again: a node that has just come back, or whose peer has, needs a moment."""
    wait_until(lambda: ctl(lab, name, "promote", *words).returncode == 0, timeout_s,
               f"{name}'s promotion:\n{lab.log_tail(name)}")


def wait_until_left(lab, name="alpha"):
    """Until the node has heard that its clients are gone: the server ends a connection first, and tells it then."""
    lab.wait_status(name, lambda status: not status["clients"], what="the end of its clients")


def demote(lab, name):
    """Once its clients are gone."""
    wait_until_left(lab, name)
    demoted = ctl(lab, name, "demote")
    assert demoted.returncode == 0, demoted.stderr


def status_field(pid, name):
    """What the kernel tells of a process, its first word."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(line.split()[1] for line in file if line.startswith(f"{name}:"))


def may_lock_memory():
    """As the program does it; one of this size needs more than the usual limit."""
    return subprocess.run([sys.executable, "-c", "import ctypes; raise SystemExit(ctypes.CDLL(None).mlockall(3) != 0)"],
                          check=False).returncode == 0


def left_in_memory(scratch):
    """The files of experiments that have ended. One that runs yet, for somebody who tests beside this, has its directory."""
    def running():
        return {path.name for path in Path(scratch).parent.glob("*/images/tb-exp-*")}

    begun = running()
    files = set(Path("/dev/shm").glob("tb-exp-*"))
    begun |= running()
    return {path for path in files if not any(path.name.startswith(f"{each}-") for each in begun)}


def first_difference(lab):
    """Offset of the first byte in which the replicas differ, or None."""
    offset = 0
    size = parse_size(lab.state["size"])
    with open(lab.node("alpha")["backing"], "rb") as one, \
            open(lab.node("beta")["backing"], "rb") as two:
        while offset < size:
            length = min(COMPARE_CHUNK, size - offset)
            left, right = one.read(length), two.read(length)
            if left != right:
                return offset + next((i for i in range(min(len(left), len(right)))
                                      if left[i] != right[i]), min(len(left), len(right)))
            offset += length
    return None


def assert_identical(lab):
    offset = first_difference(lab)
    assert offset is None, f"the replicas differ at byte {offset}"


def wait_until(condition, timeout_s=LIVENESS_S, what="the condition"):
    timeout_s = max(timeout_s, LIVENESS_S)
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:.0f} s for {what} in vain"
        time.sleep(0.05)


def wait_for_log(lab, name, *words, timeout_s=LIVENESS_S, since=0):
    """Until the node's log, from byte `since` on, has a line with all the words (any case); it."""
    found = []

    def look():
        found[:] = [line for line in lab.log_text(name)[since:].splitlines()
                    if all(word.lower() in line.lower() for word in words)]
        return found

    wait_until(look, timeout_s, f"{words} in {name}'s log:\n{lab.log_tail(name)}")
    return found[0]


def wait_for_writes(lab, count, name="alpha"):
    """Until clients have made so many more."""
    begin = lab.status(name)["counters"]["writes"]
    wait_until(lambda: lab.status(name)["counters"]["writes"] >= begin + count,
               what=f"{count} writes")


def has_on_record(lab, name, flag):
    """Whether a node's record has the flag, in both copies."""
    with open(lab.node(name)["metadata"], "rb") as file:
        for copy in SUPERBLOCKS:
            file.seek(copy + FLAGS_AT)
            if not int.from_bytes(file.read(4), "little") & flag:
                return False
    return True


def wait_until_noted(lab, *names):
    """Until the nodes have on record, in both copies, that their backings hold data: they write the first one down before
    the first flush is answered, and then no more."""
    wait_until(lambda: all(has_on_record(lab, name, FLAG_HELD_DATA) for name in names or ("alpha", "beta")),
               what="the data to be on record")


class Fio:
    """fio on an NBD URI, in the background; `result()` waits and returns the job's figures. With `runtime`
    None it goes on until `finish()`."""

    def __init__(self, uri, scratch, **parameters):
        self.output = Path(scratch) / f"fio-{time.monotonic_ns()}.json"
        parameters.setdefault("rw", "randwrite")
        if "runtime" in parameters and parameters["runtime"] is None:
            parameters.update(runtime=ENDLESS_S, time_based=None)
        words = [f"--{key}={value}" if value is not None else f"--{key}"
                 for key, value in parameters.items()]
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            ["fio", "--name=load", "--ioengine=nbd", f"--uri={uri}", "--thread",
             "--output-format=json", f"--output={self.output}", *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=scratch)

    def running(self):
        return self.process.poll() is None

    def result(self, timeout_s=2 * LIVENESS_S, interrupted=False):
        """Asserts that no request failed."""
        try:
            said = self.process.communicate(timeout=timeout_s)[0]
        finally:
            self.stop()
        code = self.process.returncode
        return fio_job(0 if interrupted and code == 128 else code, said, self.output)

    def interrupt(self):
        """fio lets what is in flight end, and reports; its exit status is 128 then."""
        wait_until(self._heeds_interrupts, what="fio to begin")
        assert self.running(), "the load has ended by itself: " + str(self.result())
        self.process.send_signal(signal.SIGINT)

    def _heeds_interrupts(self):
        """Only then does it report what it has done so far."""
        if not self.running():
            return True
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
        return bool(int(caught, 16) >> (signal.SIGINT - 1) & 1)

    def finish(self):
        """Ends it in order; the job's figures."""
        self.interrupt()
        return self.result(interrupted=True)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def fio_job(exit_code, said, output):
    """The job's figures; asserts that no request failed and no checksum was wrong."""
    text = output.read_text(encoding="utf-8") if output.exists() else ""
    assert exit_code == 0, f"fio: {said}\n{text[:2000]}"
    job = json.loads(text[text.index("{"):])["jobs"][0]
    assert job["error"] == 0, f"fio: {said}\n{text[:2000]}"
    return job


def longest_stall_s(job):
    return max(job[kind]["lat_ns"]["max"] for kind in ("write", "read", "sync")
               if "max" in job[kind]["lat_ns"]) / 1e9


def written_bytes(job):
    return job["write"]["io_bytes"]
