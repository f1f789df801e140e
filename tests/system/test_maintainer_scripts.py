"""What the package's scripts do on a host with systemd, by stand-ins for it, in a /run of their own: tests/packages/run
uses the whole package, in roots in which no systemd runs."""

import os
import subprocess

import pytest

from conftest import HERE

SCRIPTS = HERE.parents[1] / "packaging" / "debian"
STAND_IN = """#!/bin/sh
echo "{name} $*" >>"{directory}/done"
{says}
exit {status}
"""
# Mounts of its own, as root or where user namespaces are allowed.
OWN_RUN = ["unshare", "--mount", "--propagation", "private"]
ENABLED = "/etc/systemd/system/multi-user.target.wants"
IN_IT = """mount -t tmpfs none /run || exit 77
mkdir -p {made} || exit 77
for note in {notes}; do echo '{{}}' >"/run/twinblock/$note" || exit 77; done
if [ -d /etc/systemd/system ]; then
  mount -t tmpfs none /etc/systemd/system && mkdir {enabled} || exit 77
  for unit in twinblock@r0 twinblock-attach@r0 twinblock-promoter@r0 twinblock-web; do
    ln -s nothing {enabled}/$unit.service
  done
fi
mount -t tmpfs none /sys/block || exit 77
mkdir /sys/block/nbd0 /sys/block/nbd1
echo "{backend}" >/sys/block/nbd0/backend
echo somebody-else >/sys/block/nbd1/backend
sh {script} {words}
status=$?
ls {enabled} >{directory}/enabled 2>/dev/null
exit $status
"""


class Scripts:
    def __init__(self, directory):
        self.directory = directory
        for name in ("deb-systemd-invoke", "systemctl", "getent", "groupadd"):
            self.answers(name, 0)

    def answers(self, name, status, says=""):
        path = self.directory / name
        path.write_text(STAND_IN.format(name=name, directory=self.directory, status=status,
                                        says=f"printf '%s\\n' {says}" if says else ""), encoding="utf-8")
        path.chmod(0o755)

    def run(self, script, *words, notes=(), systemd=True, backend=""):
        """How it ended, and what it did."""
        made = ["/run/twinblock", *(["/run/systemd/system"] if systemd else [])]
        text = IN_IT.format(made=" ".join(made), notes=" ".join(notes), script=SCRIPTS / f"twinblock.{script}",
                            words=" ".join(words), backend=backend, directory=self.directory, enabled=ENABLED)
        unshare = OWN_RUN if os.geteuid() == 0 else [*OWN_RUN, "--map-root-user"]
        (self.directory / "done").unlink(missing_ok=True)
        done = subprocess.run([*unshare, "sh", "-c", text], capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": f"{self.directory}:{os.environ['PATH']}"})
        if done.returncode == 77 or done.stderr.startswith("unshare:"):
            pytest.skip(f"no namespace of mounts: {done.stderr.strip()}")
        path = self.directory / "done"
        return done, path.read_text(encoding="utf-8").splitlines() if path.exists() else []


    def enabled(self):
        return (self.directory / "enabled").read_text(encoding="utf-8").split()


@pytest.fixture
def scripts(scratch):
    return Scripts(scratch)


def test_a_removal_stops_the_nodes_last(scripts):
    done, did = scripts.run("prerm", "remove", notes=["r0.pid"])
    assert done.returncode == 0, done.stderr
    assert [line.split("@")[0] for line in did if " stop " in line] == [
        "deb-systemd-invoke stop twinblock-promoter", "deb-systemd-invoke stop twinblock-attach",
        "deb-systemd-invoke stop twinblock"]
    assert scripts.run("prerm", "upgrade", "0.2", notes=["r0.attach.json"])[1] == [], "an upgrade leaves all as it is"


@pytest.mark.parametrize("systemd", [True, False])
def test_a_removal_below_an_attached_device_is_refused_before_a_node_is_stopped(scripts, systemd):
    done, did = scripts.run("prerm", "remove", notes=["r0.attach.json", "r-1.attach.json"], systemd=systemd)
    assert done.returncode == 1
    for volume in ("r0", "r-1"):
        assert f"{volume} is attached on this host" in done.stderr and f"twinblock detach {volume}\n" in done.stderr
    assert not any(" stop " in line for line in did), "a mount that requires the device's unit would go with it"


def test_a_device_whose_note_lies_elsewhere_is_seen_in_the_kernel(scripts):
    done, did = scripts.run("prerm", "remove", notes=["r0.pid"], backend="twinblock/r1")
    assert done.returncode == 1
    assert "/dev/nbd0 is attached on this host, of r1" in done.stderr and "twinblock detach r1\n" in done.stderr
    assert "nbd1" not in done.stderr and not any(" stop " in line for line in did), (done.stderr, did)
    done, did = scripts.run("prerm", "remove", notes=["r1.attach.json"], backend="twinblock/r1")
    assert done.stderr.count("is attached") == 1, "it is told once"


@pytest.mark.parametrize("status, says", [(0, "active"), (3, "activating"), (3, "inactive")])
def test_who_looks_after_an_attached_device_is_to_be_stopped_first(scripts, status, says):
    scripts.answers("systemctl", status, says)
    done, did = scripts.run("prerm", "remove", notes=["r0.attach.json"])
    assert done.returncode == 1 and not any(" stop " in line for line in did), did
    how = "twinblock detach r0" if says == "inactive" else "systemctl stop twinblock-promoter@r0 twinblock-attach@r0"
    assert f"then: {how}\n" in done.stderr, done.stderr


@pytest.mark.parametrize("status", [0, 1])
def test_systemd_reads_the_units_of_a_new_version(scripts, status):
    scripts.answers("systemctl", status)
    done, did = scripts.run("postinst", "configure", "0.1.0")
    assert done.returncode == 0, done.stderr
    assert [line for line in did if line.startswith("systemctl")] == ["systemctl --system daemon-reload"]


def test_nobody_asks_a_systemd_that_does_not_run(scripts):
    done, did = scripts.run("postinst", "configure", systemd=False)
    assert done.returncode == 0 and not any(line.startswith("systemctl") for line in did), did


@pytest.mark.skipif(not os.path.isdir("/etc/systemd/system"), reason="this host has no units of its own")
@pytest.mark.parametrize("words", ["upgrade 0.2", "remove", "failed-upgrade 0.2", "abort-install", "disappear other 1"])
def test_what_is_enabled_stays_so_until_the_package_is_purged(scripts, words):
    assert scripts.run("postrm", *words.split())[0].returncode == 0
    assert len(scripts.enabled()) == 4
    assert scripts.run("postrm", "purge")[0].returncode == 0
    assert not scripts.enabled()


def test_the_group_of_the_units_is_there_before_them(scripts):
    """Without it systemd starts none."""
    for status, made in ((2, ["groupadd --system twinblock"]), (0, [])):
        scripts.answers("getent", status)
        done, did = scripts.run("postinst", "configure")
        assert done.returncode == 0, done.stderr
        assert [line for line in did if line.startswith("groupadd")] == made
