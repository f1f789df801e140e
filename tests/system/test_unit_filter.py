"""What the unit lets a node ask of the kernel: all that it needs. A call that is refused is not always an error: a node that may
not ask what is in memory, say, never finds out that a flush failed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support import IS_ROOT

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
UNIT = PACKAGING / "twinblock@.service.in"
# Those that not every service has, or that a node tries and goes on without.
NEEDED = {"mincore", "mlockall", "io_uring_setup", "io_uring_enter", "preadv2", "sync_file_range", "fadvise64", "statx",
          "fallocate", "copy_file_range", "ioctl", "prctl", "sched_setaffinity"}


def calls_of(name):
    """Of a set that this host's systemd knows, with the sets in it."""
    if not name.startswith("@"):
        return {name}
    done = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    words = [line.split("#")[0].strip() for line in done.stdout.splitlines()[1:]]
    return set().union(*(calls_of(word) for word in words if word))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_the_unit_allows_what_a_node_needs():
    allowed = set()
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        if not line.startswith("SystemCallFilter="):
            continue
        words = line.split("=", 1)[1].split()
        named = set().union(*(calls_of(word.lstrip("~")) for word in words))
        allowed = allowed - named if words[0].startswith("~") else allowed | named
    assert not NEEDED - allowed


def test_the_unit_says_what_a_node_is_worth_to_the_host():
    """Each of these can be left out without any node that runs well being the worse for it."""
    lines = UNIT.read_text(encoding="utf-8").splitlines()
    for line in ("Type=notify", "Restart=on-failure", "RestartPreventExitStatus=2 78", "WatchdogSec=60", "OOMScoreAdjust=-900",
                 "LimitMEMLOCK=infinity", "Nice=-10", "LimitCORE=0", "UMask=0077", "RuntimeDirectoryPreserve=yes",
                 "RuntimeDirectoryMode=2750", "StateDirectoryMode=0700", "NoNewPrivileges=yes"):
        assert line in lines, line
    # Whoever breaks into a node is user 0 still: what would act for him is out of his reach.
    for line in ("InaccessiblePaths=-/run/systemd/private -/run/dbus/system_bus_socket",
                 "CapabilityBoundingSet=CAP_SYS_RESOURCE", "ProtectSystem=strict", "ProtectHome=read-only",
                 "DevicePolicy=closed", "DeviceAllow=block-* rw", "LimitNOFILE=65536"):
        assert line in lines, line


@pytest.mark.parametrize("unit, lines", [
    ("twinblock@", ["ExecStop=-+@SBINDIR@/twinblock detach %i --with-host", "TimeoutStopSec=60",
                    "Wants=remote-fs-pre.target", "Before=remote-fs-pre.target"]),
    ("twinblock-attach@", ["After=twinblock@%i.service systemd-modules-load.service", "Wants=remote-fs-pre.target",
                           "Before=remote-fs-pre.target", "TimeoutStopSec=60", "Restart=on-failure", "RestartPreventExitStatus=2 6",
                           "OOMScoreAdjust=-900", "LimitMEMLOCK=infinity"]),
    ("twinblock-promoter@", ["After=twinblock@%i.service", "KillMode=mixed", "TimeoutStopSec=180", "Restart=always",
                             "RestartPreventExitStatus=2", "OOMScoreAdjust=-900", "LimitMEMLOCK=infinity"]),
    ("twinblock-web", ["DynamicUser=yes", "SupplementaryGroups=twinblock", "CapabilityBoundingSet="])])
def test_the_units_end_in_order_and_are_started_again(unit, lines):
    """What is left out here shows when a host goes down, or a program has died: not before."""
    has = (PACKAGING / f"{unit}.service.in").read_text(encoding="utf-8").splitlines()
    for line in lines:
        assert line in has, line


def test_the_unit_leaves_a_node_the_sockets_that_it_needs():
    """Without netlink it hears of no interface that goes down, and says nothing of that."""
    families = next(line.split("=", 1)[1].split() for line in UNIT.read_text(encoding="utf-8").splitlines()
                    if line.startswith("RestrictAddressFamilies="))
    assert {"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"} <= set(families)


def test_the_devices_unit_sees_who_has_one_open():
    """Also where that is another user: else it takes the device away under a program that writes to it."""
    if not IS_ROOT or shutil.which("setpriv") is None:
        pytest.skip("only root can take root's rights away, by setpriv")
    unit = (PACKAGING / "twinblock-attach@.service.in").read_text(encoding="utf-8")
    kept = next(line.split("=", 1)[1].split() for line in unit.splitlines() if line.startswith("CapabilityBoundingSet="))
    kept = ",".join("+" + each.removeprefix("CAP_").lower() for each in kept)
    with subprocess.Popen(["sleep", "60"], user=65534, group=65534, extra_groups=[], stdin=subprocess.PIPE) as other:
        try:
            seen = subprocess.run(["setpriv", f"--bounding-set=-all,{kept}", "readlink", f"/proc/{other.pid}/fd/0"],
                                  capture_output=True, text=True, check=False, timeout=60)
            assert seen.returncode == 0, (seen.stderr, kept)
            assert seen.stdout.strip() == os.readlink(f"/proc/{other.pid}/fd/0")
        finally:
            other.kill()
