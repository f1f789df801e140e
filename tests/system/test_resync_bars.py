"""What a resync reads and sends, what the intents cost, how much memory a node takes, and how long
a large volume takes to open: each against its bar, the figure printed (pytest -rP shows it)."""

import random
import re
import subprocess
import time
from pathlib import Path

import pytest

from faulty_disk import FaultyDisk
from lablib.lab import parse_size
from lateness import Lateness
from support import (KIB, MIB, Fio, assert_identical, connection, demote, promote, wait_for_writes,
                     wait_until_noted, write_all)

GIB = 1 << 30
TIB = 1 << 40
BLOCK = 4 * KIB
REGION = 4 * MIB
CHUNK = 128 * MIB  # of the maps: what one bitmap of 4 KiB covers
# Reads show up in /proc/PID/io (rchar) only when they are system calls, not through io_uring.
COUNTED_READS = {"env": {name: {"TWINBLOCK_DISK": "threads"} for name in ("alpha", "beta")}}


def bytes_read(lab, name):
    """By the node's calls of read and pread, whether the page cache had it or not."""
    text = Path(f"/proc/{lab.node(name)['pid']}/io").read_text(encoding="ascii")
    return int(re.search(r"rchar: (\d+)", text)[1])


def bytes_on_wire(lab, name):
    """What the node has sent in the nodes' present session: by TCP's own count."""
    ports = [lab.node(node)["replication"].rsplit(":", 1)[1] for node in ("alpha", "beta")]
    ours = " or ".join(f"{end} = :{port}" for end in ("sport", "dport") for port in ports)
    said = subprocess.run(["ss", "-tinpHO", ours], capture_output=True, text=True, check=True)
    counts = [int(re.search(r"bytes_sent:(\d+)", line)[1]) for line in said.stdout.splitlines()
              if f"pid={lab.node(name)['pid']}," in line and "bytes_sent:" in line]
    assert len(counts) == 1, said.stdout
    return counts[0]


def memory(lab, name):
    """Resident now, and at its most so far: bytes."""
    text = Path(f"/proc/{lab.node(name)['pid']}/status").read_text(encoding="ascii")
    return [int(re.search(rf"{key}:\s+(\d+) kB", text)[1]) * KIB for key in ("VmRSS", "VmHWM")]


@pytest.mark.parametrize("size", ["1GiB", pytest.param("10GiB", marks=pytest.mark.long)])
def test_one_percent_changed_in_simplex(roomy, make_lab, size):
    lab = make_lab(size=size, backing=roomy, **COUNTED_READS)
    volume = parse_size(size)
    lab.kill("beta")
    lab.wait_state("alpha", "simplex", 5)
    blocks = random.sample(range(volume // BLOCK), volume // BLOCK // 100)
    with connection(lab) as handle:
        write_all(handle, ((block * BLOCK, random.randbytes(BLOCK)) for block in blocks))
        handle.flush()
        before = bytes_read(lab, "alpha")
        lab.start("beta")
        lab.wait_state("alpha", "duplex", 60)
        read = bytes_read(lab, "alpha") - before
        wire = bytes_on_wire(lab, "alpha")
    resync = lab.status("alpha")["last_resync"]
    print(f"{size}: {len(blocks)} blocks changed; read {read / volume:.4%} of the volume (rchar), "
          f"on the wire {wire / volume:.4%}, {resync}")
    assert len(blocks) * BLOCK <= read <= 0.011 * volume
    assert wire <= 0.011 * volume
    assert resync["sent"]["data_bytes"] == len(blocks) * BLOCK
    assert resync["sent"]["compared_bytes"] == 0
    if volume <= GIB:
        assert_identical(lab)


def test_crash_with_64_dirty_regions(make_lab):
    """A power cut of the primary: only blocks that differ travel, found among 64 regions."""
    lab = make_lab(size="512MiB", start=False, **COUNTED_READS)
    piece = random.randbytes(MIB)
    with open(lab.node("alpha")["backing"], "r+b") as image:
        for _ in range(512):
            image.write(piece)
    lab.up()
    # None beside another, as after a neighbour some are set along for a sequential writer.
    regions = random.sample(range(0, 512 * MIB // REGION, 2), 64)
    offsets = [region * REGION + random.randrange(REGION // BLOCK) * BLOCK for region in regions]
    with connection(lab) as handle:
        write_all(handle, ((offset, random.randbytes(BLOCK)) for offset in offsets))
        lab.kill("alpha")
    with open(lab.node("alpha")["backing"], "r+b") as image:
        for offset in offsets[:32]:  # of the others, the page cache had been written back
            image.seek(offset)
            image.write(piece[offset % MIB:][:BLOCK])
    lab.wait_peer_lost("beta")
    promote(lab, "beta", "--peer-is-dead")
    before = bytes_read(lab, "beta")
    lab.start("alpha")
    lab.wait_state("beta", "duplex", 30)
    resync = lab.status("beta")["last_resync"]
    wire = bytes_on_wire(lab, "beta")
    print(f"64 regions, 32 blocks differ: {resync}, read {bytes_read(lab, 'beta') - before} bytes, "
          f"on the wire {wire} bytes")
    assert resync["sent"] == {"data_bytes": 32 * BLOCK, "zero_bytes": 0,
                              "compared_bytes": 64 * REGION}
    assert wire <= 32 * BLOCK + 256 * KIB  # a frame for each 256 KiB that is compared
    assert_identical(lab)


def test_first_touch_of_cold_regions_shares_metadata_flushes(roomy, make_lab, scratch):
    """On a metadata disk so slow that all that the client has to write is waiting by then."""
    disk = FaultyDisk(scratch, make_lab, "alpha", what="metadata", size="64GiB", backing=roomy)
    lab = disk.lab
    disk.begin_delay(0.02)
    before = lab.status("alpha")["intents"]
    job = Fio(lab.node("alpha")["nbd"], scratch, rw="randwrite", bs="4k", iodepth=32,
              randrepeat=0, number_ios=2000).result()
    after = lab.status("alpha")["intents"]
    disk.end()
    commits = after["commits"] - before["commits"]
    waits = after["waits"] - before["waits"]
    print(f"cold regions, QD 32: {waits} writes waited for {commits} metadata flushes: "
          f"{waits / max(commits, 1):.1f} each, {job['write']['iops']:.0f} writes/s")
    assert waits > 1000
    assert waits / commits >= 8


@pytest.mark.parametrize("seconds", [5, pytest.param(35, marks=pytest.mark.long)])
def test_steady_load_writes_no_metadata(scratch_in_memory, make_lab, scratch, seconds):
    """In memory: a flush that a disk takes seconds for is noted."""
    lab = make_lab(below=scratch_in_memory)
    with connection(lab) as handle:
        handle.pwrite(random.randbytes(32 * MIB), 0)
        handle.pwrite(random.randbytes(32 * MIB), 32 * MIB)
        handle.flush()
    wait_until_noted(lab)
    before = lab.status("alpha")
    changed = Path(lab.node("alpha")["metadata"]).stat().st_mtime_ns
    fio = Fio(lab.node("alpha")["nbd"], scratch, rw="randwrite", bs="4k", iodepth=8, runtime=None,
              norandommap=None, fsync=200)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        wait_for_writes(lab, 500)
    fio.finish()
    after = lab.status("alpha")
    writes = after["counters"]["writes"] - before["counters"]["writes"]
    print(f"{writes} writes in {seconds} s: intents {before['intents']} -> {after['intents']}")
    assert after["intents"]["commits"] == before["intents"]["commits"]
    assert Path(lab.node("alpha")["metadata"]).stat().st_mtime_ns == changed


def zero_all(handle, size):
    for offset in range(0, size, 2 * GIB):
        handle.zero(2 * GIB, offset)


def touch_every_chunk(handle, size):
    """One block in each: a bitmap for each, which is as much as alternating blocks would take."""
    block = random.randbytes(BLOCK)
    write_all(handle, ((offset + random.randrange(CHUNK // BLOCK) * BLOCK, block)
                       for offset in range(0, size, CHUNK)))


def note_memory(lab, figures, name, when):
    resident, most = memory(lab, name)
    figures.append((when, resident, most))
    print(f"{when}: {resident / MIB:.1f} MiB resident, {most / MIB:.1f} MiB at its most")
    return resident


def test_memory_of_an_idle_terabyte_and_with_every_block_dirty(make_lab):
    lab = make_lab(size="1TiB")
    figures = []
    assert note_memory(lab, figures, "alpha", "1 TiB, idle, primary") <= 64 * MIB
    assert note_memory(lab, figures, "beta", "1 TiB, idle, secondary") <= 64 * MIB
    lab.kill("beta")
    lab.wait_state("alpha", "simplex", 5)
    with connection(lab) as handle:
        zero_all(handle, TIB)
    assert lab.status("alpha")["dirty_bytes"] == TIB
    note_memory(lab, figures, "alpha", "1 TiB, every block dirty")
    lab.kill("alpha")
    lab.start("alpha")
    assert lab.status("alpha")["dirty_bytes"] == TIB
    note_memory(lab, figures, "alpha", "1 TiB, every block dirty, after a crash")
    assert all(most <= 128 * MIB for _, _, most in figures)


@pytest.mark.long
def test_memory_with_the_most_fragmented_dirty_map(roomy, make_lab):
    """Every chunk of 1 TiB partly dirty: in epochs, in the dirty map, after a crash, in a resync
    of both nodes' sets, and in the snapshot of an orderly stop."""
    lab = make_lab(size="1TiB", backing=roomy)
    figures = []

    def touch(name):
        with connection(lab, name) as handle:
            touch_every_chunk(handle, TIB)

    touch("alpha")
    note_memory(lab, figures, "alpha", "in the open epoch, duplex")
    lab.kill("alpha")
    promote(lab, "beta", "--peer-is-dead")
    touch("beta")
    note_memory(lab, figures, "beta", "simplex")
    lab.ctl("beta", "resync", pace="pause")
    lab.start("alpha")
    note_memory(lab, figures, "alpha", "after a crash")
    lab.wait_state("beta", "resync", 20)
    note_memory(lab, figures, "beta", "resync of both nodes' sets, source")
    note_memory(lab, figures, "alpha", "resync of both nodes' sets, target")
    touch("beta")
    note_memory(lab, figures, "beta", "resync with writes, source")
    note_memory(lab, figures, "alpha", "resync with writes, target")
    assert lab.stop("alpha")
    lab.wait_state("beta", "simplex", 5)
    assert lab.stop("beta", timeout_s=30)
    lab.start("beta")
    note_memory(lab, figures, "beta", "after an orderly stop: from the snapshot")
    promote(lab, "beta", "--peer-is-dead")
    touch("beta")
    demote(lab, "beta")
    note_memory(lab, figures, "beta", "demoted: while the snapshot was written")
    too_much = [figure for figure in figures if figure[2] > 128 * MIB]
    assert not too_much, too_much


def timed(act, *arguments, **options):
    began = time.monotonic()
    act(*arguments, **options)
    return time.monotonic() - began


def open_both(lab, small):
    """How long alpha takes in each case: of the one lab, and of the other one, in turn."""
    times, references = {}, {}

    def both(what, act, **options):
        references[what] = timed(getattr(small, act), "alpha", **options)
        times[what] = timed(getattr(lab, act), "alpha", **options)

    both("fresh", "start")
    references["init"] = timed(small.ctl, "alpha", "init", timeout_s=60)
    times["init"] = timed(lab.ctl, "alpha", "init", timeout_s=60)
    assert lab.status("alpha")["state"] == "waiting"
    promote(lab, "alpha")
    with connection(lab) as handle:
        size = handle.get_size()
        assert size == 64 * TIB
        write_all(handle, ((size // 2000 * number // BLOCK * BLOCK, b"\x5a" * BLOCK)
                           for number in range(2000)))
        lab.kill("alpha")
    small.kill("alpha")
    both("after kill -9", "start")
    assert lab.status("alpha")["dirty_bytes"] == 2000 * REGION
    promote(lab, "alpha")
    assert lab.stop("alpha") and small.stop("alpha")
    both("after an orderly stop", "start")
    assert lab.status("alpha")["state"] == "waiting"
    return times, references


def test_64_tebibytes_open_as_quickly_as_little(roomy, scratch_in_memory, make_lab):
    """But for the map of what may differ; the same is done to a volume of 64 MiB. All of it in memory, where nobody else's
    flush holds up a start."""
    lab = make_lab(size="64TiB", backing=roomy, start=False, below=scratch_in_memory)
    small = make_lab(start=False, below=scratch_in_memory)
    with Lateness() as machine:
        times, references = open_both(lab, small)
    print("64 TiB: " + ", ".join(f"{what} {seconds:.2f} s (64 MiB: {references[what]:.2f} s)"
                                 for what, seconds in times.items()))
    # (Some eight times as long, as a node that waits for no disk is up in no time.)
    assert max(times.values()) < 20 * max(references.values()) + machine.allowance_s(), (times, references)
