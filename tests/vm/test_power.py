"""Power cuts, on disks that lose what was not flushed, under a load whose notes outlive the hosts. Nothing flushed is
lost; nothing acknowledged is lost while one node lives; afterwards both replicas are the same, byte by byte.

$TWINBLOCK_POWER_ROUNDS times each case. With $TWINBLOCK_POWER_DISKS=lying the disks forget what was flushed, too, and
the tests must fail."""

import os
import random
import time

import pytest
from promises import Promises
from volume import VOLUME, Volume, wait_until

ROUNDS = int(os.environ.get("TWINBLOCK_POWER_ROUNDS", "1"))
DISKS = os.environ.get("TWINBLOCK_POWER_DISKS", "volatile")
SIZE_MIB, STRIDE = 32, 16384
BLOCKS = SIZE_MIB * (1 << 20) // STRIDE
TIMEOUTS = 'link_timeout = "1500ms"\npeer_timeout = "4s"'
DEVICE = f"/dev/twinblock/{VOLUME}"


def pause():
    time.sleep(random.uniform(0, 2))


class Pair:
    """Both hosts with disks that a power cut empties, a volume, and what its clients were promised."""

    def __init__(self, hosts):
        self.hosts = hosts
        for host in hosts.values():
            host.cut()
            host.new_disks()
            host.disks = DISKS
        self.switch_on(*hosts.values())
        self._notes_read = {name: host.notes.stat().st_size for name, host in hosts.items()}
        self.volume = Volume(hosts, size=f"{SIZE_MIB}MiB", timeouts=TIMEOUTS)
        self.primary, self.secondary = self.volume.alpha, self.volume.beta
        self.promises = Promises(BLOCKS)
        self.cuts = 0
        self.lost_legally = 0
        self.whole = True
        self.attach()

    def switch_on(self, *hosts):
        for host in hosts:
            host.begin_boot()
        for host in hosts:
            host.wait_boot()

    def end(self):
        for host in self.hosts.values():
            host.cut()
            host.new_disks()
            host.disks = "kept"
        self.switch_on(*self.hosts.values())

    def swap(self):
        self.primary, self.secondary = self.secondary, self.primary

    def attach(self):
        self.volume.order(self.primary, "attach")

    def new_notes(self, host):
        with open(host.notes, encoding="ascii") as file:
            file.seek(self._notes_read[host.name])
            text = file.read()
            self._notes_read[host.name] = file.tell()
        return text

    def write(self):
        """Begins the load on the primary."""
        first = self.promises.new_writer()
        self.primary.run(f"setsid {self.primary.program('blocks.py')} write {DEVICE} /dev/notes {first} {BLOCKS} "
                         "</dev/null >/tmp/blocks.log 2>&1 & echo $! >/tmp/blocks.pid")
        self.wait_for_writes(60)

    def wait_for_writes(self, more):
        def noted():
            self.promises.note(self.new_notes(self.primary))
            return self.promises.writes
        goal = noted() + more
        wait_until(lambda: noted() >= goal, f"{more} more writes")

    def stop_writing(self):
        self.primary.run("kill $(cat /tmp/blocks.pid); "
                         "while pgrep -f 'blocks[.]py write' >/dev/null; do sleep 0.1; done")
        self.promises.note(self.new_notes(self.primary))

    def cut(self, *hosts):
        for host in hosts:
            host.cut()
            self.cuts += 1
        for host in hosts:
            if host is self.primary:
                self.promises.note(self.new_notes(host))

    def boot(self, *hosts):
        self.switch_on(*hosts)
        for host in hosts:
            self.volume.configure_and_start(host)

    def check(self, all_acknowledged):
        """What the primary's device holds."""
        said = self.primary.run(f"{self.primary.program('blocks.py')} read {DEVICE} {BLOCKS}", 600)
        versions = [int(line) if line.isdigit() else line for line in said.splitlines()]
        self.lost_legally += self.promises.check(versions, all_acknowledged)

    def is_split(self):
        return "split brain:" in self.volume.order(self.primary, "status")

    def take_over(self):
        """The secondary is promoted; it becomes the primary, which the clients use."""
        self.swap()
        self.volume.order(self.primary, "promote", "--peer-is-dead")
        self.attach()

    def promote_one_of_two(self):
        self.volume.wait(self.primary, "promotable")
        self.volume.order(self.primary, "promote")
        self.attach()

    def end_case(self):
        """Both replicas are the same at last, and hold what was promised."""
        self.volume.wait(self.primary, "duplex")
        self.write()
        pause()
        self.stop_writing()
        self.check(all_acknowledged=True)
        assert "identical" in self.volume.order(self.primary, "verify")
        sums = {host.run(f"sync; md5sum <{self.volume.backing}") for host in self.hosts.values()}
        assert len(sums) == 1, "the images differ"
        self.whole = True


@pytest.fixture(scope="module")
def pairs(hosts):
    made = []
    yield made
    if made:
        pair = made[-1]
        print(f"\n{pair.cuts} power cuts since the last failure, {pair.promises.writes} writes, "
              f"{pair.promises.flushes} flushes; {pair.lost_legally} writes that nobody had flushed were lost")
        pair.end()


@pytest.fixture
def pair(hosts, pairs):
    if not pairs or not pairs[-1].whole:
        pairs.append(Pair(hosts))
    yield pairs[-1]


def test_the_disks_lose_what_was_not_flushed_and_nothing_else(pair):
    """The control: without such disks, all below means nothing."""
    host = pair.primary
    pair.whole = False
    host.run("head -c 4096 /dev/zero | tr '\\0' A >/run/a; head -c 4096 /dev/zero | tr '\\0' B >/run/b; "
             "dd if=/run/a of=/dev/vdb bs=4096 oflag=direct conv=fsync; "
             "dd if=/run/b of=/dev/vdb bs=4096 seek=64 oflag=direct")
    assert host.run("dd if=/dev/vdb bs=4096 skip=64 count=1 iflag=direct 2>/dev/null | head -c 4") == "BBBB"
    pair.cut(host)
    pair.cuts -= 1
    pair.switch_on(host)
    first = host.run("dd if=/dev/vdb bs=4096 count=1 iflag=direct 2>/dev/null | head -c 4")
    assert first == "AAAA", "flushed, and lost"
    second = host.run("dd if=/dev/vdb bs=4096 skip=64 count=1 iflag=direct 2>/dev/null | tr -d '\\0' | wc -c")
    assert second == "0", "not flushed, and kept"


def secondary_cut(pair):
    pair.write()
    pause()
    pair.cut(pair.secondary)
    pair.volume.wait(pair.primary, "simplex")
    pair.wait_for_writes(60)
    pair.stop_writing()
    pair.check(all_acknowledged=True)
    pair.boot(pair.secondary)


def primary_cut(pair):
    pair.write()
    pause()
    pair.cut(pair.primary)
    pair.take_over()
    pair.check(all_acknowledged=True)
    pair.write()
    pause()
    pair.stop_writing()
    pair.check(all_acknowledged=True)
    pair.boot(pair.secondary)


def both_cut(pair):
    pair.write()
    pause()
    pair.cut(*random.sample([pair.primary, pair.secondary], 2))
    pair.boot(pair.primary, pair.secondary)
    if random.random() < 0.5:
        pair.swap()
    pair.promote_one_of_two()
    pair.check(all_acknowledged=False)


def primary_cut_during_a_resync(pair):
    pair.write()
    pair.cut(pair.secondary)
    pair.volume.wait(pair.primary, "simplex")
    pair.wait_for_writes(200)
    pair.volume.order(pair.primary, "resync", "rate 100KiB")
    pair.boot(pair.secondary)
    pair.volume.wait(pair.primary, "resync")
    wait_until(lambda: pair.volume.status(pair.primary)["resync"]["bytes_done"] > 0, "the resync's first block")
    pause()
    assert pair.volume.status(pair.primary)["state"] == "resync"
    pair.cut(pair.primary)
    # Half-copied: it is no help.
    said, status = pair.volume.order(pair.secondary, "promote", "--peer-is-dead", check=False)
    assert status in (7, 9), said
    pair.boot(pair.primary)
    pair.promote_one_of_two()
    pair.check(all_acknowledged=False)


def both_cut_during_a_resolve(pair):
    volume = pair.volume
    pair.check(all_acknowledged=True)
    # The primary goes on alone, dies, and the other one does the same.
    volume.kill(pair.secondary)
    pair.write()
    volume.wait(pair.primary, "simplex")
    pair.wait_for_writes(60)
    pair.cut(pair.primary)
    pair.promises.give_up()
    volume.start(pair.secondary)
    pair.take_over()
    pair.check(all_acknowledged=True)
    pair.write()
    pair.boot(pair.secondary)
    wait_until(pair.is_split, "the split brain")
    volume.order(pair.primary, "resync", "rate 100KiB")
    volume.order(pair.primary, "resolve", "--keep local --yes")
    pause()
    assert volume.status(pair.primary)["state"] != "duplex"
    pair.cut(*random.sample([pair.primary, pair.secondary], 2))
    pair.boot(pair.primary, pair.secondary)
    wait_until(lambda: volume.status(pair.primary)["peer"]["connected"] or pair.is_split(), "the nodes to meet")
    if pair.is_split():  # the order has not outlived the cut
        volume.order(pair.primary, "resolve", "--keep local --yes")
    pair.promote_one_of_two()
    pair.check(all_acknowledged=False)


@pytest.mark.parametrize("case", [secondary_cut, primary_cut, both_cut, primary_cut_during_a_resync,
                                  both_cut_during_a_resolve], ids=lambda case: case.__name__)
@pytest.mark.parametrize("number", range(1, ROUNDS + 1))
def test_power_cuts(pair, case, number):
    before = pair.cuts, pair.promises.writes, time.monotonic()
    pair.whole = False
    case(pair)
    pair.end_case()
    print(f"{case.__name__}, {number}: {pair.cuts - before[0]} cuts, {pair.promises.writes - before[1]} writes, "
          f"{time.monotonic() - before[2]:.0f} s")
