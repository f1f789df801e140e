"""Links on which packets are on the way for a while: two TAP devices, and a program that passes frames from one to
the other (delay_line.c says how). Why not tc's netem: not every kernel has it."""

import os
import shutil
from pathlib import Path

from .compiled import compiled

SOURCE = Path(__file__).resolve().with_name("delay_line.c")
TUN = Path("/dev/net/tun")
# What a link without a rate may have on the way, and one that is shaped anew; and what a burst may add.
BYTES_PER_S = 10 * 10**9 // 8
BURST_BYTES = 4 << 20
# That the kernel keeps until the program has read them: 50 ms of 1 Gbit/s in single packets.
DEVICE_PACKETS = 4096


def unavailable():
    """Why links can't have a delay here; None when they can."""
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"a link with a delay needs {TUN}, which is not there for this user: as root, modprobe tun"
    if not shutil.which("cc"):
        return "a link with a delay needs a C compiler (Debian: apt install g++)"
    return None


def command(directory, link, keepers):
    """The program, which is made in that directory, between the namespaces that those two processes hold."""
    rate = max(BYTES_PER_S, (link["rate_bits_per_s"] or 0) // 8)
    queue_bytes = rate * link["delay_us"] // 10**6 + BURST_BYTES
    return [str(compiled(directory / "delay_line", SOURCE)), link["name"], str(link["delay_us"]), str(queue_bytes),
            *(str(keeper.pid) for keeper in keepers)]


def log_path(directory, link):
    return directory / f"{link['name']}.log"


def dropped(directory, link):
    """What it said of frames that it had no room for; an empty text: it had for all."""
    text = log_path(directory, link).read_text(encoding="utf-8", errors="replace")
    return "\n".join(line for line in text.splitlines() if "dropped" in line)
