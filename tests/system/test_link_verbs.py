"""`twinblock link` on two real nodes: what it changes, on both, while a client writes; and what it
refuses."""

import json
import random
import time

import pytest

from lablib.links import free_ports
from support import Fio, assert_identical, ctl, wait_until

NODES = ("alpha", "beta")
FIGURES = ("name", "state", "local", "peer", "round_trip_us", "nominal_bits_per_s",
           "measured_bytes_per_s", "in_bytes_per_s", "out_bytes_per_s", "in_bytes", "out_bytes",
           "in_flight_bytes", "failovers", "last_error", "retry_in_ms")


@pytest.fixture
def two_links(make_lab):
    lab = make_lab(links=2, peer_timeout="30s")  # no machine is as late as that
    wait_for_links(lab, "link1", "link2")
    return lab


def link(lab, name, *words):
    """Runs the verb on a node; asserts that it succeeds."""
    result = ctl(lab, name, "link", *words)
    assert result.returncode == 0, result.stderr
    return result


def refused(lab, name, *words, exit_status=1):
    """What is said of an order that is refused."""
    result = ctl(lab, name, "link", *words)
    assert result.returncode == exit_status, f"{words}: {result.stdout}{result.stderr}"
    return result.stderr


def links_of(lab, name):
    listed = json.loads(link(lab, name, "list", "--json").stdout)["links"]
    return {each["name"]: each for each in listed}


def wait_for_links(lab, *names, state="up"):
    """Until both nodes have exactly these links, in that state."""
    def there():
        return all({each: one["state"] for each, one in links_of(lab, node).items()} ==
                   dict.fromkeys(names, state) for node in NODES)

    wait_until(there, 15, f"{names} to be {state} on both nodes: "
               f"{[links_of(lab, node) for node in NODES]}")


def ends():
    """The words for a new link's ends, on free ports."""
    return tuple(f"{name}=127.0.9.1:{port}"
                 for name, port in zip(NODES, free_ports(2, "127.0.9.1")))


@pytest.fixture
def load(scratch):
    """load(lab) begins to write to a lab in small and large pieces, until unharmed() ends that, or
    the test ends."""
    jobs = []

    def begin(lab):
        uri = lab.node("alpha")["nbd"]
        for offset, block in (("0", "4k"), ("32m", "256k")):
            jobs.append(Fio(uri, scratch, rw="randrw", bs=block, iodepth=8, size="32m",
                            offset=offset, runtime=None, rwmixread=20))
        wait_until(lambda: lab.status("alpha")["counters"]["writes"] > 0 and
                   lab.status("alpha")["clients"] >= len(jobs), 20, "the load to begin")
        return jobs

    yield begin
    for job in jobs:
        job.stop()


def unharmed(lab, jobs):
    """No client saw an error, the peer was never lost, nothing was copied."""
    for job in jobs:
        job.interrupt()
    for job in jobs:
        job.result(interrupted=True)
    status = lab.status("alpha")
    assert status["state"] == "duplex" and status["dirty_bytes"] == 0
    assert losses_and_resyncs(lab) == lab.before
    assert_identical(lab)


def losses_and_resyncs(lab):
    counters = lab.status("alpha")["counters"]
    return {key: counters[key] for key in ("peer_losses", "resync_bytes")}


def begin_unharmed(lab):
    lab.before = losses_and_resyncs(lab)


@pytest.mark.sanitize
def test_links_are_listed_for_people_and_for_programs(two_links):
    for node, other in zip(NODES, reversed(NODES)):
        # Known after two heartbeats.
        wait_until(lambda each=node: all(one["round_trip_us"] for one in
                                         links_of(two_links, each).values()), 10, "round trips")
        listed = links_of(two_links, node)
        assert set(listed) == {"link1", "link2"}
        for one in listed.values():
            assert all(key in one for key in FIGURES)
            assert one["state"] == "up" and one["round_trip_us"] > 0
        assert listed["link1"]["local"] == links_of(two_links, other)["link1"]["peer"]
        assert two_links.status(node)["links"][0].keys() == listed["link1"].keys()
    text = link(two_links, "alpha", "list").stdout
    shown = ctl(two_links, "alpha", "status").stdout
    for name in ("link1", "link2"):
        assert name in text and name in shown
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.sanitize
def test_a_link_is_added_and_removed_under_load_on_both_nodes(two_links, load):
    begin_unharmed(two_links)
    jobs = load(two_links)
    said = link(two_links, "alpha", "add", "third", *ends(), "--rate", "10Gbit").stdout
    assert "third" in said and two_links.node("alpha")["config"] in said, "how to keep it"
    wait_for_links(two_links, "link1", "link2", "third")
    wait_until(lambda: links_of(two_links, "alpha")["third"]["out_bytes"] > 1 << 20, 10,
               "data over the new link")
    assert links_of(two_links, "beta")["third"]["nominal_bits_per_s"] == 10**10
    link(two_links, "beta", "remove", "link1")
    wait_for_links(two_links, "link2", "third")
    # Beta keeps the last link of its own file, whoever speaks in alpha's place.
    assert "the last one in use" in refused(two_links, "alpha", "remove", "link2")
    wait_for_links(two_links, "link2", "third")
    link(two_links, "alpha", "remove", "third")
    wait_for_links(two_links, "link2")
    unharmed(two_links, jobs)


def test_a_disabled_link_carries_nothing_until_it_is_enabled(two_links, load):
    begin_unharmed(two_links)
    jobs = load(two_links)
    link(two_links, "alpha", "disable", "link2")
    for node in NODES:
        assert links_of(two_links, node)["link2"]["state"] == "disabled"
    before = links_of(two_links, "alpha")["link2"]["out_bytes"]
    time.sleep(1)
    assert links_of(two_links, "alpha")["link2"]["out_bytes"] == before
    assert two_links.status("alpha")["action"] == "", "it was an order"
    link(two_links, "beta", "enable", "link2")
    wait_for_links(two_links, "link1", "link2")
    wait_until(lambda: links_of(two_links, "alpha")["link2"]["out_bytes"] > before, 10,
               "data over the link that was enabled")
    unharmed(two_links, jobs)


def test_links_come_and_go_in_any_order_under_load(make_lab, load):
    """All but one are removed and added again, by name only: the configuration knows their ends."""
    lab = make_lab(links=3, peer_timeout="30s")
    names = ["link1", "link2", "link3"]
    wait_for_links(lab, *names)
    begin_unharmed(lab)
    jobs = load(lab)
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        away = []
        for name in chance.sample(names, 2):
            order = ctl(lab, chance.choice(NODES), "link", "remove", name)
            # The links of the last round may not be up yet.
            assert order.returncode == 0 or "no other link is up" in order.stderr, order.stderr
            away += [name] if order.returncode == 0 else []
        time.sleep(chance.random() * 0.3)
        for name in chance.sample(away, len(away)):
            link(lab, chance.choice(NODES), "add", name)
        if chance.random() < 0.5:
            wait_for_links(lab, *names)
    unharmed(lab, jobs)


def test_several_links_are_named_after_the_volume(make_lab):
    lab = make_lab(links=3)
    wait_for_links(lab, "link1", "link2", "link3")
    done = json.loads(link(lab, "alpha", "remove", "r0", "link1", "link3", "--json").stdout)
    assert len(done["messages"]) == 2
    assert [each["name"] for each in done["links"]] == ["link2"]
    assert "'r0'" in refused(lab, "alpha", "remove", "r9", "link2", exit_status=2)
    said = refused(lab, "alpha", "add", "r0", "link1", "link3", exit_status=2)
    assert "link3" in said
    wait_for_links(lab, "link2")


@pytest.mark.sanitize
def test_what_makes_no_sense_is_refused_with_the_reason(two_links):
    own = two_links.status("alpha")["links"][0]
    before = losses_and_resyncs(two_links)
    for words, reason in (
            (("remove", "nothing"), "nothing"), (("disable", "nothing"), "link1"),
            (("enable", "nothing"), "nothing"), (("add", "nothing"), "nothing"),
            (("add", "link1"), "link1"), (("add", "link1", *ends()), "link1"),
            (("add", "third", f"alpha={own['local']}", ends()[1]), own["local"]),
            (("add", "third", "alpha=203.0.113.1:7700", "beta=203.0.113.2:7700"), "203.0.113.1:7700"),
            (("add", "third", "alpha=127.0.9.1:7700", "gamma=127.0.9.1:7701"), "gamma")):
        said = refused(two_links, "alpha", *words)
        assert reason in said, f"{words}: {said}"
    # This node's end is right, the peer's is not one of its host.
    assert "203.0.113.2:7700" in refused(two_links, "alpha", "add", "third",
                                       ends()[0], "beta=203.0.113.2:7700")
    for words in (("add", "third", "alpha=here:7700", "beta=127.0.9.1:7701"),
                  ("add", "third", "alpha=127.0.9.1:7700"), ("add", "a/b"), ("remove",),
                  ("add", "third", "--rate", "fast"), ("cut", "link1"), ()):
        assert refused(two_links, "alpha", *words, exit_status=2)
    wait_for_links(two_links, "link1", "link2")
    assert losses_and_resyncs(two_links) == before


def test_the_last_link_is_kept(two_links):
    link(two_links, "alpha", "disable", "link1")
    for node in NODES:
        for action in ("remove", "disable"):
            said = refused(two_links, node, action, "link2")
            assert "link2" in said and "to do:" in said
    link(two_links, "beta", "remove", "link1")
    wait_for_links(two_links, "link2")
    assert "link2" in refused(two_links, "alpha", "remove", "link2")
    assert two_links.status("alpha")["state"] == "duplex"


def test_a_peer_that_was_away_is_told(two_links):
    two_links.kill("beta")
    two_links.wait_state("alpha", "simplex", 20)
    assert "beta" in link(two_links, "alpha", "add", "third", *ends()).stdout
    link(two_links, "alpha", "remove", "link1")
    assert set(links_of(two_links, "alpha")) == {"link2", "third"}
    two_links.start("beta")
    wait_for_links(two_links, "link2", "third")
    two_links.wait_state("alpha", "duplex", 20)


def test_a_peer_that_begins_anew_finds_this_node(make_lab):
    lab = make_lab(links=1)
    link(lab, "alpha", "add", "third", *ends())
    wait_for_links(lab, "link1", "third")
    lab.kill("beta")
    lab.wait_state("alpha", "simplex", 20)
    # Beta knows no other link than this one when it is back, and keeps it.
    link(lab, "alpha", "remove", "link1")
    assert set(links_of(lab, "alpha")) == {"third"}
    lab.start("beta")
    lab.wait_state("alpha", "duplex", 30)
    wait_until(lambda: "beta refuses that link link1 is removed" in lab.status("alpha")["status"], 15, "a word about it")
    wait_until(lambda: links_of(lab, "alpha")["third"]["state"] == "up", 15, "the link that was added")
    assert links_of(lab, "alpha")["link1"]["state"] == "disabled"
    link(lab, "alpha", "enable", "link1")
    wait_for_links(lab, "link1", "third")


def test_what_a_peer_refuses_that_was_away_is_said_in_status(two_links):
    two_links.kill("beta")
    two_links.wait_state("alpha", "simplex", 20)
    ports = free_ports(2, "127.0.9.1")
    # Alpha's operator may lead a link anywhere; beta's file knows no such network.
    link(two_links, "alpha", "add", "far", f"alpha=127.0.9.1:{ports[0]}", "beta=192.0.2.7:7700")
    two_links.start("beta")
    two_links.wait_state("alpha", "duplex", 20)
    wait_until(lambda: "beta refuses that link far is added" in
               two_links.status("alpha")["status"], 10, "a word about it")
    assert "192.0.2.7" in two_links.status("alpha")["status"]
    assert "far" not in links_of(two_links, "beta")
    link(two_links, "alpha", "remove", "far")
    wait_until(lambda: "refuses" not in two_links.status("alpha")["status"], 10, "nothing to say")


def test_files_that_differ_are_said_in_status(make_lab):
    lab = make_lab(start=False)
    lab.set_node_config("beta", lab.config_text({"peer_timeout": "3s", "on_peer_loss": "freeze"}))
    lab.up()
    for name, text in (("alpha", "peer_timeout (2.00 s here, 3.00 s there)"),
                       ("beta", "peer_timeout (3.00 s here, 2.00 s there)")):
        said = lab.status(name)["status"]
        assert text in said and "on_peer_loss" in said, said
        assert "disk_timeout" not in said and "link1" not in said, said
    assert lab.status("alpha")["state"] == "duplex"


def test_changes_last_until_both_processes_have_ended(two_links):
    link(two_links, "alpha", "add", "third", *ends())
    link(two_links, "alpha", "remove", "link1")
    wait_for_links(two_links, "link2", "third")
    for node in NODES:
        two_links.kill(node)
        two_links.start(node)
        wait_for_links(two_links, "link2", "third")
    for node in NODES:
        two_links.kill(node)
    for node in NODES:
        two_links.start(node)
    wait_for_links(two_links, "link1", "link2")
