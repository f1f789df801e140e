"""One host of a cluster on this machine: namespaces of processes, mounts, networks and names. It has directories of its
own where daemons keep theirs, ends as by a power cut, and can be started again with what was on its disk.

What it shares with this machine is the kernel: its loop devices, its page cache (a power cut loses nothing that was
written), its clock. There is no systemd in it, and no kernel's nbd unless this machine has it."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
START_S = 60
# Seen by this host only. `kept` survives its end, as on a disk; the rest begins empty.
KEPT = ("/srv", "/var/lib/twinblock", "/var/lib/pacemaker", "/var/lib/corosync", "/var/log", "/etc/corosync",
        "/etc/twinblock")
EMPTY = ("/run", "/dev/shm", "/dev/twinblock", "/tmp", "/usr/lib/twinblock")
# Where programs are added: this machine's own stay visible below.
LAYERED = ("/usr/sbin", "/usr/lib/ocf/resource.d")
# Users of Debian's packages own some of it.
OWNERS = {"/var/lib/pacemaker": "hacluster:haclient", "/var/log/pacemaker": "hacluster:haclient"}


class Failed(AssertionError):
    pass


def lines_of(connection, ending):
    connection.settimeout(1)
    rest = b""
    while not ending.is_set():
        try:
            part = connection.recv(1 << 16)
        except TimeoutError:
            continue
        if not part:
            return
        *lines, rest = (rest + part).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)


class NamespaceHost:
    switch = None  # where its fence agent turns to: the power switch itself

    def __init__(self, name, number, directory):
        self.name = name
        self.number = number
        self.directory = Path(directory) / name
        self.directory.mkdir(parents=True)
        self._keeper = None
        self._cutting = threading.Lock()  # by a test, and by a power switch
        # What is mounted there needs a place, which this machine may not have.
        self._made = [path for path in KEPT + EMPTY if not os.path.isdir(path)]

    @property
    def alive(self):
        keeper = self._keeper
        return keeper is not None and keeper.poll() is None

    def boot(self):
        """Namespaces with all that is mounted; networks are whoever joins the hosts' affair."""
        with open(self.directory / "keeper.log", "ab") as log:
            self._keeper = subprocess.Popen(  # pylint: disable=consider-using-with
                ["unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc",
                 sys.executable, str(HERE / "keeper.py")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                start_new_session=True)
        if not self._keeper.stdout.readline():
            raise Failed(f"no namespaces for {self.name}: {(self.directory / 'keeper.log').read_text()}")
        self.run(self._mounts())

    def _mounts(self):
        lines = ["set -e", f"hostname {self.name}", "ip link set lo up", f"mkdir -p {' '.join(KEPT + EMPTY)}"]
        for path in KEPT:
            kept = self.directory / "kept" / path.lstrip("/")
            kept.mkdir(parents=True, exist_ok=True)
            lines.append(f"mount --bind {kept} {path}")
        names = self.directory / "hosts"
        names.write_text("127.0.0.1 localhost\n", encoding="ascii")
        lines.append(f"mount --bind {names} /etc/hosts")
        lines += [f"mount -t tmpfs -o mode=1777 tmpfs {path}" for path in EMPTY]
        for number, path in enumerate(LAYERED):
            layer = f"/run/layers/{number}"
            lines.append(f"mkdir -p {layer}/upper {layer}/work && mount -t overlay overlay "
                         f"-o lowerdir={path},upperdir={layer}/upper,workdir={layer}/work {path}")
        lines += ["mkdir -p /run/lock /var/log/pacemaker /var/log/corosync /var/log/crmsh",
                  *(f"mkdir -p {path} && chown -R {owner} {path}" for path, owner in OWNERS.items())]
        return "\n".join(lines)

    @property
    def pid(self):
        """Of the first process in there, as this machine sees it."""
        keeper = self._keeper
        try:
            children = Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children").read_text(encoding="ascii").split()
            return int(children[0])
        except (AttributeError, FileNotFoundError, IndexError) as gone:
            raise Failed(f"{self.name} is down") from gone

    def inside(self):
        return ["nsenter", "--target", str(self.pid), "--mount", "--net", "--pid", "--uts", "--ipc", "--"]

    def _shell(self, script):
        return [*self.inside(), "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8",
                "sh", "-c", f"cd /; {script}"]

    def run(self, script, timeout_s=300, check=True):
        """What the shell script printed, on both its outputs; (output, status) without `check`."""
        done = subprocess.run(self._shell(script), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False, timeout=timeout_s)
        if not check:
            return done.stdout.strip(), done.returncode
        if done.returncode:
            raise Failed(f"{self.name}: status {done.returncode} of: {script}\n{done.stdout}")
        return done.stdout.strip()

    def lines(self, script, ending):
        """What it prints, line by line, until it ends, or `ending` is set."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                process = subprocess.Popen(  # pylint: disable=consider-using-with
                    self._shell(script), stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
            try:
                yield from lines_of(ours, ending)
            finally:
                ours.close()
                process.wait(START_S)

    def cut_link(self, link):
        self.run(f"ip link set link{link} down")

    def cut(self):
        """As a power cut: all its processes end at once, and nobody is told."""
        with self._cutting:
            if self.alive:
                loops = self._loop_devices()
                os.kill(self.pid, signal.SIGKILL)
                self._keeper.wait(START_S)
                for device in loops:  # they are this machine's, and outlive what they are made of
                    subprocess.run(["losetup", "-d", device], check=False, capture_output=True)
            if self._keeper is not None:
                self._keeper.stdout.close()
            self._keeper = None

    def _loop_devices(self):
        said, status = self.run("losetup -n -O NAME -j /run/twinblock/r0.mnt/r0", 30, check=False)
        return said.split() if status == 0 else []

    def remove(self):
        self.cut()
        shutil.rmtree(self.directory, ignore_errors=True)
        for path in self._made:
            with contextlib.suppress(OSError):  # the other host's, or somebody's by now
                os.rmdir(path)


def join(one, other, links):
    """Links between two hosts, a veth pair each: link0, link1, … with 10.77.LINK.NUMBER/24."""
    for link in range(links):
        subprocess.run(["ip", "link", "add", f"link{link}", "netns", str(one.pid), "type", "veth", "peer", "name",
                        f"link{link}", "netns", str(other.pid)], check=True)
        for host in (one, other):
            host.run(f"ip address add 10.77.{link}.{host.number}/24 dev link{link} && ip link set link{link} up")


def rejoin(host, other, links):
    """After `host` was cut: its ends go with its network, which the kernel takes its time for."""
    for link in range(links):
        other.run(f"ip link delete link{link}", check=False)
    join(host, other, links)
