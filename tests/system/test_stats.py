"""`twinblock stats`: what a node counts, against what was done to it."""

import json
import os

import pytest

from support import KIB, MIB, connection, ctl, wait_until


def stats(lab, name="alpha"):
    shown = ctl(lab, name, "stats", "--json")
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)


@pytest.mark.sanitize
def test_stats_count_what_clients_did(lab):
    with connection(lab) as handle:
        before = stats(lab)
        for i in range(10):
            handle.pwrite(os.urandom(4 * KIB), i * 4 * KIB)
        for i in range(3):
            handle.pwrite(os.urandom(256 * KIB), MIB + i * 256 * KIB)
        handle.pread(8 * KIB, 0)
        handle.zero(64 * KIB, 8 * MIB)
        handle.flush()
        after = stats(lab)
    grown = {key: after[key] - before[key]
             for key in ("writes", "write_bytes", "reads", "read_bytes", "zeroes", "flushes")}
    assert grown == {"writes": 13, "write_bytes": 10 * 4 * KIB + 3 * 256 * KIB, "reads": 1,
                     "read_bytes": 8 * KIB, "zeroes": 1, "flushes": 1}
    sizes = {each["class"]: each["writes"] for each in after["write_sizes"]}
    assert sizes["4K"] == 10 and sizes["larger"] >= 3
    assert after["links"][0]["out_bytes"] > grown["write_bytes"]
    assert after["metadata"]["record_writes"] > 0 and after["metadata"]["intent_commits"] > 0
    assert after["simplex"]["now"] is False
    assert "write sizes: up to 4K: 10" in ctl(lab, "alpha", "stats").stdout


def test_stats_count_the_time_in_simplex(lab):
    before = stats(lab)["simplex"]
    lab.kill("beta")
    wait_until(lambda: stats(lab)["simplex"]["now"], 10, "alpha to be alone")
    alone = stats(lab)["simplex"]
    assert alone["times"] == before["times"] + 1
    wait_until(lambda: stats(lab)["simplex"]["s"] > alone["s"] + 0.2, 5, "time to pass")
    lab.start("beta")
    wait_until(lambda: lab.status("alpha")["state"] == "duplex", 20, "duplex")
    ended = stats(lab)["simplex"]
    assert not ended["now"] and ended["times"] == before["times"] + 1
    assert ended["s"] - before["s"] > 0.2
    assert stats(lab)["simplex"]["s"] == ended["s"], "it stands still in duplex"
    assert stats(lab, "beta")["simplex"] == {"now": False, "s": 0, "times": 0}
