"""Three ways to put real files on a mirrored device, depending on what the machine allows. Each:

    start(files)     makes a filesystem and puts files in it
    add(files)       puts more files in it, and flushes
    finish()         lets go of the device
    reopen(place)    goes on with the same filesystem elsewhere, after finish()
    cleanup()        whatever happened

`files` are pairs (path, name below the filesystem's root). The filesystem does not fill the device."""

import os
import shutil
import subprocess
from pathlib import Path

MIB = 1 << 20
COPY_CHUNK = 4 * MIB


class CommandFailed(Exception):
    """A program ended with an error; the message has its output."""


def run(*words, timeout_s=300, **options):
    """A command that must succeed; its output."""
    command = [str(word) for word in words]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False,
                          timeout=timeout_s, **options)
    if done.returncode:
        raise CommandFailed(f"'{' '.join(command[:6])}' failed ({done.returncode}):\n"
                            f"{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


class MountedFilesystem:
    """root: the attached block device is mounted, files are copied as always."""

    def __init__(self, device, size_bytes, directory):
        self.device = device
        self.size_bytes = size_bytes
        self.mount = directory / "mnt"
        self.mount.mkdir()
        self.mounted = False

    def start(self, files):
        run("mkfs.ext4", "-q", "-E", "nodiscard", self.device, f"{self.size_bytes >> 10}k")
        self._mount()
        self.add(files)

    def _mount(self):
        run("mount", self.device, self.mount)
        self.mounted = True

    def add(self, files):
        for path, name in files:
            target = self.mount / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        run("sync", "-f", self.mount)

    def finish(self):
        run("umount", self.mount)
        self.mounted = False

    def reopen(self, device):
        self.device = device
        self._mount()

    def cleanup(self):
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.mount)], check=False)


class FilesystemInFile:
    """Not root: the device appears as a file (nbdfuse); mke2fs fills a new filesystem on it, and
    debugfs adds to it."""

    def __init__(self, path, size_bytes, directory):
        self.path = path
        self.size_bytes = size_bytes
        self.tree = directory / "tree"
        self.directories = set()

    def start(self, files):
        for path, name in files:
            target = self.tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            self.directories.update(Path(name).parents)
        # inodes for the files that come later too
        run("mke2fs", "-q", "-F", "-t", "ext4", "-i", "4096", "-E", "nodiscard", "-d", self.tree,
            self.path, f"{self.size_bytes >> 10}k")

    def add(self, files):
        commands = []
        for path, name in files:
            for parent in list(reversed(Path(name).parents))[1:]:
                if parent not in self.directories:
                    commands.append(f"mkdir /{parent}")
                self.directories.add(parent)
            commands.append(f"write {path} /{name}")
        done = subprocess.run(["debugfs", "-w", "-f", "/dev/stdin", str(self.path)],
                              input="\n".join(commands) + "\n", capture_output=True, text=True,
                              check=False, timeout=300)
        if done.returncode:
            raise CommandFailed(f"debugfs: {done.stderr[-1000:]}")
        self.finish()

    def finish(self):
        with open(self.path, "rb+") as device:
            os.fsync(device.fileno())

    def reopen(self, path):
        self.path = path

    def cleanup(self):
        shutil.rmtree(self.tree, ignore_errors=True)


class FilesystemOverSocket:
    """No FUSE: the filesystem is made in a plain file, which then goes to the NBD socket in three
    parts."""

    PARTS = 3

    def __init__(self, uri, size_bytes, directory, files):
        self.handle = None
        self.reopen(uri)
        self.image = directory / "filesystem.img"
        with open(self.image, "wb") as file:
            file.truncate(size_bytes)
        maker = FilesystemInFile(self.image, size_bytes, directory)
        maker.start(files)
        maker.cleanup()
        extents = self._extents()
        part = -(-len(extents) // self.PARTS)
        self.parts = [extents[at:at + part] for at in range(0, len(extents), part)]

    def _extents(self):
        """The data of the image, in chunks: holes need no copying to a fresh device."""
        found = []
        with open(self.image, "rb") as file:
            position, end = 0, self.image.stat().st_size
            while position < end:
                try:
                    data = os.lseek(file.fileno(), position, os.SEEK_DATA)
                except OSError:
                    break
                position = os.lseek(file.fileno(), data, os.SEEK_HOLE)
                for offset in range(data, position, COPY_CHUNK):
                    found.append((offset, min(COPY_CHUNK, position - offset)))
        return found

    def _copy_part(self):
        with open(self.image, "rb") as file:
            for offset, length in self.parts.pop(0) if self.parts else []:
                file.seek(offset)
                self.handle.pwrite(file.read(length), offset)
        self.handle.flush()

    def start(self, _files):
        self._copy_part()

    def add(self, _files):
        self._copy_part()

    def finish(self):
        self.handle.flush()
        self.handle.shutdown()

    def reopen(self, uri):
        import nbd  # pylint: disable=import-outside-toplevel
        self.handle = nbd.NBD()
        self.handle.connect_uri(uri)

    def cleanup(self):
        self.image.unlink(missing_ok=True)
