"""Hosts that have far too much to do: late is not dead. Twenty busy processes on each host's one processor, the times
of the file that nobody has changed (500 ms for a link, 5 s for the peer), two links, a load that writes: no link is
lost.

$TWINBLOCK_STARVED_SECONDS long."""

import json
import os
import time

import pytest
from machine import LINKS

SECONDS = int(os.environ.get("TWINBLOCK_STARVED_SECONDS", "60"))
BUSY = 20
PATIENCE_S = 900  # for an order to such a host
LATE = "/tmp/lateness"
# A host in which one who only sleeps is later than this stands still, for longer than some peer_timeout would bear: that
# says something of the machine below it.
STANDS_STILL_S = 1.5


def events(volume, host):
    said = volume.order(host, "events", "--json", timeout_s=PATIENCE_S)
    return [json.loads(line) for line in said.splitlines()]


def test_no_link_is_lost_without_a_fault(make_volume):
    volume = make_volume(timeouts="", around="nice -n -10")  # as its unit does
    both = (volume.alpha, volume.beta)
    volume.order(volume.alpha, "attach")
    volume.mount(volume.alpha)
    volume.write(volume.alpha)
    for host in both:
        assert [link["state"] for link in volume.status(host)["links"]] == ["up"] * LINKS
    seen = {host.name: events(volume, host)[-1]["number"] for host in both}
    latest_s = 0
    try:
        for host in both:
            host.run(f"for i in $(seq {BUSY}); do setsid sh -c 'while :; do :; done' </dev/null >/dev/null 2>&1 & "
                     "echo $!; done >/tmp/busy.pids; "
                     f"setsid {host.program('lateness.py')} {LATE} </dev/null >/dev/null 2>&1 & "
                     "echo $! >>/tmp/busy.pids", PATIENCE_S)
        before = volume.writes(volume.alpha)
        time.sleep(SECONDS)
        for host in both:
            busy, load, late = host.run("kill -0 $(cat /tmp/busy.pids) && wc -l </tmp/busy.pids; cat /proc/loadavg; "
                                        f"tail -n 1 {LATE}", PATIENCE_S).splitlines()
            print(f"{host.name}: {int(busy) - 1} busy processes, load {load}; one that only slept was late by {late}")
            assert int(busy) == BUSY + 1
            latest_s = max(latest_s, float(late.split()[1]))
        writes = volume.writes(volume.alpha) - before
    finally:
        for host in both:
            host.run("kill -KILL $(cat /tmp/busy.pids); rm /tmp/busy.pids", PATIENCE_S, check=False)
    print(f"{SECONDS} s, {writes} synced writes meanwhile, the longest {volume.longest_write_s(volume.alpha)} s")
    assert writes > 0
    for host in both:
        since = [event for event in events(volume, host) if event["number"] > seen[host.name]]
        lost = [event for event in since
                if event["event"] in ("dropped", "link-lost", "failover", "session-lost", "state")]
        if lost and latest_s > STANDS_STILL_S:
            pytest.skip(f"the machine was too busy to tell: a process that only sleeps was {latest_s} s late")
        assert not lost, f"{host.name}:\n" + "\n".join(map(str, since))
        assert volume.status(host)["counters"]["peer_losses"] == 0
    assert volume.status(volume.alpha)["state"] == "duplex"
    volume.end_writer_and_check(volume.alpha)
    volume.check_no_error(volume.alpha)
    assert "identical" in volume.order(volume.alpha, "verify")
