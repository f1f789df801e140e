"""The lab: a directory with one configuration, two nodes and their files.

    DIR/r0.toml            the configuration, the same for both nodes
    DIR/lab.json           what runs: pids, sockets, files
    DIR/alpha/r0.img       alpha's replica; beside it r0.meta, log and run/ (sockets)
    DIR/beta/…             the same for beta
"""

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import control
from .environment import node_environment
from .error import LIVENESS_S, LabError
from .links import NODES, config_lines, make_links, parse_rate
from .network import Network
from .processes import Process
from .sizes import parse_size

VOLUME = "r0"
SOCKET_PATH_BYTES_MAX = 107
REPOSITORY = Path(__file__).resolve().parents[2]


def default_build():
    return Path(os.environ.get("TWINBLOCK_BUILD") or REPOSITORY / "build" / "release")


class Lab:
    """One lab directory. Every method returns with the files of the lab up to date."""

    def __init__(self, directory):
        self.dir = Path(directory).absolute()
        self.state = None
        self._processes = {}
        self._network = None
        if self._state_path().exists():
            self.state = json.loads(self._state_path().read_text(encoding="utf-8"))
            self._find_network()
            for name, node in self.state["nodes"].items():
                if node.get("process"):
                    self._processes[name] = Process.of(node["process"])

    # --- what is there ---

    def node(self, name):
        if not self.state:
            raise LabError(f"no lab in {self.dir}; start one with: tools/lab up --dir {self.dir}")
        if name not in self.state["nodes"]:
            raise LabError(f"no node '{name}'; the nodes are {' and '.join(NODES)}")
        return self.state["nodes"][name]

    def process(self, name):
        self.node(name)
        return self._processes.get(name)

    def alive(self, name):
        process = self.process(name)
        return process is not None and process.alive()

    def process_state(self, name):
        process = self.process(name)
        return process.state() if process else "gone"

    def describe(self):
        """The object that `up` prints."""
        keys = ("nbd", "control", "backing", "metadata", "pid", "log", "replication")
        nodes = {name: {key: self.node(name)[key] for key in keys} for name in NODES}
        return {"dir": str(self.dir), "config": self.state["config"],
                "host_namespaces": self.state["host_namespaces"], "links": self.state["links"],
                "key": self.state.get("key"),
                **nodes, "nodes": nodes}

    def network(self):
        """The links that can be cut, silenced and shaped."""
        self.node(NODES[0])
        if self._network is None:
            raise LabError(f"the links of the lab in {self.dir} lead over loopback; make one with "
                           "tools/lab up --host-namespaces")
        return self._network

    def inside(self, name):
        """The words before a command that is to run where the node's links are."""
        self.node(name)
        return self._network.inside(name) if self._network else []

    def link_address(self, link, name):
        """The node's address on a link, without the port."""
        return next(each for each in self.state["links"] if each["name"] == link)[name].rpartition(":")[0]

    def log_text(self, name):
        try:
            return Path(self.node(name)["log"]).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def log_tail(self, name, lines=12):
        tail = self.log_text(name).splitlines()[-lines:]
        return "\n".join(f"  {name}: {line}" for line in tail) or f"  {name}: (empty log)"

    def ctl(self, name, verb, /, timeout_s=10.0, **args):
        return control.request(self.node(name)["control"], verb, args, timeout_s)

    def status(self, name, timeout_s=10.0):
        return self.ctl(name, "status", timeout_s)

    # --- making ---

    def create(self, size=None, peer_timeout=None, settings=None, backing=None, build=None,
               env=None, links=None, rates=(), host_namespaces=False, nbdkit_args=(), backing_io=None,
               encryption=None):
        """Writes configuration and empty replicas. `backing` maps a node to its file or device,
        `env` a node to variables of its environment, `settings` are further [replication] keys,
        `nbdkit_args` go to the nodes' nbdkit, `backing_io` into their tables.
        `encryption` is "tls" (a key is made) or "off", by default $TWINBLOCK_LAB_ENCRYPTION or off.
        `links` is how many, `rates` what they can carry, one for all or one each, as text."""
        replication = {"peer_timeout": peer_timeout, **(settings or {})}
        if self.state and self.state.get("has_run", True):
            self._reuse(size, build, env, backing, replication, encryption)
            self._check_links(links, rates, host_namespaces)
            return
        if self.state:
            self._forget()
        size = size or "1GiB"
        size_bytes = parse_size(size)
        links = make_links(1 if links is None else links, rates, host_namespaces)
        self.dir.mkdir(parents=True, exist_ok=True)
        runtime_root, made_runtime = self._runtime_root()
        self.state = {"dir": str(self.dir), "config": str(self.dir / f"{VOLUME}.toml"),
                      "size": size, "build": str(Path(build or default_build()).absolute()),
                      "runtime_root": str(runtime_root) if made_runtime else None, "nodes": {},
                      "links": links, "host_namespaces": host_namespaces, "keepers": {},
                      "has_run": False, "nbdkit_args": list(nbdkit_args),
                      "backing_io": backing_io or os.environ.get("TWINBLOCK_LAB_BACKING_IO"),
                      "key": None}
        if (encryption or os.environ.get("TWINBLOCK_LAB_ENCRYPTION") or "off") == "tls":
            self._make_key()
        self._find_network()
        for name in NODES:
            run = Path(runtime_root) / name / "run"
            (self.dir / name).mkdir(exist_ok=True)
            run.mkdir(parents=True, exist_ok=True)
            image = Path((backing or {}).get(name) or self.dir / name / f"{VOLUME}.img").absolute()
            _make_backing(image, size_bytes)
            self.state["nodes"][name] = {
                "nbd": f"nbd+unix:///?socket={run}/{VOLUME}.nbd",
                "control": str(run / f"{VOLUME}.ctl"), "backing": str(image),
                "metadata": str(self.dir / name / f"{VOLUME}.meta"),
                "log": str(self.dir / name / "log"), "run": str(run),
                "replication": links[0][name], "config": self.state["config"],
                "env": dict((env or {}).get(name) or {}), "pid": None, "process": None}
        replication["peer_timeout"] = replication["peer_timeout"] or "5s"
        self.state["replication"] = replication
        Path(self.state["config"]).write_text(self.config_text(replication), encoding="utf-8")
        self._save()

    def config_text(self, replication, volume=VOLUME, size=None):
        lines = [f'volume = "{volume}"', f'size = "{size or self.state["size"]}"',
                 f'key = "{key}"' if (key := self.state.get("key")) else 'encryption = "off"', ""]
        for name in NODES:
            node = self.node(name)
            lines += [f"[node.{name}]", f'backing = "{node["backing"]}"',
                      f'metadata = "{node["metadata"]}"', f'runtime = "{node["run"]}"',
                      f'backing_io = "{io}"' if (io := self.state.get("backing_io")) else "", ""]
        lines += [*config_lines(self.state["links"]), "[replication]"]
        lines += [f"{key} = {_toml_value(value)}" for key, value in replication.items()]
        return "\n".join(lines) + "\n"

    def _make_key(self):
        """As `twinblock key new` does, so that a lab needs no build to be made."""
        path = self.dir / f"{VOLUME}.key"
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32) + "\n")
        self.state["key"] = str(path)

    def set_node_config(self, name, text):
        """Gives one node a configuration of its own (tests of disagreement)."""
        path = self.dir / name / f"{VOLUME}.toml"
        path.write_text(text, encoding="utf-8")
        self.node(name)["config"] = str(path)
        self._save()

    def set_env(self, name, **variables):
        self.node(name)["env"].update(variables)
        self._save()

    def _check_down(self):
        running = [name for name in NODES if self.alive(name)]
        if running:
            raise LabError(f"the lab in {self.dir} is up ({', '.join(running)}); end it with: "
                           f"tools/lab down --dir {self.dir}")

    def _forget(self):
        """A lab whose nodes never ran: nothing in it is worth keeping, least of all the
        configuration that they did not start with."""
        self._check_down()
        self._stop_network()
        self._network = None
        for name in NODES:
            for suffix in ("img", "meta"):
                (self.dir / name / f"{VOLUME}.{suffix}").unlink(missing_ok=True)
        if self.state["runtime_root"]:
            shutil.rmtree(self.state["runtime_root"], ignore_errors=True)
        self.state = None

    def _reuse(self, size, build, env, backing, replication, encryption):
        self._check_down()
        differs = []
        if size and parse_size(size) != parse_size(self.state["size"]):
            differs.append(f"size {self.state['size']}")
        for name, path in (backing or {}).items():
            if Path(path).absolute() != Path(self.node(name)["backing"]):
                differs.append(f"{name}'s replica in {self.node(name)['backing']}")
        of_links = "tls" if self.state.get("key") else "off"
        if encryption not in (None, of_links):
            differs.append(f"encryption {of_links}")
        own = self.state.get("replication", {})
        for key, value in replication.items():
            if value is not None and str(value) != str(own.get(key, value)):
                differs.append(f"{key} {own[key]}")
        if differs or set(replication) - set(own or replication):
            raise LabError(f"the lab in {self.dir} exists already"
                           f"{', with ' + ', '.join(differs) if differs else ''}; change "
                           f"{self.state['config']}, or remove the lab with: "
                           f"tools/lab down --purge --dir {self.dir}")
        if build:
            self.state["build"] = str(Path(build).absolute())
        for name, variables in (env or {}).items():
            self.node(name)["env"].update(variables)
        if self.state["runtime_root"]:
            for name in NODES:
                Path(self.node(name)["run"]).mkdir(parents=True, exist_ok=True)
        self._save()

    def _check_links(self, count, rates, host_namespaces):
        """Of a lab that exists already, against what is asked for now."""
        own = self.state["links"]
        of_each = [link["rate_bits_per_s"] for link in own]
        asked = [parse_rate(rate) for rate in rates]
        if (count or len(own)) != len(own) or (asked * len(own))[:len(own)] not in ([], of_each) or \
                host_namespaces not in (False, self.state["host_namespaces"]):
            raise LabError(f"the lab in {self.dir} exists already, with other links; remove it "
                           f"with: tools/lab down --purge --dir {self.dir}")

    def _find_network(self):
        if self.state.get("host_namespaces"):
            self._network = Network(self.state["links"], self.state["keepers"])

    def start_network(self):
        """Unless it is there. Nodes that survived their namespaces can't join new ones."""
        if self._network is None or self._network.alive():
            return
        self._check_down()
        self._network.start(self._state_path(), self._save)

    def _stop_network(self):
        if self._network is not None:
            self._network.stop()

    def _runtime_root(self):
        """Where the sockets go: below DIR, or below /tmp where DIR is too long for a socket's
        path. (root, whether `down` has to remove it)"""
        longest = self.dir / max(NODES, key=len) / "run" / f"{VOLUME}.nbd"
        if len(os.fsencode(str(longest))) <= SOCKET_PATH_BYTES_MAX:
            return self.dir, False
        parent = os.environ.get("XDG_RUNTIME_DIR") or "/tmp"
        if not os.access(parent, os.W_OK) or len(parent) > 60:
            parent = "/tmp"
        return tempfile.mkdtemp(prefix="twinblock-lab-", dir=parent), True

    def _save(self):
        if self._network is not None:
            self.state["keepers"] = self._network.record()
        path = self._state_path()
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(self.state, indent=1) + "\n", encoding="utf-8")
        temporary.replace(path)

    def _state_path(self):
        return self.dir / "lab.json"

    # --- running ---

    def up(self, init=True, timeout_s=LIVENESS_S):
        """Starts both nodes; with `init` also makes alpha primary and waits for duplex. Ends what
        it started when anything fails."""
        try:
            if self._network is not None and not any(self.alive(name) for name in NODES):
                self._network.stop()  # what an earlier lab may have left
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
        """Starts a node that does not run. `popen_options` go to subprocess.Popen."""
        node = self.node(name)
        if self.alive(name):
            raise LabError(f"{name} runs already (pid {node['pid']})")
        program = Path(self.state["build"]) / "daemon" / "twinblockd"
        if not os.access(program, os.X_OK):
            raise LabError(f"{program} is not there; build first (cmake --preset release && "
                           "cmake --build --preset release), or set TWINBLOCK_BUILD")
        self.start_network()
        environment = node_environment(program, node, self.state["build"], extra_env)
        nbdkit_args = self.state.get("nbdkit_args")
        command = [str(program), node["config"], "--node", name,
                   *(["--", *nbdkit_args] if nbdkit_args else [])]
        if self._network is not None:  # what is preloaded is for the node, not for nsenter
            preload = environment.pop("LD_PRELOAD", "")
            command = [*self.inside(name), "env", *([f"LD_PRELOAD={preload}"] if preload else []),
                       *command]
        process = Process.spawn(command, node["log"], environment, **popen_options)
        self._processes[name] = process
        node["pid"] = process.pid
        node["process"] = process.record()
        self._save()
        if wait:
            self.wait_reachable(name)

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
        """kill -9: as a crash of the node's process."""
        self._signal_checked(name, signal.SIGKILL)
        if not self._processes[name].wait_gone(LIVENESS_S):
            raise LabError(f"{name} (pid {self.node(name)['pid']}) survives SIGKILL")

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
                           f"tools/lab start {name} --dir {self.dir}")

    def exit_code(self, name):
        """Of a node that this very object started and that has ended; None otherwise."""
        process = self.process(name)
        return process.exit_code if process else None

    def down(self, timeout_s=LIVENESS_S):
        """Ends both nodes, the primary first, so that its last writes reach the peer. Leaves the
        files. True when every node ended by itself."""
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


def _make_backing(image, size_bytes):
    if not image.exists():
        with open(image, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.truncate(size_bytes)
    elif image.is_file() and image.stat().st_size < size_bytes:
        os.truncate(image, size_bytes)


def _toml_value(value):
    text = str(value)
    return text if re.fullmatch(r'\d+|true|false|"[^"\\]*"', text) else json.dumps(text)
