"""`twinblock events`: what happened, in a form for programs; nothing is missed, also at the end."""

import json
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from lablib.error import LIVENESS_S
from support import KIB, connection, ctl, wait_until

REPOSITORY = Path(__file__).resolve().parents[2]


def events(lab, name="alpha", *words):
    shown = ctl(lab, name, "events", "--json", *words)
    assert shown.returncode == 0, shown.stderr
    return [json.loads(line) for line in shown.stdout.splitlines()]


def in_order(lines, *wanted):
    """Whether events with these members come in this order, others between them."""
    rest = iter(lines)
    return all(any(each.items() <= line.items() for line in rest) for each in wanted)


class Follower:
    """`twinblock events --follow`, read in the background."""

    def __init__(self, lab, name, *words):
        program = Path(lab.state["build"]) / "tools" / "twinblock"
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [str(program), "events", "--follow", "--socket", lab.node(name)["control"], *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def end(self):
        self.process.kill()
        self.process.wait()
        self._reader.join()
        return self.lines


@pytest.fixture
def follow():
    """follow(lab, node, words…) begins to follow; none outlives the test."""
    followers = []

    def begin(*words):
        followers.append(Follower(*words))
        return followers[-1]

    yield begin
    for each in followers:
        each.end()


def test_every_event_is_in_the_table():
    told = set()
    for path in (REPOSITORY / "daemon").rglob("*.[ch]*"):
        text = path.read_text(encoding="utf-8")
        told |= set(re.findall(r'\.tell\(\s*"([a-z-]+)"', text))
        told |= set(re.findall(r'\? "([a-z-]+)" : "refused"', text)) | {"refused"}
    table = (REPOSITORY / "docs" / "events.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    documented = set(re.findall(r"`([a-z-]+)`", " ".join(rows)))
    assert len(told) > 20 and told == documented


@pytest.mark.sanitize
def test_the_life_of_a_volume_is_told(lab, follow):
    follower = follow(lab, "alpha", "--json")
    lab.kill("beta")
    lab.wait_state("alpha", "simplex")
    with connection(lab) as handle:
        handle.pwrite(b"\1" * 64 * KIB, 0)
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    assert ctl(lab, "alpha", "compression", "auto").returncode == 0
    lines = events(lab)
    assert [line["number"] for line in lines] == list(range(1, len(lines) + 1))
    assert in_order(lines, {"event": "started"}, {"event": "initialised"},
                    {"event": "role", "node": "alpha", "role": "primary"},
                    {"event": "state", "state": "duplex"},
                    {"event": "link-lost", "link": "link1", "links_up": 0},
                    {"event": "session-lost", "peer": "beta"},
                    {"event": "state", "state": "simplex", "before": "duplex"},
                    {"event": "session-up"}, {"event": "resync-begun", "direction": "to-peer"},
                    {"event": "resync-ended", "data_bytes": 64 * KIB},
                    {"event": "state", "state": "duplex"},
                    {"event": "compression-order", "mode": "auto", "by": "alpha"}), lines
    assert all(line["reason"] for line in lines if line["event"] in ("link-lost", "session-lost"))
    wait_until(lambda: in_order(events(lab, "beta"), {"event": "resync-begun", "direction": "from-peer"},
                                {"event": "resync-ended", "direction": "from-peer"},
                                {"event": "compression-order", "by": "alpha"}), what="beta to hear of the order, too")
    assert events(lab, "alpha", "--since", str(len(lines) - 1))[0]["event"] == "compression-order"
    assert events(lab, "alpha", "--since", str(len(lines))) == []
    wait_until(lambda: len(follower.lines) == len(lines), 5, "the follower to have all")
    assert [json.loads(line) for line in follower.end()] == lines
    text = ctl(lab, "alpha", "events").stdout.splitlines()
    lost = next(line for line in text if "event:link-lost" in line)
    assert re.fullmatch(r'time:\S+Z number:\d+ event:link-lost link:link1 links_up:0 reason:".+"',
                        lost), lost


def test_a_follower_sees_the_end_and_the_next_beginning(lab, follow):
    follower = follow(lab, "alpha", "--json")
    wait_until(lambda: follower.lines, 5, "the first events")
    lab.process("alpha").signal(15)
    wait_until(lambda: not lab.alive("alpha"), 15, "alpha to end")
    lab.start("alpha")
    wait_until(lambda: any('"started"' in line for line in follower.lines[1:]), 10, "the start")
    lines = [json.loads(line) for line in follower.end()]
    again = next(i for i, line in enumerate(lines) if i > 0 and line["event"] == "started")
    assert in_order(lines[:again], {"event": "stopping"}, {"event": "role", "role": "secondary"},
                    {"event": "stopped"})
    assert lines[again]["number"] == 1


def test_a_peer_that_is_stopped_says_goodbye(lab):
    """It is not one that has died, or was cut off."""
    lab.stop("beta")
    lab.wait_state("alpha", "simplex")
    lost = [line for line in events(lab) if line["event"] == "session-lost"]
    assert "beta said goodbye: twinblockd on beta stops" in lost[-1]["reason"], lost


@pytest.mark.parametrize("words", [[], ["--follow"]])
def test_events_that_find_no_room_are_a_failure(lab, words):
    """Whoever writes them down would else believe that there are no more, and a unit would not be started again."""
    program = Path(lab.state["build"]) / "tools" / "twinblock"
    with open("/dev/full", "wb") as full:
        done = subprocess.run([str(program), "events", *words, "--socket", lab.node("alpha")["control"]], stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False, timeout=2 * LIVENESS_S)
    assert done.returncode == 1 and "No space left on device" in done.stderr, done


def test_a_follower_ends_with_its_reader_though_nothing_happens(lab):
    """As `twinblock events --follow | head -1` does."""
    program = Path(lab.state["build"]) / "tools" / "twinblock"
    with subprocess.Popen([str(program), "events", "--follow", "--socket",
                           lab.node("alpha")["control"]], stdout=subprocess.PIPE) as follower:
        try:
            assert b"event:started" in follower.stdout.readline()
            follower.stdout.close()
            last = events(lab)[-1]["number"]
            assert follower.wait(24) in (0, -signal.SIGPIPE)  # the node would answer after 25 s
            assert events(lab)[-1]["number"] == last, "nothing may happen meanwhile"
        finally:
            follower.kill()


def test_followers_that_go_away_leave_room_for_others(lab, follow):
    for _ in range(3):
        followers = [follow(lab, "beta", "--json") for _ in range(15)]
        wait_until(lambda: all(each.lines for each in followers), 10, "all to follow")
        for each in followers:
            each.end()
        # What happens next sets them free; a node without any events does so after a while.
        assert ctl(lab, "alpha", "resync", "auto").returncode == 0
        assert ctl(lab, "beta", "resync", "auto").returncode == 0
        wait_until(lambda: ctl(lab, "beta", "status").returncode == 0, 5, "an answer")


def test_more_followers_than_there_is_room_for_are_told_so(lab, follow):
    followers = [follow(lab, "beta", "--json") for _ in range(18)]
    wait_until(lambda: sum(each.process.poll() is not None for each in followers) == 2, 10,
               "two to be refused")
    refused = next(each for each in followers if each.process.poll() is not None)
    assert refused.process.returncode == 1 and "wait for events" in refused.process.stderr.read()
    assert ctl(lab, "beta", "status").returncode == 0
