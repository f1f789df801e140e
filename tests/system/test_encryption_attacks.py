"""Who does not have the key, beside links that do: on the wire between the nodes, at their ports, with an
old recording. Nothing that they send is applied, and no session ends by it."""

import json
import os
import random
import select
import socket
import time
from collections import deque
from pathlib import Path

import pytest

import wire
from encryption_support import Flood, fingerprint, link_errors, openssl, sessions, tls_lab
from lablib.error import LIVENESS_S
from lablib.lab import NODES
from lablib.processes import resident_bytes
from lateness import Lateness
from relay import Recorder, Relay, dialled, lab_over
from support import KIB, MIB, assert_identical, connection, ctl, promote, wait_for_log, wait_until, write_all

DAMAGES = 12
DEEDS_S = 3 * LIVENESS_S
PLACES = 64
AT_ONCE = 4
BLOCK = 16 * KIB


# --- on the wire

class Meddler(Relay):
    """Does something to each connection once, sooner or later, while `deed` names it."""

    deed = None
    seed = None

    def passed(self, data, stream):
        # Each direction of each connection has dice of its own, whatever the others come to.
        if "dice" not in stream:
            stream["dice"] = random.Random(f"{self.seed} {stream['connection']} {stream['from']}")
        dice = stream["dice"]
        at = stream.setdefault("at", dice.choice((100, 600, 5000, 50_000, 300_000)))
        stream["passed"] = stream.get("passed", 0) + len(data)
        older = stream.setdefault("older", deque(maxlen=8))
        cut = False
        if self.deed == "delay":
            self.delay_s = dice.uniform(0, 0.4)
            self.damaged += self.delay_s > 0.2
        elif self.deed and stream["passed"] >= at:
            stream["at"] = float("inf")
            self.damaged += 1
            data, cut = getattr(self, self.deed)(data, older, dice)
        if not self.deed:
            self.delay_s = 0
        older.append(bytes(data))
        return data, cut

    @staticmethod
    def flip(data, _older, dice):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        return data, False

    @staticmethod
    def cut(data, _older, dice):
        return data[:dice.randrange(len(data))], True

    @staticmethod
    def leave_out(data, _older, dice):
        begin = dice.randrange(len(data))
        del data[begin:begin + 1 + dice.randrange(2000)]
        return data, False

    @staticmethod
    def duplicate(data, _older, _dice):
        return data + data, False

    @staticmethod
    def replay(data, older, dice):
        return (dice.choice(older) if older else bytes(data)) + data, False


class Writer:
    """Blocks at random places, each write on record; the client never sees an error."""

    def __init__(self, lab, rng):
        self.lab = lab
        self.rng = rng
        self.wrote = {}

    def write(self, handle):
        """Several at once: behind what is missing there comes more, without which nobody could tell."""
        blocks = {place: os.urandom(BLOCK) for place in self.rng.sample(range(PLACES), AT_ONCE)}
        write_all(handle, ((place * BLOCK, data) for place, data in blocks.items()))
        self.wrote.update(blocks)

    def check(self):
        """On both disks there is what was written, and nothing else."""
        for name in NODES:
            with open(self.lab.node(name)["backing"], "rb") as image:
                for place in range(PLACES):
                    image.seek(place * BLOCK)
                    assert image.read(BLOCK) == self.wrote.get(place, bytes(BLOCK)), (name, place)
                while rest := image.read(MIB):
                    assert not any(rest)


def both_logs(lab):
    return lab.log_text("alpha") + lab.log_text("beta")


@pytest.mark.parametrize("deed", ["flip", "cut", "leave_out", "duplicate", "replay", "delay"])
def test_nothing_that_is_done_to_the_wire_is_applied_and_the_mirror_recovers(make_lab, rng, deed):
    # Where a connection has just been made, or where a length was changed, the receiver waits for more in vain: no one
    # deed has to be told, but one of them. Who is cut off or late has nothing to tell.
    told = "damaged or changed on its way" if deed in ("flip", "leave_out", "duplicate", "replay") else ""
    with lab_over(Meddler, make_lab, encryption="tls") as (lab, relays):
        writer = Writer(lab, rng)
        with connection(lab) as handle:
            for relay in relays:
                relay.seed = rng.getrandbits(32)
                relay.deed = deed
            for _ in range(4):  # so that it can be told what was there before
                writer.write(handle)
            if deed != "delay":  # those that stand are left alone by what is done to new ones
                lab.kill("beta")
                lab.start("beta")
            deadline = time.monotonic() + DEEDS_S
            while sum(relay.damaged for relay in relays) < DAMAGES or told not in both_logs(lab):
                assert time.monotonic() < deadline, \
                    f"{deed}: {[relay.damaged for relay in relays]} times, and no node says '{told}'"
                writer.write(handle)
            for relay in relays:
                relay.deed = None
            lab.wait_state("alpha", "duplex")
            writer.write(handle)
            handle.flush()
        lab.wait_state("alpha", "duplex")
        verified = ctl(lab, "alpha", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        writer.check()
        logs = both_logs(lab)
        assert "checksum" not in logs and "out of turn" not in logs, "that is seen before it is a frame"
        print(f"{deed}: {[relay.damaged for relay in relays]} times, "
              f"{lab.status('alpha')['counters']['peer_losses']} peer losses")


# --- at the ports

def answers_of(lab, name, *said):
    """What a node answers to who connects and says this."""
    with wire.dial(lab.node(name)["replication"], timeout_s=2 * LIVENESS_S) as sock:
        try:
            for each in said:
                sock.sendall(each)
            return wire.read_until_closed(sock)
        except (BrokenPipeError, ConnectionResetError):
            return b""


def until_told(lab, name, words, deed):
    """Of who has not proven the key a line is written in ten seconds, about the first: `deed` is done until it is."""
    def done():
        deed()
        return words in lab.log_text(name)

    wait_until(done, what=f"'{words}' in {name}'s log:\n{lab.log_tail(name)}")


def every_frame():
    """Each type, known or not, as the peer could send it in a session, and a hello before it."""
    volume = {"alpha": wire.hello_payload(node=b"alpha", peer=b"beta"), "beta": wire.hello_payload()}
    for who, payload in volume.items():
        hello = wire.frame(wire.HELLO, payload)
        for kind in range(1, 41):
            for flags in (0, wire.CONTROL):
                yield who, hello + wire.frame(wire.VERDICT, sequence=1) + wire.frame(
                    kind, b"evil" * KIB, flags=flags, sequence=1, offset=MIB, length=4 * KIB)
                yield who, wire.frame(kind, flags=flags, sequence=1, offset=MIB, length=4 * KIB)


def watch(lab):
    """What must not change by strangers."""
    return {name: (sessions(lab, name), lab.node(name)["pid"], lab.alive(name),
                   lab.status(name)["counters"]["peer_losses"],
                   [link["failovers"] for link in lab.status(name)["links"]]) for name in NODES}


def images(lab):
    return [Path(lab.node(name)["backing"]).read_bytes() for name in NODES]


@pytest.mark.sanitize
def test_peer_that_speaks_without_encryption_is_not_heard(make_lab):
    lab = tls_lab(make_lab)
    with connection(lab) as handle:
        handle.pwrite(os.urandom(4 * MIB), 0)
        handle.flush()
    before, on_disk = watch(lab), images(lab)
    for who, said in every_frame():
        for name in NODES:
            if name != who:
                # A record of TLS, or nothing.
                assert answers_of(lab, name, said)[:1] in (b"", b"\x15", b"\x16")
    assert watch(lab) == before and images(lab) == on_disk
    assert all(lab.status(name)["state"] == "duplex" for name in NODES)
    lab.kill("beta")
    lab.wait_state("alpha", "simplex")
    began = sessions(lab, "alpha")
    for who, said in every_frame():
        if who == "beta":
            answers_of(lab, "alpha", said)
    assert sessions(lab, "alpha") == began and images(lab) == on_disk
    frame = next(said for who, said in every_frame() if who == "beta")
    until_told(lab, "alpha", "speaks without encryption", lambda: answers_of(lab, "alpha", frame))
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    assert_identical(lab)


def test_the_same_frames_are_heard_where_there_is_no_encryption(make_lab):
    """The control: a node begins with the challenge."""
    lab = make_lab(encryption="off")
    for name in NODES:
        assert answers_of(lab, name, next(every_frame())[1])[4:8] == wire.MAGIC.to_bytes(4, "little")


def visit(address, source):
    """Somebody connects from there who is no node, and says so."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), LIVENESS_S, (source, 0)) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")


def test_who_is_not_at_the_peer_s_address_is_told_of_in_the_log_only(make_lab):
    lab = make_lab(encryption="off")
    lab.kill("beta")
    wait_until(lambda: lab.status("alpha")["state"] == "simplex", what="beta to be lost")
    visit(lab.node("alpha")["replication"], "127.0.0.9")
    wait_for_log(lab, "alpha", "127.0.0.9, which is not the peer's address")
    assert "127.0.0.9" not in json.dumps(lab.status("alpha"))
    assert not [event for event in link_errors(lab, "alpha") if "127.0.0.9" in event["reason"]]


def test_who_was_refused_on_a_link_that_is_down_is_in_the_status_beside_a_session(make_lab):
    """It may be the peer, with another key."""
    lab = make_lab(links=2, encryption="tls")
    wait_until(lambda: {each["state"] for each in lab.status("alpha")["links"]} == {"up"}, what="both links")
    name, idle, peer = (lab.status("alpha")["links"][1][key] for key in ("name", "local", "peer"))
    assert ctl(lab, "alpha", "link", "disable", name).returncode == 0
    wait_until(lambda: lab.status("alpha")["links"][1]["state"] == "disabled", what="one to be down")

    def told():  # nodes that dial each other at once may have taken the place of this report; it comes again
        visit(idle, peer.rpartition(":")[0])
        return "speaks without encryption" in lab.status("alpha")["links"][1]["last_error"]

    wait_until(told, what="who was refused")
    assert lab.status("alpha")["state"] == "duplex"


@pytest.mark.sanitize
def test_only_who_has_the_key_hears_a_word(make_lab):
    """Another implementation of TLS, with the key and without."""
    lab = tls_lab(make_lab)
    secret = Path(lab.state["key"]).read_text(encoding="ascii").strip()
    named = ["-psk_identity", fingerprint(lab)]
    before = watch(lab)
    for name in NODES:
        for words in (["-psk", secret[::-1], *named], ["-psk", secret, "-psk_identity", "0000-0000-0000-0000"],
                      ["-psk", secret[:-2], *named], ["-psk", secret, "-psk_identity", "x" * 200],
                      [], ["-tls1_2"], ["-tls1_2", "-psk", secret, *named]):
            assert openssl(lab.node(name)["replication"], *words) == b"", words
        heard = openssl(lab.node(name)["replication"], "-psk", secret, *named)
        assert heard[4:8] == wire.MAGIC.to_bytes(4, "little"), "the control: the node's challenge"
    assert watch(lab) == before
    assert all(lab.status(name)["state"] == "duplex" for name in NODES)


# --- floods

HALF_OPEN, GARBAGE = 1000, 10_000
LINES_MAX, MEMORY_BYTES_MAX = 20, 32 * MIB
BACK_S = 2
FILES_MAX = 200  # of which 64 are strangers at most


class Memory:
    """The most that the processes have taken since the begin, and their open files."""

    def __init__(self, lab):
        self.lab = lab
        self.begin = {name: resident_bytes(lab.node(name)["pid"]) for name in NODES}
        self.grew = dict.fromkeys(NODES, 0)
        self.files = dict.fromkeys(NODES, 0)

    def look(self, names=NODES):
        for name in names:
            now = resident_bytes(self.lab.node(name)["pid"])
            self.grew[name] = max(self.grew[name], now - self.begin[name])
            self.files[name] = max(self.files[name],
                                   len(os.listdir(f"/proc/{self.lab.node(name)['pid']}/fd")))


def lines(lab, name):
    return len(lab.log_text(name).splitlines())


def restart(lab, name):
    """How long after its start both are in duplex again."""
    lab.kill(name)
    lab.wait_peer_lost(NODES[1 - NODES.index(name)])
    began = time.monotonic()
    lab.start(name)
    lab.wait_state("alpha", "duplex")
    return time.monotonic() - began


@pytest.mark.slow
def test_flood_ends_no_session_and_takes_neither_memory_nor_the_log(make_lab):
    lab = tls_lab(make_lab)
    restart(lab, "beta")
    before, memory = watch(lab), Memory(lab)
    told = {name: (lines(lab, name), len(link_errors(lab, name))) for name in NODES}
    with Flood([lab.node(name)["replication"] for name in NODES], HALF_OPEN, GARBAGE) as flood:
        began = time.monotonic()
        with connection(lab) as handle:
            while not select.select([flood.process.stdout], [], [], 0)[0]:
                handle.pwrite(os.urandom(BLOCK), random.randrange(PLACES) * BLOCK)
                memory.look()
        made, took_s = flood.wait_for_garbage(), time.monotonic() - began
    assert made["garbage"] >= GARBAGE * 0.99 and made["held"] >= HALF_OPEN / 2, made
    for name in NODES:
        more = lines(lab, name) - told[name][0], len(link_errors(lab, name)) - told[name][1]
        print(f"{name}: {memory.grew[name] / MIB:.1f} MiB more, {memory.files[name]} files, "
              f"{more[0]} lines, {more[1]} events "
              f"by {HALF_OPEN} half-open and {GARBAGE} garbage connections in {took_s:.1f} s")
        assert memory.grew[name] <= MEMORY_BYTES_MAX
        assert memory.files[name] <= FILES_MAX, "the number of strangers is bounded"
        most = LINES_MAX * (1 + int(took_s / 10))  # each reason is told once in ten seconds
        assert more[0] <= most and more[1] <= most
    assert watch(lab) == before
    lab.wait_state("alpha", "duplex")
    assert_identical(lab)


@pytest.mark.slow
@pytest.mark.parametrize("name, encryption", [("alpha", "tls"), ("beta", "tls"), ("beta", "off")])
def test_peer_is_back_soon_beside_a_flood(scratch_in_memory, make_lab, name, encryption):
    """Without keys, too, where nobody has to prove anything. Another pair, which nobody floods, is restarted in turn."""
    lab, control = (make_lab(encryption=encryption, below=scratch_in_memory) for _ in range(2))
    restart(lab, name)
    memory = Memory(lab)
    other = NODES[1 - NODES.index(name)]
    told = lines(lab, other)
    with Lateness() as machine, Flood([lab.node(name)["replication"] for name in NODES], HALF_OPEN, 10**9) as flood:
        began = time.monotonic()
        beside, calm = [], []
        for _ in range(5):
            time.sleep(1)  # of flood while the session stands
            calm.append(restart(control, name))
            beside.append(restart(lab, name))
            memory.look([other])
        lasted_s = time.monotonic() - began
    more = lines(lab, other) - told
    print(f"{name} is back after {', '.join(f'{each:.2f}' for each in beside)} s beside the flood, "
          f"{', '.join(f'{each:.2f}' for each in calm)} s without; {more} lines, "
          f"{memory.grew[other] / MIB:.1f} MiB more; {flood.connections / lasted_s:.0f} connections a second")
    assert memory.grew[other] <= MEMORY_BYTES_MAX
    promised_s = max(calm) + BACK_S + machine.allowance_s()
    assert sorted(beside)[2] <= promised_s, "the peer is kept out for longer than was promised"
    lab.wait_state("alpha", "duplex")
    assert_identical(lab)


# --- recordings

OLD, NEW = b"\x11" * 4096, b"\x22" * 4096


def write(lab, data):
    with connection(lab) as handle:
        handle.pwrite(data, MIB)
        handle.flush()


def block(lab, name):
    with open(lab.node(name)["backing"], "rb") as image:
        image.seek(MIB)
        return image.read(4096)


def replay(lab, name, recording):
    """All of it, at once and in pieces, as the connection's end said it."""
    answers_of(lab, name, recording)
    answers_of(lab, name, *(recording[at:at + 600] for at in range(0, len(recording), 600)))


def record(lab, relays, side):
    """A whole session with a write in it, that side's bytes."""
    lab.stop("beta")
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    write(lab, OLD)
    recording = dialled(lab, relays).latest(side)
    assert len(recording) > 4096 * (side == "dialler") and OLD[:64] not in recording
    write(lab, NEW)
    return recording


@pytest.mark.sanitize
@pytest.mark.parametrize("name, side", [("beta", "dialler"), ("alpha", "acceptor")])
def test_recording_does_not_touch_a_session_that_stands(make_lab, name, side):
    with lab_over(Recorder, make_lab, encryption="tls") as (lab, relays):
        recording = record(lab, relays, side)
        before = watch(lab)
        for _ in range(3):
            replay(lab, name, recording)
        assert watch(lab) == before
        write(lab, NEW[::-1])
        assert lab.status("alpha")["state"] == "duplex"
        assert_identical(lab)


@pytest.mark.sanitize
def test_recording_of_the_dialler_begins_no_session(make_lab):
    with lab_over(Recorder, make_lab, encryption="tls") as (lab, relays):
        recording = record(lab, relays, "dialler")
        lab.stop("alpha")
        lab.wait_peer_lost("beta")
        began = sessions(lab, "beta")
        for _ in range(3):
            replay(lab, "beta", recording)
        assert sessions(lab, "beta") == began and block(lab, "beta") == NEW
        until_told(lab, "beta", "repeats what a node has sent before: a recording",
                   lambda: replay(lab, "beta", recording))
        lab.start("alpha")
        promote(lab, "alpha")
        lab.wait_state("alpha", "duplex")
        assert_identical(lab)


@pytest.mark.sanitize
def test_recording_of_the_acceptor_begins_no_session(make_lab):
    with lab_over(Recorder, make_lab, encryption="tls") as (lab, relays):
        recording = record(lab, relays, "acceptor")
        lab.stop("beta")
        lab.wait_peer_lost("alpha")
        began = sessions(lab, "alpha")
        relay = dialled(lab, relays)
        relay.ghost = recording
        wait_until(lambda: relay.visits >= 3, what="alpha to dial three times")
        assert sessions(lab, "alpha") == began and not lab.status("alpha")["peer"]["connected"]
        wait_for_log(lab, "alpha", "does not prove that it has this node's key")
        relay.ghost = None
        lab.start("beta")
        lab.wait_state("alpha", "duplex")
        assert_identical(lab)
