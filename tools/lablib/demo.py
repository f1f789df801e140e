"""What tools/demo shows, once the dependencies are there: builds twinblock, mirrors a device between
two nodes, kills each in turn, and proves in the end that nothing that was acknowledged is lost."""

import argparse
import filecmp
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .control import ControlError, NotReachable
from .filesystems import (CommandFailed, FilesystemInFile, FilesystemOverSocket, MountedFilesystem,
                          run)
from .lab import NODES, Lab, LabError, default_build
from .load import RememberingLoad

REPOSITORY = Path(__file__).resolve().parent.parent.parent
MIB = 1 << 20
SIZE = "512MiB"
# The filesystem lies before it, and a load that remembers its writes within it.
LOAD_OFFSET, LOAD_BYTES = 448 * MIB, 64 * MIB
LOAD_SECONDS = 2
SOURCES = ("/usr/share/doc", "/usr/include", "/usr/share/perl")
SOURCE_BYTES_MAX = 160 * MIB
SOURCE_BYTES_ENOUGH = 24 * MIB
# Names that debugfs takes without quoting.
PLAIN_NAME = re.compile(r"[A-Za-z0-9_.+@%,:~/-]+")


class DemoError(Exception):
    """What went wrong, for the user."""


def say(text):
    print(text, flush=True)


def step(text):
    print(f"\n== {text}", flush=True)


# --- preparation ---

# What the demonstration runs; the plugin's folder, since some versions of nbdkit need the guard, too. No tests.
TARGETS = ("twinblockd", "twinblock", "plugins/twinblock/all")


def build():
    step("Building (the first time takes a few minutes)")
    started = time.monotonic()
    # A build that is there already may hold tests, which whoever made it wants to keep.
    tests = [] if (REPOSITORY / "build" / "release" / "CMakeCache.txt").exists() else ["-DBUILD_TESTING=OFF"]
    for words in (["cmake", "--preset", "release", *tests],
                  ["cmake", "--build", "--preset", "release", "--target", *TARGETS]):
        run_with_progress(words)
    say(f"built in {time.monotonic() - started:.0f} s")


def run_with_progress(words):
    """Shows how far ninja is: on one line of a terminal, else a line for each tenth."""
    lines = []
    shown = 0
    with subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace") as process:
        for line in process.stdout:
            lines.append(line.rstrip())
            if not (step_of := re.match(r"\[(\d+)/(\d+)\]", line)):
                continue
            done, of_all = map(int, step_of.groups())
            if sys.stdout.isatty():
                print(f"\r{done} of {of_all}", end="\n" if done == of_all else "", flush=True)
            elif done * 10 // of_all > shown:
                shown = done * 10 // of_all
                say(f"{done} of {of_all}")
    if process.returncode:
        tail = "\n".join(lines[-30:])
        raise DemoError(f"'{' '.join(words)}' failed:\n{tail}")


def choose_files():
    """Real files of this machine: [(path, name below the filesystem's root)], and their bytes."""
    chosen, total = [], 0
    for source in map(Path, SOURCES):
        if total >= SOURCE_BYTES_ENOUGH:
            break
        for path in sorted(source.rglob("*")):
            if not path.is_file() or path.is_symlink() or not os.access(path, os.R_OK):
                continue
            name = str(path.relative_to("/"))
            size = path.stat().st_size
            if total + size > SOURCE_BYTES_MAX or not PLAIN_NAME.fullmatch(name):
                continue
            chosen.append((path, name))
            total += size
    if len(chosen) < 10:
        raise DemoError(f"found no files to copy in {', '.join(SOURCES)}")
    return chosen, total


def bytes_of(files):
    return sum(path.stat().st_size for path, _ in files)


class Demo:
    def __init__(self, directory):
        self.dir = directory
        self.lab = Lab(directory / "lab")
        self.filesystem = None
        self.attached = None  # the node whose export is attached
        self.load = RememberingLoad(LOAD_OFFSET, LOAD_BYTES)
        self.resyncs = []  # what the source says of each
        self.primaries = []  # the last status of each node that was primary

    def command(self, node, verb, *words):
        program = default_build() / "tools" / "twinblock"
        return [str(program), verb, "--socket", self.lab.node(node)["control"], *words]

    def twinblock(self, node, *words):
        return run(*self.command(node, *words), timeout_s=120)

    def show_twinblock(self, node, *words):
        """With what it prints; its exit status."""
        say(f"$ twinblock {words[0]} r0 {' '.join(words[1:])}".rstrip() + f"    (on {node})")
        return subprocess.run(self.command(node, *words), check=False, timeout=120).returncode

    def attach(self, node):
        """The device's path; None where this machine can't attach any."""
        try:
            reply = json.loads(self.twinblock(node, "attach", "--json"))
            self.attached = node
            return reply.get("result", reply)["device"]
        except (CommandFailed, ValueError, KeyError) as error:
            reasons = [line for line in str(error).splitlines() if line.startswith("twinblock: ")]
            say(f"this machine can't attach devices ({(reasons or [str(error)])[0]}); "
                "the files go over the NBD socket instead")
            return None

    def make_filesystem(self, files):
        """In the best way that this machine offers."""
        path = self.attach("alpha")
        if path is None:
            self.filesystem = FilesystemOverSocket(self.lab.node("alpha")["nbd"], LOAD_OFFSET,
                                                   self.dir, files)
        elif os.geteuid() == 0 and path.startswith("/dev/") and self.can_mount():
            say(f"attached as {path}")
            self.filesystem = MountedFilesystem(path, LOAD_OFFSET, self.dir)
        else:
            say(f"attached as {path}; no permission to mount, so mke2fs and debugfs write the files")
            self.filesystem = FilesystemInFile(path, LOAD_OFFSET, self.dir)

    def can_mount(self):
        """root in a container often may not."""
        probe = self.dir / "probe"
        probe.mkdir()
        try:
            if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(probe)], capture_output=True,
                              check=False).returncode:
                return False
            run("umount", probe)
            return True
        finally:
            probe.rmdir()

    def story(self):
        files, total = choose_files()
        third = -(-len(files) // 3)
        step(f"Two nodes, alpha and beta, mirror a device of {SIZE}")
        self.lab.create(size=SIZE, peer_timeout="2s", build=default_build())
        self.lab.up()
        say("alpha is primary, both replicas are the same (duplex)")
        step("Attaching the device")
        self.make_filesystem(files)
        step(f"A filesystem on it, and real files: {len(files)} files, {total / MIB:.0f} MiB")
        self.filesystem.start(files[:third])
        self.show("alpha", "a third of the files is there")
        self.secondary_dies(files[third:2 * third])
        self.primary_dies()
        self.go_on_with_beta(files[2 * third:])
        self.end()
        self.prove(files)
        self.report(files)

    def secondary_dies(self, files):
        step("The secondary, beta, crashes (kill -9); the copying goes on")
        self.lab.kill("beta")
        self.filesystem.add(files)
        status = self.lab.wait_state("alpha", "simplex", 10)
        self.show("alpha", f"two thirds are there; beta misses {status['dirty_bytes'] / MIB:.1f} MiB")
        step("Beta starts again and gets what it missed")
        self.lab.start("beta")
        self.await_duplex("alpha")

    def primary_dies(self):
        step("The primary, alpha, is powered off (kill -9) under load")
        self.filesystem.finish()
        self.detach()
        self.load.start(self.lab.node("alpha")["nbd"])
        time.sleep(LOAD_SECONDS)
        self.primaries.append(self.lab.status("alpha"))
        self.lab.kill("alpha")
        self.load.stop()
        say(f"alpha had acknowledged {self.load.writes} writes of 4 KiB by then")
        self.lab.wait_state("beta", "waiting", 10)
        self.show_twinblock("beta", "why")
        step("Beta takes over")
        if self.show_twinblock("beta", "promote", "--peer-is-dead"):
            raise DemoError("beta can't take over:\n" + self.lab.log_tail("beta"))
        self.check_load("every block that alpha had acknowledged is on beta")

    def go_on_with_beta(self, files):
        self.load.start(self.lab.node("beta")["nbd"])
        path = self.attach("beta") or self.lab.node("beta")["nbd"]
        self.filesystem.reopen(path)
        self.filesystem.add(files)
        status = self.lab.status("beta")
        self.show("beta", "the same filesystem, now with all files; alpha may miss "
                  f"{status['dirty_bytes'] / MIB:.1f} MiB")
        step("Alpha starts again and is brought up to date, while the load goes on")
        self.lab.start("alpha")
        self.await_duplex("beta")
        time.sleep(LOAD_SECONDS / 4)
        self.load.stop()
        self.check_load(f"all {self.load.writes} acknowledged writes of the load are there")

    def await_duplex(self, node):
        if self.show_twinblock(node, "wait", "--for", "duplex", "--timeout", "60s", "--progress"):
            raise DemoError("the other node did not catch up:\n" + self.lab.log_tail(node))
        resync = self.lab.status(node)["last_resync"]
        if not resync:
            raise DemoError(f"{node} knows of no resync")
        self.resyncs.append(resync)

    def check_load(self, text):
        lost = self.load.missing(self.lab.node("beta")["nbd"])
        if lost:
            raise DemoError(f"{len(lost)} ACKNOWLEDGED BLOCKS ARE LOST, the first is {lost[0]}")
        say(text)

    def end(self):
        step("Are both replicas the same?")
        if self.show_twinblock("beta", "verify"):
            raise DemoError("THE REPLICAS DIFFER")
        step("Orderly end")
        self.filesystem.finish()
        self.detach()
        status = self.lab.status("beta")
        self.primaries.append(status)
        if status["state"] != "duplex":
            raise DemoError(f"beta is in state {status['state']}, not in duplex")
        # The server hears of a client's end a moment after the client has.
        self.lab.wait_status("beta", lambda now: not now["clients"], what="the end of its clients")
        self.twinblock("beta", "demote")
        if not self.lab.down():
            raise DemoError("a node did not end in time:\n" + self.lab.log_tail("alpha")
                            + "\n" + self.lab.log_tail("beta"))
        say("detached, beta demoted, both nodes stopped")

    def show(self, node, text):
        status = self.lab.status(node)
        say(f"{text} (state: {status['state']}, "
            f"{status['counters']['write_bytes'] / MIB:.0f} MiB written)")

    def detach(self):
        if self.attached:
            self.twinblock(self.attached, "detach")
            self.attached = None

    def prove(self, files):
        step("Proof")
        images = [Path(self.lab.node(name)["backing"]) for name in NODES]
        for name, image in zip(NODES, images):
            run("e2fsck", "-fn", image)
            say(f"e2fsck finds nothing wrong on {name}'s replica")
        image = images[0]
        restored = self.dir / "restored"
        restored.mkdir()
        mounted = os.geteuid() == 0 and not subprocess.run(
            ["mount", "-o", "ro,noload,loop", str(image), str(restored)], capture_output=True,
            check=False).returncode
        try:
            if not mounted:
                for top in sorted({Path(name).parts[0] for _, name in files}):
                    run("debugfs", "-R", f"rdump /{top} {restored}", image)
            wrong = [name for path, name in files
                     if not (restored / name).is_file()
                     or not filecmp.cmp(path, restored / name, shallow=False)]
        finally:
            if mounted:
                run("umount", restored)
        if wrong:
            raise DemoError(f"{len(wrong)} files on alpha's replica are not like the originals, "
                            f"e.g. {wrong[0]}")
        say(f"all {len(files)} files on alpha's replica equal the originals")
        if subprocess.run(["cmp", *map(str, images)], check=False).returncode:
            raise DemoError("THE REPLICAS DIFFER")
        say("both replicas are identical, byte for byte")

    def report(self, files):
        step("Report")
        say(f"  files                {len(files)}, {bytes_of(files) / MIB:.0f} MiB")
        for status in self.primaries:
            counters, latency = status["counters"], status["latency"]
            name = status["node"]
            say(f"  written by {name:<9} {counters['write_bytes'] / MIB:.1f} MiB in "
                f"{counters['writes']} writes, {counters['flushes']} flushes; "
                f"p50 {latency['write_p50_us']:.0f} us, p99 {latency['write_p99_us']:.0f} us")
        for name, resync in zip(reversed(NODES), self.resyncs):
            sent = resync["sent"]
            say(f"  resynced to {name:<8} {resync['bytes'] / MIB:.1f} MiB in "
                f"{resync['duration_s']:.2f} s: "
                f"{sent['data_bytes'] / MIB:.1f} MiB sent as data, "
                f"{sent['zero_bytes'] / MIB:.1f} MiB as zeroes, "
                f"{sent['compared_bytes'] / MIB:.1f} MiB compared first")
        say(f"  acknowledged writes  {self.load.writes} of the load, none lost")
        say("  replicas             both replicas are identical")

    def cleanup(self):
        self.load.request_stop()
        if self.filesystem:
            self.filesystem.cleanup()
        if self.attached:
            subprocess.run(self.command(self.attached, "detach", "--force"), check=False,
                           timeout=60)
        self.lab.down()


def terminated(_number, _frame):
    raise DemoError("interrupted")


def main(argv):
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--no-build", action="store_true", help="build/release is up to date")
    options = parser.parse_args(argv)
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # mke2fs, e2fsck and debugfs, when not root
    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGHUP, terminated)
    demo = None
    directory = None
    try:
        if not options.no_build:
            build()
        directory = Path(tempfile.mkdtemp(prefix="twinblock-demo-",
                                          dir=os.environ.get("TMPDIR", "/var/tmp")))
        demo = Demo(directory)
        demo.story()
        return 0
    except (DemoError, CommandFailed, LabError, ControlError, NotReachable, OSError,
            subprocess.SubprocessError, TimeoutError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        if demo and demo.lab.state:
            for name in NODES:
                print(demo.lab.log_tail(name), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted", file=sys.stderr)
        return 130
    finally:
        if demo:
            demo.cleanup()
        if directory:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
