"""The commands of packaging/two-hosts.md, read and not carried out: what a host starts or waits for it was told of."""

import re
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tests" / "vm"))

from guide import HOSTS, blocks  # noqa: E402

PAGE = (TREE / "packaging" / "two-hosts.md").read_text(encoding="utf-8")
ATTACH = "twinblock-attach@r0"


def what_is_needed(command):
    """What there has to be already, for the command to do anything, or to end: a unit, or a line of /etc/fstab."""
    if started := re.fullmatch(r"systemctl start (\S+)", command):
        return started[1]
    if re.search(r"\buntil\b.*/dev/twinblock/r0", command):
        return ATTACH
    return None


def what_lacks(page):
    there, lacking = {host: set() for host in HOSTS}, []
    for block in blocks(page):
        if block.language == "fstab":
            for host in HOSTS:
                there[host] |= {mount.strip("/").replace("/", "-") + ".mount"
                                for mount in re.findall(r"(?m)^/dev/twinblock/r0 (\S+) ", block.text)}
        if block.language != "sh":
            continue
        for hosts, command in block.commands():
            enabled = re.fullmatch(r"systemctl enable --now (\S+)", command)
            for host in hosts:
                if enabled:
                    there[host].add(enabled[1])
                needed = what_is_needed(command)
                if needed and needed not in there[host]:
                    lacking.append((host, command, needed))
    return lacking


def test_what_a_host_starts_or_waits_for_it_was_told_of_before():
    assert not what_lacks(PAGE)
    needed = [command for block in blocks(PAGE) if block.language == "sh"
              for _, command in block.commands() if what_is_needed(command)]
    assert len(needed) >= 3, needed


def test_the_lines_of_fstab_are_followed_by_a_look_at_them_on_both_hosts():
    """A manager that runs already has not read them."""
    found = blocks(PAGE)
    [index] = [index for index, block in enumerate(found) if block.language == "fstab"]
    assert list(found[index + 1].commands())[:1] == [(HOSTS, "systemctl daemon-reload")]
