"""What `attach` says where the kernel's nbd is not to be had, and `attach --stay` without a node. What it does with
the kernel's nbd is the emulated hosts' to test (tests/vm)."""

import os
import select
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from lablib.error import LIVENESS_S
from support import ctl, may_lock_memory, status_field, twinblock

has_nbd = os.path.exists("/sys/module/nbd") or os.path.exists("/dev/nbd0")
without_nbd = pytest.mark.skipif(has_nbd, reason="this machine's kernel has nbd")


@without_nbd
def test_without_the_kernels_nbd_attach_says_so(lab):
    refused = ctl(lab, "alpha", "attach", "--method", "nbd")
    assert refused.returncode == 1
    assert "the kernel's nbd can't be used here: " in refused.stderr
    if os.geteuid() == 0:
        assert "could not load the kernel's module nbd: modprobe" in refused.stderr
        assert "this kernel has no nbd module loaded" in refused.stderr
    assert ctl(lab, "alpha", "detach").returncode == 1, "no note is left"


@without_nbd
def test_staying_needs_the_kernels_nbd(lab):
    refused = ctl(lab, "alpha", "attach", "--stay")
    assert refused.returncode == 1 and "the kernel's nbd can't be used here: " in refused.stderr


def test_staying_goes_with_the_kernels_nbd_only(lab):
    refused = ctl(lab, "alpha", "attach", "--stay", "--method", "nbdfuse")
    assert refused.returncode == 2 and "--stay" in refused.stderr


@without_nbd
def test_a_client_of_nbd_client_is_told_that_it_is_no_method(lab):
    refused = twinblock(lab, "attach", "--socket", lab.node("alpha")["control"], "--method", "nbd-client")
    assert refused.returncode == 2 and "nbdfuse" in refused.stderr


def stay(lab, name, **environment):
    program = Path(lab.state["build"]) / "tools" / "twinblock"
    return subprocess.Popen([str(program), "attach", "--stay", "--socket", lab.node(name)["control"]],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **environment})


def said_until(process, words):
    said = b""
    while words not in said:
        ready, _, _ = select.select([process.stderr], [], [], LIVENESS_S)
        assert ready, f"{words} was not said, but {said}"
        part = os.read(process.stderr.fileno(), 4096)
        assert part, f"it ended, and said {said}"
        said += part
    return said


@pytest.mark.parametrize("name,words", [("alpha", b"no node answers at"), ("beta", b"beta is not primary yet")])
def test_staying_waits_for_a_primary_and_says_so_once(lab, name, words):
    if name == "alpha":
        lab.kill("alpha")
    with stay(lab, name) as process:
        try:
            said_until(process, words)
            ready, _, _ = select.select([process.stderr], [], [], 1)
            assert not ready, "it says so again and again"
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=LIVENESS_S)
        finally:
            process.kill()
    assert process.returncode == 0 and output == b"nothing was attached\n"


@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_the_unit_counts_as_started_while_there_is_nothing_to_attach(lab, scratch, name):
    """Else systemd gives it up after 90 s, and with it, for good, the mount of /etc/fstab that waits for it. No node answers
    for alpha, and beta is a secondary."""
    lab.kill("alpha")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(scratch / "notify"))
        manager.settimeout(LIVENESS_S)
        process = stay(lab, name, NOTIFY_SOCKET=str(scratch / "notify"))
        try:
            while b"READY=1" not in manager.recv(4096):
                pass
            locked = int(status_field(process.pid, "VmLck")) > 0
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LIVENESS_S)
    if not may_lock_memory():
        pytest.skip("it is ready; that its memory is locked takes CAP_IPC_LOCK, or no limit of locked memory")
    assert locked, "it may wait for the device that it looks after"
