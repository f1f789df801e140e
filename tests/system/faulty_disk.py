"""A node whose disk fails, or is slow, when a test wants it (disk_fault.c)."""

import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


class FaultyDisk:
    """Makes the backing, or the metadata, of one node fail from `begin` to `end`."""

    def __init__(self, scratch, make_lab, name, what="backing", up=True, **options):
        library = scratch / "disk_fault.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library),
                        str(HERE / "disk_fault.c"), "-ldl"], check=True)
        self.trigger = scratch / "trigger"
        self.lab = make_lab(start=False, **options)
        self.lab.set_env(name, LD_PRELOAD=str(library), TWINBLOCK_DISK="threads",
                         DISK_FAULT_PATH=os.path.realpath(self.lab.node(name)[what]),
                         DISK_FAULT_TRIGGER=str(self.trigger))
        if up:
            self.lab.up()

    def begin(self, error, only_writes=False, only_reads=False, only=""):
        """`only`: "reads", "writes", "transfers" or "flushes" (disk_fault.c)."""
        which = " writes" if only_writes else " reads" if only_reads else f" {only}"
        temporary = self.trigger.with_suffix(".new")
        temporary.write_text(f"{error}{which}\n", encoding="ascii")
        temporary.rename(self.trigger)

    def begin_delay(self, seconds):
        """Each write takes so much longer."""
        self.begin(f"delay {round(seconds * 1e6)}")

    def begin_hang(self):
        """Each write waits until something else begins, and goes by that, or until the end."""
        self.begin("hang")

    def begin_halfway(self):
        """Each read takes its first half, and the rest at the end."""
        self.begin("halfway")

    def begin_seek(self):
        """Who asks where there is data has the answer, and returns with it at the end."""
        self.begin("seek")

    def is_halfway(self, calls=1):
        """A read has taken its first half, or a question has its answer; so many of them."""
        marks = self.trigger.with_name(f"{self.trigger.name}.halfway")
        return marks.exists() and marks.stat().st_size >= calls

    def is_slow(self):
        """A call that takes longer has begun."""
        return self.trigger.with_name(f"{self.trigger.name}.slow").exists()

    def end(self):
        self.trigger.unlink()
