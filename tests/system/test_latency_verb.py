"""`twinblock latency`: the figures of real writes, as text, as JSON, and live."""

import json
import os
import pty
import select
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from lablib.error import LIVENESS_S
from support import KIB, MIB, connection, ctl, wait_until

STAGES = {"prepare", "compression", "queue", "intent", "send", "crypto", "link-queue", "wire", "stack", "peer-queue",
          "peer-disk", "local-disk", "completion"}


def write_some(lab, small=200, large=20):
    with connection(lab) as handle:
        for i in range(small):
            handle.pwrite(os.urandom(4 * KIB), i * 4 * KIB)
        for i in range(large):
            handle.pwrite(os.urandom(256 * KIB), 8 * MIB + i * 256 * KIB)


def latency(lab, *words):
    shown = ctl(lab, "alpha", "latency", "--json", *words)
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)


@contextmanager
def watching(lab, *words, **popen_options):
    """`twinblock latency --watch 0.2s`; it does not outlive the block."""
    program = Path(lab.state["build"]) / "tools" / "twinblock"
    command = [str(program), "latency", "--socket", lab.node("alpha")["control"], "--watch", "0.2s"]
    with subprocess.Popen([*command, *words], text=True, **popen_options) as watch:
        try:
            yield watch
        finally:
            if watch.poll() is None:
                watch.kill()


@pytest.mark.sanitize
def test_latency_adds_up_and_is_shown(lab):
    empty = ctl(lab, "alpha", "latency")
    assert empty.returncode == 0 and "No writes" in empty.stdout
    assert ctl(lab, "alpha", "latency", "--sample", 1).returncode == 0
    write_some(lab)
    told = latency(lab)
    assert told["sample_every"] == 1 and told["node"] == "alpha"
    classes = {each["class"]: each for each in told["classes"]}
    assert classes["4K"]["writes"] == 200 and classes["larger"]["writes"] == 20
    for each in classes.values():
        assert set(each["stages"]) == STAGES
        assert sum(times["sum_ns"] for times in each["stages"].values()) == each["total"]["sum_ns"]
    assert told["links"][0]["samples"] > 10
    assert any("Of a 4K write's" in sentence for sentence in told["verdict"])
    short = ctl(lab, "alpha", "latency", "--window", "60s").stdout
    assert len(short.splitlines()) <= 30 and "W wire" in short and "peer-disk  " not in short
    text = ctl(lab, "alpha", "latency", "--window", "60s", "--sizes", "--links").stdout
    assert max(map(len, text.splitlines())) <= 80
    for word in ("the last 60 s", "4K (up to 4 KiB): 200 writes", "peer-disk", "W wire", "round trips"):
        assert word in text
    assert "Of a 4K write's" in text and "wire" in text.split("Of a 4K write's")[1]
    assert "\033" not in text, "colours are for terminals"


def test_sampling_can_be_ended(lab):
    said = ctl(lab, "alpha", "latency", "--sample", 0)
    assert said.returncode == 0 and "no write is sampled" in said.stdout
    write_some(lab, small=100, large=0)
    assert latency(lab)["links"][0]["samples"] == 0
    assert "Sampling is off" in ctl(lab, "alpha", "latency").stdout


def test_watch_prints_blocks_where_there_is_no_terminal(lab):
    write_some(lab, large=0)
    for words, window in (((), "10s"), (("--window", "60s"), "60s")):
        with watching(lab, "--json", *words, stdout=subprocess.PIPE) as watch:
            lines = [json.loads(watch.stdout.readline()) for _ in range(3)]
            watch.send_signal(signal.SIGINT)
            assert watch.wait(timeout=LIVENESS_S) == 0
        assert all(line["window"] == window for line in lines)
    assert all(line["classes"][0]["writes"] == 200 for line in lines)  # the last minute's


def test_watch_redraws_in_place_and_ends_on_interrupt(lab):
    write_some(lab, large=0)
    master, slave = pty.openpty()
    with watching(lab, stdout=slave, stdin=slave, env={**os.environ, "TERM": "xterm"}) as watch:
        os.close(slave)
        seen = bytearray()

        def read():
            while select.select([master], [], [], 0)[0]:
                seen.extend(os.read(master, 65536))
            return seen.count(b"\033[H") >= 4

        wait_until(read, 10, "four pictures")
        watch.send_signal(signal.SIGINT)
        assert watch.wait(timeout=LIVENESS_S) == 0
    os.close(master)
    assert seen.count(b"\033[2J") == 1, "only the first one clears the screen"
    assert seen.count(b"\033[J") >= 4 and b"\033[97;44mW" in seen and b"4K" in seen


def test_watch_outlives_a_restart_of_the_node(lab):
    with watching(lab, stdout=subprocess.PIPE) as watch:
        assert "alpha" in watch.stdout.readline()
        lab.kill("alpha")
        deadline = time.monotonic() + LIVENESS_S
        while "trying again" not in watch.stdout.readline():
            assert time.monotonic() < deadline
        lab.start("alpha")
        while "No writes" not in watch.stdout.readline():
            assert time.monotonic() < deadline + LIVENESS_S
        watch.send_signal(signal.SIGTERM)
        assert watch.wait(timeout=LIVENESS_S) == 0
    assert ctl(lab, "alpha", "latency", "--watch", "often", "r0").returncode == 2
