"""`twinblock probe`: what it says of a link that is known, whom it names as the limit, and that nobody is hurt by it."""

import json
import struct
import subprocess
import threading
import xml.dom.minidom

import pytest

import wire
from encryption_support import tls_lab
from lablib import delay_line
from lablib.control import ControlError
from links_support import need_namespaces
from support import KIB, MIB, assert_identical, connection, ctl, wait_for_log, wait_until

SLACK = 0.12  # how far off a busy machine may be; tests/bench/probe compares with iperf3


def probe(lab, *words, node="alpha"):
    shown = ctl(lab, node, "probe", *words, "--json")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    return json.loads(shown.stdout)["links"]


def probe_until(lab, good, *words, node="alpha"):
    """The first of some probes that is `good`, or the last: a busy machine has not always time for what a link carries."""
    for _ in range(10):
        link, = probe(lab, *words, node=node)
        if good(link):
            break
    return link


def order(lab, action):
    return lab.ctl("alpha", "probe", action=action, link="link1")


def shaped_lab(make_lab, rate):
    need_namespaces()
    return make_lab(size="64MiB", links=1, rates=[rate], host_namespaces=True)


def sysctl(lab, node, setting):
    subprocess.run(lab.inside(node) + ["sysctl", "-qw", setting], check=True)


@pytest.mark.parametrize("rate, bits", [("200mbit", 200e6), ("1gbit", 1e9)])
def test_a_link_is_measured_as_it_is_shaped(make_lab, rate, bits):
    lab = shaped_lab(make_lab, rate)
    payload = bits / 8 * (1448 / 1514)  # of what tbf counts, without headers

    def large_ones_carry_more(each):
        small, large = each["conversations"]
        return small["writes_per_s"] > large["writes_per_s"] and small["bytes_per_s"] < large["bytes_per_s"]

    link = probe_until(lab, lambda each: abs(each["stream"]["bytes_per_s"] / payload - 1) < SLACK
                       and each["limit"] == "link" and large_ones_carry_more(each))
    stream = link["stream"]
    assert abs(stream["bytes_per_s"] / payload - 1) < SLACK
    assert stream["plateau_bytes_per_s"] >= stream["bytes_per_s"]
    assert link["limit"] == "link"
    assert link["frame"]["mtu_bytes"] == 1500 and 0.04 < link["frame"]["headers_share"] < 0.09
    assert sum(stream["interval_bytes"]) == stream["received_bytes"]
    times = link["round_trip"]  # (one that took a busy machine long lifts the average, and not the 99th percentile)
    assert 0 < times["min_ns"] <= min(times["average_ns"], times["p99_ns"])
    assert large_ones_carry_more(link)


def test_a_buffer_that_is_too_small_is_named_with_the_command_that_mends_it(make_lab):
    lab = shaped_lab(make_lab, "10gbit")
    lab.stop("beta")
    sysctl(lab, "beta", "net.ipv4.tcp_rmem=4096 8192 16384")
    lab.start("beta")
    link = probe_until(lab, lambda each: each["limit"] == "receive-buffer")
    assert link["limit"] == "receive-buffer"
    assert any(each["to_do"].startswith("on beta: sysctl -w net.ipv4.tcp_rmem=") for each in link["warnings"])


@pytest.mark.parametrize("rate, delay_ms, node, setting, limit", [
    ("200mbit", 20, "alpha", "wmem=4096 16384 524288", "send-buffer"),
    ("200mbit", 20, "beta", "rmem=4096 131072 524288", "receive-buffer"),
    ("200mbit", 20, "alpha", "wmem=4096 16384 33554432", "link"),
])
def test_on_a_far_link_it_names_the_window_where_that_is_the_limit(make_lab, rate, delay_ms, node, setting, limit):
    need_namespaces()
    if reason := delay_line.unavailable():
        pytest.skip(reason)
    lab = make_lab(size="64MiB", links=1, rates=[rate], delays=[f"{delay_ms}ms"], host_namespaces=True)
    lab.stop("beta")
    sysctl(lab, node, f"net.ipv4.tcp_{setting}")
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    round_trip_ns, buffer_bytes = 2e6 * delay_ms, int(setting.split()[-1])

    def under_way(each):
        return each["stream"]["bytes_per_s"] * each["round_trip"]["average_ns"] / 1e9 / buffer_bytes

    def right(each):
        return each["limit"] == limit and each["round_trip"]["min_ns"] < 1.25 * round_trip_ns and \
            (limit == "link" or 0.3 < under_way(each) < 1.25)
    link = probe_until(lab, right)
    assert link["limit"] == limit
    assert round_trip_ns <= link["round_trip"]["min_ns"] < 1.25 * round_trip_ns
    warned = "\n".join(each["what"] + each["to_do"] for each in link["warnings"])
    assert (f"on {node}: sysctl -w net.ipv4.tcp_{setting[:4]}" in warned) == (limit != "link"), warned
    if limit != "link":
        # What the window lets through in a round trip comes in bursts: those pauses are no lost packets.
        assert 0.3 < under_way(link) < 1.25 and "nothing came" not in warned
        assert 0.5 < link["stream"]["bytes_per_s"] / link["window"]["most_bytes_per_s"] < 1.25


def test_a_slow_link_is_given_the_time_for_what_lies_ahead(make_lab):
    """What is queued when the stream ends takes it longer than the patience with a peer that says nothing."""
    lab = shaped_lab(make_lab, "500kbit")
    link, = probe(lab)
    stream = link["stream"]
    assert 512 * KIB < stream["received_bytes"] < 2 * MIB, "no minutes' worth of it"
    assert stream["received_bytes"] / stream["bytes_per_s"] > 5, stream


def test_settings_that_differ_are_warned_of(make_lab):
    lab = shaped_lab(make_lab, "1gbit")
    interface = probe(lab)[0]["frame"]["interface"]
    subprocess.run(lab.inside("alpha") + ["ip", "link", "set", interface, "mtu", "1400"], check=True)
    link, = probe(lab)
    to_do = {each["what"]: each["to_do"] for each in link["warnings"]}
    assert to_do["the MTU differs: 1400 at alpha, 1500 at beta"].startswith(
        f"on alpha: ip link set {interface} mtu 1500")


def test_it_works_before_there_is_a_volume(make_lab):
    lab = make_lab(init=False)
    for node in ("alpha", "beta"):
        link, = probe(lab, node=node)
        assert link["stream"]["received_bytes"] > 0


def test_encrypted_links_are_measured_as_they_are(make_lab):
    link, = probe(tls_lab(make_lab))
    assert link["encrypted"] and link["stream"]["received_bytes"] > 0


def wait_of_second_stream(lab):
    """In ns, of two probes one after the other; 0 where it does not wait."""
    def probe_at(*stages):
        seen = [order(lab, "result")["probe"]]
        wait_until(lambda: seen[-1]["stage"] in stages or seen.append(order(lab, "result")["probe"]), what=f"one of {stages}")
        return seen[-1]

    for _ in range(2):
        probe_at("done", "failed")
        order(lab, "begin")
    second = probe_at("waiting", "streaming", "done", "failed")
    return second["wait_ns"] if second["stage"] == "waiting" else 0


def test_clients_go_on_and_streams_wait_for_each_other(make_lab):
    lab = make_lab(links=2, peer_timeout="30s")  # no machine is as late as that
    before = lab.status("alpha")["counters"]["peer_losses"]
    ended = threading.Event()
    with connection(lab) as handle:
        def write():
            place = 0
            while not ended.is_set():
                handle.pwrite(bytes([place % 251]) * 64 * KIB, place * 64 * KIB % (32 * MIB))
                place += 1
        writer = threading.Thread(target=write)
        writer.start()
        try:
            # The links' rates have to be known as those of a volume in use. Without clients it were a second.
            link = probe_until(lab, lambda each: each["clients_write"] and each["stream"]["seconds"] < 1,
                               "--link", "link1", "--duty", "100")
            assert link["clients_write"] and link["stream"]["seconds"] < 1
            # Whoever says nothing of a duty takes little of the link: the next stream waits.
            waits = [wait_of_second_stream(lab)]
            while waits[-1] <= 1e9 and len(waits) < 10:  # the clients may have come to little meanwhile
                waits.append(wait_of_second_stream(lab))
            assert waits[-1] > 1e9, waits
        finally:
            ended.set()
            writer.join()
        handle.flush()
    assert lab.status("alpha")["counters"]["peer_losses"] == before
    assert_identical(lab)


def test_clients_of_the_peer_go_on_too(make_lab):
    """The node that probes only takes what they write."""
    lab = make_lab()
    ended = threading.Event()
    with connection(lab) as handle:
        def write():
            while not ended.wait(0.01):  # little enough that the answers to it are next to nothing
                handle.pwrite(b"w" * 64 * KIB, 0)
        writer = threading.Thread(target=write)
        writer.start()
        try:
            link = probe_until(lab, lambda each: each["clients_write"] and each["stream"]["seconds"] < 1,
                               "--duty", "100", node="beta")
        finally:
            ended.set()
            writer.join()
    assert link["clients_write"] and link["stream"]["seconds"] < 1


def test_each_probe_begins_anew(make_lab):
    lab = make_lab(links=2)
    for _ in range(2):
        links = probe(lab)
        assert len(links) == 2
        for link in links:
            assert link["round_trip"]["samples"] > 1
            assert all(each["writes_per_s"] > 0 for each in link["conversations"]), link["conversations"]


def test_the_picture_is_svg_with_each_link(make_lab, scratch):
    lab = make_lab(links=2)
    path = scratch / "links.svg"
    shown = ctl(lab, "alpha", "probe", "--plot", str(path))
    assert shown.returncode == 0 and "limit" in shown.stdout and str(path) in shown.stdout
    picture = xml.dom.minidom.parse(str(path))
    texts = "".join(each.firstChild.data for each in picture.getElementsByTagName("text"))
    assert "link1, alpha to beta" in texts and "link2, alpha to beta" in texts
    unwritable = ctl(lab, "alpha", "probe", "--link", "link9", "--plot", str(scratch / "missing" / "a.svg"))
    assert unwritable.returncode == 1 and "No such file" in unwritable.stderr, "told before anything is probed"
    assert ctl(lab, "alpha", "probe", "--link", "link9", "--plot", str(scratch / "new.svg")).returncode == 1
    assert not (scratch / "new.svg").exists()


def test_what_can_not_be_probed_is_told(lab):
    wrong = ctl(lab, "alpha", "probe", "--link", "link9")
    assert wrong.returncode == 1 and "there is no link link9" in wrong.stderr and "link1" in wrong.stderr
    assert "SVG" in ctl(lab, "alpha", "probe", "--plot", "a.png").stderr
    assert ctl(lab, "alpha", "probe", "--duty", "101").returncode == 2
    none = ctl(lab, "alpha", "probe", "--duty", "0")
    assert none.returncode == 2 and "1 to 100" in none.stderr, none.stderr
    lab.kill("beta")
    gone = ctl(lab, "alpha", "probe")
    assert gone.returncode == 1 and "not probed" in gone.stdout and "refused" in gone.stdout
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    assert probe(lab)[0]["stream"]["received_bytes"] > 0


def test_a_peer_that_stands_still_is_not_waited_for(lab):
    """Its kernel takes the connection all the same."""
    lab.pause("beta")
    try:
        silent = ctl(lab, "alpha", "probe")
    finally:
        lab.resume("beta")
    said = silent.stdout + silent.stderr
    assert silent.returncode == 1 and "beta has not answered for" in said, said
    lab.wait_state("alpha", "duplex")


def begin(sock):
    sock.sendall(wire.frame(wire.PROBE, aux0=wire.read_challenge(sock)))
    return wire.read_frame(sock)


@pytest.mark.sanitize
def test_who_probes_from_the_peers_address_gets_answers_one_at_a_time_and_nothing_else(make_lab):
    lab = make_lab(encryption="off", peer_timeout="30s")
    address, losses = lab.node("beta")["replication"], lab.status("alpha")["counters"]["peer_losses"]
    with wire.dial(address) as sock:  # a recording
        sock.sendall(wire.frame(wire.PROBE, aux0=wire.read_challenge(sock) ^ 1))
        assert wire.read_until_closed(sock) == b""
    with wire.dial(address) as sock:  # it is gone in the middle of a stream, which counts for nobody
        assert begin(sock)[0] == wire.PROBE_HOST
        sock.sendall(wire.frame(wire.PROBE_DATA, bytes(64 * KIB)) + wire.frame(wire.PROBE_ASK, sequence=1))
        assert wire.read_frame(sock)[0] == wire.PROBE_ANSWER

    def has_room():
        with wire.dial(address) as sock:
            if begin(sock)[0] != wire.PROBE_HOST:
                return False
            sock.sendall(wire.frame(wire.PROBE_HOST))  # out of turn: it is closed there before it is here
            return wire.read_until_closed(sock) == b""
    wait_until(has_room, what="room for the next one")
    for _ in range(2):
        with wire.dial(address) as sock, wire.dial(address) as second:
            assert begin(sock)[0] == wire.PROBE_HOST
            kind, why = begin(second)
            assert kind == wire.REFUSE and b"another probe" in why
            sock.sendall(wire.frame(wire.PROBE_ASK, bytes(4 * KIB), sequence=7))
            fields, _ = wire.read_header_and_payload(sock)
            assert fields[2] == wire.PROBE_ANSWER and fields[6] == 7
            for _ in range(2):  # streams one after the other are counted anew
                for last in (0, 0, 1):
                    sock.sendall(wire.frame(wire.PROBE_DATA, bytes(64 * KIB), status=last))
                fields, counted = wire.read_header_and_payload(sock)
                assert fields[2] == wire.PROBE_REPORT and fields[8] == 3 * (64 * KIB + 64)
                assert sum(struct.unpack(f"<{len(counted) // 4}I", counted)) == fields[8]
            sock.sendall(wire.frame(wire.DATA, bytes(4 * KIB), length=4 * KIB))
            assert wire.read_until_closed(sock) == b""
    assert lab.status("alpha")["counters"]["peer_losses"] == losses
    wait_for_log(lab, "beta", "before the handshake has finished")  # said after the connection has ended
    assert lab.status("beta")["state"] == "duplex"


@pytest.mark.sanitize
def test_who_probes_and_does_not_read_the_answers_is_closed(make_lab):
    """… before they have filled more than the kernel's buffers."""
    lab = make_lab(encryption="off")
    asks = wire.frame(wire.PROBE_ASK, sequence=1) * KIB
    with wire.dial(lab.node("beta")["replication"]) as sock:
        assert begin(sock)[0] == wire.PROBE_HOST
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            for _ in range(64 * MIB // len(asks)):
                sock.sendall(asks)
    wait_for_log(lab, "beta", "does not read the answers")  # said after the connection has ended
    assert lab.status("beta")["state"] == "duplex"
    assert probe(lab, node="beta")[0]["stream"]["received_bytes"] > 0


@pytest.mark.sanitize
def test_one_at_a_time(lab):
    lab.ctl("alpha", "probe", action="begin", link="link1")
    with pytest.raises(ControlError, match="is being probed"):
        lab.ctl("alpha", "probe", action="begin", link="link1")
    wait_until(lambda: lab.ctl("alpha", "probe", action="result")["probe"]["stage"] == "done", what="the probe to end")
