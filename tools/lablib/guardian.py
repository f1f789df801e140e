"""Ends what somebody started when that one is killed before it could: nodes, loads and servers live in
sessions of their own, and go on without the one who made them.

A guardian is a process that waits for the end of the one that it guards, whatever ends it: it reads from a
pipe that nobody else holds open. Then it kills every process whose environment has the mark of that one,
which all that it starts inherit, and removes the files that it was told of.

For a shell script, whose children hold each of its pipes open: guardian.py MARK PID [PATH…]"""

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

MARK = "TWINBLOCK_GUARDED_BY"  # names, since one that is guarded may run another: divided by colons
KILL_S = 10


class Guardian:
    """Of this process and all that it starts from now on; until close(), or its end."""

    def __init__(self):
        name = f"{os.getpid()}-{time.monotonic_ns()}"
        environment = {key: value for key, value in os.environ.items() if key != MARK}
        self._process = subprocess.Popen(  # pylint: disable=consider-using-with
            [sys.executable, str(Path(__file__).resolve()), name], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, start_new_session=True, env=environment, text=True)
        self._before = os.environ.get(MARK)
        os.environ[MARK] = ":".join(filter(None, [self._before, name]))

    def remove(self, path):
        """A file or a directory that is to go with this process. What is there no more is no matter."""
        self._process.stdin.write(f"{path}\n")
        self._process.stdin.flush()

    def close(self):
        """Whatever is left ends now."""
        if self._before is None:
            os.environ.pop(MARK, None)
        else:
            os.environ[MARK] = self._before
        self._process.stdin.close()
        self._process.wait()


def is_marked(pid, name):
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # ended, or somebody else's
        return False
    pairs = [variable.partition(b"=") for variable in variables]
    return any(key == MARK.encode() and name.encode() in value.split(b":") for key, _, value in pairs)


def marked(name):
    """The pids of the processes with that mark."""
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_marked(pid, name)]


def kill_marked(name):
    """Until none is left: one of them may have started another meanwhile."""
    deadline = time.monotonic() + KILL_S
    while (pids := marked(name)) and time.monotonic() < deadline:
        for pid in pids:
            try:
                held = os.pidfd_open(pid)
            except OSError:
                continue
            try:
                if is_marked(pid, name):  # no other one that has its number now
                    signal.pidfd_send_signal(held, signal.SIGKILL)
            except ProcessLookupError:
                pass
            finally:
                os.close(held)
        time.sleep(0.05)


def mounts_below(directory):
    """The innermost first."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        places = [line.split()[4] for line in file]
    return sorted((place for place in places if place.startswith(f"{directory}/")), reverse=True)


def loops_below(directory):
    done = subprocess.run(["losetup", "--noheadings", "--raw", "--output", "NAME,BACK-FILE"],
                          capture_output=True, text=True, check=False)
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    return [words[0] for words in lines if len(words) == 2 and words[1].startswith(f"{directory}/")]


def remove(path):
    for place in mounts_below(path):
        subprocess.run(["umount", "--lazy", place], capture_output=True, check=False)
    for device in loops_below(path):
        subprocess.run(["losetup", "--detach", device], capture_output=True, check=False)
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        Path(path).unlink(missing_ok=True)


def wait_for_the_end_of(pid):
    try:
        held = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([held], [], [])


def main(name, pid=None, *paths):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if pid:
        wait_for_the_end_of(int(pid))
    else:
        paths = [line.rstrip("\n") for line in sys.stdin]
    kill_marked(name)
    for path in filter(os.path.lexists, paths):
        remove(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
