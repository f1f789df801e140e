"""A volume on the two hosts, and what a test does to its nodes and its device."""

import json
import time

from machine import NODES

VOLUME = "r0"
SIZE = "128MiB"
PATIENCE_S = 180  # on however busy a machine
CONFIG = """volume = "{volume}"
size = "{size}"
encryption = "off"
[node.alpha]
backing = "{backing}"
metadata = "/data/r0.meta"
backing_io = "{backing_io}"
[node.beta]
backing = "{backing}"
metadata = "/data/r0.meta"
backing_io = "{backing_io}"
[link.first]
alpha = "10.10.0.1:7700"
beta = "10.10.0.2:7700"
[link.second]
alpha = "10.20.0.1:7700"
beta = "10.20.0.2:7700"
[replication]
{timeouts}
on_peer_loss = "{on_peer_loss}"
"""
# Longer than the file's own, since these hosts are slow; "" for those.
PATIENT = 'link_timeout = "3s"\npeer_timeout = "10s"'
DONE = "/tmp/writer.done"
WRITER = "/usr/bin/python3 -S -E $(sed -n 's/.*tb.tree=\\([^ ]*\\).*/\\1/p' /proc/cmdline)/tests/vm/guest/writer.py"


def wait_until(condition, what, patience_s=PATIENCE_S):
    deadline = time.monotonic() + patience_s
    while not (met := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.5)
    return met


class Volume:
    def __init__(self, hosts, on_peer_loss="continue", backing_io="buffered", around="", size=SIZE,
                 backing="/data/r0.img", timeouts=PATIENT):
        """`around`: what the shell that becomes a node's process does before."""
        self.hosts = hosts
        self._around = around
        self.alpha, self.beta = (hosts[name] for name in NODES)
        self._config = CONFIG.format(volume=VOLUME, size=size, on_peer_loss=on_peer_loss, backing_io=backing_io,
                                     backing=backing, timeouts=timeouts)
        self.backing = backing
        for host in hosts.values():
            host.run("rm -f /data/r0.* /tmp/*.log; dmesg --clear")
            if not backing.startswith("/dev/"):
                host.run(f"truncate -s {size.replace('iB', '')} {backing}")
            self.configure_and_start(host)
        self.order(self.alpha, "init")
        self.order(self.alpha, "promote")
        self.wait(self.alpha, "duplex")

    def configure_and_start(self, host):
        """Also on a host that was booted anew."""
        host.run(f"cat >/etc/twinblock/{VOLUME}.toml <<'END'\n{self._config}END")
        self.start(host)

    def start(self, host):
        """The node's process; returns when it answers."""
        host.run(f"({self._around} setsid twinblockd /etc/twinblock/{VOLUME}.toml) >>/tmp/node.log 2>&1 </dev/null & "
                 f"for i in $(seq {PATIENCE_S * 5}); do twinblock status {VOLUME} >/tmp/status 2>&1 && exit; "
                 "sleep 0.2; done; cat /tmp/status; exit 1")

    def order(self, host, verb, words="", **options):
        return host.run(f"twinblock {verb} {VOLUME} {words}", **options)

    def wait(self, host, goal):
        return self.order(host, "wait", f"{goal} --timeout {PATIENCE_S}s")

    def status(self, host):
        return json.loads(self.order(host, "status", "--json"))

    def kill(self, host, signal="KILL"):
        """Returns when the node's process has ended."""
        host.run(f"kill -{signal} $(sed -n 's/.*\"pid\": \\([0-9]*\\).*/\\1/p' <<<"
                 f"\"$(twinblock status {VOLUME} --json)\"); while pgrep -x nbdkit >/dev/null; do sleep 0.05; done")

    def stay_attached(self, host):
        """Begins `attach --stay`, and waits for the device's stable name."""
        host.run(f"setsid twinblock attach {VOLUME} --stay >>/tmp/attach.log 2>&1 </dev/null &")
        wait_until(lambda: host.run(f"test -b /dev/twinblock/{VOLUME}", check=False)[1] == 0,
                   "the device's name")

    def mount(self, host):
        host.run(f"mkfs.ext4 -q -F /dev/twinblock/{VOLUME} && mount /dev/twinblock/{VOLUME} /mnt", 600)

    def write(self, host, first=1):
        """Begins the load on the mounted file system, with a record number that was not there before."""
        host.run(f"rm -f /tmp/writer.*; setsid {WRITER} write /mnt {DONE} {first} </dev/null >/tmp/writer.log 2>&1 &")
        self.wait_for_writes(host, 5)

    def writes(self, host):
        return int(host.run(f"cat {DONE} 2>/dev/null | wc -l"))

    def wait_for_writes(self, host, more):
        goal = self.writes(host) + more
        wait_until(lambda: self.writes(host) >= goal, f"{goal} writes")

    def writer_lives(self, host):
        return host.run(f"test -e {DONE}.end", check=False)[1] != 0

    def longest_write_s(self, host):
        return float(host.run(f"cut -d' ' -f2 {DONE} | sort -n | tail -n 1"))

    def end_writer_and_check(self, host):
        """Ends the load, which had no error; all that it was promised is there, read from the device anew."""
        assert self.writer_lives(host), host.run(f"cat {DONE}.end /tmp/writer.log; dmesg | tail")
        host.run(f"kill $(cat {DONE}.pid); while ! test -e {DONE}.end; do sleep 0.1; done")
        host.run("umount /mnt && e2fsck -fn /dev/twinblock/r0 && mount /dev/twinblock/r0 /mnt", 600)
        host.run(f"{WRITER} check /mnt {DONE}", 600)

    def check_no_error(self, host):
        messages = host.run("dmesg")
        for word in ("I/O error", "Remounting filesystem read-only", "EXT4-fs error"):
            assert word not in messages, messages

    def end(self):
        """Whatever state it is in: who writes, then the device, which waits for a node that is gone, then the node."""
        for host in self.hosts.values():
            host.run(f"kill $(cat {DONE}.pid 2>/dev/null) 2>/dev/null; pkill -x twinblock; sleep 1; umount -l /mnt 2>/dev/null; "
                     f"for i in 1 2; do twinblock detach {VOLUME} --force 2>/dev/null; pkill -KILL -x nbdkit; done; "
                     "pkill -KILL -x twinblock; "
                     "for i in $(seq 100); do pgrep -x nbdkit >/dev/null || break; sleep 0.1; done; "
                     "rm -f /run/twinblock/*; true")
