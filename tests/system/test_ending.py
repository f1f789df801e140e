"""Tests and experiments that are ended leave nothing behind: no node, no keeper, no load, no directory, no
shared memory; whether they could clean up or not."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from conftest import HERE, Ending
from lablib.guardian import Guardian
from lablib.processes import Process, boot_id, start_time
from support import wait_until


def processes_below(*directories):
    """The commands of all processes that have a file of these directories as an argument."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_text(encoding="utf-8", errors="replace").replace("\0", " ")
        except OSError:
            continue
        if any(f"{directory}/" in command for directory in directories):
            found.append(command)
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL],
                         ids=lambda number: number.name)
def test_tests_that_are_ended_leave_nothing(scratch, number):
    tells, log = scratch / "tells", scratch / "log"
    with open(log, "wb") as output, subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", str(HERE / "ending_subject.py")], stdout=output,
            stderr=output, env={**os.environ, "TWINBLOCK_ENDING_TELLS": str(tells)}) as tests:
        try:
            wait_until(lambda: tells.exists() or tests.poll() is not None, what="the test to wait")
            assert tests.poll() is None, log.read_text()
            directories = tells.read_text(encoding="utf-8").split()
            assert len(processes_below(*directories)) >= 3, "two nodes and a load"
            tests.send_signal(number)
            status = tests.wait(timeout=120)
        finally:
            tests.kill()
    said = log.read_text()
    assert status == (-number if number == signal.SIGKILL else pytest.ExitCode.INTERRUPTED), said
    if number == signal.SIGKILL:  # somebody else sees to it
        wait_until(lambda: not any(map(os.path.lexists, directories)), what="the guardian")
    assert not [each for each in directories if os.path.lexists(each)], said
    assert not processes_below(*directories)


def test_guardian_ends_what_is_marked_and_nothing_else(scratch):
    """Also where the one that started it is gone, and it has started others."""
    (scratch / "left").mkdir()
    script = f"""
import os, subprocess, sys, time
sys.path.insert(0, {str(HERE.parents[1] / "tools")!r})
from lablib.guardian import Guardian
Guardian().remove({str(scratch / "left")!r})
child = subprocess.Popen(["sh", "-c", "sleep 1000 & wait"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(1000)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as one, \
            subprocess.Popen(["sleep", "1000"]) as other:
        try:
            pid = int(one.stdout.readline())
            left = Process(pid, start_time(pid), boot_id())
            assert left.alive()
            one.kill()
            wait_until(lambda: not left.alive() and not (scratch / "left").exists(), what="the end")
            assert other.poll() is None
        finally:
            other.kill()


def test_guardian_that_is_closed_leaves_its_makers_other_processes_alone():
    with subprocess.Popen(["sleep", "1000"]) as before:
        guardian = Guardian()
        with subprocess.Popen(["sleep", "1000"]) as later:
            guardian.close()
            try:
                assert later.wait(timeout=60) == -signal.SIGKILL
                assert before.poll() is None
            finally:
                later.kill()
                before.kill()


def test_a_worker_beside_its_main_thread_begins_as_well():
    begun = []
    worker = threading.Thread(target=lambda: begun.append(Ending()))
    worker.start()
    worker.join()
    assert begun and not begun[0].begun
