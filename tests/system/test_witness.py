"""Two nodes and a witness: any two of them, and of the links between them, fail in either order and come back in
either order. What must hold then stands in docs/when-what-fails.md, a row for each line of PAIRS."""

import itertools
import os
import re
import time

import pytest

from conftest import HERE
from lablib.lab import NODES
from lateness import Lateness
from links_support import need_namespaces
from witness_support import HASTY_PEER_TIMEOUT, PEER_TIMEOUT, SIZE, Manager, Service

ROUNDS = int(os.environ.get("TWINBLOCK_WITNESS_ROUNDS", "3"))
# Who writes after the first failure; alpha was primary. Where it is the other one, it was promoted.
ALONE = {"alpha": "beta"}
# The first failure, the second one: who writes then (None: nobody; who is primary is frozen); and, where that
# changes it, who writes when one of the two has ended.
PAIRS = {
    ("alpha", "beta"): (None, {"beta": "beta"}),
    ("beta", "alpha"): (None, {"alpha": "alpha"}),
    ("alpha", "link1"): ("beta", {}),
    ("link1", "alpha"): ("beta", {}),
    ("alpha", "links"): ("beta", {}),
    ("links", "alpha"): (None, {"alpha": "alpha"}),  # alpha went on alone: beta lacks what it wrote
    ("alpha", "witness"): ("beta", {}),
    ("witness", "alpha"): (None, {"alpha": "alpha", "witness": "beta"}),
    ("alpha", "witness-alpha"): ("beta", {}),
    ("witness-alpha", "alpha"): ("beta", {}),
    ("alpha", "witness-beta"): ("beta", {}),
    ("witness-beta", "alpha"): (None, {"alpha": "alpha", "witness-beta": "beta"}),
    ("beta", "link1"): ("alpha", {}),
    ("link1", "beta"): ("alpha", {}),
    ("beta", "links"): ("alpha", {}),
    ("links", "beta"): ("alpha", {}),
    ("beta", "witness"): ("alpha", {}),
    ("witness", "beta"): (None, {"beta": "alpha", "witness": "alpha"}),
    ("beta", "witness-alpha"): ("alpha", {}),
    ("witness-alpha", "beta"): (None, {"beta": "alpha", "witness-alpha": "alpha"}),
    ("beta", "witness-beta"): ("alpha", {}),
    ("witness-beta", "beta"): ("alpha", {}),
    ("link1", "links"): ("alpha", {}),
    ("links", "link1"): ("alpha", {}),
    ("link1", "witness"): ("alpha", {}),
    ("witness", "link1"): ("alpha", {}),
    ("link1", "witness-alpha"): ("alpha", {}),
    ("witness-alpha", "link1"): ("alpha", {}),
    ("link1", "witness-beta"): ("alpha", {}),
    ("witness-beta", "link1"): ("alpha", {}),
    ("links", "witness"): ("alpha", {}),
    ("witness", "links"): (None, {"links": "alpha", "witness": "alpha"}),
    ("links", "witness-alpha"): ("alpha", {}),
    ("witness-alpha", "links"): ("beta", {}),  # alpha is frozen, beta may be promoted, and alpha yields
    ("links", "witness-beta"): ("alpha", {}),
    ("witness-beta", "links"): ("alpha", {}),
    ("witness", "witness-alpha"): ("alpha", {}),
    ("witness-alpha", "witness"): ("alpha", {}),
    ("witness", "witness-beta"): ("alpha", {}),
    ("witness-beta", "witness"): ("alpha", {}),
    ("witness-alpha", "witness-beta"): ("alpha", {}),
    ("witness-beta", "witness-alpha"): ("alpha", {}),
}
UNORDERED = sorted({tuple(sorted(pair)) for pair in PAIRS})


@pytest.fixture
def peer_timeout():
    return PEER_TIMEOUT


@pytest.fixture
def service(make_lab, rng, peer_timeout):
    """Two links between the nodes, one from each to the witness."""
    need_namespaces()
    lab = make_lab(size=f"{SIZE}", peer_timeout=peer_timeout, links=2, host_namespaces=True, witness="etcd",
                   witness_settings={"timeout": "1s"})
    return Service(lab, rng)


def writes(service, name):
    """That node's clients are answered, and nobody else could become primary; or nobody's are."""
    if name is None:
        service.nobody_writes()
    else:
        if service.lab.status(name)["role"] != "primary":
            service.promotes(name)
        service.alone_or_not_writes(name)
    service.nobody_else_is_promoted(name)


def play(service, first, second, healed):
    """One round of that pair; `healed` is the one that ends first. alpha is primary before and after."""
    then, after = PAIRS[first, second]
    story = [ALONE.get(first, "alpha"), then, after.get(healed, then)]
    print(f"{first} fails, {second} fails, {healed} comes back: {story}")
    service.failures.happen(first)
    writes(service, story[0])
    service.failures.happen(second)
    writes(service, story[1])
    service.failures.heal(healed)
    if healed in NODES and story[2] == healed:
        service.goes_on_by_itself(healed)
    writes(service, story[2])
    service.failures.heal(second if healed == first else first)
    assert service.heals() == [name for name in story if name][-1], "who has written goes on"
    service.change_sides("alpha")


def combinations(pair):
    for first, second in (pair, pair[::-1]):
        for healed in (first, second):
            yield first, second, healed


def name_of(pair):
    return "+".join(pair)


@pytest.mark.slow
@pytest.mark.parametrize("pair", UNORDERED, ids=name_of)
def test_pair_of_failures(service, rng, pair):
    """In one of the two orders, healed in one of the two; the next test takes all four."""
    play(service, *rng.choice(list(combinations(pair))))


@pytest.mark.long
@pytest.mark.parametrize("pair", UNORDERED, ids=name_of)
def test_pair_of_failures_in_every_order(service, pair):
    for number, combination in enumerate(combinations(pair)):
        if number:
            service.begin()
        play(service, *combination)


def test_every_pair_is_in_the_page_for_users():
    page = (HERE.parents[1] / "docs" / "when-what-fails.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`\[([a-z0-9+-]+)\]`", page)) - {"x+y"}
    assert told == {name_of(pair) for pair in UNORDERED}
    for file, test in re.findall(r"`(test_\w+\.py)(?:::(\w+))?`", page):
        assert f"def {test or 'test_'}" in (HERE / file).read_text(encoding="utf-8"), f"{file}::{test}"


def witness_restarts(service):
    """How often alpha lost its peer meanwhile; its clients go on."""
    def losses():
        return service.lab.wait_state("alpha", "duplex")["counters"]["peer_losses"]

    before = losses()
    service.failures.happen("witness")
    writes(service, "alpha")
    service.failures.heal("witness")
    writes(service, "alpha")
    return losses() - before


@pytest.mark.slow
def test_both_links_are_cut_and_heal_in_every_order_and_etcd_restarts(service):
    """After each, etcd is killed and restarted, which nobody notices; what it knew it still knows."""
    network = service.lab.network()
    orders = list(itertools.permutations(["link1", "link2"]))
    for number, (cut, healed) in enumerate(itertools.product(orders, orders)):
        if number:
            service.begin()
        for link in cut:
            network.cut(link)
        writes(service, "alpha")
        for link in healed:
            network.restore(link)
        # A node that this machine does not let run for longer than the peer's timeout is lost, whatever etcd does.
        for _ in range(5):
            with Lateness() as machine:
                losses = witness_restarts(service)
            if losses == 0 or machine.longest_s() < 0.25:
                break
        assert losses == 0, "a peer is lost with the witness"
        assert service.heals() == "alpha"


def test_a_witness_that_changes_sides(service):
    """A tie-breaker could not help either side then."""
    for name in ("links", "witness-beta"):
        service.failures.happen(name)
    writes(service, "alpha")
    service.failures.happen("witness-alpha")
    service.failures.heal("witness-beta")
    service.is_refused("beta", "says that alpha may have gone on alone")
    writes(service, "alpha")
    for name in ("links", "witness-alpha"):
        service.failures.heal(name)
    assert service.heals() == "alpha"


def test_last_one_standing(service):
    """beta leaves in order. With the witness' consent alpha goes on, also when the witness goes thereafter; if that
    was away before, alpha waits."""
    lab = service.lab
    assert lab.stop("beta")
    writes(service, "alpha")
    service.failures.happen("witness")
    writes(service, "alpha")
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    assert lab.stop("beta")
    writes(service, None)
    service.failures.heal("witness")
    writes(service, "alpha")
    lab.start("beta")
    assert service.heals() == "alpha"


@pytest.mark.slow
@pytest.mark.seconds(300 + 60 * ROUNDS)
@pytest.mark.parametrize("peer_timeout", [HASTY_PEER_TIMEOUT])
def test_double_failures_at_random(service, rng):
    """At any time, in any way, healed at any time and in any order, while somebody tries to promote whoever is not
    primary: afterwards there is one history, and everything that was acknowledged is in it."""
    for number in range(ROUNDS):
        if number:
            service.begin()
        chosen = rng.sample(service.failures.names, 2)
        story = [("fails", name, rng.choice(["cut", "silent"])) for name in chosen]
        story += [("heals", name, None) for name in rng.sample(chosen, 2)]
        print(f"round {number + 1} of {ROUNDS}: {story}")
        with Manager(service.lab):
            for what, name, way in story:
                if what == "fails":
                    service.failures.happen(name, way)
                else:
                    service.failures.heal(name)
                time.sleep(rng.choice([0, 0.1, 0.5, 1.5, 3]))
            service.heals()
