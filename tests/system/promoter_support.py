"""Promoters of a lab's nodes: each with two programs in place of a target, which write down that they ran."""

import contextlib
import os
import subprocess
import time
from pathlib import Path

import nbd

from lablib.error import LIVENESS_S
from lablib.lab import NODES
from lablib.processes import Process
from support import connection, wait_until

OTHER = {"alpha": "beta", "beta": "alpha"}


class Target:
    """What uses the volume on a node: a file that says so, and a list of what was done."""

    def __init__(self, directory, name):
        self.list = directory / f"{name}.targets"
        self.broken = directory / f"{name}.broken"
        self.list.write_text("", encoding="ascii")
        self.start = self._program(directory / f"{name}.start", f"[ ! -e {self.broken} ] || exit 1\necho start $1")
        self.stop = self._program(directory / f"{name}.stop", "echo stop $1")

    def _program(self, path, script):
        path.write_text(f"#!/bin/sh\nexec >>{self.list}\n{script}\n", encoding="ascii")
        path.chmod(0o755)
        return path

    def done(self):
        return self.list.read_text(encoding="ascii").split("\n")[:-1]

    def runs(self):
        return self.done()[-1:] == ["start r0"]

    def starts(self):
        return self.done().count("start r0")


class Promoters:
    """One beside each node; whoever starts them ends them."""

    def __init__(self, lab, scratch, *options):
        self.lab = lab
        self.options = options
        self.scratch = Path(scratch)
        self.targets = {name: Target(self.scratch, name) for name in NODES}
        self.processes = {}

    def _log_path(self, name):
        return self.scratch / f"{name}.promoter"

    def log(self, name):
        path = self._log_path(name)
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def start(self, *names):
        for name in names or NODES:
            target = self.targets[name]
            command = [str(Path(self.lab.state["build"]) / "tools" / "twinblock"), "promoter", "--socket",
                       self.lab.node(name)["control"], "--start", str(target.start), "--stop", str(target.stop),
                       *self.options]
            self.processes[name] = Process.spawn([*self.lab.inside(name), *command], self._log_path(name),
                                                 dict(os.environ))

    def kill(self, name):
        self.processes.pop(name).kill()

    def stop(self, name):
        """In order: its node is no longer primary then."""
        assert self.processes.pop(name).stop(60), f"the promoter of {name} does not end:\n{self.log(name)}"

    def kill_host(self, name):
        """As far as a lab can: the node, and whoever could start it again."""
        self.lab.kill(name)
        self.kill(name)

    def primary(self):
        for name in NODES:
            with contextlib.suppress(Exception):
                if self.lab.status(name)["role"] == "primary":
                    return name
        return None

    def serves(self, name):
        """Waits until the service is there, and there only."""
        wait_until(lambda: self.primary() == name and self.targets[name].runs(),
                   what=f"the service on {name}:\n{self.log('alpha')}\n{self.log('beta')}")
        other = self.targets[OTHER[name]]
        if OTHER[name] in self.processes:
            wait_until(lambda: not other.runs(), what=f"the end of the target on {OTHER[name]}")

    def writes(self, name, offset=0):
        """Waits until the service writes there: its target is started and a write answered. When that was."""
        deadline = time.monotonic() + LIVENESS_S
        while time.monotonic() < deadline:
            if self.targets[name].runs():
                with contextlib.suppress(nbd.Error), connection(self.lab, name) as handle:
                    handle.pwrite(b"w" * 512, offset)
                    return time.monotonic()
            time.sleep(0.01)
        raise AssertionError(f"nobody writes on {name}:\n{self.log(name)}\n{self.lab.log_tail(name)}")


def run_promoter(lab, name, *options, timeout_s=60):
    """One that is to end by itself."""
    program = Path(lab.state["build"]) / "tools" / "twinblock"
    return subprocess.run([str(program), "promoter", "--socket", lab.node(name)["control"], *map(str, options)],
                          capture_output=True, text=True, check=False, timeout=timeout_s)
