"""A program that changes its buffer while it is written: here both nodes get the same bytes, since what is written
is copied before it is sent and stored. The kernel's mirrors read the program's memory once for each disk (kernel bug
99171): the same program in the same guest makes md-raid1's disks differ, which shows that this test could fail.

$TWINBLOCK_SCRIBBLED_WRITES writes on each."""

import os
import subprocess

import pytest
from machine import HERE

WRITES = int(os.environ.get("TWINBLOCK_SCRIBBLED_WRITES", "20000"))
MIB = 64


@pytest.fixture(scope="module")
def scribble(tmp_path_factory):
    program = tmp_path_factory.mktemp("guest") / "scribble"
    subprocess.run(["cc", "-O2", "-static", "-pthread", "-o", program, HERE / "guest" / "scribble.c"], check=True)
    return program


def seconds_for(writes):
    return 600 + writes / 20


def test_both_nodes_have_the_same_bytes(make_volume, scribble):
    volume = make_volume(size=f"{MIB}MiB")
    volume.order(volume.alpha, "attach")
    volume.alpha.run(f"{scribble} /dev/twinblock/r0 {WRITES}", seconds_for(WRITES))
    status = volume.status(volume.alpha)
    # Neighbours may travel as one.
    assert status["counters"]["write_bytes"] >= WRITES * 4096 and status["counters"]["peer_losses"] == 0
    said = volume.order(volume.alpha, "verify")
    assert "identical" in said, said
    sums = {host.run(f"md5sum <{volume.backing}") for host in volume.hosts.values()}
    assert len(sums) == 1, "the images differ"
    print(f"twinblock: {status['counters']['writes']} writes, 0 blocks differ")


def test_the_disks_of_md_raid1_differ(hosts, scribble):
    alpha = hosts["alpha"]
    try:
        alpha.run("modprobe raid1; mknod /dev/md0 b 9 0 2>/dev/null; "
                  f"mdadm --build /dev/md0 --level=1 --raid-devices=2 --size={MIB << 10} --assume-clean "
                  "/dev/vdb /dev/vdc")
        alpha.run(f"dd if=/dev/zero of=/dev/md0 bs=1M count={MIB} oflag=direct 2>/dev/null")
        alpha.run(f"{scribble} /dev/md0 {WRITES}", seconds_for(WRITES))
    finally:
        alpha.run("mdadm --stop /dev/md0", check=False)
    differ = alpha.run(f"cmp -l -n {MIB << 20} /dev/vdb /dev/vdc | awk '{{ b[int(($1 - 1) / 4096)] }} "
                       "END { n = 0; for (i in b) n++; print n }'", 600)
    print(f"md-raid1: {WRITES} writes, {differ} blocks differ")
    assert int(differ) > 0
