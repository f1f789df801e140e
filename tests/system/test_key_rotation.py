"""The key is changed while clients write: no error, no write that is on one node only, no loss of the
session; with two links, and with one."""

import json
import os
import shutil
import threading
import time

import pytest

from encryption_support import hanging, openssl, sessions, write_key
from lablib.error import LIVENESS_S
from lablib.lab import NODES
from links_support import MixedLoad, Undisturbed, all_up, in_promised_time, links_of
from relay import Relay, dialled, lab_over
from support import KIB, connection, ctl, twinblock, wait_for_log, wait_for_writes, wait_until

ROTATIONS = int(os.environ.get("TWINBLOCK_ROTATIONS", "5"))  # 20 and more on a machine that has time
PROMISED_S = 0.3  # what a write may wait for because of it


def key_files(lab):
    """A configuration and a key of each node's own, as on two hosts."""
    text = open(lab.state["config"], encoding="utf-8").read()
    paths = {}
    for name in NODES:
        paths[name] = lab.dir / name / "r0.key"
        shutil.copy(lab.state["key"], paths[name])
        lab.set_node_config(name, text.replace(lab.state["key"], str(paths[name])))
    return paths


def run_key(lab, action, name):
    return twinblock(lab, "key", action, "--config", lab.node(name)["config"], "--node", name, "--json")


def key(lab, action, name):
    done = run_key(lab, action, name)
    assert done.returncode == 0, f"{action} on {name}: {done.stderr}{lab.log_tail(name)}"
    return json.loads(done.stdout)["key"]


def rotate(lab, paths):
    new = key(lab, "add", "alpha")
    shutil.copy(paths["alpha"], paths["beta"])
    for name in NODES:
        key(lab, "reload", name)
    for name in NODES:
        assert key(lab, "renew", name) == new
    return new


def fingerprints(lab):
    return {name: {link["encryption"].rpartition(" ")[2] for link in links_of(lab, name).values()}
            for name in NODES}


def own_keys(make_lab, links, **options):
    lab = make_lab(start=False, links=links, size="128MiB", encryption="tls", **options)
    paths = key_files(lab)
    lab.up()
    all_up(lab, links)
    return lab, paths


def rotations_under_load(lab, scratch, paths, links, registers):
    """The load, after it."""
    with MixedLoad(lab, scratch, registers=registers) as load:
        for _ in range(ROTATIONS):
            with load.fault():
                new = rotate(lab, paths)
                wait_until(lambda new=new: fingerprints(lab) == {name: {new} for name in NODES},
                           what=f"key {new} on each link: {fingerprints(lab)}")
            wait_for_writes(lab, 50)
        load.finish()
        load.print_stalls(f"{ROTATIONS} keys, {links} links")
    return load


@pytest.mark.parametrize("links", (1, 2))
def test_the_key_is_changed_under_load(make_lab, scratch, links):
    lab, paths = own_keys(make_lab, links, peer_timeout="30s")  # no machine is as late as that
    undisturbed = Undisturbed(lab)
    in_promised_time(lambda registers: rotations_under_load(lab, scratch, paths, links, registers), PROMISED_S)
    new = key(lab, "show", "alpha")
    for name in NODES:
        assert lab.status(name)["encryption"] == {"mode": "tls", "key": new}
        assert len(paths[name].read_text(encoding="ascii").splitlines()) == 2  # a remark, and the key
        assert "simplex" not in lab.log_text(name)
    undisturbed.check()


def test_a_peer_that_has_not_got_the_new_key_keeps_the_old_one_in_use(make_lab):
    lab, paths = own_keys(make_lab, 1)
    old = key(lab, "show", "alpha")
    new = key(lab, "add", "alpha")
    key(lab, "reload", "alpha")
    refused = run_key(lab, "renew", "alpha")
    assert refused.returncode == 1, refused.stdout
    assert "the old key stays in use" in refused.stderr and new in refused.stderr, refused.stderr
    assert "twinblock key reload r0" in refused.stderr, refused.stderr
    assert fingerprints(lab) == {name: {old} for name in NODES}
    assert lab.status("alpha")["encryption"]["key"] == old
    assert lab.status("alpha")["state"] == "duplex"
    shutil.copy(paths["alpha"], paths["beta"])
    key(lab, "reload", "beta")
    for name in NODES:
        assert key(lab, "renew", name) == new
    wait_until(lambda: fingerprints(lab) == {name: {new} for name in NODES}, what="the new key")


def test_what_a_key_verb_can_not_do_it_says(make_lab):
    lab, _ = own_keys(make_lab, 1)
    key(lab, "add", "alpha")
    again = run_key(lab, "add", "alpha")
    assert again.returncode == 1 and "has a second key already" in again.stderr, again.stderr
    plain = make_lab(encryption="off")
    for action in ("reload", "renew"):
        refused = ctl(plain, "alpha", "key", action)
        assert refused.returncode == 1 and "not encrypted" in refused.stderr, refused.stderr


def test_a_node_stops_while_the_file_system_of_its_key_hangs(make_lab):
    """The thread that reads can't be called back."""
    lab, paths = own_keys(make_lab, 1)
    with hanging(paths["beta"]) as next_one:
        reload = threading.Thread(target=run_key, args=(lab, "reload", "beta"))
        reload.start()
        assert next_one() == lab.node("beta")["pid"]
        assert lab.stop("beta"), "it had to be killed"
        reload.join()
    assert lab.exit_code("beta") == 0
    lab.start("beta")
    all_up(lab, 1)


def losses(lab):
    """Of each node's links: how often, and why at last."""
    return [(link["failovers"], link["last_error"]) for name in NODES for link in links_of(lab, name).values()]


def test_what_is_up_stays_beside_a_reload_that_drops_its_key(make_lab):
    lab, paths = own_keys(make_lab, 1)
    old = key(lab, "show", "alpha")
    before = losses(lab)
    write_key(paths["alpha"])
    shutil.copy(paths["alpha"], paths["beta"])
    assert key(lab, "reload", "alpha") != old
    with connection(lab) as handle:
        handle.pwrite(b"r" * 4 * KIB, 0)
    assert losses(lab) == before
    assert fingerprints(lab) == {name: {old} for name in NODES}
    assert lab.status("alpha")["state"] == "duplex"


def test_who_proves_the_old_key_beside_a_renewal_does_not_bring_it_back(make_lab):
    """Another client of TLS than a node, with a key that was stolen, while the links get their new connections."""
    lab, paths = own_keys(make_lab, 2, peer_timeout="60s", settings={"link_timeout": "20s"})
    secret, old = paths["alpha"].read_text(encoding="ascii").split()[-1], key(lab, "show", "alpha")
    new = key(lab, "add", "alpha")
    shutil.copy(paths["alpha"], paths["beta"])
    for name in NODES:
        key(lab, "reload", name)
    done = []
    until_s = time.monotonic() + LIVENESS_S
    while True:  # a busy machine may need longer than the node waits for a connection of its own
        renewal = threading.Thread(target=lambda: done.append(run_key(lab, "renew", "alpha")))
        lab.pause("beta")  # no link has got one yet
        try:
            renewal.start()
            wait_until(lambda: lab.status("alpha")["encryption"]["key"] == new, what="the order")
            proof = openssl(lab.node("alpha")["replication"], "-psk", secret, "-psk_identity", old)
        finally:
            lab.resume("beta")
            renewal.join()
        assert proof, "the old one is good as long as the new one is not the only one"
        if done[-1].returncode == 0 or time.monotonic() > until_s:
            break
    assert done[-1].returncode == 0, done[-1].stderr
    assert fingerprints(lab)["alpha"] == {new}


class Cutter(Relay):
    """Ends the connections that it has when it is told to."""

    ends = 0  # those up to this number

    def passed(self, data, stream):
        return data, stream["connection"] <= self.ends


class Holder(Relay):
    """Ends connections ("cut"), or keeps the dialler's hello back, which is what it says third ("hold")."""

    mode = "pass"

    def __init__(self, *arguments):
        self.holds = threading.Event()
        self.goes_on = threading.Event()
        super().__init__(*arguments)

    def passed(self, data, stream):
        stream["pieces"] = stream.get("pieces", 0) + (stream["from"] == "dialler")
        if self.mode == "hold" and stream["pieces"] == 3:
            self.holds.set()
            self.goes_on.wait(LIVENESS_S)
        return data, self.mode == "cut"


@pytest.mark.parametrize("drops", NODES)
def test_who_has_proven_a_key_that_is_dropped_before_his_hello_comes_to_no_session(make_lab, drops):
    with lab_over(Holder, make_lab, encryption="tls") as (lab, relays):
        all_up(lab, 1)
        for relay in relays:
            relay.mode = "cut"
        for name in NODES:
            wait_for_log(lab, name, " is lost: ")
        for relay in relays:
            relay.mode = "hold"
        alpha_dials = dialled(lab, relays)
        assert alpha_dials.holds.wait(LIVENESS_S)
        write_key(lab.state["key"])
        new = key(lab, "reload", drops)
        before = {name: len(lab.log_text(name)) for name in NODES}
        for relay in relays:
            relay.goes_on.set()
        wait_until(lambda: any(new in link["last_error"] for name in NODES for link in links_of(lab, name).values()),
                   what=f"a refusal with key {new}: {losses(lab)}")
        assert not any(sessions(lab, name, since) for name, since in before.items())


@pytest.mark.parametrize("first", NODES)
def test_a_connection_that_is_lost_when_only_one_node_is_renewed_costs_no_session(make_lab, first):
    """The other one dials with the old key by itself, which nobody takes any more."""
    with lab_over(Cutter, make_lab, encryption="tls") as (lab, relays):
        all_up(lab, 1)
        undisturbed = Undisturbed(lab)
        before = losses(lab)
        new = key(lab, "add", "alpha")
        for name in NODES:
            key(lab, "reload", name)
        assert key(lab, "renew", first) == new
        wait_until(lambda: fingerprints(lab) == {name: {new} for name in NODES}, what="the new key")
        assert losses(lab) == before, "a renewal is none"
        for relay in relays:
            relay.ends = relay.connections
        wait_until(lambda: losses(lab) != before, what="the connection to be lost")
        all_up(lab, 1)
        assert fingerprints(lab) == {name: {new} for name in NODES}
        undisturbed.check()
