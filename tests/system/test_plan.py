"""`twinblock plan`: what it says of real writes, and what it lacks."""

import json
import os

import pytest

from links_support import need_namespaces
from support import KIB, MIB, Fio, connection, ctl, wait_until


def plan(lab, *words, node="alpha"):
    shown = ctl(lab, node, "plan", "--json", "--window", "start", *words)
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)


def test_what_was_written_without_the_peer_is_no_measure_of_links(lab):
    """It was on no link, and took other times than with the peer."""
    write_some(lab)
    lab.kill("beta")
    lab.wait_state("alpha", "simplex")
    write_some(lab, count=40)
    assert lab.ctl("alpha", "latency")["load"]["simplex_writes"] == 40
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    write_some(lab, count=40)
    load = lab.ctl("alpha", "latency")["load"]
    assert (load["simplex_writes"], load["simplex_bytes"]) == (40, 40 * 16 * KIB) and load["simplex_ns"] > 0
    refused = ctl(lab, "alpha", "plan", "--window", "start", "--now", "1Gbit")
    assert refused.returncode == 1 and "in simplex, without the peer" in refused.stderr, refused.stderr
    assert "plan r0 --window 60s" in refused.stderr.split("to do:")[1], refused.stderr
    told = json.loads(ctl(lab, "alpha", "latency", "--window", "start", "--json").stdout)["verdict"]
    assert "which says nothing of links" in told[0], told
    assert not any("link is full" in each or "help" in each for each in told[1:]), told


def write_some(lab, count=300, length=16 * KIB):
    data = os.urandom(length)
    with connection(lab) as handle:
        for number in range(count):
            handle.pwrite(data, number * length % (8 * MIB))


@pytest.mark.sanitize
def test_plan_says_what_it_lacks_and_then_plans(lab):
    nothing = ctl(lab, "alpha", "plan")
    assert nothing.returncode == 1 and "nothing to plan with" in nothing.stderr and "to do:" in nothing.stderr
    write_some(lab)
    told = plan(lab, "--now", "1Gbit")
    assert [row["title"] for row in told["links"]] == ["1 Gbit/s", "10 Gbit/s", "25 Gbit/s", "100 Gbit/s",
                                                       "a second link"]
    for row in (told["now"], *told["links"]):
        assert [each["class"] for each in row["classes"]] == ["16K"]
        assert row["bytes_per_s"] > 0 and 0 <= row["busy_share"] <= 1
        assert all(each["p50_ns"] <= each["p99_ns"] for each in row["classes"])
        # 300 different pieces of 16 KiB.
        assert [round(each["bytes"] / MIB) for each in row["resync"]] == [5, 5, 5], row["resync"]
    assert told["sure"]["level"] != "good" and "fewer than 1000 writes were measured" in told["sure"]["doubts"], told["sure"]
    text = ctl(lab, "alpha", "plan", "--window", "start", "--now", "1Gbit")
    assert text.returncode == 0 and len(text.stdout.splitlines()) <= 30
    assert "A faster link" in text.stdout and "It rests on 300 writes" in text.stdout, text.stdout
    secondary = ctl(lab, "beta", "plan", "--now", "1Gbit")
    assert secondary.returncode == 1 and "on the primary" in secondary.stderr


def test_zeroes_are_told_as_what_does_not_travel(lab):
    """Half of what is written."""
    with connection(lab) as handle:
        for number in range(64):
            handle.pwrite(os.urandom(64 * KIB) if number % 2 else bytes(64 * KIB), number * 64 * KIB)
    told = lab.ctl("alpha", "latency")
    assert (told["wire_part"], told["zero_part"]) == (0.5, 0.5)
    now = plan(lab, "--now", "1Gbit")["now"]
    assert abs(now["wire_bytes_per_s"] / now["bytes_per_s"] - 0.5) < 0.01, now
    assert not any("compression" in each["title"] for each in plan(lab, "--now", "1Gbit")["changes"])


@pytest.mark.parametrize("words, why", [
    (("--link", "fast"), "--link 'fast' is no link"),
    (("--link", "10Gbit,ping=1ms"), "rtt=80us"),
    (("--now", "0Gbit"), "--now '0Gbit' is no rate"),
    (("--window", "5s"), "--window"),
])
def test_a_wrong_option_is_told(lab, words, why):
    wrong = ctl(lab, "alpha", "plan", *words)
    assert wrong.returncode == 2 and why in wrong.stderr, wrong.stderr


def test_a_line_that_is_longer_costs_each_write_that_much(lab):
    write_some(lab)
    near, far = plan(lab, "--now", "10Gbit", "--link", "10Gbit", "--link", "10Gbit,rtt=1s")["links"]
    assert 0.9e9 < far["mean_ns"] - near["mean_ns"] <= 1e9
    assert far["writes_per_s"] < 1.1


def test_a_full_link_is_told_as_full_and_a_faster_one_as_help(make_lab, scratch):
    """By the stages alone: what is measured here has no time that a busy machine could spoil."""
    need_namespaces()
    lab = make_lab(size="64MiB", links=1, rates=["100mbit"], host_namespaces=True)
    load = Fio(lab.node("alpha")["nbd"], scratch, bs="128k", iodepth=8, runtime=None)
    wait_until(lambda: sum(each["writes"] for each in lab.ctl("alpha", "latency")["classes"]) > 100 or not load.running(),
               what="a hundred writes")
    # Of a recording it is told whether one gigabit link does, whatever the present one carries: here 20 MB/s are too much.
    recording = scratch / "fio.json"
    recording.write_text(json.dumps({"fio version": "3", "timestamp": 1000, "jobs": [
        {"jobname": "a", "groupid": 0, "write": {"io_bytes": 40_000_000, "total_ios": 5000, "runtime": 2000}}]}))
    judged = json.loads(ctl(lab, "alpha", "plan", "--json", "--from", str(recording)).stdout)
    assert judged["limits_used"] == "measured" and judged["zones"]["write_bytes_per_s"]["p95"] == "green", judged
    load.finish()
    [each] = lab.ctl("alpha", "latency")["classes"]
    stages = {name: times["sum_ns"] for name, times in each["stages"].items()}
    assert stages["link-queue"] > each["total"]["sum_ns"] / 2, stages
    told = plan(lab)
    assert "A faster link will help" in told["recommendation"]
    assert told["while_writing"]["busy_share"] > 0.7
    assert "The link is full" in ctl(lab, "alpha", "latency").stdout
