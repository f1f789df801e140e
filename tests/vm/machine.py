"""What the emulated hosts are made of: Debian's kernel, unpacked and not installed, an initramfs that
brings them to this machine's root file system, and the networks between them."""

import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Of the initramfs: what it takes to see this machine's root. All else comes from there.
FIRST_MODULES = ("virtio_pci", "virtio_net", "virtio_blk", "9p", "9pnet_virtio", "overlay")
NODES = ("alpha", "beta")
LINKS = 2


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, text=True, **options)


def output(*words):
    return run(*words, stdout=subprocess.PIPE).stdout


class Kernel:
    """In `directory`, which is filled at the first use (needs apt's mirror) and kept."""

    def __init__(self, directory):
        self._root = directory / "root"
        self.initramfs = directory / "initramfs.gz"
        if not self._versions():
            self._fetch(directory)
        self.version = self._versions()[0].name
        self.image = self._root / "boot" / f"vmlinuz-{self.version}"
        self.modules = self._root / "lib" / "modules"
        self._make_initramfs(directory / "first")

    def _versions(self):
        return sorted((self._root / "lib" / "modules").glob("*"))

    def _fetch(self, directory):
        directory.mkdir(parents=True, exist_ok=True)
        depends = output("apt-cache", "depends", "linux-image-amd64")
        package = next(line.split()[-1] for line in depends.splitlines() if "Depends:" in line)
        run("apt-get", "-q", "download", package, cwd=directory)
        archive = next(directory.glob("linux-image-*.deb"))
        run("dpkg", "-x", archive, self._root)
        archive.unlink()
        run("depmod", "-b", self._root, self._versions()[0].name)

    def _make_initramfs(self, tree):
        shutil.rmtree(tree, ignore_errors=True)
        for name in ("bin", "proc", "sys", "dev", "modules"):
            (tree / name).mkdir(parents=True)
        shutil.copy("/usr/bin/busybox", tree / "bin" / "busybox")
        shutil.copy(HERE / "guest" / "first-init", tree / "init")
        order = []
        for module in FIRST_MODULES:
            lines = output("modprobe", "-d", self._root, "-S", self.version, "--show-depends", module)
            # Others are in the kernel itself: "builtin …".
            for path in (Path(line.split()[1]) for line in lines.splitlines() if line.startswith("insmod")):
                if path.name not in order:
                    order.append(path.name)
                    shutil.copy(path, tree / "modules" / path.name)
        (tree / "modules" / "order").write_text("\n".join(order) + "\n")
        with open(self.initramfs, "wb") as out:
            pack = "find . | busybox cpio -o -H newc 2>/dev/null | gzip -1"
            subprocess.run(["sh", "-c", pack], cwd=tree, stdout=out, check=True)


def make_networks():
    """In this process's network namespace, with which they end: a bridge for each link."""
    run("ip", "link", "set", "lo", "up")
    for link in range(LINKS):
        run("ip", "link", "add", f"link{link}", "type", "bridge")
        run("ip", "link", "set", f"link{link}", "up")
        for node in NODES:
            run("ip", "tuntap", "add", "dev", f"{node}{link}", "mode", "tap", "vnet_hdr")
            run("ip", "link", "set", f"{node}{link}", "master", f"link{link}", "up")
