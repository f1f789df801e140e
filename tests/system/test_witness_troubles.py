"""An etcd that is slow, full, gone, that knows somebody else or holds nonsense: `status` says so in a sentence and
what to do, clients wait without an error, nothing is lost, and once it is as it should be, they go on by
themselves."""

import json
import os
import shutil
import time
from contextlib import contextmanager

import pytest

from lablib.etcd import EtcdError
from lablib.links import free_ports
from lablib.processes import cpu_seconds
from certificates import Authority
from held import DATA, DATA_AT, Held, lose_peer, still_frozen
from relay import Relay
from support import KIB, assert_identical, connection, ctl
from witness_support import entry_key, wait_witness

GONE_S = float(os.environ.get("TWINBLOCK_WITNESS_GONE_SECONDS", "5"))
# A node that asks now and then takes more time than one that does nothing; one that asks without a pause, a
# thousand times more.
BUSY = 20
BUSY_S = 0.2
SLOW_S = 2.0
QUOTA_BYTES = 1 << 20


class Slow(Relay):
    """Delays what it carries."""

    def passed(self, data, stream):
        return data, False


@pytest.fixture
def held(make_lab):
    """A lab in duplex whose witness has been told of it; and requests of a client that are begun when the peer has
    been killed, and that nobody answers until the witness consents."""
    @contextmanager
    def make(**options):
        lab = make_lab(witness="etcd", peer_timeout="1s", witness_settings={"timeout": "1s"}, **options)
        entry_key(lab)
        with Held(lab) as requests:
            yield lab, requests

    return make


def goes_on(lab, requests):
    """With the witness' consent; and in the end both nodes hold what was written."""
    requests.wait_done()
    status = lab.wait_state("alpha", "simplex")
    assert not status["frozen"]
    assert status["witness"]["state"] == "agreed" and status["witness"]["holder"] == "alpha"
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    with connection(lab) as handle:
        assert handle.pread(len(DATA), DATA_AT) == DATA
        handle.flush()
    assert_identical(lab)


@pytest.mark.sanitize
def test_gone_while_the_peer_is_there_costs_a_warning(held):
    with held() as (lab, _):
        lab.kill("witness")
        wait_witness(lab, "alpha", "unreachable", lab.member("witness")["address"])
        with connection(lab) as handle:
            handle.pwrite(DATA, 0)
            handle.flush()
        status = lab.status("alpha")
        assert status["state"] == "duplex" and not status["frozen"]
        lab.start("witness")
        lab.wait_status("alpha", lambda status: status["witness"]["state"] != "unreachable",
                        what="that the witness is back")


@pytest.mark.sanitize
def test_gone_with_the_peer_and_no_busy_loop(held, make_lab):
    """The time that a node takes which asks in vain, beside one that is frozen and asks nobody."""
    control = make_lab(settings={"on_peer_loss": "freeze"}, peer_timeout="1s")
    with held() as (lab, requests), Held(control) as waiting:
        lab.kill("witness")
        lose_peer(lab, requests)
        control.kill("beta")
        waiting.begin()
        control.wait_state("alpha", "frozen")
        wait_witness(lab, "alpha", "unreachable", lab.member("witness")["address"])
        pids = [each.node("alpha")["pid"] for each in (lab, control)]
        before = [cpu_seconds(pid) for pid in pids]
        time.sleep(GONE_S)
        asked, idle = (cpu_seconds(pid) - since for pid, since in zip(pids, before))
        print(f"{asked * 1e3:.1f} ms of a processor in {GONE_S:.0f} s; {idle * 1e3:.1f} ms without a witness")
        assert asked <= BUSY * idle + BUSY_S
        still_frozen(lab, requests)
        lab.start("witness")
        goes_on(lab, requests)


def test_stopped_etcd_is_as_good_as_gone(held):
    """It takes connections, and answers none of them."""
    with held() as (lab, requests):
        lab.pause("witness")
        lose_peer(lab, requests)
        wait_witness(lab, "alpha", "unreachable", "did not answer within 1")
        still_frozen(lab, requests)
        lab.resume("witness")
        goes_on(lab, requests)


@contextmanager
def over_a_relay(make_lab, timeout):
    """A lab whose alpha reaches etcd through a relay that delays what it carries."""
    lab = make_lab(witness="etcd", peer_timeout="1s", witness_settings={"timeout": timeout}, start=False)
    true = lab.member("witness")["address"]
    port, = free_ports(1)
    relay = Slow(port, true)
    text = lab.config_text(lab.state["replication"])
    lab.set_node_config("alpha", text.replace(f"http://{true}", f"http://127.0.0.1:{port}"))
    try:
        lab.up()
        entry_key(lab)
        with Held(lab) as requests:
            yield lab, requests, relay
    finally:
        lab.down()
        relay.close()


def test_slow_etcd_delays_consent_and_nothing_else(make_lab):
    """Two seconds for each answer, of three that it may take."""
    with over_a_relay(make_lab, "3s") as (lab, requests, relay):
        relay.delay_s = SLOW_S / 2  # each way
        with connection(lab) as handle:
            handle.pwrite(DATA, 0)
        lose_peer(lab, requests)
        goes_on(lab, requests)


def test_etcd_that_is_slower_than_its_timeout_is_unreachable(make_lab):
    with over_a_relay(make_lab, "1s") as (lab, requests, relay):
        relay.delay_s = SLOW_S
        lose_peer(lab, requests)
        wait_witness(lab, "alpha", "unreachable", "did not answer within 1")
        still_frozen(lab, requests)
        relay.delay_s = 0
        goes_on(lab, requests)


def test_full_etcd(held):
    """It takes nothing any more until somebody has made room and said so."""
    with held(witness_args=["--quota-backend-bytes", str(QUOTA_BYTES)]) as (lab, requests):
        etcd = lab.etcd()
        with pytest.raises(EtcdError, match="space exceeded"):
            for _ in range(100):
                etcd.put("/elsewhere", "x" * (256 * KIB))
        wait_witness(lab, "alpha", "unreachable", "full")  # in duplex, before it counts
        assert lab.status("alpha")["state"] == "duplex" and "can't be asked" in lab.status("alpha")["status"]
        lose_peer(lab, requests)
        wait_witness(lab, "alpha", "unreachable", "space")
        still_frozen(lab, requests)
        status = etcd.call("v3/maintenance/status")
        etcd.delete("/elsewhere")
        etcd.call("v3/kv/compaction", revision=int(status["header"]["revision"]) + 1, physical=True)
        etcd.call("v3/maintenance/defragment")
        etcd.call("v3/maintenance/alarm", action="DEACTIVATE", alarm="NOSPACE",
                  memberID=status["header"]["member_id"])
        goes_on(lab, requests)


def enable_authentication(etcd, password):
    etcd.call("v3/auth/user/add", name="root", password=password)
    etcd.call("v3/auth/role/add", name="root")
    etcd.call("v3/auth/user/grant", user="root", role="root")
    etcd.call("v3/auth/enable")
    etcd.login("root", password)


@pytest.fixture
def guarded(make_lab, scratch):
    """As `held`, where etcd asks who asks, and the nodes know the password; and etcd, logged in."""
    @contextmanager
    def make():
        lab = make_lab(witness="etcd", peer_timeout="1s", start=False)
        path = scratch / "password"
        path.write_text("right\n", encoding="ascii")
        path.chmod(0o600)
        lab.state["witness"]["settings"].update(user="root", password_file=str(path))
        for name in ("alpha", "beta"):
            lab.set_node_config(name, lab.config_text(lab.state["replication"]))
        lab.start("witness")
        etcd = lab.etcd()
        enable_authentication(etcd, "right")
        lab.up()
        entry_key(lab, etcd)
        with Held(lab) as requests:
            yield lab, requests, etcd

    return make


def test_right_credentials(guarded):
    """Also after etcd has forgotten what it gave for them."""
    with guarded() as (lab, requests, _):
        lab.kill("witness")
        lab.start("witness")
        lab.kill("beta")
        requests.begin()
        goes_on(lab, requests)


def test_wrong_credentials(guarded):
    with guarded() as (lab, requests, etcd):
        etcd.call("v3/auth/user/changepw", name="root", password="another")
        lose_peer(lab, requests)
        wait_witness(lab, "alpha", "unreachable", "root", "password")
        still_frozen(lab, requests)
        etcd.login("root", "another")
        etcd.call("v3/auth/user/changepw", name="root", password="right")
        goes_on(lab, requests)


def test_no_credentials_where_some_are_wanted(held):
    with held() as (lab, requests):
        etcd = lab.etcd()
        enable_authentication(etcd, "right")
        lose_peer(lab, requests)
        wait_witness(lab, "alpha", "unreachable", "add user and password_file")
        still_frozen(lab, requests)
        etcd.call("v3/auth/disable")
        goes_on(lab, requests)


@pytest.fixture
def over_tls(make_lab, scratch):
    """As `held`, where etcd proves who it is, and wants to know who asks. (The lab asks it in the clear.)"""
    @contextmanager
    def make():
        lab = make_lab(witness="etcd", peer_timeout="1s", start=False)
        authority = Authority(scratch / "authority")
        certificate, key = authority.issue("etcd")
        port, = free_ports(1)
        witness = lab.state["witness"]
        witness["args"] += ["--listen-client-urls", f"http://{witness['listen']},https://127.0.0.1:{port}",
                            "--cert-file", str(certificate), "--key-file", str(key), "--client-cert-auth",
                            "--trusted-ca-file", str(authority.certificate)]
        certificate, key = authority.issue("node")
        witness["settings"].update(endpoints=[f"https://127.0.0.1:{port}"], ca_file=str(authority.certificate),
                                   certificate_file=str(certificate), certificate_key_file=str(key))
        for name in ("alpha", "beta"):
            lab.set_node_config(name, lab.config_text(lab.state["replication"]))
        lab.up()
        entry_key(lab)
        with Held(lab) as requests:
            yield lab, requests

    return make


def test_certificates_on_both_sides(over_tls):
    """The host knows nothing of their authority."""
    with over_tls() as (lab, requests):
        lab.kill("beta")
        requests.begin()
        goes_on(lab, requests)


def foreign(entry):
    return json.dumps({**json.loads(entry), "volume": "0" * 8 + "-0000-4000-8000-" + "0" * 12})


NONSENSE = {
    "no JSON": lambda _: "hello",
    "nothing": lambda _: "",
    "no object": lambda _: "[1, 2]",
    "another volume": foreign,
    "another version": lambda entry: json.dumps({**json.loads(entry), "version": 2}),
    "no generation": lambda entry: json.dumps({**json.loads(entry), "generation": "new"}),
    "binary": lambda _: "\x00\x01\x02",
    "long": lambda entry: json.dumps({**json.loads(entry), "holder": "x" * 300}),
}


@pytest.mark.parametrize("what", list(NONSENSE))
def test_nonsense_in_the_entry_is_told_and_left_alone(held, what):
    with held() as (lab, requests):
        etcd = lab.etcd()
        key = entry_key(lab)
        before = etcd.entries(key)[key]
        nonsense = NONSENSE[what](before)
        etcd.put(key, nonsense)
        lose_peer(lab, requests)
        wait_witness(lab, "alpha", "unreachable", key)
        still_frozen(lab, requests)
        assert etcd.entries(key)[key] == nonsense, "somebody's entry was overwritten"
        etcd.put(key, before)
        goes_on(lab, requests)


def lose_disk(lab):
    """etcd's, which comes back without it."""
    if lab.alive("witness"):
        lab.kill("witness")
    shutil.rmtree(lab.member("witness")["data"])
    lab.start("witness")


@pytest.mark.sanitize
def test_witness_that_forgot_everything_in_duplex_is_told_again(held):
    with held() as (lab, requests):
        key = entry_key(lab)
        lose_disk(lab)
        assert entry_key(lab) == key
        lab.kill("beta")
        requests.begin()
        goes_on(lab, requests)


@pytest.mark.sanitize
def test_witness_that_forgot_everything_while_it_counted_does_not_consent(held):
    """The other node may have gone on by what it knew. Both together tell it anew."""
    with held() as (lab, requests):
        key = entry_key(lab)
        lab.kill("witness")
        lose_peer(lab, requests)
        lose_disk(lab)
        wait_witness(lab, "alpha", "lost", "knows nothing of this volume", "--without-witness")
        still_frozen(lab, requests)
        lab.start("beta")
        requests.wait_done()
        lab.wait_state("alpha", "duplex")
        assert entry_key(lab) == key
        assert_identical(lab)


def test_frozen_node_says_what_an_operator_may_do(held):
    with held() as (lab, requests):
        lab.kill("witness")
        lose_peer(lab, requests)
        wait_witness(lab, "alpha", "unreachable", "twinblock continue r0 --without-witness", "systemctl start etcd")
        shown = ctl(lab, "alpha", "status")
        assert "--without-witness" in " ".join(shown.stdout.split())
        lab.start("witness")
        goes_on(lab, requests)


def test_an_etcd_for_each_node_is_told(make_lab):
    """Each would let its node go on alone: the files of both nodes are to name the same one."""
    lab = make_lab(start=False, witness="etcd", peer_timeout="1s")
    elsewhere = make_lab(start=False, witness="etcd")
    elsewhere.start("witness")
    text = lab.config_text({"peer_timeout": "1s"})
    own, other = (each.member("witness")["address"] for each in (lab, elsewhere))
    assert own in text
    lab.set_node_config("beta", text.replace(own, other))
    lab.up()
    for name in ("alpha", "beta"):
        lab.wait_status(name, lambda status: "another register of etcd here than there" in status["status"],
                        what=f"that {name} tells of two registers")


def test_one_etcd_for_both_nodes_is_one_register(held):
    with held() as (lab, _):
        for name in ("alpha", "beta"):
            wait_witness(lab, name, "agreed")
            assert "register" not in lab.status(name)["status"]
