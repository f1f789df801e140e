"""Nodes die by SIGKILL at random instants under load, in every combination. Each time the pair ends
in duplex, with identical images that hold every write that they have to (registers.py)."""

import time

import pytest

from registers import Load, Registers
from support import KIB, MIB, assert_identical, connection, ctl, promote, wait_until

SIZE = 64 * MIB
OTHER = {"alpha": "beta", "beta": "alpha"}


@pytest.fixture
def lab(make_lab):
    """Where a process dies, its host is meant: no node goes on as primary by itself (test_resumption.py)."""
    return make_lab(settings={"on_restart": "secondary"})


def check(lab, name, registers, only_flushed=False):
    """Through the device."""
    with connection(lab, name) as handle:
        registers.check(lambda offset, length: handle.pread(length, offset), only_flushed,
                        f"the volume on {name}")


def settle(lab, primary, timeout_s=30):
    """Both nodes in duplex; the time, as nothing that was written before it is unflushed."""
    lab.wait_state(primary, "duplex", timeout_s)
    lab.wait_state(OTHER[primary], "duplex", 5)
    return time.monotonic_ns()


def take_over(lab, name):
    lab.wait_peer_lost(name)
    promote(lab, name, "--peer-is-dead")


def kill(lab, name):
    """When it died: (not before, not after)."""
    not_before = time.monotonic_ns()
    lab.kill(name)
    return not_before, time.monotonic_ns()


def at_random(rng, load, seconds=0.6):
    load.wait_for(rng.randrange(20, 200))
    time.sleep(rng.uniform(0, seconds))


def kill_primary(lab, rng, registers, primary, power_cut):
    """One round; the new primary's name, and how many sectors a power cut took."""
    survivor = OTHER[primary]
    settled = settle(lab, primary)
    load = Load(lab, primary, registers, fua=not power_cut, seed=rng.getrandbits(32))
    at_random(rng, load)
    death = kill(lab, primary)
    load.ended()
    fallen = 0
    if power_cut:
        fallen = registers.cut_power(lab.node(primary)["backing"], death, settled, rng)
    take_over(lab, survivor)
    check(lab, survivor, registers)
    load = Load(lab, survivor, registers, seed=rng.getrandbits(32))
    at_random(rng, load)
    lab.start(primary)
    settle(lab, survivor)
    load.stop()
    check(lab, survivor, registers)
    assert_identical(lab)
    assert lab.status(primary)["role"] == "secondary"
    return survivor, fallen


def kill_primaries(lab, rng, rounds):
    registers = Registers(SIZE)
    primary = "alpha"
    fallen = 0
    for number in range(rounds):
        primary, fell = kill_primary(lab, rng, registers, primary, power_cut=number % 2 == 1)
        fallen += fell
    return fallen


def test_primary_dies_under_load_and_the_survivor_takes_over(lab, rng):
    kill_primaries(lab, rng, 2)


@pytest.mark.long
def test_primaries_die_one_after_the_other(lab, rng):
    assert kill_primaries(lab, rng, 8), "no power cut had anything to lose"


def kill_secondaries(lab, rng, rounds):
    registers = Registers(SIZE)
    fallen = 0
    for number in range(rounds):
        power_cut = number % 2 == 1
        settled = settle(lab, "alpha")
        load = Load(lab, "alpha", registers, fua=not power_cut, seed=rng.getrandbits(32))
        at_random(rng, load)
        death = kill(lab, "beta")
        time.sleep(rng.uniform(0, 0.3))
        if power_cut:
            fallen += registers.cut_power(lab.node("beta")["backing"], death, settled, rng)
        lab.start("beta")
        settle(lab, "alpha")
        at_random(rng, load, 0.2)
        load.stop()
        check(lab, "alpha", registers)
        assert_identical(lab)
    return fallen


def test_secondary_dies_under_load_and_the_clients_go_on(lab, rng):
    kill_secondaries(lab, rng, 2)


@pytest.mark.long
def test_secondary_dies_again_and_again(lab, rng):
    assert kill_secondaries(lab, rng, 6), "no power cut had anything to lose"


def kill_both(lab, rng, registers, primary, power_cut):
    """One round; the new primary's name, and how many sectors a power cut took."""
    settled = settle(lab, primary)
    load = Load(lab, primary, registers, fua=not power_cut, seed=rng.getrandbits(32))
    at_random(rng, load)
    first = rng.choice(["alpha", "beta"])
    # Together, or with some time in between, in which a primary may have gone on alone.
    apart_s = rng.choice([0, rng.uniform(0, 0.05), rng.uniform(0, 0.5)])
    deaths = {first: kill(lab, first)}
    time.sleep(apart_s)
    deaths[OTHER[first]] = kill(lab, OTHER[first])
    load.ended()
    fallen = 0
    if power_cut:
        fallen = sum(registers.cut_power(lab.node(name)["backing"], death, settled, rng)
                     for name, death in deaths.items())
    returning = ["alpha", "beta"]
    rng.shuffle(returning)
    for name in returning:
        lab.start(name)
        time.sleep(rng.choice([0, rng.uniform(0, 0.5)]))
    chosen = rng.choice(returning)
    promote(lab, chosen)
    settle(lab, chosen)
    check(lab, chosen, registers, only_flushed=power_cut)
    assert_identical(lab)
    return chosen, fallen


def kill_pairs(lab, rng, rounds):
    registers = Registers(SIZE)
    primary = "alpha"
    fallen = 0
    for number in range(rounds):
        primary, fell = kill_both(lab, rng, registers, primary, power_cut=number % 2 == 1)
        fallen += fell
    return fallen


def test_both_die_and_return(lab, rng):
    kill_pairs(lab, rng, 2)


@pytest.mark.long
def test_both_die_again_and_again(lab, rng):
    assert kill_pairs(lab, rng, 8), "no power cut had anything to lose"


def begin_slow_resync(lab, source, registers, rng):
    """A resync of 32 MiB, written beside the load's extents, and of what the load writes. It takes
    seconds."""
    lab.ctl(source, "resync", pace="rate", bytes_per_s=3 * MIB)
    with connection(lab, source) as handle:
        data = rng.randbytes(MIB)
        for offset in range(2 * MIB, SIZE, 4 * MIB):
            handle.pwrite(data, offset)
            handle.pwrite(data[::-1], offset + MIB)
    load = Load(lab, source, registers, seed=rng.getrandbits(32))
    lab.start(OTHER[source])
    lab.wait_status(source, lambda status: status["resync"]["active"]
                    and status["resync"]["bytes_done"] > MIB, 15, "a resync under way")
    return load


class Extents(Registers):
    """Knows only what the load writes; the rest of the volume is compared between the images."""

    def check(self, read, only_flushed=False, what="the volume"):
        def masked(offset, length):
            data = bytearray(read(offset, length))
            for at in range(0, length, 4 * MIB):
                data[at + 2 * MIB:at + 4 * MIB] = bytes(2 * MIB)
            return bytes(data)
        super().check(masked, only_flushed, what)


def test_target_dies_in_the_middle_of_the_resync(scratch_in_memory, make_lab, rng):
    """In memory, where flushes are quick, so that what the target has made stable is known to within few MiB."""
    lab = make_lab(settings={"on_restart": "secondary"}, below=scratch_in_memory)
    registers = Extents(SIZE)
    lab.kill("beta")
    lab.wait_state("alpha", "simplex", 5)
    load = begin_slow_resync(lab, "alpha", registers, rng)
    for least in (17 * MIB, 0):
        seen = lab.wait_status("alpha", lambda status, least=least: status["resync"]["bytes_done"] >= least,
                               what="more of it")
        done = seen["resync"]["bytes_done"]
        lab.ctl("alpha", "resync", pace="rate", bytes_per_s=MIB)  # so that it does not end meanwhile
        with connection(lab) as handle:
            handle.flush()
        time.sleep(rng.uniform(0, 0.5))
        lab.kill("beta")
        lab.wait_state("alpha", "simplex", 5)
        # 40 MiB in all, of which the load may have written its 8 MiB anew; what was sent but not flushed is sent again.
        assert 0 < lab.status("alpha")["dirty_bytes"] <= 48 * MIB - done
        lab.start("beta")
        lab.wait_state("alpha", "resync", 10)
    lab.kill("alpha")  # the target can't stand in for it
    load.ended()
    lab.wait_peer_lost("beta")
    refused = ctl(lab, "beta", "promote", "--peer-is-dead")
    assert refused.returncode == 7 and "half-copied" in refused.stdout + refused.stderr
    lab.start("alpha")
    promote(lab, "alpha")
    settle(lab, "alpha")
    check(lab, "alpha", registers)
    assert_identical(lab)


def test_source_dies_in_the_middle_of_the_resync(lab, rng):
    """The source is a survivor that has taken over: nobody else holds what it wrote alone."""
    registers = Extents(SIZE)
    load = Load(lab, "alpha", registers, seed=rng.getrandbits(32))
    at_random(rng, load)
    lab.kill("alpha")
    load.ended()
    take_over(lab, "beta")
    load = begin_slow_resync(lab, "beta", registers, rng)
    time.sleep(rng.uniform(0.1, 0.6))
    lab.kill("beta")
    load.ended()
    lab.wait_peer_lost("alpha")
    refused = ctl(lab, "alpha", "promote", "--peer-is-dead")
    assert refused.returncode == 7 and "half-copied" in refused.stdout + refused.stderr
    lab.start("beta")
    wait_until(lambda: lab.status("beta")["state"] in ("connected", "resync"), 15, "beta's return")
    promote(lab, "beta")
    settle(lab, "beta")
    check(lab, "beta", registers)
    assert_identical(lab)


@pytest.mark.sanitize
def test_orderly_stop_alone_remembers_every_block(lab, rng):
    """The returning nodes compare nothing and send just what beta missed."""
    with connection(lab) as handle:
        handle.pwrite(rng.randbytes(32 * MIB), 0)
        handle.flush()
    lab.kill("beta")
    lab.wait_state("alpha", "simplex", 5)
    blocks = rng.sample(range(SIZE // (4 * KIB)), 300)
    with connection(lab) as handle:
        for block in blocks:
            handle.pwrite(rng.randbytes(4 * KIB), block * 4 * KIB)
    assert lab.stop("alpha")
    lab.start("alpha")
    status = lab.status("alpha")
    assert status["role"] == "secondary" and status["dirty_bytes"] == len(blocks) * 4 * KIB
    promote(lab, "alpha")
    lab.start("beta")
    settle(lab, "alpha")
    sent = lab.status("alpha")["last_resync"]["sent"]
    assert sent == {"data_bytes": len(blocks) * 4 * KIB, "zero_bytes": 0, "compared_bytes": 0}
    assert_identical(lab)
