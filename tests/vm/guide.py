"""The commands of packaging/two-hosts.md, as a reader carries them out.

Fenced blocks of the language `sh` are commands, one a line. A line's comment that begins with "both hosts" or "on
beta" says where; else it is alpha. Those of the language `scp` copy a file from alpha to the host that they name.
`toml` is a file, and `fstab` what /etc/fstab gets, on both hosts."""

import re
from dataclasses import dataclass

HOSTS = ("alpha", "beta")
# What this host has otherwise than the page's: the package is in root's home.
FOLDER = "/root"


@dataclass
class Block:
    section: int
    language: str
    text: str

    def commands(self):
        """Pairs of host names and a command."""
        for line in self.text.splitlines():
            command, _, comment = line.partition("  #")
            comment = comment.strip()
            hosts = HOSTS if comment.startswith("both hosts") else \
                ("beta",) if comment.startswith("on beta") else ("alpha",)
            if command.strip():
                yield hosts, command.strip()


def copied_files(text):
    """What the lines of an `scp` block copy: from, to which host, to."""
    lines = text.splitlines()
    found = [re.fullmatch(r"scp -p (/\S+) (\w+):(/\S+)", line) for line in lines]
    assert all(found), f"not a copy: {lines}"
    return [match.groups() for match in found]


def blocks(page):
    found, section, language, lines = [], 0, None, []
    for line in page.splitlines():
        if match := re.match(r"## (\d+)\.", line):
            section = int(match[1])
        if not line.startswith("```"):
            if language is not None:
                lines.append(line)
        elif language is None:
            language, lines = line[3:].strip(), []
        else:
            found.append(Block(section, language, "\n".join(lines) + "\n"))
            language = None
    return found
