"""The secondary crashes, hangs or leaves, under load: the client notices nothing but a short wait,
and the returning node gets just what it missed."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from lateness import Lateness, in_one_of_three
from support import (KIB, MIB, Fio, assert_identical, connection, ctl, demote, longest_stall_s, promote,
                     wait_for_writes, wait_until, wait_until_noted)

PEER_TIMEOUT_S = 2.0
STALL_S = 0.5  # what a request may take besides
# Load on a quarter of the device, from a quarter on.
WINDOW = {"offset": 16 * MIB, "size": 16 * MIB}
LOAD = {"rw": "randwrite", "bs": "4k", "iodepth": 8, "runtime": None, "norandommap": None,
        "randrepeat": 0, "rate_iops": 4000, "fsync": 500, **WINDOW}


@pytest.fixture
def scratch(scratch_in_memory):
    """The stalls of requests are measured: no disk that others use is to take part."""
    return scratch_in_memory


def lose(lab, how):
    if how == "kill":
        lab.kill("beta")
    elif how == "pause":
        lab.pause("beta")
    else:
        assert lab.stop("beta")


def bring_back(lab, how):
    if how == "pause":
        lab.resume("beta")
    else:
        lab.start("beta")


def fill(lab):
    with connection(lab) as handle:
        for offset in range(0, handle.get_size(), 8 * MIB):
            handle.pwrite(os.urandom(8 * MIB), offset)
        handle.flush()
    wait_until_noted(lab)


def too_long(job, machine, promised_s):
    """What there is to say where a request took longer, but for what the machine made of it."""
    stall_s = longest_stall_s(job)
    said = f"{stall_s:.2f} s at most, of {promised_s:.2f}; {machine.allowance_s():.2f} s late"
    print(said)
    return said if stall_s > promised_s + machine.allowance_s() else None


@pytest.mark.slow
@pytest.mark.sanitize
@pytest.mark.parametrize("how", ["kill", "pause", "stop"])
def test_client_goes_on_and_the_node_catches_up(lab, scratch, how):
    fill(lab)

    def come_and_go():
        fio = Fio(lab.node("alpha")["nbd"], scratch, **LOAD)
        with Lateness() as machine:
            wait_for_writes(lab, 2000)
            lose(lab, how)
            lab.wait_state("alpha", "simplex")
            wait_for_writes(lab, 2000)
            bring_back(lab, how)
            lab.wait_state("alpha", "duplex")
            wait_for_writes(lab, 2000)
            job = fio.finish()
        return too_long(job, machine, STALL_S if how == "stop" else PEER_TIMEOUT_S + STALL_S)

    in_one_of_three(come_and_go)
    status = lab.status("alpha")
    assert status["counters"]["peer_losses"] >= 1
    assert status["last_resync"]["bytes"] <= WINDOW["size"] + MIB
    lab.wait_state("beta", "duplex", 5)
    assert_identical(lab)
    assert lab.down()
    assert_identical(lab)


@pytest.mark.sanitize
@pytest.mark.parametrize("how", ["kill", "pause", "stop"])
def test_resync_carries_only_the_blocks_that_changed(lab, how):
    fill(lab)
    before = lab.status("alpha")["counters"]["resync_bytes"]
    lose(lab, how)
    offsets = random.sample(range(0, 64 * MIB, 4 * KIB), 200)
    with connection(lab) as handle:
        for offset in offsets:
            handle.pwrite(os.urandom(4 * KIB), offset)
        lab.wait_state("alpha", "simplex", 5)
        status = lab.status("alpha")
        assert len(offsets) * 4 * KIB <= status["dirty_bytes"] <= len(offsets) * 4 * KIB + 64 * KIB
        assert "beta" in status["status"] + status["action"]
        bring_back(lab, how)
        lab.wait_state("alpha", "duplex", 20)
        handle.flush()
    status = lab.status("alpha")
    moved = status["counters"]["resync_bytes"] - before
    assert len(offsets) * 4 * KIB <= moved <= len(offsets) * 4 * KIB + MIB
    assert status["last_resync"]["bytes"] == moved
    assert_identical(lab)


@pytest.mark.sanitize
def test_zeroes_and_trims_that_the_peer_missed_reach_it(lab):
    fill(lab)
    lab.kill("beta")
    with connection(lab) as handle:
        handle.zero(3 * MIB, MIB)
        handle.trim(2 * MIB, 20 * MIB)
        lab.wait_state("alpha", "simplex", 5)
        handle.zero(MIB, 40 * MIB)
        handle.pwrite(b"\x33" * 512, 50 * MIB + 512)
        lab.start("beta")
        lab.wait_state("alpha", "duplex", 20)
        handle.flush()
        assert handle.pread(3 * MIB, MIB) == bytes(3 * MIB)
    assert_identical(lab)


def test_acknowledged_but_unflushed_writes_are_sent_again(lab):
    """The peer may have lost them with its power: an acknowledgement is not stable storage."""
    fill(lab)
    data = os.urandom(4 * MIB)
    with connection(lab) as handle:
        before = lab.status("alpha")["counters"]["resync_bytes"]
        handle.pwrite(data, 8 * MIB)
        lab.kill("beta")
        with open(lab.node("beta")["backing"], "r+b") as image:  # the page cache that went away
            image.seek(8 * MIB)
            image.write(bytes(len(data)))
        lab.wait_state("alpha", "simplex", 5)
        lab.start("beta")
        lab.wait_state("alpha", "duplex", 20)
        assert lab.status("alpha")["counters"]["resync_bytes"] - before >= len(data)
        handle.flush()
    assert_identical(lab)


@pytest.mark.sanitize
def test_short_pause_is_waited_out(make_lab):
    """Longer than what makes a link suspicious, much shorter than what makes a peer lost."""
    lab = make_lab(peer_timeout="60s", settings={"link_timeout": "30s"})
    with connection(lab) as handle:
        lab.pause("beta")
        time.sleep(PEER_TIMEOUT_S / 4)
        lab.resume("beta")
        handle.pwrite(bytes(MIB), 0)
        handle.flush()
    status = lab.status("alpha")
    assert status["state"] == "duplex"
    assert status["counters"]["peer_losses"] == 0


def test_secondary_lost_again_and_again_ends_identical(lab, scratch):
    def come_and_go():
        fio = Fio(lab.node("alpha")["nbd"], scratch, **LOAD)
        with Lateness() as machine:
            for number in range(4):
                wait_for_writes(lab, 1000)
                lab.kill("beta")
                time.sleep(0.3 * number)
                lab.start("beta")
                if number % 2:
                    lab.wait_state("alpha", "duplex")
            wait_for_writes(lab, 1000)
            job = fio.finish()
        lab.wait_state("alpha", "duplex")
        assert_identical(lab)
        return too_long(job, machine, PEER_TIMEOUT_S + STALL_S)

    in_one_of_three(come_and_go)


@pytest.mark.sanitize
def test_killed_primary_comes_back_and_resumes_its_role(lab):
    data = os.urandom(4 * MIB)
    with connection(lab) as handle:
        handle.pwrite(data, MIB)
        handle.flush()
    lab.kill("alpha")
    wait_until(lambda: lab.status("beta")["state"] != "duplex", 5, "beta to notice")
    lab.start("alpha")
    promote(lab, "alpha")
    lab.wait_state("alpha", "duplex", 20)
    with connection(lab) as handle:
        assert handle.pread(len(data), MIB) == data
        handle.pwrite(data, 30 * MIB)
        handle.flush()
    assert_identical(lab)


@pytest.mark.sanitize
def test_primary_killed_under_load_leaves_replicas_that_agree_after_its_return(lab, scratch):
    fill(lab)
    fio = Fio(lab.node("alpha")["nbd"], scratch, **LOAD)
    wait_for_writes(lab, 4000)
    lab.kill("alpha")
    fio.stop()
    lab.start("alpha")
    promote(lab, "alpha")
    lab.wait_state("alpha", "duplex", 20)
    assert_identical(lab)


@pytest.mark.sanitize
def test_secondary_takes_over_when_told_that_the_primary_is_dead(lab):
    data = os.urandom(4 * MIB)
    with connection(lab) as handle:
        handle.pwrite(data, MIB)
        handle.flush()
    lab.kill("alpha")
    lab.wait_peer_lost("beta")
    refused = ctl(lab, "beta", "promote")
    assert refused.returncode == 8
    assert "peer-is-dead" in refused.stdout + refused.stderr
    assert ctl(lab, "beta", "promote", "--peer-is-dead").returncode == 0
    with connection(lab, "beta") as handle:
        assert handle.pread(len(data), MIB) == data
        handle.pwrite(data, 30 * MIB)
        handle.flush()
        lab.start("alpha")
        lab.wait_state("beta", "duplex", 20)
    assert lab.status("alpha")["role"] == "secondary"
    assert_identical(lab)


def test_roles_change_sides_in_order(lab):
    with connection(lab) as handle:
        handle.pwrite(b"\x42" * MIB, 0)
    demote(lab, "alpha")
    promote(lab, "beta")
    lab.wait_state("beta", "duplex", 10)
    with connection(lab, "beta") as handle:
        assert handle.pread(MIB, 0) == b"\x42" * MIB
        handle.pwrite(b"\x43" * MIB, MIB)
        handle.flush()
    assert_identical(lab)


def test_frozen_volume_holds_writes_until_the_peer_is_back(make_lab, scratch):
    lab = make_lab(settings={"on_peer_loss": "freeze"})
    lab.kill("beta")
    fio = Fio(lab.node("alpha")["nbd"], scratch, rw="write", bs="4k", iodepth=1, size=MIB)
    lab.wait_state("alpha", "frozen", 5)
    time.sleep(PEER_TIMEOUT_S)
    assert fio.running(), "writes were acknowledged although the peer is away"
    lab.start("beta")
    fio.result()
    lab.wait_state("alpha", "duplex", 10)
    assert_identical(lab)


def test_frozen_volume_with_a_waiting_client_still_stops(make_lab, scratch):
    lab = make_lab(settings={"on_peer_loss": "freeze"})
    lab.kill("beta")
    fio = Fio(lab.node("alpha")["nbd"], scratch, rw="write", bs="4k", iodepth=1, size=MIB)
    lab.wait_state("alpha", "frozen", 5)
    time.sleep(0.5)
    assert lab.stop("alpha"), "SIGTERM waited for writes that wait for the peer"
    with pytest.raises(AssertionError):
        fio.result()


def test_second_primary_is_refused_while_the_first_is_there(lab):
    refused = ctl(lab, "beta", "promote")
    assert refused.returncode == 8
    assert "alpha" in refused.stdout + refused.stderr
    assert lab.status("beta")["role"] == "secondary"
    assert lab.status("alpha")["state"] == "duplex"


def test_silent_primary_is_noticed_by_the_secondary(lab):
    def stand_still():
        try:
            with Lateness() as machine:
                began = time.monotonic()
                os.kill(lab.node("alpha")["pid"], signal.SIGSTOP)
                lab.wait_peer_lost("beta")
                took_s = time.monotonic() - began
        finally:
            lab.resume("alpha")
        lab.wait_state("alpha", "duplex", 20)
        assert lab.status("alpha")["role"] == "primary"
        return f"noticed after {took_s:.2f} s" if took_s > PEER_TIMEOUT_S + 1 + machine.allowance_s() else None

    in_one_of_three(stand_still)


@pytest.mark.sanitize
def test_a_promotion_right_after_the_primarys_death_waits_until_that_is_known(make_lab):
    lab = make_lab(peer_timeout="10s")  # the order comes before
    lab.wait_state("beta", "duplex", 10)
    lab.pause("alpha")  # as a host without power: nothing says so to beta
    done = ctl(lab, "beta", "promote", "--peer-is-dead")
    assert done.returncode == 0, done.stderr
    assert "waiting until alpha counts as lost" in " ".join(done.stderr.split())
    assert lab.status("beta")["role"] == "primary"


def test_a_promotion_whose_command_is_ended_while_it_waits_is_taken_back(make_lab):
    """Who ends it believes that nothing comes of it; beta would be promoted when alpha is about to come back."""
    lab = make_lab(peer_timeout="10s")
    lab.wait_state("beta", "duplex", 10)
    lab.pause("alpha")
    program = Path(lab.state["build"]) / "tools" / "twinblock"
    with subprocess.Popen([program, "promote", "--socket", lab.node("beta")["control"], "--peer-is-dead"]) as order:
        wait_until(lambda: "waiting until it counts as lost" in lab.log_tail("beta"), what="the promotion to wait")
        order.send_signal(signal.SIGINT)
    lab.wait_state("beta", "waiting", 10)
    assert "not to be promoted: who said that alpha is dead has gone" in lab.log_tail("beta")
    assert lab.status("beta")["role"] == "secondary"


@pytest.mark.sanitize
def test_a_primary_that_is_said_to_be_dead_and_answers_stays_primary(lab):
    lab.wait_state("beta", "duplex", 10)
    refused = ctl(lab, "beta", "promote", "--peer-is-dead")
    assert refused.returncode == 8
    said = " ".join(refused.stderr.split())
    assert "not dead: it has just answered" in said and "twinblock demote r0" in said, said
    assert lab.status("alpha")["state"] == "duplex"
