"""The witness of a lab: an etcd of its own, or a command that fences.

What the lab's file keeps of it is an object: its kind, further keys of [witness], and of etcd also its
addresses, its links in namespaces, its files and its process."""

import json
import os
from pathlib import Path

from . import etcd
from .called import INSTALL
from .error import LabError
from .links import NODES, WITNESS, free_ports

KINDS = ("etcd", "command")
VOLUMES = "/twinblock/"  # below it, etcd holds an entry for each volume


def make_witness(directory, kind, command, settings, args, host_namespaces):
    """None where there is to be none. `settings` are further keys of [witness], `args` are etcd's."""
    if command and kind != "command":
        raise LabError("--fence-command is for --witness command")
    if kind is None:
        return None
    if kind not in KINDS:
        raise LabError(f"'{kind}' is no witness; it is {' or '.join(KINDS)}")
    record = {"kind": kind, "settings": dict(settings or {}), "pid": None, "process": None}
    if kind == "command":
        return {**record, "command": _checked_command(command)}
    if not etcd.find():
        raise LabError(f"etcd is not installed; install etcd-server ({INSTALL})")
    home = Path(directory) / WITNESS
    record.update(data=str(home / "etcd"), log=str(home / "log"), args=list(args), links=[])
    if host_namespaces:
        # One address, whichever link leads to it.
        record["links"] = [{"name": f"{WITNESS}-{node}", "rate_bits_per_s": None,
                            node: f"10.78.0.{number}:{etcd.CLIENT_PORT}",
                            WITNESS: f"10.78.0.10:{etcd.CLIENT_PORT}"} for number, node in enumerate(NODES, 1)]
        record.update(address=record["links"][0][WITNESS], listen=f"0.0.0.0:{etcd.CLIENT_PORT}",
                      asked=f"127.0.0.1:{etcd.CLIENT_PORT}", peer=f"127.0.0.1:{etcd.PEER_PORT}")
    else:
        client, peer = (f"127.0.0.1:{port}" for port in free_ports(2))
        record.update(address=client, listen=client, asked=client, peer=peer)
    return record


def _checked_command(command):
    if not command:
        raise LabError("--witness command needs --fence-command PATH")
    path = os.path.abspath(command)
    if not os.access(path, os.X_OK):
        raise LabError(f"{path} is no program that can be run")
    return path


def config_lines(record):
    """The table of the configuration; nothing without a witness."""
    if record is None:
        return []
    keys = {"kind": record["kind"]}
    if record["kind"] == "etcd":
        keys["endpoints"] = [f"http://{record['address']}"]
    else:
        keys["command"] = record["command"]
    keys.update(record["settings"])
    return ["[witness]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items()), ""]


def differences(record, kind, command):
    """What is asked for now, and is not so: as texts for a message."""
    own = record or {"kind": None}
    if kind not in (None, own["kind"]):
        return [f"witness {own['kind'] or 'none'}"]
    if command and os.path.abspath(command) != own.get("command"):
        return [f"fence-command {own.get('command')}"]
    return []


def describe(record):
    """Of it, what users may want to know."""
    if record is None:
        return None
    keys = ("kind", "command", "address", "log", "pid")
    return {key: record[key] for key in keys if key in record}


def links(record):
    """Those between the nodes and it."""
    return record.get("links", []) if record else []


def etcd_command(record):
    return etcd.command(record["listen"], record["address"], record["peer"], record["data"], record["args"])


def holders(entries):
    """A sentence for each volume that something stands for: `entries` as Etcd.entries() has them."""
    said = []
    for key, value in entries.items():
        volume = key.removeprefix(VOLUMES).partition("/")[0]
        try:
            entry = json.loads(value)
            who = f"{entry['holder']} may have gone on alone" if entry["holder"] else "shared by both nodes"
            said.append(f"{volume}: {who}, generation {entry['generation']}")
        except (ValueError, TypeError, KeyError):
            said.append(f"{volume}: what stands there makes no sense: {value!r}")
    return said
