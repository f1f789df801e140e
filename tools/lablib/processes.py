"""Processes that outlive the command that started them, known by pid *and* start time, so that a
reused pid is never signalled."""

import glob
import os
import signal
import subprocess
import time

from .error import LIVENESS_S

CPUCLOCK_SCHED = 2  # clock_getcpuclockid(3), as the kernel encodes it


def boot_id():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def _stat_fields(pid):
    """The fields of /proc/PID/stat after the command name, or None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def start_time(pid):
    fields = _stat_fields(pid)
    return int(fields[19]) if fields else None


def cpu_seconds(pid):
    """User and system time of the process so far, all its threads (ended ones too). By its clock,
    which counts nanoseconds; utime and stime of /proc/PID/stat are the same in ticks of 10 ms."""
    try:
        return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)
    except OSError:
        return 0.0


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


class Process:
    """One process. `record()` is what survives in a file; `Process.of(record)` finds it again."""

    def __init__(self, pid, started, boot, child=None):
        self.pid = pid
        self.started = started
        self.boot = boot
        self.exit_code = None  # known only to the process that started it
        self._child = child

    @classmethod
    def spawn(cls, command, log_path, env=None, **popen_options):
        """Starts `command` in a session of its own, its output appended to `log_path`."""
        with open(log_path, "ab", buffering=0) as log:
            child = subprocess.Popen(  # pylint: disable=consider-using-with
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                start_new_session=True, **popen_options)
        return cls(child.pid, start_time(child.pid), boot_id(), child)

    @classmethod
    def of(cls, record):
        return cls(record["pid"], record["start_time"], record["boot"])

    def record(self):
        return {"pid": self.pid, "start_time": self.started, "boot": self.boot}

    def _fields(self):
        """The stat fields while this very process exists and has not ended; reaps it otherwise."""
        if self._child is not None:
            code = self._child.poll()
            if code is not None:
                self.exit_code = code
                return None
        if self.boot != boot_id():
            return None
        fields = _stat_fields(self.pid)
        if not fields or int(fields[19]) != self.started:
            return None
        # A killed process has not ended, and holds its locks, while a thread of it waits for a disk.
        threads = int(fields[17])
        if fields[0] in (b"Z", b"X") and threads <= 1:
            if self._child is not None:  # ended since it was asked above
                self.exit_code = self._child.wait()
            return None
        return fields

    def alive(self):
        return self._fields() is not None

    def state(self):
        """running, stopped (SIGSTOP) or gone."""
        fields = self._fields()
        if not fields:
            return "gone"
        return "stopped" if fields[0] in (b"T", b"t") else "running"

    def signal(self, number):
        """False when the process is gone already."""
        if not self.alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def pause(self):
        """SIGSTOP, and none of its threads runs any more: on a busy machine the kernel takes its time
        until one of them has told the others. False when the process is gone."""
        if not self.signal(signal.SIGSTOP):
            return False
        deadline = time.monotonic() + LIVENESS_S
        while self.alive() and not self._stands_still() and time.monotonic() < deadline:
            time.sleep(0.001)
        return self.alive()

    def _stands_still(self):
        """Each thread is stopped, or waits for a disk and stops thereafter."""
        for task in glob.glob(f"/proc/{self.pid}/task/[0-9]*"):
            fields = _stat_fields(f"{self.pid}/task/{os.path.basename(task)}")
            if fields and fields[0] not in (b"T", b"t", b"D", b"Z", b"X"):
                return False
        return True

    def wait_gone(self, timeout_s):
        deadline = time.monotonic() + timeout_s
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def kill(self):
        self.signal(signal.SIGKILL)
        return self.wait_gone(LIVENESS_S)

    def stop(self, timeout_s):
        """Orderly: SIGCONT, SIGTERM, and SIGKILL when `timeout_s` was not enough (then False)."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        if self.wait_gone(timeout_s):
            return True
        self.kill()
        return False
