"""Holes: none is read, and a resync makes no data of them, in either direction."""

import os
import random
import time
from pathlib import Path

import pytest

from lablib.lab import parse_size
from support import KIB, MIB, assert_identical, connection, ctl, promote, wait_until, write_all

GIB = 1 << 30
TIB = 1 << 40
BLOCK = 4 * KIB
BLOCKS = 2000


def cpu_seconds(lab, name):
    """Of all of the node's threads."""
    fields = Path(f"/proc/{lab.node(name)['pid']}/stat").read_text(encoding="ascii")
    user, system = fields.rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def frames_of(lab, name):
    """Bytes that the node has sent over its links."""
    return sum(link["out_bytes"] for link in lab.status(name)["links"])


def data_bytes(path):
    """What the file holds as data, as the file system says, after it has been written back."""
    found = 0
    with open(path, "rb") as image:
        os.fdatasync(image.fileno())
        at = 0
        while True:
            try:
                at = os.lseek(image.fileno(), at, os.SEEK_DATA)
            except OSError:  # no data behind
                return found
            end = os.lseek(image.fileno(), at, os.SEEK_HOLE)
            found += end - at
            at = end


def verify(lab, name):
    assert ctl(lab, name, "verify", timeout_s=120).returncode == 0
    wait_until(lambda: not lab.status(name)["verify"]["active"], 120, "the end of a verification")
    return lab.status(name)["verify"]


def cost_of_reading(lab, size):
    """Seconds of a processor that this machine takes just now to read so much of an image, by what it takes for a part."""
    part = GIB
    began = time.process_time()
    with open(lab.node("alpha")["backing"], "rb", buffering=0) as image:
        for at in range(0, part, MIB):
            image.seek(at)
            image.read(MIB)
    return (time.process_time() - began) * size / part


def test_an_empty_volume_is_verified_without_reading_it(make_lab):
    lab = make_lab(size="8GiB")
    before = {name: cpu_seconds(lab, name) for name in ("alpha", "beta")}
    began = time.monotonic()
    found = verify(lab, "alpha")
    took = time.monotonic() - began
    used = {name: cpu_seconds(lab, name) - before[name] for name in before}
    reading = cost_of_reading(lab, 8 * GIB)
    print(f"verify of 8 GiB of nothing: {took:.2f} s, processor {used}; reading takes {reading:.1f} s of it")
    assert found["bytes_done"] == 8 * GIB and found["differing_bytes"] == 0
    assert max(used.values()) <= reading / 2


def test_a_sparse_terabyte_is_compared_at_the_price_of_its_data(make_lab):
    """Everything is compared: what a node knows after both have lost their records."""
    lab = make_lab(size="1TiB")
    with connection(lab) as handle:
        write_all(handle, ((random.randrange(TIB // (20 * KIB)) * 20 * KIB, random.randbytes(20 * KIB))
                           for _ in range(BLOCKS)))
        handle.flush()
    before = {name: cpu_seconds(lab, name) for name in ("alpha", "beta")}
    began = time.monotonic()
    found = verify(lab, "alpha")
    took = time.monotonic() - began
    used = {name: cpu_seconds(lab, name) - before[name] for name in before}
    reading = cost_of_reading(lab, TIB)
    print(f"comparison of 1 TiB with 40 MB in it: {took:.2f} s, processor {used}; reading takes {reading:.0f} s of it")
    assert found["bytes_done"] == TIB and found["differing_bytes"] == 0
    assert max(used.values()) <= reading / 20


def scattered(size):
    return [(block * BLOCK, random.randbytes(BLOCK))
            for block in random.sample(range(0, size // BLOCK), BLOCKS)]


@pytest.mark.parametrize("way", ["known by the block", "known by the region", "to a new disk"])
@pytest.mark.parametrize("target", ["alpha", "beta"])
def test_a_resync_keeps_the_target_sparse(make_lab, target, way):
    lab = make_lab(size="1GiB")
    source = "beta" if target == "alpha" else "alpha"
    size = parse_size(lab.state["size"])
    if source == "beta":
        assert ctl(lab, "alpha", "demote").returncode == 0
        promote(lab, "beta")
    lab.kill(target)
    lab.wait_state(source, "simplex", 15)
    with connection(lab, source) as handle:
        write_all(handle, scattered(size))
        handle.flush()
    if way == "known by the region":
        lab.kill(source)
        lab.start(source)
        promote(lab, source, "--peer-is-dead")
    if way == "to a new disk":
        for what in ("backing", "metadata"):
            Path(lab.node(target)[what]).unlink()
        with open(lab.node(target)["backing"], "wb") as image:
            image.truncate(size)
    lab.start(target)
    lab.wait_state(source, "duplex", 120)
    held = {name: data_bytes(lab.node(name)["backing"]) for name in (source, target)}
    resync = lab.status(source)["last_resync"]
    print(f"{way}, to {target}: {held}, written {BLOCKS * BLOCK}; {resync}")
    assert held[target] <= 1.1 * BLOCKS * BLOCK
    assert_identical(lab)
