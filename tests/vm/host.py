"""One emulated host (QEMU without KVM): booted, given orders, cut from its power."""

import os
import socket
import subprocess
import time

from machine import HERE, LINKS, NODES

MEMORY_MIB = 768
# vda: /data; the others are the tests', as they come.
DISKS = {"data": 1 << 30, "raw": 256 << 20, "spare": 256 << 20}
# What of a disk a power cut leaves. kept: all; volatile: what was flushed, the worst disk that is allowed (nbdkit's
# cache, which ends with the host); lying: next to nothing, since it says of flushes that they are done.
CACHES = {"kept": None, "volatile": "writeback", "lying": "unsafe"}
# What a host's disk takes in a second; 0: what it can.
DISK_BYTES_PER_S = int(os.environ.get("TWINBLOCK_VM_DISK_BYTES_PER_S", "0"))
BOOT_S = 300  # on however busy a machine
ANSWER_END = b"\n\0exit "
AGENT_PORT = 9000


def card(network, number):
    """The address of host `number`'s card there."""
    return f"52:54:00:00:{network}:0{number}"


class Failed(AssertionError):
    pass


class Host:
    def __init__(self, name, kernel, build, directory):
        self.name = name
        self._kernel = kernel
        self._build = build
        self._directory = directory
        self._port = 9101 + NODES.index(name)  # of loopback, in the run's own network namespace
        self._process = None
        self._caches = []
        self.disks = "kept"  # from the next boot on
        self.console = directory / f"{name}.console"
        # What the guest writes to its port `notes`: outlives the guest, and all that its disks may forget.
        self.notes = directory / f"{name}.notes"

    def _arguments(self):
        number = NODES.index(self.name) + 1
        words = {"node": self.name, "number": number, "tree": HERE.parents[1], "build": self._build,
                 "modules": self._kernel.modules}
        append = ("console=ttyS0 net.ifnames=0 mitigations=off panic=5 tsc=reliable no_timer_check "
                  "random.trust_cpu=on cryptomgr.notests=1 " +
                  " ".join(f"tb.{key}={value}" for key, value in words.items()))
        yield from self._machine(MEMORY_MIB, self._kernel, append)
        yield from ("-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,"
                    "multidevs=remap",
                    "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=notes,name=notes",
                    "-chardev", f"file,id=notes,path={self.notes},append=on")
        for name in DISKS:
            yield from ("-drive", f"file={self._serve_disk(name)},if=none,id={name},format=raw,"
                        f"throttling.bps-write={DISK_BYTES_PER_S}", "-device", f"virtio-blk-pci,drive={name}")

    def _machine(self, memory_mib, kernel, append):
        """All but disks: processor, `kernel` (its image and initramfs), and a card for orders and for each link."""
        number = NODES.index(self.name) + 1
        yield from ("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "Westmere",
                    "-m", memory_mib, "-display", "none", "-monitor", "none", "-no-reboot",
                    "-kernel", kernel.image, "-initrd", kernel.initramfs,
                    "-append", append, "-serial", f"file:{self.console}",
                    "-netdev", f"user,id=orders,restrict=on,hostfwd=tcp:127.0.0.1:{self._port}-:{AGENT_PORT}",
                    "-device", f"virtio-net-pci,romfile=,netdev=orders,mac={card('ff', number)}")
        for link in range(LINKS):
            yield from ("-netdev", f"tap,id=l{link},ifname={self.name}{link},script=no,downscript=no",
                        "-device", f"virtio-net-pci,romfile=,netdev=l{link},mac={card(f'0{link}', number)}")

    def _disk(self, name):
        return self._directory / f"{self.name}.{name}"

    def _serve_disk(self, name):
        """What QEMU is to open."""
        disk = self._disk(name)
        if not disk.exists():
            with open(disk, "wb") as file:
                file.truncate(DISKS[name])
        cache = CACHES[self.disks]
        if not cache:
            return disk
        server = self._directory / f"{self.name}.{name}.socket"
        server.unlink(missing_ok=True)
        with open(self._directory / f"{self.name}.{name}.log", "wb") as log:
            self._caches.append(subprocess.Popen(  # pylint: disable=consider-using-with
                ["nbdkit", "-f", "-U", server, "--filter=cache", "file", disk, f"cache={cache}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True))
        deadline = time.monotonic() + BOOT_S
        while not server.exists() and self._caches[-1].poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return f"nbd:unix:{server}"

    def new_disks(self):
        for name in DISKS:
            self._disk(name).unlink(missing_ok=True)

    def begin_boot(self):
        with open(self._directory / f"{self.name}.qemu", "wb") as log:
            self._process = subprocess.Popen(  # pylint: disable=consider-using-with
                [str(word) for word in self._arguments()], stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True)

    def wait_boot(self):
        deadline = time.monotonic() + BOOT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                self.run("true", timeout_s=10)
                return
            except OSError:
                time.sleep(0.5)
        raise Failed(f"{self.name} did not boot:\n{self.console_tail()}")

    def cut(self):
        """As a power cut: nothing is written any more, nobody is told."""
        if self._process:
            # The host first: it sees no disk fail.
            for process in (self._process, *self._caches):
                process.kill()
                process.wait()
            self._process = None
            self._caches = []

    def run(self, script, timeout_s=300, check=True):
        """What the shell script printed, on both its outputs; (output, status) without `check`."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=5) as connection:
            connection.settimeout(timeout_s)
            words = script.encode()
            connection.sendall(b"%d\n" % len(words) + words)
            answer = b""
            while part := connection.recv(1 << 16):
                answer += part
        said, end, status = answer.rpartition(ANSWER_END)
        if not end:
            raise OSError(f"{self.name} ended the connection")
        text = said.decode(errors="replace").strip()
        if not check:
            return text, int(status)
        if int(status):
            raise Failed(f"{self.name}: status {int(status)} of: {script}\n{text}")
        return text

    @staticmethod
    def program(name):
        """How the guest runs that one of guest/."""
        return f"/usr/bin/python3 -S -E {HERE}/guest/{name}"

    def console_tail(self):
        lines = self.console.read_text(errors="replace").splitlines() if self.console.exists() else []
        return "\n".join(lines[-40:])
