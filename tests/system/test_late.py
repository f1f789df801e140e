"""Hosts that have too much to do: a node that stands still for a while is late and not dead, neither to itself
nor to the other one. What is dead in truth is noticed all the same (test_links.py, test_peer_loss.py)."""

import time

import pytest

from lablib.lab import NODES
from links_support import all_up, links_of, need_namespaces
from support import Fio, assert_identical, wait_until

LINK_TIMEOUT_S = 0.5
PEER_TIMEOUT_S = 30  # no machine is as late as that


@pytest.fixture
def starved(make_lab):
    need_namespaces()
    lab = make_lab(links=2, rates=(), host_namespaces=True, peer_timeout=f"{PEER_TIMEOUT_S}s",
                   settings={"link_timeout": f"{LINK_TIMEOUT_S:g}s"})
    all_up(lab, 2)
    return lab


def losses(lab):
    return {(name, link): each["failovers"] for name in NODES for link, each in links_of(lab, name).items()}


def stand_still(lab, nodes, seconds):
    for name in nodes:
        lab.pause(name)
    try:
        time.sleep(seconds)
    finally:
        for name in nodes:
            lab.resume(name)


def goes_on(lab):
    """Both have heard each other anew, and judged by it, for some ticks."""
    for name in NODES:
        before = {link: each["in_bytes"] for link, each in links_of(lab, name).items()}
        wait_until(lambda name=name, before=before: all(
            each["in_bytes"] > before[link] + 2000 for link, each in links_of(lab, name).items()),
            what=f"{name} to hear its peer over each link")


@pytest.mark.parametrize("who", [("alpha",), ("beta",), NODES], ids=["primary", "secondary", "both"])
def test_a_node_that_stands_still_loses_no_link(starved, scratch_in_memory, who):
    lab = starved
    fio = Fio(lab.node("alpha")["nbd"], scratch_in_memory, rw="randwrite", bs="16k", iodepth=8, runtime=None,
              norandommap=None, rate_iops=200, size="8m")
    try:
        for times_too_long in (0.8, 1.5, 4):
            stand_still(lab, who, times_too_long * LINK_TIMEOUT_S)
            goes_on(lab)
            assert set(losses(lab).values()) == {0}, (times_too_long, losses(lab), lab.status("alpha"))
        assert lab.status("alpha")["state"] == "duplex"
    finally:
        fio.finish()
    assert_identical(lab)
