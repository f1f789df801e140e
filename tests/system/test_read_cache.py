"""The cache of reads by content ([cache], docs/read-cache.md), seen from the client: what it answers is what the disk
holds, and what it says of itself is true."""

import errno
import os
import random
import re
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from faulty_disk import FaultyDisk
from support import KIB, MIB, connection, demote, promote, wait_for_log, wait_until

BLOCK = 4 * KIB


def cache_of(lab, name="alpha"):
    return lab.status(name)["cache"]


def hand_over(lab, old, new):
    demote(lab, old)
    promote(lab, new)


def rewrite_backing(lab, name, data, offset):
    """Past the node: what a client is told of it then can't come from the disk."""
    with open(lab.node(name)["backing"], "r+b") as image:
        image.seek(offset)
        image.write(data)


def test_there_is_none_unless_the_file_says_so(make_lab):
    lab = make_lab(cache=None) if not os.environ.get("TWINBLOCK_LAB_CACHE") else None
    if lab:
        assert cache_of(lab) is None


def test_a_block_that_is_known_is_not_read_from_the_disk(make_lab):
    lab = make_lab(cache="16MiB")
    data = random.randbytes(64 * KIB)
    with connection(lab) as handle:
        handle.pwrite(data, 0)
        assert handle.pread(len(data), 0) == data
        rewrite_backing(lab, "alpha", bytes(len(data)), 0)
        assert handle.pread(len(data), 0) == data, "it was read before, and is cached"
    cache = cache_of(lab)
    assert cache["hits"] >= 16 and cache["places"] >= 16
    assert 0 < cache["memory_bytes"] <= cache["size_bytes"] == 16 * MIB


def test_an_equal_block_makes_a_hit_of_a_place_that_was_never_read(make_lab):
    lab = make_lab(cache="16MiB")
    data = random.randbytes(64 * KIB)
    with connection(lab) as handle:
        handle.pwrite(data, 0)
        handle.pwrite(data, MIB)
        assert handle.pread(len(data), 0) == data
        rewrite_backing(lab, "alpha", bytes(len(data)), MIB)
        assert handle.pread(len(data), MIB) == data
    cache = cache_of(lab)
    assert cache["equal_hits"] == 16
    assert cache["cached_bytes"] == len(data), "one copy of each content"


def test_writes_zeroes_and_trims_are_read_as_they_are(make_lab):
    lab = make_lab(cache="16MiB")
    volume = bytearray(4 * MIB)
    draw = random.Random(seed := random.randrange(1 << 32))
    print("seed", seed)
    with connection(lab) as handle:
        for _ in range(3000):
            length = draw.choice((512, BLOCK, 3 * BLOCK, 64 * KIB, 5000))
            offset = draw.randrange(0, len(volume) - length)
            if draw.random() < 0.6:
                offset = offset // BLOCK * BLOCK
            what = draw.random()
            if what < 0.2:
                # Of few contents, so that many are equal.
                data = bytes([draw.randrange(1, 5)]) * length
                handle.pwrite(data, offset)
                volume[offset:offset + length] = data
            elif what < 0.3:
                (handle.zero if what < 0.25 else handle.trim)(length, offset)
                volume[offset:offset + length] = bytes(length)
            else:
                assert handle.pread(length, offset) == volume[offset:offset + length], (offset, length)
    cache = cache_of(lab)
    assert cache["hits"] > 100 and cache["equal_hits"] > 0


def test_what_is_to_be_cached_side_by_side_is_each_place_s_own(make_lab):
    """With several of a client's NBD_CMD_CACHE under way at once."""
    lab = make_lab(cache="16MiB")
    data = random.randbytes(8 * MIB)
    with connection(lab) as handle:
        handle.pwrite(data, 0)
        for _ in range(20):
            for cookie in [handle.aio_cache(MIB, at) for at in range(0, len(data), MIB)]:
                while not handle.aio_command_completed(cookie):
                    handle.poll(-1)
        wrong = [at for at in range(0, len(data), BLOCK) if handle.pread(BLOCK, at) != data[at:at + BLOCK]]
    assert not wrong, f"{len(wrong)} of {len(data) // BLOCK} blocks are read as others"


def test_another_primary_s_writes_are_seen(make_lab):
    lab = make_lab(cache="16MiB")
    old, new = random.randbytes(64 * KIB), random.randbytes(64 * KIB)
    with connection(lab) as handle:
        handle.pwrite(old, 0)
        assert handle.pread(len(old), 0) == old
    hand_over(lab, "alpha", "beta")
    with connection(lab, "beta") as handle:
        assert handle.pread(len(old), 0) == old
        handle.pwrite(new, 0)
    hand_over(lab, "beta", "alpha")
    with connection(lab, "alpha") as handle:
        assert handle.pread(len(new), 0) == new


def test_readers_that_go_in_step_get_an_equal_block_from_the_peer_once(scratch, make_lab):
    """The local disk has failed. Clones, each with some blocks of its own, are read side by side: what one reader has
    asked the peer for, the others wait for."""
    disk = FaultyDisk(scratch, make_lab, "alpha", cache="32MiB", size="64MiB")
    lab = disk.lab
    with connection(lab) as handle:
        disk.begin(errno.EIO)
        handle.pwrite(bytes(BLOCK), 60 * MIB)
        lab.wait_state("alpha", "diskless")
    draw = random.Random(7)
    came_twice = []
    # A node that stands still may wake when the readers are apart: of some rounds, each with contents that are new, it
    # had the time in one.
    while len(came_twice) < 3:
        volume, share = boot_clones(lab, draw)
        came_twice.append(share)
        if share < 1 / 20:
            break
    assert came_twice[-1] < 1 / 20, (came_twice, cache_of(lab))
    with connection(lab) as handle:
        assert handle.pread(len(volume), 0) == volume


def boot_clones(lab, draw, clones=8):
    """What is on the volume then, and the share of it that came from the peer though it was there already."""
    system = [draw.randbytes(BLOCK) for _ in range(512)]
    volume = bytearray()
    for _ in range(clones):
        for block in system:
            volume += draw.randbytes(BLOCK) if draw.random() < 0.05 else block
    with connection(lab) as handle:
        for at in range(0, len(volume), MIB):
            handle.pwrite(volume[at:at + MIB], at)
    before = cache_of(lab)["shared_bytes"]
    together = Barrier(clones)
    length = len(system) * BLOCK

    def boot(number):
        with connection(lab) as handle:
            # Also reads of the same block twice, and of several clones' edges.
            for at in range(0, length, 16 * BLOCK):
                together.wait()
                begin = number * length + at
                assert handle.pread(16 * BLOCK, begin) == volume[begin:begin + 16 * BLOCK], (number, at)

    with ThreadPoolExecutor(clones) as pool:
        for done in [pool.submit(boot, number) for number in range(clones)]:
            done.result()
    # Of all that was read, the system's blocks came once, and each clone's own.
    return volume, (cache_of(lab)["shared_bytes"] - before) / len(volume)


def test_more_than_the_host_has_is_left_out_with_a_warning(make_lab):
    lab = make_lab(cache="1TiB")
    wait_until(lambda: "there is no cache" in lab.log_text("alpha"))
    assert cache_of(lab) is None


def test_a_cache_that_leaves_the_host_too_little_is_left_out(make_lab):
    lab = make_lab(cache="1TiB")
    wait_for_log(lab, "alpha", "there is no cache")
    number, unit = re.search(r"can have ([\d.]+) ?([KMGT])iB", lab.log_text("alpha")).groups()
    usable = float(number) * (1 << 10 * ("KMGT".index(unit) + 1))
    lab = make_lab(cache=f"{int(0.9 * usable / MIB)}MiB")
    wait_for_log(lab, "alpha", "there is no cache")
    assert cache_of(lab) is None
