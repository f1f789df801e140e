"""Writers of files, at the same time, in one file system: two mixes."""

import os
import random
import shutil
import threading
import time

MIB = 1 << 20
COPY_SIZES = [1 * MIB, 2 * MIB, 4 * MIB, 8 * MIB]
CREATE_SIZES = [4 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10]
CREATE_BATCH = 32  # files, then all of them are made stable
KEPT = 2           # copies, or batches, that a writer leaves behind


class Writer(threading.Thread):
    """Writes until `stop` is set. Every byte that counts has been fsynced."""

    def __init__(self, directory, mix, seed, stop):
        super().__init__(daemon=True)
        self.directory = directory
        self.once = {"copy": self._copy, "create": self._create}[mix]
        self.random = random.Random(seed)
        self.data = self.random.randbytes(max(COPY_SIZES))
        self.stop = stop
        self.bytes = 0
        self.files = 0
        self.error = None
        directory.mkdir()

    def run(self):
        try:
            number = 0
            while not self.stop.is_set():
                self.once(self.directory / str(number % KEPT))
                number += 1
        except OSError as error:
            self.error = error

    def _write(self, path, size):
        """An open file, written; the caller makes it stable and closes it."""
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        view = memoryview(self.data)[:size]
        try:
            for at in range(0, size, MIB):
                os.write(file, view[at:at + MIB])
        except OSError:
            os.close(file)
            raise
        return file

    def _stable(self, files):
        for file, size in files:
            try:
                os.fsync(file)
            finally:
                os.close(file)
            self.bytes += size
            self.files += 1

    def _copy(self, path):
        """A file of some MiB, as cp would write it."""
        size = self.random.choice(COPY_SIZES)
        self._stable([(self._write(path, size), size)])

    def _create(self, path):
        """A directory of small files."""
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        sizes = self.random.choices(CREATE_SIZES, k=CREATE_BATCH)
        self._stable([(self._write(path / str(at), size), size) for at, size in enumerate(sizes)])


def run(directory, mix, writers, seconds, seed):
    """Bytes and files of all writers, and the seconds until the last had ended."""
    place = directory / f"{mix}-{writers}"
    place.mkdir()
    stop = threading.Event()
    team = [Writer(place / str(number), mix, seed * 100 + number, stop) for number in range(writers)]
    began = time.monotonic()
    try:
        for writer in team:
            writer.start()
        stop.wait(seconds)
    finally:
        stop.set()
        for writer in team:
            writer.join(120)
    took = time.monotonic() - began
    late = [writer for writer in team if writer.is_alive()]
    errors = [writer.error for writer in team if writer.error]
    if late or errors:
        raise errors[0] if errors else TimeoutError("a write of a file does not end")
    shutil.rmtree(place)
    return {"bytes": sum(writer.bytes for writer in team), "took_s": took,
            "files": sum(writer.files for writer in team)}
