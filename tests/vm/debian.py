"""Emulated hosts with systemd and udev: a Debian of their own, on a disk of their own, with its kernel."""

import base64
import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path

from host import Failed, Host, card
from machine import HERE, LINKS, NODES, output, run

AGENT = HERE / "guest" / "agent.py"
RELEASE = os.environ.get("TWINBLOCK_RELEASE", "bookworm")
# What a server has; the rest comes with the package, from apt's cache, as these hosts have no network.
PACKAGES = ("systemd-sysv", "udev", "dbus", "linux-image-amd64", "iproute2", "e2fsprogs", "kmod", "python3", "procps")
DISK_BYTES = 6 << 30
MEMORY_MIB = 1024
SENT_AT_A_TIME = 90_000  # bytes: a script is one argument, of less than 128 KiB
KERNEL_OPTIONS = ("root=/dev/vda rw console=ttyS0 net.ifnames=0 mitigations=off panic=5 no_timer_check "
                  "tsc=reliable random.trust_cpu=on")


def network_files(directory):
    """Each host finds its own addresses by its network cards'."""
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(1, len(NODES) + 1):
        cards = {"orders": (card("ff", number), "10.0.2.15")}
        cards |= {f"link{link}": (card(f"0{link}", number), f"10.{10 + link * 10}.0.{number}") for link in range(LINKS)}
        for name, (mac, address) in cards.items():
            (directory / f"{name}-{number}.network").write_text(
                f"[Match]\nMACAddress={mac}\n[Network]\nAddress={address}/24\nLinkLocalAddressing=no\n")


class System:
    """A disk to begin from, with all of `release` and what `package` needs in apt's cache; made once, and kept in
    `directory`, until the package needs something else, or what is made here is changed."""

    def __init__(self, release, package, directory):
        self._directory = directory
        self.disk = directory / "disk"
        self.image = directory / "vmlinuz"
        self.initramfs = directory / "initrd.img"
        needs = output("dpkg-deb", "-f", package, "Depends", "Recommends") + "".join(
            hashlib.sha256(path.read_bytes()).hexdigest() + "\n" for path in (AGENT, Path(__file__)))
        made_for = directory / "made-for"
        if not made_for.exists() or made_for.read_text() != needs:
            self._make(release, package)
            made_for.write_text(needs)

    def _make(self, release, package):
        shutil.rmtree(self._directory, ignore_errors=True)
        root = self._directory / "root"
        self._directory.mkdir(parents=True)
        # apt's settings of network and clock, which it takes to reach the mirror.
        kept = ("Acquire::http", "Acquire::https", "Acquire::Retries", "Acquire::Check-")
        settings = [f"--aptopt={line}" for line in output("apt-config", "dump", "--format", '%f "%v";%n').splitlines()
                    if line.startswith(kept) and not line.endswith(' "";')]
        run("mmdebstrap", "--quiet", "--variant=minbase", "--skip=cleanup/apt",
            "--dpkgopt=force-unsafe-io", f"--include={','.join(PACKAGES)}",
            *settings, f"--customize-hook=upload {package} /root/{package.name}",
            f'--customize-hook=chroot "$1" apt-get install -y --install-recommends --download-only'
            f' /root/{package.name}',
            f'--customize-hook=rm "$1/root/{package.name}"', release, root)
        self._equip(root)
        self._to_disk(root)

    def _to_disk(self, root):
        for link, kept_as in (("vmlinuz", self.image), ("initrd.img", self.initramfs)):
            shutil.copy(root / link, kept_as)
        with open(self.disk, "wb") as file:
            file.truncate(DISK_BYTES)
        run("mkfs.ext4", "-q", "-F", "-d", root, self.disk)
        shutil.rmtree(root)

    def _equip(self, root):
        """What only these hosts have: addresses, an agent that takes orders, and no question of apt's."""
        network_files(root / "etc/systemd/network")
        (root / "etc/apt/apt.conf.d/90-yes").write_text('APT::Get::Assume-Yes "true";\nDPkg::Use-Pty "false";\n')
        shutil.copy(AGENT, root / "usr/local/sbin/agent.py")
        (root / "etc/systemd/system/agent.service").write_text(
            "[Unit]\nAfter=systemd-networkd.service\n"
            "[Service]\nExecStart=/usr/bin/python3 -S -E /usr/local/sbin/agent.py\n"
            "Environment=HOME=/root\nKillMode=process\nStandardInput=null\n[Install]\nWantedBy=multi-user.target\n")
        # fuse3 wants one made anew, which takes an emulated host minutes.
        (root / "etc/initramfs-tools/update-initramfs.conf").write_text("update_initramfs=no\n")
        (root / "etc/fstab").write_text("/dev/vda / ext4 defaults 0 1\n")
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        run("systemctl", f"--root={root}", "enable", "agent", "systemd-networkd", "systemd-networkd-wait-online")


class DebianHost(Host):
    def __init__(self, name, system, directory):
        super().__init__(name, None, None, directory)
        self._system = system
        self._image = directory / f"{name}.qcow2"
        run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", system.disk.resolve(), self._image)

    def _arguments(self):
        yield from self._machine(MEMORY_MIB, self._system, f"{KERNEL_OPTIONS} systemd.hostname={self.name}")
        yield from ("-drive", f"file={self._image},if=virtio,format=qcow2,discard=unmap")

    def send(self, path, to):
        """A file of this machine to the host's path `to`."""
        data = path.read_bytes()
        self.run(f"rm -f {to}")
        for at in range(0, len(data), SENT_AT_A_TIME):
            text = base64.b64encode(data[at:at + SENT_AT_A_TIME]).decode()
            self.run(f"base64 -d >>{to} <<'END'\n{text}\nEND")

    def reboot(self, order, patience_s):
        """Gives `order`, which ends with a host that is off; and boots it again. How long going down took, in s."""
        began = time.monotonic()
        self.run(f"(sleep 1; {order}) >/dev/null 2>&1 </dev/null &", 60)
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired as late:
            raise Failed(f"{self.name} is not down after {patience_s} s:\n{self.console_tail()}") from late
        took_s = time.monotonic() - began
        self.begin_boot()
        self.wait_boot()
        return took_s


def the_package(tree):
    """That of $TWINBLOCK_DEB, else of this tree, for the release that this machine runs."""
    if given := os.environ.get("TWINBLOCK_DEB"):
        return Path(given).resolve()
    here = output("sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME").strip()
    if here != RELEASE:
        raise Failed(f"a package for {RELEASE} can't be built on {here}: name one in TWINBLOCK_DEB "
                     f"(tests/packages/run --keep DIR {RELEASE})")
    out = tree / "build" / "vm" / "packages"
    shutil.rmtree(out, ignore_errors=True)
    run(tree / "packaging" / "build-deb", "--out", out)
    return next(out.glob("twinblock_*.deb"))


def the_system(tree, package):
    return System(RELEASE, package, tree / "build" / "vm" / RELEASE)


def prepare(tree):
    """Makes what takes a network to make, for the tests, which have none."""
    package = the_package(tree)
    os.environ["TWINBLOCK_DEB"] = str(package)
    the_system(tree, package)
