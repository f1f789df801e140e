"""A lab's directory: one configuration, two nodes, their files, and the witness where there is one.

    DIR/r0.toml            the configuration, the same for both nodes
    DIR/lab.json           what runs: pids, sockets, files
    DIR/alpha/r0.img       alpha's replica; beside it r0.meta, log and run/ (sockets)
    DIR/beta/…             the same for beta
    DIR/witness/…          etcd's data and log (--witness etcd)
"""

import json
import os
import re
import secrets
import shutil
import tempfile
from pathlib import Path

from . import witness as witnesses
from .called import LAB
from .error import LabError
from .etcd import Etcd
from .links import NODES, WITNESS, config_lines, make_links, parse_delay, parse_rate
from .network import Network
from .processes import Process
from .sizes import parse_size

VOLUME = "r0"
SOCKET_PATH_BYTES_MAX = 107
REPOSITORY = Path(__file__).resolve().parents[2]


def default_build():
    return Path(os.environ.get("TWINBLOCK_BUILD") or REPOSITORY / "build" / "release")


class LabDirectory:
    """What is there, and how it is made. Every method returns with the files of the lab up to date."""

    def __init__(self, directory):
        self.dir = Path(directory).absolute()
        self.state = None
        self._processes = {}
        self._network = None
        if self._state_path().exists():
            self.state = json.loads(self._state_path().read_text(encoding="utf-8"))
            self._find_network()
            for name in (*NODES, *self.witness_names()):
                if (record := self.member(name).get("process")):
                    self._processes[name] = Process.of(record)

    # --- what is there ---

    def node(self, name):
        if not self.state:
            raise LabError(f"no lab in {self.dir}; start one with: {LAB} up --dir {self.dir}")
        if name not in self.state["nodes"]:
            raise LabError(f"no node '{name}'; the nodes are {' and '.join(NODES)}")
        return self.state["nodes"][name]

    def witness_names(self):
        """The witness' name where the lab runs one; else nothing."""
        witness = self.state and self.state.get("witness")
        return [WITNESS] if witness and witness["kind"] == "etcd" else []

    def member(self, name):
        """A node, or the witness."""
        if name != WITNESS:
            return self.node(name)
        self.node(NODES[0])
        if not self.witness_names():
            raise LabError(f"the lab in {self.dir} runs no witness; make one with {LAB} up --witness etcd")
        return self.state["witness"]

    def etcd(self):
        """To ask the lab's witness what stands there, and to change it."""
        witness = self.member(WITNESS)
        return Etcd(witness["asked"], self.inside(WITNESS))

    def process(self, name):
        self.member(name)
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
                "key": self.state.get("key"), "witness": witnesses.describe(self.state.get("witness")),
                **nodes, "nodes": nodes}

    def network(self):
        """The links that can be cut, silenced and shaped."""
        self.node(NODES[0])
        if self._network is None:
            raise LabError(f"the links of the lab in {self.dir} lead over loopback; make one with "
                           f"{LAB} up --host-namespaces")
        return self._network

    def inside(self, name):
        """The words before a command that is to run where the node's links are, or the witness'."""
        self.member(name)
        return self._network.inside(name) if self._network else []

    def link_address(self, link, name):
        """The node's address on a link, without the port."""
        return next(each for each in self.state["links"] if each["name"] == link)[name].rpartition(":")[0]

    def log_text(self, name):
        try:
            return Path(self.member(name)["log"]).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def log_tail(self, name, lines=12):
        tail = self.log_text(name).splitlines()[-lines:]
        return "\n".join(f"  {name}: {line}" for line in tail) or f"  {name}: (empty log)"

    # --- making ---

    def create(self, size=None, peer_timeout=None, settings=None, backing=None, build=None,
               env=None, links=None, rates=(), host_namespaces=False, nbdkit_args=(), backing_io=None,
               encryption=None, witness=None, fence_command=None, witness_settings=None, witness_args=(),
               cache=None, delays=()):
        """Writes configuration and empty replicas. `backing` maps a node to its file or device,
        `env` a node to variables of its environment, `settings` are further [replication] keys,
        `nbdkit_args` go to the nodes' nbdkit, `backing_io` into their tables.
        `cache` is the size of both nodes' cache of reads, by default $TWINBLOCK_LAB_CACHE, or none.
        `encryption` is "tls" (a key is made) or "off", by default $TWINBLOCK_LAB_ENCRYPTION or off.
        `links` is how many, `rates` what they can carry, `delays` how long a packet is on the way, each one for
        all or one each, as text.
        `witness` is "etcd", which the lab runs (`witness_args` go to it), or "command", which is `fence_command`;
        `witness_settings` are further keys of [witness]."""
        replication = {"peer_timeout": peer_timeout, **(settings or {})}
        if self.state and self.state.get("has_run", True):
            self._reuse(size, build, env, backing, replication, encryption)
            self._check_links(links, rates, delays, host_namespaces)
            self._check_witness(witness, fence_command)
            return
        if self.state:
            self._forget()
        size = size or "1GiB"
        size_bytes = parse_size(size)
        links = make_links(1 if links is None else links, rates, host_namespaces, delays)
        witness = witnesses.make_witness(self.dir, witness, fence_command, witness_settings, witness_args,
                                         host_namespaces)
        self.dir.mkdir(parents=True, exist_ok=True)
        runtime_root, made_runtime = self._runtime_root()
        self.state = {"dir": str(self.dir), "config": str(self.dir / f"{VOLUME}.toml"),
                      "size": size, "build": str(Path(build or default_build()).absolute()),
                      "runtime_root": str(runtime_root) if made_runtime else None, "nodes": {},
                      "links": links, "host_namespaces": host_namespaces, "keepers": {},
                      "has_run": False, "nbdkit_args": list(nbdkit_args),
                      "backing_io": backing_io or os.environ.get("TWINBLOCK_LAB_BACKING_IO"),
                      "cache": cache or os.environ.get("TWINBLOCK_LAB_CACHE"),
                      "key": None, "witness": witness}
        if (encryption or os.environ.get("TWINBLOCK_LAB_ENCRYPTION") or "off") == "tls":
            self._make_key()
        self._find_network()
        for name in self.witness_names():
            (self.dir / name).mkdir(exist_ok=True)
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
        lines += [*config_lines(self.state["links"]), *witnesses.config_lines(self.state.get("witness")),
                  *(["[cache]", f'size = "{cache}"', ""] if (cache := self.state.get("cache")) else []),
                  "[replication]"]
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
                           f"{LAB} down --dir {self.dir}")

    def _forget(self):
        """A lab whose nodes never ran: nothing in it is worth keeping, least of all the
        configuration that they did not start with."""
        self._check_down()
        self._end_witness()
        self._stop_network()
        self._network = None
        for name in NODES:
            for suffix in ("img", "meta"):
                (self.dir / name / f"{VOLUME}.{suffix}").unlink(missing_ok=True)
        if self.witness_names():
            shutil.rmtree(self.dir / WITNESS, ignore_errors=True)
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
                           f"{LAB} down --purge --dir {self.dir}")
        if build:
            self.state["build"] = str(Path(build).absolute())
        for name, variables in (env or {}).items():
            self.node(name)["env"].update(variables)
        if self.state["runtime_root"]:
            for name in NODES:
                Path(self.node(name)["run"]).mkdir(parents=True, exist_ok=True)
        self._save()

    def _check_links(self, count, rates, delays, host_namespaces):
        """Of a lab that exists already, against what is asked for now."""
        own = self.state["links"]

        def differ(asked, key):
            return (asked * len(own))[:len(own)] not in ([], [link.get(key) for link in own])
        if (count or len(own)) != len(own) or differ([parse_rate(rate) for rate in rates], "rate_bits_per_s") or \
                differ([parse_delay(delay) for delay in delays], "delay_us") or \
                host_namespaces not in (False, self.state["host_namespaces"]):
            raise LabError(f"the lab in {self.dir} exists already, with other links; remove it "
                           f"with: {LAB} down --purge --dir {self.dir}")

    def _check_witness(self, kind, command):
        differs = witnesses.differences(self.state.get("witness"), kind, command)
        if differs:
            raise LabError(f"the lab in {self.dir} exists already, with {', '.join(differs)}; remove it "
                           f"with: {LAB} down --purge --dir {self.dir}")

    def _find_network(self):
        if self.state.get("host_namespaces"):
            links = [*self.state["links"], *witnesses.links(self.state.get("witness"))]
            self._network = Network(links, self.state["keepers"])

    def start_network(self):
        """Unless it is there. Nodes that survived their namespaces can't join new ones; the witness that did
        is in nobody's reach."""
        if self._network is None or self._network.alive():
            return
        self._check_down()
        self._end_witness()
        self._network.start(self._state_path(), self._save)

    def _end_witness(self):
        """At once: what it has promised to keep is on its disk."""
        for name in self.witness_names():
            if name in self._processes:
                self._processes[name].kill()
            self.member(name).update(process=None, pid=None)

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


def _make_backing(image, size_bytes):
    if not image.exists():
        with open(image, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.truncate(size_bytes)
    elif image.is_file() and image.stat().st_size < size_bytes:
        os.truncate(image, size_bytes)


def _toml_value(value):
    text = str(value)
    return text if re.fullmatch(r'\d+|true|false|"[^"\\]*"', text) else json.dumps(text)
