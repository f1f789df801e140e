"""Links of tools/lab that have a delay (delay_line.c): how long packets are on the way, what becomes of those that find
no room, and that nothing stays behind. The nodes do not run here."""

import re
import subprocess
import sys

import pytest

from lablib import Lab, LabError, delay_line
from lablib.error import LIVENESS_S
from lablib.links import parse_delay
from lablib.network import unavailable
from support import wait_until

DELAY_MS = 20
SENDER = """
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(2000): sock.sendto(bytes(1400), (sys.argv[1], 9))
"""


@pytest.fixture
def lab(scratch):
    """link1 with a delay, link2 without; without nodes."""
    reason = unavailable() or delay_line.unavailable()
    if reason:
        pytest.skip(reason)
    made = Lab(scratch / "lab")
    made.create(size="4MiB", links=2, rates=["200mbit"], delays=[f"{DELAY_MS}ms", "none"], host_namespaces=True)
    try:
        yield made
    finally:
        made.down()


def round_trip_ms(lab, link, start="alpha"):
    """The shortest of some: what a busy machine does not add to."""
    end = lab.link_address(link, "beta" if start == "alpha" else "alpha")
    said = subprocess.run([*lab.inside(start), "ping", "-c", "5", "-i", "0.05", "-q", end], capture_output=True,
                          text=True, check=True, timeout=LIVENESS_S).stdout
    return float(re.search(r"= ([\d.]+)/", said)[1])


def test_packets_are_on_the_way_for_as_long_as_is_said(lab):
    lab.start_network()
    for start in ("alpha", "beta"):
        assert round_trip_ms(lab, "link1", start) >= 2 * DELAY_MS
    # Until this machine was quick enough for once.
    wait_until(lambda: round_trip_ms(lab, "link1") < 2.2 * DELAY_MS and round_trip_ms(lab, "link2") < DELAY_MS,
               what="the right round trips")


def test_links_with_a_delay_can_be_silenced_and_cut(lab):
    lab.start_network()
    network = lab.network()
    for end, start in ((network.drop, "beta"), (network.cut, "alpha"),
                       (lambda link: network.cut(link, "beta"), "alpha")):
        end("link1")
        with pytest.raises(subprocess.CalledProcessError):
            round_trip_ms(lab, "link1", start)
        network.restore("link1")
        wait_until(lambda: round_trip_ms(lab, "link1") >= 2 * DELAY_MS, what="the link to carry again")


def test_what_finds_no_room_is_dropped_and_told(lab, monkeypatch):
    monkeypatch.setattr(delay_line, "BURST_BYTES", 0)
    monkeypatch.setattr(delay_line, "BYTES_PER_S", 0)
    lab.start_network()
    link = lab.state["links"][0]
    lab.network().shape("link1", "none")
    assert not delay_line.dropped(lab.dir, link)

    def blast():
        subprocess.run([*lab.inside("alpha"), sys.executable, "-c", SENDER, lab.link_address("link1", "beta")],
                       check=True)
        return "frames dropped" in delay_line.dropped(lab.dir, link)
    wait_until(blast, what="frames to be dropped")
    assert round_trip_ms(lab, "link1") >= 2 * DELAY_MS


@pytest.mark.parametrize("host", ["alpha", "beta"])
def test_a_line_ends_with_each_of_its_namespaces(lab, host):
    lab.start_network()
    line = lab.network().lines["link1"]
    assert line.alive()
    lab.network().keepers[host].kill()
    wait_until(lambda: not line.alive(), what="the line to end")


def test_a_line_ends_with_the_lab(lab):
    lab.start_network()
    line = lab.network().lines["link1"]
    lab.down()
    assert not line.alive()


def test_a_delay_without_its_device_is_refused(lab, monkeypatch, scratch):
    monkeypatch.setattr(delay_line, "TUN", scratch / "tun")
    with pytest.raises(LabError, match="modprobe tun"):
        lab.start_network()


@pytest.mark.parametrize("text", ["1", "ms", "-1ms", "0ms", "2s", "1 minute"])
def test_what_is_no_delay_is_refused(text):
    with pytest.raises(LabError, match="is not a delay"):
        parse_delay(text)
    assert [parse_delay(each) for each in ("1ms", "0.5 ms", "200us", "1s", "none")] == [1000, 500, 200, 10**6, None]
