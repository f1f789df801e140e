"""A lab that runs: its nodes, and the witness where there is one (what is there: directory.py)."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import control
from .called import BUILD, LAB
from .directory import REPOSITORY, VOLUME, LabDirectory, default_build
from .environment import node_environment
from .error import LIVENESS_S, LabError
from .etcd import EtcdError
from .links import NODES, WITNESS
from .processes import Process
from .sizes import parse_size
from .witness import etcd_command

__all__ = ["NODES", "REPOSITORY", "VOLUME", "WITNESS", "Lab", "LabError", "default_build", "parse_size"]


class Lab(LabDirectory):
    """One lab directory. Every method returns with the files of the lab up to date."""

    def ctl(self, name, verb, /, timeout_s=LIVENESS_S, **args):
        return control.request(self.node(name)["control"], verb, args, timeout_s)

    def status(self, name, timeout_s=LIVENESS_S):
        return self.ctl(name, "status", timeout_s)

    # --- running ---

    def up(self, init=True, timeout_s=LIVENESS_S):
        """Starts the witness, where there is one, and both nodes; with `init` also makes alpha primary and waits
        for duplex. Ends what it started when anything fails."""
        try:
            if self._network is not None and not any(self.alive(name) for name in NODES):
                self._end_witness()  # what an earlier lab may have left
                self._network.stop()
            for name in self.witness_names():
                if not self.alive(name):
                    self.start(name)
            for name in NODES:
                self.start(name, wait=False)
            for name in NODES:
                self.wait_reachable(name)
            self.state["has_run"] = True
            self._save()
            if init:
                self._make_primary("alpha", timeout_s)
        except BaseException:
            self.down()
            raise

    def _make_primary(self, name, timeout_s):
        deadline = time.monotonic() + timeout_s
        try:
            if self.status(name)["state"] == "blank":
                # A lab's second replica is the lab's own, whatever its file holds.
                other = NODES[1 - NODES.index(name)]
                if self.status(other)["state"] == "blank":
                    self.ctl(other, "init", timeout_s=timeout_s, join=True)
                self.ctl(name, "init", timeout_s=timeout_s)
            while self.status(name)["role"] != "primary":
                try:
                    self.ctl(name, "promote", timeout_s=timeout_s)
                except control.ControlError:  # the peers may still be getting acquainted
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)
        except (control.ControlError, control.NotReachable) as error:
            raise LabError(f"{name} did not become primary: {error}\n"
                           f"{self.log_tail('alpha')}\n{self.log_tail('beta')}") from error
        self.wait_state(name, "duplex", max(1.0, deadline - time.monotonic()))

    def start(self, name, wait=True, extra_env=None, **popen_options):
        """Starts a node that does not run, or the witness. `popen_options` go to subprocess.Popen."""
        if self.alive(name):
            raise LabError(f"{name} runs already (pid {self.member(name)['pid']})")
        if name == WITNESS:
            self._start_witness(wait)
            return
        node = self.node(name)
        program = Path(self.state["build"]) / "daemon" / "twinblockd"
        if not os.access(program, os.X_OK):
            raise LabError(f"{program} is not there; {BUILD}")
        self.start_network()
        environment = node_environment(program, node, self.state["build"], extra_env)
        nbdkit_args = self.state.get("nbdkit_args")
        command = [str(program), node["config"], "--node", name,
                   *(["--", *nbdkit_args] if nbdkit_args else [])]
        if self._network is not None:  # what is preloaded is for the node, not for nsenter
            preload = environment.pop("LD_PRELOAD", "")
            command = [*self.inside(name), "env", *([f"LD_PRELOAD={preload}"] if preload else []),
                       *command]
        self._spawn(name, command, environment, **popen_options)
        if wait:
            self.wait_reachable(name)

    def _spawn(self, name, command, environment=None, **popen_options):
        member = self.member(name)
        process = Process.spawn(command, member["log"], environment, **popen_options)
        self._processes[name] = process
        member["pid"] = process.pid
        member["process"] = process.record()
        self._save()

    def _start_witness(self, wait):
        self.start_network()
        self._spawn(WITNESS, [*self.inside(WITNESS), *etcd_command(self.member(WITNESS))])
        if not wait:
            return
        try:
            self.etcd().wait_answers(lambda: self.alive(WITNESS), LIVENESS_S)
        except EtcdError as error:
            raise LabError(f"{error}\n{self.log_tail(WITNESS)}") from error

    def sanitizer_reports(self):
        """The text of every sanitizer report of this lab's nodes."""
        return [path.read_text(encoding="utf-8", errors="replace")
                for name in NODES for path in sorted((self.dir / name).glob("sanitizer.*"))]

    def wait_reachable(self, name, timeout_s=LIVENESS_S):
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self.status(name)
            except control.NotReachable as error:
                reason = str(error)
            if not self.alive(name):
                raise LabError(f"{name} ended during its start:\n{self.log_tail(name)}")
            if time.monotonic() > deadline:
                raise LabError(f"{name} does not answer after {timeout_s:.0f} s ({reason}):\n"
                               f"{self.log_tail(name)}")
            time.sleep(0.02)

    def wait_state(self, name, state, timeout_s=LIVENESS_S):
        """Polls until the node is in `state`; the last status. Duplex is what both nodes say: one
        may still speak of a session that the other's end has taken away."""
        other = NODES[1 - NODES.index(name)]
        both = state == "duplex" and self.alive(other)
        for node in (name, other, name) if both else (name,):
            status = self.wait_status(node, lambda seen: seen["state"] == state, timeout_s,
                                      f"state {state}")
        return status

    def wait_peer_lost(self, name, timeout_s=LIVENESS_S):
        """Polls until the node has noticed that its peer is gone: it takes a moment after kill()."""
        return self.wait_status(name, lambda status: not status["peer"]["connected"], timeout_s,
                                "the loss of its peer")

    def wait_status(self, name, condition, timeout_s=LIVENESS_S, what="the condition"):
        timeout_s = max(timeout_s, LIVENESS_S)
        deadline = time.monotonic() + timeout_s
        status = None
        while True:
            try:
                status = self.status(name)
                if condition(status):
                    return status
            except control.NotReachable as error:
                if not self.alive(name):
                    raise LabError(f"{name} ended:\n{self.log_tail(name)}") from error
            if time.monotonic() > deadline:
                raise LabError(f"{name} did not reach {what} in {timeout_s:.0f} s; its status: "
                               f"{json.dumps(status)}\n{self.log_tail('alpha')}\n"
                               f"{self.log_tail('beta')}")
            time.sleep(0.05)

    def kill(self, name):
        """kill -9: as a crash of the node's process, or the witness'."""
        self._signal_checked(name, signal.SIGKILL)
        if not self._processes[name].wait_gone(LIVENESS_S):
            raise LabError(f"{name} (pid {self.member(name)['pid']}) survives SIGKILL")

    def pause(self, name):
        self._checked(name, lambda process: process.pause())

    def resume(self, name):
        self._signal_checked(name, signal.SIGCONT)

    def stop(self, name, timeout_s=LIVENESS_S):
        """Orderly end (SIGTERM); True when SIGKILL was not needed."""
        process = self.process(name)
        return process.stop(max(timeout_s, LIVENESS_S)) if process else True

    def _signal_checked(self, name, number):
        self._checked(name, lambda process: process.signal(number))

    def _checked(self, name, act):
        process = self.process(name)
        if process is None or not act(process):
            raise LabError(f"{name} does not run; start it with: "
                           f"{LAB} start {name} --dir {self.dir}")

    def exit_code(self, name):
        """Of a node that this very object started and that has ended; None otherwise."""
        process = self.process(name)
        return process.exit_code if process else None

    def down(self, timeout_s=LIVENESS_S):
        """Ends both nodes, the primary first, so that its last writes reach the peer, and the witness. Leaves
        the files. True when every node ended by itself."""
        if not self.state:
            return True
        for process in self._processes.values():
            process.signal(signal.SIGCONT)
        orderly = True
        for name in sorted(NODES, key=self._is_secondary):
            self._detach(name)
            orderly = self.stop(name, timeout_s) and orderly
            self.node(name)["process"] = None
            self.node(name)["pid"] = None
        self._end_witness()
        self._stop_network()
        if self.dir.exists():
            self._save()
        if self.state["runtime_root"]:
            shutil.rmtree(self.state["runtime_root"], ignore_errors=True)
        return orderly

    def _detach(self, name):
        """Takes away the device that `twinblock attach` may have left."""
        node = self.node(name)
        if (Path(node["run"]) / f"{VOLUME}.attach.json").exists():
            program = Path(self.state["build"]) / "tools" / "twinblock"
            done = subprocess.run([str(program), "detach", "--force", "--socket", node["control"]],
                                  capture_output=True, text=True, check=False, timeout=60)
            if done.returncode:
                print(f"lab: {name} is still attached: {done.stderr.strip()}", file=sys.stderr)

    def _is_secondary(self, name):
        if not self.alive(name):
            return True
        try:
            return self.status(name, timeout_s=2.0)["role"] != "primary"
        except (control.NotReachable, control.ControlError, KeyError, ValueError):
            return True

    def purge(self):
        """Ends the nodes and removes the directory, images included."""
        self.down()
        if self.state:
            shutil.rmtree(self.dir)
            self.state = None

