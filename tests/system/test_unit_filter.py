"""What the units say of their programs. What these may ask of the kernel is all that they need: a call that is refused is not
always an error, and a node that may not ask what is in memory, say, never finds out that a flush failed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support import IS_ROOT

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
# Those that not every service has, or that a node tries and goes on without.
NEEDED = {
    "twinblock@": {"mincore", "mlockall", "io_uring_setup", "io_uring_enter", "preadv2", "sync_file_range", "fadvise64", "statx",
                   "fallocate", "copy_file_range", "ioctl", "prctl", "sched_setaffinity"},
    "twinblock-attach@": {"finit_module", "mlockall", "pidfd_open", "ioctl", "prctl", "sync"},
    "twinblock-promoter@": {"mlockall", "prctl", "execve"},
    "twinblock-web": {"accept4", "statx"}}
FAMILIES = {"twinblock@": {"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"}, "twinblock-attach@": {"AF_UNIX", "AF_NETLINK"},
            "twinblock-promoter@": {"AF_UNIX"}, "twinblock-web": {"AF_UNIX", "AF_INET", "AF_INET6"}}
# What each unit gives up, …
GIVEN_UP = ["NoNewPrivileges=yes", "LockPersonality=yes", "MemoryDenyWriteExecute=yes", "RestrictNamespaces=yes",
            "RestrictRealtime=yes", "RestrictSUIDSGID=yes", "KeyringMode=private", "SystemCallArchitectures=native",
            "SystemCallErrorNumber=EPERM", "LimitCORE=0"]
# … and those that work with no mounts of the host's.
APART = ["ProtectSystem=strict", "PrivateTmp=yes", "ProtectControlGroups=yes", "ProtectKernelLogs=yes",
         "ProtectKernelModules=yes", "ProtectKernelTunables=yes", "ProtectProc=invisible", "ProtectClock=yes",
         "ProtectHostname=yes", "UMask=0077"]


def lines_of(unit):
    return (PACKAGING / f"{unit}.service.in").read_text(encoding="utf-8").splitlines()


def words_of(unit, key):
    return next(line.split("=", 1)[1].split() for line in lines_of(unit) if line.startswith(f"{key}="))


def calls_of(name):
    """Of a set that this host's systemd knows, with the sets in it."""
    if not name.startswith("@"):
        return {name}
    done = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    words = [line.split("#")[0].strip() for line in done.stdout.splitlines()[1:]]
    return set().union(*(calls_of(word) for word in words if word))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
@pytest.mark.parametrize("unit", NEEDED)
def test_a_unit_allows_what_its_program_needs(unit):
    allowed = set()
    for line in lines_of(unit):
        if not line.startswith("SystemCallFilter="):
            continue
        words = line.split("=", 1)[1].split()
        named = set().union(*(calls_of(word.lstrip("~")) for word in words))
        allowed = allowed - named if words[0].startswith("~") else allowed | named
    assert not NEEDED[unit] - allowed


def test_the_unit_says_what_a_node_is_worth_to_the_host():
    """Each of these can be left out without any node that runs well being the worse for it."""
    lines = lines_of("twinblock@")
    for line in ("Type=notify", "Restart=on-failure", "RestartPreventExitStatus=2 78", "WatchdogSec=60", "OOMScoreAdjust=-900",
                 "LimitMEMLOCK=infinity", "Nice=-10", "LimitCORE=0", "UMask=0077", "RuntimeDirectoryPreserve=yes",
                 "RuntimeDirectoryMode=2750", "StateDirectoryMode=0700", "NoNewPrivileges=yes"):
        assert line in lines, line
    # Whoever breaks into a node is user 0 still: what would act for him is out of his reach.
    for line in ("InaccessiblePaths=-/run/systemd/private -/run/dbus/system_bus_socket",
                 "CapabilityBoundingSet=CAP_SYS_RESOURCE", "ProtectSystem=strict", "ProtectHome=read-only",
                 "DevicePolicy=closed", "DeviceAllow=block-* rw", "LimitNOFILE=65536"):
        assert line in lines, line
    # Where it may write, and in whose name: a node that may not does not start.
    for line in ("RuntimeDirectory=twinblock", "StateDirectory=twinblock", "Group=twinblock", "ReadWritePaths=-/srv"):
        assert line in lines, line


@pytest.mark.parametrize("unit, lines", [
    ("twinblock@", ["ExecStop=-+@SBINDIR@/twinblock detach %i --with-host", "TimeoutStopSec=60",
                    "Wants=remote-fs-pre.target", "Before=remote-fs-pre.target", "Wants=network-online.target",
                    "After=network-online.target local-fs.target"]),
    ("twinblock-attach@", ["After=twinblock@%i.service systemd-modules-load.service", "Wants=remote-fs-pre.target",
                           "Before=remote-fs-pre.target", "TimeoutStopSec=60", "Restart=on-failure", "RestartPreventExitStatus=2 6",
                           "OOMScoreAdjust=-900", "LimitMEMLOCK=infinity", "Wants=twinblock@%i.service", "UMask=0027"]),
    ("twinblock-promoter@", ["After=twinblock@%i.service", "KillMode=mixed", "TimeoutStopSec=180", "Restart=always",
                             "RestartPreventExitStatus=2", "OOMScoreAdjust=-900", "LimitMEMLOCK=infinity",
                             "Wants=twinblock@%i.service"]),
    ("twinblock-web", ["DynamicUser=yes", "SupplementaryGroups=twinblock", "Restart=on-failure", "RestartPreventExitStatus=2"])])
def test_the_units_end_in_order_and_are_started_again(unit, lines):
    """What is left out here shows when a host goes down, or a program has died: not before."""
    has = lines_of(unit)
    for line in lines:
        assert line in has, line


@pytest.mark.parametrize("unit, starts", [
    ("twinblock@", ["ExecStart=@SBINDIR@/twinblockd /etc/twinblock/%i.toml"]),
    ("twinblock-attach@", ["ExecStart=@SBINDIR@/twinblock attach %i --stay"]),
    ("twinblock-promoter@", ["EnvironmentFile=-/etc/default/twinblock-promoter@%i",
                             "ExecStart=@SBINDIR@/twinblock promoter %i $OPTIONS"]),
    ("twinblock-web", ["EnvironmentFile=-/etc/default/twinblock-web", "ExecStart=@SBINDIR@/twinblock web $OPTIONS"])])
def test_a_unit_that_is_enabled_runs_and_goes_on_trying(unit, starts):
    """At each boot; and it begins to count when it says that it is ready. Without a pause before each new start systemd gives up
    for good after the first five, which are over in a second."""
    has = lines_of(unit)
    for line in [*starts, "Type=notify", "RestartSec=2", "WantedBy=multi-user.target"]:
        assert line in has, line


@pytest.mark.parametrize("unit, lines", [
    ("twinblock@", APART), ("twinblock-attach@", []),
    ("twinblock-promoter@", [*APART, "ProtectHome=yes", "PrivateDevices=yes", "PrivateNetwork=yes",
                             "CapabilityBoundingSet=CAP_SYS_RESOURCE", "SystemCallFilter=~@privileged @keyring"]),
    ("twinblock-web", [*APART, "ProtectHome=yes", "PrivateDevices=yes", "ProcSubset=pid", "CapabilityBoundingSet=",
                       "SystemCallFilter=~@privileged @resources @keyring"])])
def test_who_breaks_into_a_unit_does_not_get_far(unit, lines):
    has = lines_of(unit)
    for line in [*GIVEN_UP, *lines]:
        assert line in has, line


@pytest.mark.parametrize("unit", FAMILIES)
def test_a_unit_leaves_its_program_the_sockets_that_it_needs(unit):
    """Without netlink a node hears of no interface that goes down, and says nothing of that; and a device is not made."""
    assert FAMILIES[unit] <= set(words_of(unit, "RestrictAddressFamilies"))


def test_the_devices_unit_may_make_one():
    """The kernel's nbd and its module; and it waits for no disk, and sees all users' processes and devices."""
    assert {"CAP_SYS_ADMIN", "CAP_SYS_MODULE", "CAP_SYS_RESOURCE", "CAP_SYS_PTRACE", "CAP_DAC_OVERRIDE"} <= set(
        words_of("twinblock-attach@", "CapabilityBoundingSet"))


def test_the_devices_unit_sees_who_has_one_open():
    """Also where that is another user: else it takes the device away under a program that writes to it."""
    if not IS_ROOT or shutil.which("setpriv") is None:
        pytest.skip("only root can take root's rights away, by setpriv")
    kept = ",".join("+" + each.removeprefix("CAP_").lower() for each in words_of("twinblock-attach@", "CapabilityBoundingSet"))
    with subprocess.Popen(["sleep", "60"], user=65534, group=65534, extra_groups=[], stdin=subprocess.PIPE) as other:
        try:
            seen = subprocess.run(["setpriv", f"--bounding-set=-all,{kept}", "readlink", f"/proc/{other.pid}/fd/0"],
                                  capture_output=True, text=True, check=False, timeout=60)
            assert seen.returncode == 0, (seen.stderr, kept)
            assert seen.stdout.strip() == os.readlink(f"/proc/{other.pid}/fd/0")
        finally:
            other.kill()
