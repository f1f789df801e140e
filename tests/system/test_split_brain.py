"""Both nodes accepted writes that the other lacks: both say so and go on, and only an order that
names what is lost ends it."""

import json
import os
import re

import pytest

from support import KIB, MIB, assert_identical, connection, ctl, demote, promote, twinblock, wait_until

ALPHA_AT, BETA_AT = 8 * MIB, 10 * MIB
WRITTEN = 4 * MIB  # each; half of it overlaps


def fill(lab):
    with connection(lab) as handle:
        for offset in range(0, handle.get_size(), 8 * MIB):
            handle.pwrite(os.urandom(8 * MIB), offset)
        handle.flush()


def read(lab, name, offset, length):
    with open(lab.node(name)["backing"], "rb") as image:
        image.seek(offset)
        return image.read(length)


class Split:
    """alpha wrote without beta and crashed; beta was promoted and wrote; then alpha came back."""

    def __init__(self, lab):
        self.lab = lab
        fill(lab)
        lab.kill("beta")
        self.alpha_data = self.write("alpha", ALPHA_AT)
        lab.wait_state("alpha", "simplex", 5)
        self.before = read(lab, "beta", 0, 64 * MIB)
        lab.kill("alpha")
        lab.start("beta")
        refused = ctl(lab, "beta", "promote")
        assert refused.returncode == 8 and "--peer-is-dead" in refused.stderr
        assert ctl(lab, "beta", "promote", "--peer-is-dead").returncode == 0
        self.beta_data = self.write("beta", BETA_AT)
        lab.start("alpha")
        for name in ("alpha", "beta"):
            status = lab.wait_state(name, "refused", 10)
            assert "split brain" in status["status"] and "resolve" in status["action"]

    def write(self, name, offset):
        data = os.urandom(WRITTEN)
        with connection(self.lab, name) as handle:
            handle.pwrite(data, offset)
            handle.flush()
        return data

    def expected(self, winner):
        """Of the whole device."""
        image = bytearray(self.before)
        if winner == "alpha":
            image[ALPHA_AT:ALPHA_AT + WRITTEN] = self.alpha_data
        else:
            image[BETA_AT:BETA_AT + WRITTEN] = self.beta_data
        return bytes(image)

    def end_with(self, winner, reason="a split brain was resolved against"):
        """Both nodes hold the winner's writes, and work together again."""
        for name in ("alpha", "beta"):
            self.lab.wait_status(name, lambda status: status["state"] in ("connected", "duplex"), 20)
        assert read(self.lab, winner, 0, 64 * MIB) == self.expected(winner)
        assert_identical(self.lab)
        if self.lab.status("beta")["role"] != "primary":
            promote(self.lab, "alpha")
        primary = "beta" if self.lab.status("beta")["role"] == "primary" else "alpha"
        self.lab.wait_state(primary, "duplex", 10)
        assert reason in ctl(self.lab, primary, "why", "--json").stdout
        assert ctl(self.lab, primary, "verify").returncode == 0
        assert ctl(self.lab, primary, "resolve", "--keep", "local").returncode == 1, "it is over"


@pytest.fixture
def split(lab):
    return Split(lab)


def dry_run(lab, name, keep):
    """What is said; nothing changes."""
    before = [lab.status(each)["generation"] for each in ("alpha", "beta")]
    shown = ctl(lab, name, "resolve", "--keep", keep)
    assert shown.returncode == 0, shown.stderr
    said = " ".join(shown.stdout.split())
    assert "nothing was changed" in said
    for what in (r"lost: \w+'s (at most )?[\d.]+ MiB .*since 20\d\d-",
                 r"stays: \w+'s (at most )?[\d.]+ MiB .*since 20\d\d-"):
        assert re.search(what, said), said
    command = shown.stdout.rstrip().splitlines()[-1].strip()
    assert re.fullmatch(rf"twinblock resolve .*--keep {keep} --yes --state [1-9]\d*", command), command
    assert said.count("To do it:") == 1
    assert before == [lab.status(each)["generation"] for each in ("alpha", "beta")]
    assert lab.status(name)["state"] == "refused"
    return said, command.split()[1:]


@pytest.mark.sanitize
def test_both_sides_say_since_when_and_how_much_and_go_on_serving(split):
    lab = split.lab
    for name in ("alpha", "beta"):
        text = ctl(lab, name, "why", "--json")
        if name == "alpha":
            assert "its own side of the split brain" in text.stdout, "what a promotion would serve"
        sentence = next(line for line in json.loads(text.stdout)["why"] if "parted" in line)
        assert "at most" in sentence, "alpha crashed: it knows regions"
        assert len(re.findall(r"[\d.]+ MiB in blocks written since 20\d\d-", sentence)) == 2, sentence
    with connection(lab, "beta") as handle:
        assert handle.pread(WRITTEN, BETA_AT) == split.beta_data
        handle.pwrite(split.beta_data[:4 * KIB], BETA_AT)
        handle.flush()
    for paused in (False, True):
        if paused:
            lab.pause("beta")
        promoted = ctl(lab, "alpha", "promote")
        assert promoted.returncode == 8 and "--peer-is-dead" in promoted.stderr, "beta is primary"
    lab.resume("beta")


@pytest.mark.sanitize
@pytest.mark.parametrize("at, keep, winner", [("alpha", "local", "alpha"), ("alpha", "peer", "beta"),
                                              ("beta", "local", "beta"), ("beta", "peer", "alpha")])
def test_an_order_that_names_the_loss_ends_it(split, at, keep, winner):
    lab = split.lab
    said, command = dry_run(lab, at, keep)
    loser = "beta" if winner == "alpha" else "alpha"
    assert f"lost: {loser}'s" in said and f"stays: {winner}'s" in said
    if winner == "alpha":
        assert "demote" in said, "beta is primary: its clients must not see their data change"
        if at == "beta":
            refused = twinblock(lab, *command)
            assert refused.returncode == 1 and "demote" in refused.stderr
            assert ctl(lab, "beta", "demote").returncode == 0
            lab.wait_state("beta", "refused", 10)
    done = twinblock(lab, *command)
    assert done.returncode == 0, done.stderr
    assert f"{loser}'s" in done.stdout and "given up" in done.stdout
    if winner == "alpha" and at == "alpha":
        lab.wait_status("beta", lambda status: "demote" in status["action"], 10)
        assert ctl(lab, "beta", "demote").returncode == 0
    split.end_with(winner)


@pytest.mark.parametrize("at, keep, winner", [("alpha", "local", "alpha"), ("alpha", "peer", "beta")])
def test_an_order_outlives_a_crash_of_the_node_that_took_it(split, at, keep, winner):
    lab = split.lab
    lab.kill("beta")
    done = ctl(lab, at, "resolve", "--keep", keep, "--yes")
    assert done.returncode == 0, done.stderr
    lab.kill(at)
    lab.start(at)
    lab.start("beta")
    split.end_with(winner)


@pytest.mark.sanitize
def test_an_order_that_is_cut_off_half_way_is_carried_out_to_its_end(split):
    lab = split.lab
    assert ctl(lab, "beta", "resync", "pause").returncode == 0
    assert ctl(lab, "alpha", "resolve", "--keep", "peer", "--yes").returncode == 0
    lab.wait_state("beta", "resync", 10)
    lab.wait_status("alpha", lambda status: status["data"] == "inconsistent", 10)
    assert "resync r0 resume" in lab.status("beta")["action"]
    refused = ctl(lab, "alpha", "promote")
    assert refused.returncode == 9
    lab.kill("alpha")
    lab.start("alpha")
    lab.wait_state("beta", "resync", 10)
    lab.kill("beta")
    lab.wait_state("alpha", "waiting", 5)
    refused = ctl(lab, "alpha", "promote", "--peer-is-dead")
    assert refused.returncode == 7 and "half-copied" in refused.stderr
    refused = ctl(lab, "alpha", "init")
    assert refused.returncode == 1 and "a mixture of old and new data" in refused.stderr
    lab.start("beta")
    split.end_with("beta", reason="holds an unfinished copy")


def test_two_primaries_go_on_until_one_of_them_is_given_up(lab):
    """alpha was only asleep when beta was promoted in its place."""
    fill(lab)
    with connection(lab) as sleeper:
        lab.pause("alpha")
        lab.wait_state("beta", "waiting", 10)
        assert ctl(lab, "beta", "promote", "--peer-is-dead").returncode == 0
        with connection(lab, "beta") as handle:
            handle.pwrite(b"B" * MIB, BETA_AT)
            handle.flush()
        lab.resume("alpha")
        sleeper.pwrite(b"A" * MIB, ALPHA_AT)
        sleeper.flush()
        # Until alpha wrote, it was only outdated: the next handshake finds out.
        for name in ("alpha", "beta"):
            lab.wait_status(name, lambda status: "split brain" in status["status"], 10)
        assert sleeper.pread(MIB, ALPHA_AT) == b"A" * MIB, "it serves what it has"
        said, command = dry_run(lab, "alpha", "peer")
        assert "demote" in said
        in_use = twinblock(lab, *command)
        assert in_use.returncode == 1 and "primary" in in_use.stderr
        assert ctl(lab, "alpha", "demote").returncode == 1, "a client is attached"
    demote(lab, "alpha")
    lab.wait_state("alpha", "refused", 10)
    assert twinblock(lab, *command).returncode == 0
    lab.wait_state("beta", "duplex", 20)
    assert_identical(lab)
    assert read(lab, "alpha", BETA_AT, MIB) == b"B" * MIB
    assert read(lab, "beta", ALPHA_AT, 8) != b"A" * 8


def both_say_void(lab):
    for name in ("alpha", "beta"):
        said = lab.wait_status(name, lambda status: "void" in status["status"], 20)["status"]
        assert "split brain" in said and "moved on since" in said, said
        assert "void" in ctl(lab, name, "why", "--json").stdout


@pytest.mark.sanitize
@pytest.mark.parametrize("giver", ["connected", "away"])
def test_what_the_loser_writes_after_an_order_is_not_given_up(split, giver):
    lab = split.lab
    done = ctl(lab, "alpha", "resolve", "--keep", "local", "--yes")
    assert done.returncode == 0, done.stderr
    assert re.search(r"generation [0-9a-f]{16}, term \d+", " ".join(done.stdout.split())), done.stdout
    assert "the order is void" in " ".join(done.stdout.split())
    lab.wait_status("beta", lambda status: "demote" in status["action"], 10)
    if giver == "away":
        lab.kill("alpha")
    more = os.urandom(MIB)
    with connection(lab, "beta") as handle:
        handle.pwrite(more, 40 * MIB)
        handle.flush()
    demote(lab, "beta")
    if giver == "away":
        lab.start("alpha")
    both_say_void(lab)
    assert read(lab, "beta", 40 * MIB, MIB) == more, "it was acknowledged after the order"
    assert read(lab, "beta", BETA_AT, WRITTEN) == split.beta_data
    again = ctl(lab, "alpha", "resolve", "--keep", "local", "--yes")
    assert again.returncode == 0, again.stderr
    assert "order before this one was void" in " ".join(again.stdout.split())
    split.end_with("alpha")


def test_an_order_is_for_the_state_that_was_shown(split):
    """Whoever has looked in between, and though the node that showed it was started anew."""
    lab = split.lab
    _, command = dry_run(lab, "alpha", "local")
    with connection(lab, "beta") as handle:
        handle.pwrite(os.urandom(MIB), 40 * MIB)
        handle.flush()
    demote(lab, "beta")
    lab.kill("alpha")
    lab.start("alpha")
    lab.wait_state("alpha", "refused")
    _, later = dry_run(lab, "alpha", "local")
    assert later != command
    refused = twinblock(lab, *command)
    assert refused.returncode != 0 and "moved on" in refused.stderr and "look at it again" in refused.stderr, refused
    assert twinblock(lab, *later).returncode == 0
    split.end_with("alpha")


def test_orders_that_repeat_and_contradict_each_other_are_told_apart(split):
    lab = split.lab
    def order(name, keep):
        done = ctl(lab, name, "resolve", "--keep", keep, "--yes")
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())

    for words in (("grow", "1GiB"), ("snapshot", "r0", "x"), ("verify",)):  # alpha is secondary, or primary
        refused = ctl(lab, "beta", *words)
        assert refused.returncode == 1 and "twinblock wait" not in refused.stderr, refused.stderr
    assert "stands already" not in order("alpha", "local")
    assert "stands already" in order("alpha", "local")
    lab.wait_status("beta", lambda status: "By order at alpha" in status["status"], 10)
    assert "By order at alpha, this node's writes are given up" in " ".join(
        json.loads(ctl(lab, "beta", "why", "--json").stdout)["why"])
    assert "contradict each other" in order("beta", "local")
    for name in ("alpha", "beta"):
        lab.wait_status(name, lambda status: "contradict each other" in status["status"], 10)
    assert ctl(lab, "beta", "demote").returncode == 0
    back = order("beta", "peer")
    assert "takes back" in back and "same order" in back, back
    split.end_with("alpha")


def test_an_order_after_a_look_at_something_else_is_asked_for_again(split):
    lab = split.lab
    _, command = dry_run(lab, "alpha", "local")
    shown = ctl(lab, "alpha", "why", "--json").stdout
    with connection(lab, "beta") as handle:
        handle.pwrite(os.urandom(8 * MIB), 40 * MIB)
        handle.flush()
    demote(lab, "beta")
    wait_until(lambda: ctl(lab, "alpha", "why", "--json").stdout != shown, 10)
    refused = twinblock(lab, *command)
    assert refused.returncode == 1 and "has moved on since" in refused.stderr, refused.stderr
    assert twinblock(lab, *command).returncode == 1, "it names what is no more"
    _, command = dry_run(lab, "alpha", "local")
    assert twinblock(lab, *command).returncode == 0
    split.end_with("alpha")
