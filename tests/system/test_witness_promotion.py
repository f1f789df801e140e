"""Who is promoted without its peer: with the witness' consent, without an operator's word; and what an operator
may do without the witness. A primary that was frozen meanwhile yields."""

import json
import os
import re
import time
from pathlib import Path

import nbd
import pytest

from held import Held, lose_peer, still_frozen
from links_support import need_namespaces
from support import KIB, MIB, assert_identical, connection, ctl, demote, wait_for_log, wait_until
from witness_support import SIZE, entry_key, wait_witness

DATA = os.urandom(256 * KIB)
OTHERS = os.urandom(256 * KIB)
AT = 4 * MIB


@pytest.fixture
def pair(make_lab):
    """A lab in duplex whose witness has been told of it; DATA is on both nodes."""
    lab = make_lab(witness="etcd", peer_timeout="1s", witness_settings={"timeout": "1s"})
    entry_key(lab)
    with connection(lab) as handle:
        handle.pwrite(DATA, 0)
        handle.flush()
    return lab


@pytest.fixture
def apart(make_lab):
    """The same in namespaces, where links can be cut."""
    need_namespaces()
    lab = make_lab(size=f"{SIZE}", witness="etcd", peer_timeout="1s", host_namespaces=True,
                   witness_settings={"timeout": "1s"})
    entry_key(lab)
    with connection(lab) as handle:
        handle.pwrite(DATA, 0)
        handle.flush()
    return lab


def entry(lab):
    key = entry_key(lab)
    return json.loads(lab.etcd().entries(key)[key])


def promoted(lab, name, *words):
    wait_until(lambda: ctl(lab, name, "promote", *words).returncode == 0, what=f"{name}'s promotion")


def refused(lab, name, kind, *words):
    """The promotion is refused, for that reason as programs read it, and with these words for people."""
    said = {}

    def so():  # (that a busy witness did not answer in time is another reason)
        done = ctl(lab, name, "promote", "--json", *words)
        assert done.returncode != 0, done.stdout
        said.update(json.loads(done.stdout or done.stderr))
        return said.get("refused") == kind

    wait_until(so, what=f"a promotion that is refused as '{kind}'")
    return f"{said['error']} {said['action']}"


def writes(lab, name, data=OTHERS, at=AT):
    with connection(lab, name) as handle:
        assert handle.pread(len(DATA), 0) == DATA
        handle.pwrite(data, at)
        handle.flush()


def comes_back(lab, name, writer):
    """`name` is brought up to date, and is no primary."""
    if not lab.alive(name):
        lab.start(name)
    lab.wait_state(writer, "duplex")
    assert lab.status(name)["role"] == "secondary"
    assert_identical(lab)


@pytest.mark.sanitize
@pytest.mark.parametrize("first_writes", [True, False], ids=["after a write", "at once"])
def test_promotion_with_consent_needs_no_word_of_an_operator(pair, first_writes):
    pair.kill("alpha")
    promoted(pair, "beta")
    assert entry(pair)["holder"] == "beta", "the register says so before anything is acknowledged"
    if first_writes:
        writes(pair, "beta")
    pair.start("alpha")
    pair.wait_state("beta", "duplex")
    comes_back(pair, "alpha", "beta")
    wait_until(lambda: entry(pair)["holder"] == "", what="that the witness hears of both being together again")
    assert entry(pair)["generation"] == pair.status("beta")["generation"]["current"]


@pytest.mark.sanitize
def test_promotion_is_refused_where_the_other_node_went_on_alone(pair):
    pair.kill("beta")
    writes(pair, "alpha")
    assert entry(pair)["holder"] == "alpha"
    pair.kill("alpha")
    pair.start("beta")
    pair.wait_peer_lost("beta")
    said = refused(pair, "beta", "now")
    assert "says that alpha may have gone on alone" in said and "--without-witness" in said, said
    refused(pair, "beta", "now", "--peer-is-dead")
    pair.start("alpha")
    pair.wait_state("alpha", "duplex")
    comes_back(pair, "beta", "alpha")


@pytest.mark.sanitize
def test_promotion_waits_for_a_witness_that_is_away(pair):
    pair.kill("witness")
    pair.kill("alpha")
    pair.wait_peer_lost("beta")
    said = refused(pair, "beta", "later")
    assert pair.member("witness")["address"] in said and "--without-witness" in said, said
    refused(pair, "beta", "later", "--peer-is-dead")
    pair.start("witness")
    promoted(pair, "beta")
    writes(pair, "beta")
    comes_back(pair, "alpha", "beta")


@pytest.mark.sanitize
def test_operator_promotes_without_the_witness(pair):
    pair.kill("witness")
    pair.kill("alpha")
    pair.wait_peer_lost("beta")
    assert ctl(pair, "beta", "promote", "--without-witness").returncode != 0, "whose word is it that the peer is dead?"
    promoted(pair, "beta", "--peer-is-dead", "--without-witness")
    writes(pair, "beta")
    pair.start("witness")
    comes_back(pair, "alpha", "beta")
    wait_until(lambda: entry(pair)["generation"] == pair.status("beta")["generation"]["current"],
               what="that the witness hears of it")


@pytest.mark.sanitize
def test_operator_lets_a_frozen_primary_go_on_without_the_witness(pair):
    pair.kill("witness")
    with Held(pair) as requests:
        lose_peer(pair, requests)
        done = ctl(pair, "alpha", "continue")
        assert done.returncode == 1 and "--without-witness" in " ".join(done.stderr.split()), done.stderr
        still_frozen(pair, requests)
        done = ctl(pair, "alpha", "continue", "--without-witness")
        assert done.returncode == 0, done.stderr
        requests.wait_done()
    status = pair.wait_state("alpha", "simplex")
    assert not status["frozen"]
    pair.start("witness")
    comes_back(pair, "beta", "alpha")


@pytest.mark.sanitize
def test_nobody_is_asked_while_the_peer_is_there(pair):
    """Roles change sides without the witness."""
    pair.kill("witness")
    demote(pair, "alpha")
    promoted(pair, "beta")
    writes(pair, "beta")
    pair.wait_state("beta", "duplex")
    assert_identical(pair)


def test_frozen_primary_yields_to_the_one_that_went_on(apart):
    """Its clients are cut off, and are told no error; what they had written and nobody acknowledged is gone."""
    network = apart.network()

    def cut():
        network.cut("witness-alpha")
        network.cut("link1")

    with Held(apart) as requests:
        lose_peer(apart, requests, cut)
        promoted(apart, "beta")
        writes(apart, "beta")
        still_frozen(apart, requests)
        network.restore("witness-alpha")
        wait_witness(apart, "alpha", "refused", "beta")
        assert apart.status("alpha")["witness"]["holder"] == "beta"
        still_frozen(apart, requests)
        network.restore("link1")
        comes_back(apart, "alpha", "beta")
        requests.wait_cut_off()
    with connection(apart, "beta") as handle:
        assert handle.pread(len(OTHERS), AT) == OTHERS


def test_sleeping_primary_does_not_acknowledge_beside_its_successor(apart):
    """alpha is stopped, beta is promoted, alpha wakes up: what it acknowledges would be lost, what it reads is old."""
    network = apart.network()
    with Held(apart) as requests:
        apart.pause("alpha")
        promoted(apart, "beta")
        writes(apart, "beta")
        network.cut("link1")
        requests.handle.aio_pread(nbd.Buffer(4 * KIB), AT, requests.note("read"))
        requests.begin()
        requests.poll()  # it has all of it when it wakes up
        apart.resume("alpha")
        apart.wait_status("alpha", lambda status: status["frozen"], what="that it is frozen")
        wait_witness(apart, "alpha", "refused", "beta")
        still_frozen(apart, requests)
        network.restore("link1")
        comes_back(apart, "alpha", "beta")
        requests.wait_cut_off()
    with connection(apart, "beta") as handle:
        assert handle.pread(len(OTHERS), AT) == OTHERS


@pytest.mark.parametrize("first", ["alpha", "beta"])
def test_two_secondaries_that_are_cut_apart_are_not_both_promoted(apart, first):
    """Without a witness, nobody could have asked the other."""
    other = "beta" if first == "alpha" else "alpha"
    demote(apart, "alpha")
    apart.network().cut("link1")
    for name in (first, other):
        apart.wait_peer_lost(name)
    promoted(apart, first)
    said = refused(apart, other, "now")
    assert first in said, said
    writes(apart, first)
    apart.network().restore("link1")
    comes_back(apart, other, first)


def test_primary_that_was_killed_goes_on_if_the_register_names_it(pair):
    pair.kill("beta")
    writes(pair, "alpha")
    pair.kill("alpha")
    pair.start("alpha")
    pair.wait_status("alpha", lambda status: status["role"] == "primary", what="primary again")
    writes(pair, "alpha", DATA)
    comes_back(pair, "beta", "alpha")


def test_primary_that_was_killed_waits_if_the_register_names_the_other(pair):
    pair.kill("alpha")
    promoted(pair, "beta")
    writes(pair, "beta")
    pair.kill("beta")
    pair.start("alpha")
    wait_for_log(pair, "alpha", "goes on as primary when")
    pair.wait_peer_lost("alpha")
    said = refused(pair, "alpha", "now")
    assert "beta" in said, said
    time.sleep(2)
    assert pair.status("alpha")["role"] == "secondary"
    pair.start("beta")
    pair.wait_status("beta", lambda status: status["role"] == "primary", what="primary again")
    comes_back(pair, "alpha", "beta")
    with connection(pair, "beta") as handle:
        assert handle.pread(len(OTHERS), AT) == OTHERS


def test_witness_that_only_one_node_asks_consents_to_nothing(apart):
    """As while the table is being put into both files: alpha asks nobody, and goes on alone when it loses beta. So does
    the witness' consent not make beta primary beside it, whatever the entry says, and beta's process or file became."""
    network = apart.network()
    whole = Path(apart.node("alpha")["config"]).read_text(encoding="utf-8")
    apart.stop("alpha")
    apart.set_node_config("alpha", re.sub(r"^\[witness\]\n(?:[^\[].*\n|\n)*", "", whole, flags=re.M))
    apart.start("alpha")
    apart.wait_status("beta", lambda status: status["peer"]["connected"], what="that both have met")
    if apart.status("alpha")["role"] != "primary":
        promoted(apart, "alpha")
    apart.wait_state("alpha", "duplex")
    status = apart.status("beta")
    assert status["witness"]["state"] == "off" and "[witness]" in status["witness"]["action"], status["witness"]
    network.cut("link1")
    writes(apart, "alpha")
    refused(apart, "beta", "now")
    apart.kill("beta")
    apart.start("beta")
    apart.wait_status("beta", lambda status: status["state"] == "waiting", what="that it waits")
    refused(apart, "beta", "now")
    # With the same file on both hosts, and after they have met with it, it counts.
    apart.stop("alpha")
    apart.set_node_config("alpha", whole)
    apart.start("alpha")
    network.restore("link1")
    if apart.status("alpha")["role"] != "primary":
        promoted(apart, "alpha")
    apart.wait_state("alpha", "duplex")
    wait_witness(apart, "alpha", "agreed")
    apart.kill("alpha")
    promoted(apart, "beta")
    with connection(apart, "beta") as handle:
        assert handle.pread(len(OTHERS), AT) == OTHERS
