"""What a report says of the machine it was measured on."""

import os
import platform
import re
import subprocess

from ..lab import REPOSITORY


def _said(*words):
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=20)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(*words):
    found = re.search(r"\d+(\.\d+)+", _said(*words) or "")
    return found[0] if found else None


def _field(path, name):
    with open(path, encoding="ascii", errors="replace") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    return None


def git_hash():
    """Of the source tree that this runs from, '-dirty' with changes; None outside of a clone."""
    git = ("git", "-C", str(REPOSITORY))
    commit = _said(*git, "rev-parse", "--short=12", "HEAD")
    changed = _said(*git, "status", "--porcelain", "--untracked-files=no")
    return commit and commit + ("-dirty" if changed else "")


def describe():
    return {"kernel": f"{platform.system()} {platform.release()}",
            "cpu": _field("/proc/cpuinfo", "model name") or platform.machine(),
            "cores": os.cpu_count(),
            "memory_gib": round(int(_field("/proc/meminfo", "MemTotal").split()[0]) / 2**20, 1),
            "versions": {"twinblock": git_hash(), "fio": _version("fio", "--version"),
                         "nbdkit": _version("nbdkit", "--version"),
                         "iperf3": _version("iperf3", "--version"),
                         "python": platform.python_version()}}


def sentence(machine):
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items()
                         if version)
    return (f"{machine['cpu']}, {machine['cores']} cores (both nodes and the clients share them), "
            f"{machine['memory_gib']} GiB, {machine['kernel']}; {versions}")
