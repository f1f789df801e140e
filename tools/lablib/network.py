"""Two network namespaces, one a node, joined by a veth pair a link, each end shaped by tc's tbf. Where the lab
has a witness of its own, a third one, with a link to each node. A link that has a delay is two TAP devices and
a program between them (delay_line.c) in place of the veth pair.

A namespace lives as long as there is a process in it: a keeper (keeper.py) holds each. Nothing of it
shows outside (no name in /run/netns, no interface), so nothing is left when the keepers have ended.
Root may make namespaces; anybody else may inside a user namespace, where the kernel allows those."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from . import delay_line
from .called import LAB
from .error import LIVENESS_S, LabError
from .links import NODES, WITNESS, ends, parse_rate
from .processes import Process

KEEPER = Path(__file__).resolve().parent / "keeper.py"
TCP = "/proc/sys/net/ipv4/tcp"
START_S = LIVENESS_S

# A token bucket lets as much as `burst` through at once: 2 ms of the rate, lest a slow link looks like
# a fast one for long. A GSO packet that is larger is cut into its segments, which costs CPU time:
# 256 KiB are enough where that counts; but 1 ms at the least, or the bucket of a fast link would run
# full between two of its timers. TCP itself keeps the queue behind the bucket short, as with a real
# interface, so what `limit` drops is what no TCP sent.
BURST_S = 0.002
BURST_BYTES_MIN = 16 << 10
BURST_BYTES_ENOUGH = 256 << 10
FAST_BURST_S = 0.001
QUEUE_BYTES_MIN = 4 << 20
QUEUE_S = 0.025


def tbf(bits_per_s, burst_bytes=None):
    bytes_per_s = bits_per_s / 8
    burst = burst_bytes or max(
        BURST_BYTES_MIN, min(BURST_BYTES_ENOUGH, int(bytes_per_s * BURST_S)),
        int(bytes_per_s * FAST_BURST_S))
    limit = burst + max(QUEUE_BYTES_MIN, int(bytes_per_s * QUEUE_S))
    return f"tbf rate {bits_per_s}bit burst {burst} limit {limit}"


def _environment():
    """Debian keeps ip, tc and nft where only root's PATH leads."""
    return {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}


def _find(program):
    return shutil.which(program, path=_environment()["PATH"])


def _succeeds(*words):
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def unavailable():
    """Why there can't be namespaces here; None when there can."""
    missing = [program for program in ("ip", "tc", "unshare", "nsenter")
               if not _find(program)]
    if missing:
        return f"{', '.join(missing)} not found; install iproute2 and util-linux"
    if _succeeds("unshare", "-n", "true") or _succeeds("unshare", "-Urn", "true"):
        return None
    return ("network namespaces need root, or user namespaces, which this machine does not allow "
            "(try: unshare -Urn true)")


class Network:
    """The namespaces of one lab. `record()` is what the lab's file keeps of it."""

    def __init__(self, links, record):
        self.links = links
        self.hosts = [name for name in (*NODES, WITNESS) if any(name in link for link in links)]
        of_name = {name: Process.of(each) for name, each in record.items()}
        self.keepers = {name: of_name[name] for name in self.hosts if name in of_name}
        self.lines = {name: each for name, each in of_name.items() if name not in self.hosts}  # of links with a delay
        self.user = any(each.get("user") for each in record.values())

    def record(self):
        return {name: {**process.record(), "user": self.user}
                for name, process in (*self.keepers.items(), *self.lines.items())}

    def alive(self):
        return len(self.keepers) == len(self.hosts) and \
            all(process.alive() for process in (*self.keepers.values(), *self.lines.values()))

    # --- making, ending ---

    def start(self, state_path, save):
        """`save` puts the record into the lab's file, after each keeper that was started."""
        far = [link for link in self.links if link.get("delay_us")]
        reason = unavailable() or (delay_line.unavailable() if far else None)
        if reason:
            raise LabError(reason)
        self.stop()
        self.user = not _succeeds("unshare", "-n", "true")
        for name in self.hosts:
            log = state_path.parent / name / "keeper.log"
            log.unlink(missing_ok=True)
            self.keepers[name] = Process.spawn(
                [*self._unshare(), sys.executable, str(KEEPER), str(state_path)], log)
            save()
            self._await_ready(self.keepers[name], log, f"no network namespace for {name}")
        for link in far:
            self._lay(link, state_path.parent, save)
        self._join()
        self._await_carriers()
        for link in self.links:
            if link["rate_bits_per_s"]:
                self._shape(link["name"], link["rate_bits_per_s"])

    def _unshare(self):
        if not self.user:
            return ["unshare", "--net"]
        if not self.keepers:
            return ["unshare", "--user", "--map-root-user", "--net"]
        return [*self._enter(next(iter(self.keepers.values())), "user"), "unshare", "--net"]

    @staticmethod
    def _await_ready(process, log, otherwise):
        deadline = time.monotonic() + START_S
        while "ready" not in log.read_text(encoding="utf-8", errors="replace"):
            if not process.alive() or time.monotonic() > deadline:
                raise LabError(f"{otherwise}: " + log.read_text(encoding="utf-8", errors="replace").strip())
            time.sleep(0.005)

    def _lay(self, link, directory, save):
        """The devices of a link with a delay, and the program between them."""
        keepers = [self.keepers[end] for end in ends(link)]
        enter = self._enter(keepers[0], "user") if self.user else []
        log = delay_line.log_path(directory, link)
        log.unlink(missing_ok=True)
        self.lines[link["name"]] = Process.spawn([*enter, *delay_line.command(directory, link, keepers)], log)
        save()
        self._await_ready(self.lines[link["name"]], log, f"no delay for {link['name']}")

    def _join(self):
        """The links that have no devices yet, as veth pairs; all with their addresses, up."""
        for name in self.hosts:
            lines = ["link set lo up"]
            for link in self.links:
                if name in link:
                    lines += self._link_lines(link, name)
            self._run(name, "ip", "-batch", "-", text="\n".join(lines) + "\n")
            # What Debian's kernels use, whatever this host does; BBR would slow down now and then
            # to measure.
            self._run(name, "sh", "-c", f"grep -qw cubic {TCP}_available_congestion_control && "
                      f"echo cubic > {TCP}_congestion_control || true")

    def _link_lines(self, link, name):
        """For `ip -batch`: that end of the link. Of a veth pair the first one makes both."""
        other = next(end for end in ends(link) if end != name)
        own, far = (link[end].rpartition(":")[0] for end in (name, other))
        # The witness has one address, over one link for each node: each is a network of two addresses.
        address = f"{own} peer {far}/32" if WITNESS in link else f"{own}/24"
        lines = [f"address add {address} dev {link['name']}", f"link set {link['name']} up"]
        if link.get("delay_us"):
            lines.insert(0, f"link set {link['name']} txqueuelen {delay_line.DEVICE_PACKETS}")
        elif name == ends(link)[0]:
            lines.insert(0, f"link add {link['name']} type veth peer name {link['name']} "
                            f"netns {self.keepers[other].pid}")
        return lines

    def _await_carriers(self):
        """They come a moment after the interfaces are up, and a node's first try would fail."""
        deadline = time.monotonic() + START_S
        for name in self.hosts:
            while "NO-CARRIER" in self._run(name, "ip", "link", "show", "up"):
                if time.monotonic() > deadline:
                    raise LabError(f"{name}'s links have no carrier")
                time.sleep(0.005)

    def stop(self):
        for process in (*self.lines.values(), *self.keepers.values()):
            process.kill()
        self.keepers, self.lines = {}, {}

    # --- running things inside ---

    def _enter(self, keeper, *kinds):
        keep = ["--preserve-credentials"] if "user" in kinds else []
        return ["nsenter", *keep, *(f"--{kind}=/proc/{keeper.pid}/ns/{kind}" for kind in kinds),
                "--"]

    def inside(self, name):
        """The words before a command that is to run in the node's namespace; its pid stays."""
        keeper = self.keepers.get(name)
        if keeper is None or not keeper.alive():
            raise LabError(f"{name}'s network namespace is gone; end the lab with {LAB} down, "
                           "and start it again")
        return self._enter(keeper, *(["user", "net"] if self.user else ["net"]))

    def _run(self, name, *words, text=None):
        done = subprocess.run([*self.inside(name), *words], input=text, capture_output=True,
                              text=True, check=False, env=_environment())
        if done.returncode:
            raise LabError(f"'{' '.join(words)}' failed for {name}: "
                           f"{(done.stderr + done.stdout).strip()}")
        return done.stdout

    # --- what happens to links ---

    def ends_of(self, link):
        found = [each for each in self.links if each["name"] == link]
        if not found:
            raise LabError(f"no link '{link}'; the links are "
                           f"{', '.join(each['name'] for each in self.links)}")
        return ends(found[0])

    def _check_end(self, link, node):
        if node not in self.ends_of(link):
            raise LabError(f"{link} does not lead to {node}, but from {' to '.join(self.ends_of(link))}")

    def cut(self, link, node=None):
        """The node's interface goes down (by default the first end's); the other's loses its carrier, but where
        the link has a delay: there it stays, as with switches in between."""
        node = node or self.ends_of(link)[0]
        self._check_end(link, node)
        self._run(node, "ip", "link", "set", link, "down")

    def drop(self, link, to=None):
        """Packets that arrive at the nodes `to` (by default both ends) are discarded, ARP too; no interface
        changes."""
        to = to or self.ends_of(link)
        for node in to:
            self._check_end(link, node)
        if not _find("nft"):
            raise LabError("drop needs nft, which is not there; install nftables")
        for node in to:
            self._run(node, "nft", "-f", "-", text=(
                f"add table netdev {link}\n"
                f"add chain netdev {link} silence {{ type filter hook ingress device {link} "
                "priority 0; policy drop; }\n"))

    def restore(self, link):
        """Ends `cut` and `drop`; the shape stays."""
        for node in self.ends_of(link):
            if _find("nft"):
                self._run(node, "nft", "-f", "-",
                          text=f"add table netdev {link}\ndelete table netdev {link}\n")
            self._run(node, "ip", "link", "set", link, "up")

    def shape(self, link, rate, burst_bytes=None):
        """At both ends, from now on; what the configuration calls its rate stays. `rate` as text,
        or "none". `burst_bytes` is what passes unshaped: small where a lone message is to take as
        long as on a real link, at the cost of what a stream can carry."""
        self._shape(link, None if rate == "none" else parse_rate(rate), burst_bytes)

    def _shape(self, link, bits_per_s, burst_bytes=None):
        for node in self.ends_of(link):
            if bits_per_s:
                self._run(node, "tc", "qdisc", "replace", "dev", link, "root",
                          *tbf(bits_per_s, burst_bytes).split())
            else:  # there may be none
                subprocess.run([*self.inside(node), "tc", "qdisc", "del", "dev", link, "root"],
                               capture_output=True, check=False, env=_environment())
