"""Records what a boot reads: a small Debian with systemd is made, and booted once in an emulated machine whose disk
is served by nbdkit, which notes each request.

The machine is emulated without the help of the processor, so that it runs anywhere, and is some twenty times slower
than a real one. Its disk is slow in proportion: what the guest's kernel asks for while it waits for something else
(it reads ahead) would otherwise be there before it has asked for more, and the reads would look as if each had
waited for the one before."""

import hashlib
import os
import re
import shutil
import subprocess
import time
from datetime import datetime, timezone
from pathlib import Path

from ..error import LabError
from . import boot_trace
from .bench import say
from .boot_trace import BLOCK, SECTOR

RELEASE = "bookworm"
PACKAGES = ("systemd-sysv", "udev", "dbus", "linux-image-cloud-amd64", "e2fsprogs", "kmod", "procps", "iproute2",
            "ifupdown", "openssh-server", "rsyslog", "cron", "chrony", "nginx-light", "python3")
DISK_BYTES = 2 << 30
MEMORY_MIB = 1024
DELAY_MS = 20  # of a read of the recorded disk
BOOT_S_MAX = 900
UP = "the recorded boot is complete"
KERNEL = ("root=/dev/vda rw console=ttyS0 net.ifnames=0 mitigations=off panic=5 no_timer_check tsc=reliable "
          "random.trust_cpu=on quiet systemd.default_timeout_start_sec=600")
PROGRAMS = {"mmdebstrap": "mmdebstrap", "qemu-system-x86_64": "qemu-system-x86", "mkfs.ext4": "e2fsprogs",
            "nbdkit": "nbdkit"}

SENT = re.compile(r"^(\S+ \S+) connection=\S+ (Read|Write|Zero|Trim) id=(\d+) offset=0x([0-9a-f]+) "
                  r"count=0x([0-9a-f]+)")
DONE = re.compile(r"^\S+ \S+ connection=\S+ \.\.\.Read id=(\d+) ")


def check():
    if os.geteuid() != 0:
        raise LabError("recording a boot makes a Debian's root file system, which needs root")
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    for program, package in PROGRAMS.items():
        if not shutil.which(program, path=path):
            raise LabError(f"{program} is not installed (Debian: apt install {package})")


def record(bench, out):
    """Into the file `out`; some minutes."""
    root, disk = bench.dir / "root", bench.dir / "disk"
    say(f"making a Debian {RELEASE}; some minutes")
    _make_system(root)
    kernel, initramfs = (bench.dir / name for name in ("vmlinuz", "initrd.img"))
    for path in (kernel, initramfs):
        shutil.copy(root / path.name, path)
    with open(disk, "wb") as file:
        file.truncate(DISK_BYTES)
    _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-d", root, disk)
    shutil.rmtree(root)
    say("booting it, emulated; some minutes more")
    began = time.monotonic()
    log = _boot(bench, disk, kernel, initramfs)
    took = time.monotonic() - began
    reads, rewritten = parse(log.read_text(encoding="ascii", errors="replace").splitlines())
    twins = equal_blocks(disk, [(offset, length, depth) for _, offset, length, depth in reads])
    boot_trace.store(out, _head(reads, rewritten, took), reads, twins)
    say(f"{len(reads)} reads of {sum(length for _, _, length, _ in reads) / 1e6:.1f} MB in {took:.0f} s")
    print(out)


def _head(reads, rewritten, took):
    return [f"The reads of one boot of Debian {RELEASE}, up to multi-user.target, recorded "
            f"{datetime.now(timezone.utc):%Y-%m-%d} by:",
            "  tools/lab experiment boot-storm --record FILE",
            f"The system: mmdebstrap --variant=minbase with {' '.join(PACKAGES)};",
            f"ext4 on a disk of {DISK_BYTES >> 30} GiB without partitions. Kernel and initramfs were handed over by "
            "the emulator: no read of theirs is in here.",
            f"QEMU without KVM, one processor, {MEMORY_MIB} MiB; nbdkit's filters log (each request and its end), cow "
            "(the disk stays as it was made)",
            f"and delay ({DELAY_MS} ms a read, as the emulated processor is some twenty times slower than a real one).",
            f"{len(reads)} reads in {took:.0f} s; {rewritten} of them of places that this boot had written before."]


def _run(*words, **options):
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                          env=environment, **options)
    if done.returncode:
        raise LabError(f"'{words[0]}' failed: {(done.stderr + done.stdout).strip()[-1500:]}")
    return done.stdout


def _make_system(root):
    # apt's settings of network and clock, which it takes to reach the mirror.
    kept = ("Acquire::http", "Acquire::https", "Acquire::Retries", "Acquire::Check-")
    lines = _run("apt-config", "dump", "--format", '%f "%v";%n').splitlines()
    settings = [f"--aptopt={line}" for line in lines if line.startswith(kept) and not line.endswith(' "";')]
    _run("mmdebstrap", "--quiet", "--variant=minbase", "--dpkgopt=force-unsafe-io",
         f"--include={','.join(PACKAGES)}", *settings, RELEASE, root, timeout=1200)
    (root / "etc/fstab").write_text("/dev/vda / ext4 defaults 0 1\n", encoding="ascii")
    # A system that was up before: without a number of its own it would ask who it is.
    (root / "etc/machine-id").write_text(f"{1:032x}\n", encoding="ascii")
    (root / "etc/hostname").write_text("clone\n", encoding="ascii")
    (root / "etc/network/interfaces").write_text("auto lo\niface lo inet loopback\n", encoding="ascii")
    # Once all that belongs to multi-user.target is up, and by itself part of nothing that it waits for.
    (root / "etc/systemd/system/told.service").write_text(
        "[Unit]\nDefaultDependencies=no\nAfter=multi-user.target\n[Service]\nType=oneshot\n"
        f"ExecStart=/bin/sh -c 'echo {UP} >/dev/ttyS0'\n[Install]\nWantedBy=graphical.target\n", encoding="ascii")
    wants = root / "etc/systemd/system/graphical.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    (wants / "told.service").symlink_to("/etc/systemd/system/told.service")


def _boot(bench, disk, kernel, initramfs):
    """The log of its disk's requests."""
    log, sock, console = (bench.dir / name for name in ("requests", "disk.sock", "console"))
    bench.spawn(["nbdkit", "-f", "--unix", sock, "--filter=log", "--filter=cow", "--filter=delay", "file", disk,
                 f"logfile={log}", f"rdelay={DELAY_MS}ms"], "nbdkit")
    deadline = time.monotonic() + BOOT_S_MAX
    while not sock.exists():
        if time.monotonic() > deadline:
            raise LabError(f"nbdkit does not serve the disk: {bench.log_tail('nbdkit')}")
        time.sleep(0.05)
    qemu = bench.spawn(
        ["nice", "qemu-system-x86_64", "-accel", "tcg", "-cpu", "Westmere", "-smp", "1", "-m", MEMORY_MIB,
         "-display", "none", "-no-reboot", "-nodefaults", "-serial", f"file:{console}", "-kernel", kernel,
         "-initrd", initramfs, "-append", KERNEL,
         "-drive", f"file=nbd+unix:///?socket={sock},if=virtio,format=raw,cache=none"], "qemu")

    def said():
        return console.read_text(encoding="utf-8", errors="replace") if console.exists() else ""

    while UP not in said():
        if not qemu.alive() or time.monotonic() > deadline:
            raise LabError(f"the emulated boot did not come to its end; its console: {said()[-1500:]}\n"
                           f"{bench.log_tail('qemu')}")
        time.sleep(0.2)
    qemu.stop(10)
    return log


def parse(lines):
    """nbdkit's log: the reads as (us since the first, offset, length, under way), in the order in which they were
    sent; and how many of them are of places that had been written before."""
    reads, under_way, written, rewritten, began = [], set(), set(), 0, None
    for line in lines:
        if (done := DONE.match(line)):
            under_way.discard(done[1])
        elif (sent := SENT.match(line)):
            when = datetime.strptime(sent[1], "%Y-%m-%d %H:%M:%S.%f")
            began = began or when
            offset, length = int(sent[4], 16), int(sent[5], 16)
            blocks = range(offset // SECTOR, (offset + length) // SECTOR)
            if sent[2] != "Read":
                written.update(blocks)
                continue
            rewritten += any(block in written for block in blocks)
            reads.append((round((when - began).total_seconds() * 1e6), offset, length, len(under_way)))
            under_way.add(sent[3])
    return reads, rewritten


def equal_blocks(disk, reads):
    """What is equal among the blocks that were read, as in a trace's `twins`."""
    first, twins = {}, {}
    with open(Path(disk), "rb") as file:
        for block in boot_trace.Trace(reads, {}).blocks:
            file.seek(block * BLOCK)
            data = file.read(BLOCK)
            if not any(data):
                twins[block] = None
                continue
            twin = first.setdefault(hashlib.sha256(data).digest(), block)
            if twin != block:
                twins[block] = twin
    return twins
