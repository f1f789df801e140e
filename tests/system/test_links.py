"""Several links: the loss of any is not the client's affair and costs no resync. What the bars of
two minutes check is checked here for some seconds; `long` tests run the full time."""

import random
import subprocess
import time
from itertools import count
from statistics import median

import pytest

from lablib.lab import NODES
from lateness import Lateness, in_one_of_three
from links_support import (LINK_TIMEOUT_S, MIB, STALL_S, MixedLoad, Undisturbed, a_moment, all_up,
                           in_promised_time, links_of, need_namespaces, states)
from support import Fio, assert_identical, connection, ctl, wait_until

USED_BYTES = 8 * MIB  # what carries as much carries data
FULL = [pytest.mark.long, pytest.mark.seconds(600)]


@pytest.fixture
def scratch(scratch_in_memory):
    return scratch_in_memory


@pytest.fixture
def linked(make_lab):
    """linked(2, "1gbit", …) brings up a lab in namespaces, in duplex, all links up."""
    need_namespaces()

    def make(count=2, *rates, **options):
        lab = make_lab(links=count, rates=rates, host_namespaces=True, **options)
        all_up(lab, count)
        return lab

    return make


def restore_and_wait(lab, link):
    lab.network().restore(link)
    wait_until(lambda: states(lab)[link] == "up" and states(lab, "beta")[link] == "up",
               what=f"{link} to be used again; {links_of(lab)[link]}")


def test_every_link_is_up_listed_and_used(linked, scratch):
    lab = linked(3)
    fio = Fio(lab.node("alpha")["nbd"], scratch, bs="1m", iodepth=4, size="64m", runtime=None,
              norandommap=None)
    wait_until(lambda: all(link["out_bytes"] > USED_BYTES for link in links_of(lab).values()),
               what="all links to be used")
    fio.finish()
    for name, other in (NODES, NODES[::-1]):
        links = links_of(lab, name)
        assert list(links) == ["link1", "link2", "link3"]
        for number, link in enumerate(lab.state["links"], 1):
            shown = links[link["name"]]
            assert shown["local"] == link[name] and shown["peer"] == link[other], shown
            assert shown["round_trip_us"] > 0
            key = "out_bytes" if name == "alpha" else "in_bytes"
            assert shown[key] > USED_BYTES, f"link {number} carried {shown[key]} bytes"
        text = ctl(lab, name, "status").stdout
        assert all(link in text for link in links), text
    assert_identical(lab)


def test_a_link_whose_address_is_gone_keeps_no_node_from_starting(linked):
    """Its network card is dead, say. The other link carries what there is, and this one is back with its address."""
    lab = linked(2)

    def address(what):
        subprocess.run([*lab.inside("alpha"), "ip", "address", what, f"{lab.link_address('link2', 'alpha')}/24",
                        "dev", "link2"], check=True)

    address("delete")
    lab.kill("alpha")
    lab.start("alpha")
    wait_until(lambda: lab.status("alpha")["state"] == "duplex", what="duplex over the link that is left")
    assert "Cannot assign requested address" in links_of(lab)["link2"]["last_error"]
    with connection(lab) as handle:
        handle.pwrite(b"x" * MIB, 0)
    address("add")
    wait_until(lambda: states(lab)["link2"] == "up", what=f"link2 with its address; {links_of(lab)['link2']}")


def kill(lab, link, how):
    if how == "cut":
        lab.network().cut(link, random.choice(NODES))
    else:  # both ways, or one
        lab.network().drop(link, random.choice([NODES, ["alpha"], ["beta"]]))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cut", "silence", pytest.param("cut", marks=FULL, id="cut-2min"),
                                 pytest.param("silence", marks=FULL, id="silence-2min")])
def test_one_of_two_links_dies_again_and_again(linked, scratch, request, how):
    full = request.node.get_closest_marker("long")
    # However late the machine is, one link is left, and the peer with it.
    lab = linked(2, "1gbit", peer_timeout="30s", settings={"link_timeout": f"{LINK_TIMEOUT_S:g}s"})
    undisturbed = Undisturbed(lab)
    deaths = []

    def die(registers):
        with MixedLoad(lab, scratch, registers=registers) as load:
            time.sleep(0.5)
            for number in count():
                if number >= (20 if full else 3) and not load.lasts(110 if full else 0):
                    break
                link = random.choice(("link1", "link2"))
                with load.fault():
                    kill(lab, link, how)
                    wait_until(lambda link=link: states(lab)[link] != "up",
                               what=f"{link} to be given up")
                    a_moment(0.2, 1)
                    deaths.append(link)
                    restore_and_wait(lab, link)  # a flapping link is damped
                a_moment(0.4, 0.8)
            load.finish()
        load.print_stalls(f"{len(deaths)} times {how}")
        undisturbed.check()
        return load

    in_promised_time(die, STALL_S + (0 if how == "cut" else LINK_TIMEOUT_S))
    assert sum(link["failovers"] for link in links_of(lab).values()) >= len(deaths)


def change(lab, *words):
    """A link's verb, on either node."""
    done = ctl(lab, random.choice(NODES), "link", *words)
    assert done.returncode == 0, f"link {words}: {done.stdout}{done.stderr}"


def addresses(lab, name):
    link = next(each for each in lab.state["links"] if each["name"] == name)
    return [f"{node}={link[node]}" for node in NODES]


def take_away(lab, name):
    """The words that bring the link back."""
    if random.random() < 0.5:
        change(lab, "disable", name)
        return "enable", name
    change(lab, "remove", name)
    # What the configuration says of it is still known.
    return "add", name, *random.choice([addresses(lab, name), []])


def wait_until_up(lab, names):
    """These and no others, on both nodes."""
    def settled(node):
        return sorted(link for link, state in states(lab, node).items() if state == "up") == names

    for node in NODES:
        wait_until(lambda node=node: settled(node), what=f"{names} alone to be up at {node}")


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [4, pytest.param(120, marks=FULL)])
def test_all_links_but_one_go_and_come_by_order(linked, scratch, seconds):
    """Removed and added, disabled and enabled, on either node; both follow."""
    lab = linked(3, "1gbit", peer_timeout="30s")  # no machine is as late as that
    names = ["link1", "link2", "link3"]
    undisturbed = Undisturbed(lab)

    def go_and_come(registers):
        with MixedLoad(lab, scratch, registers=registers) as load:
            for rounds in count(1):
                with load.fault():
                    chosen = random.sample(names, 2)
                    back = [take_away(lab, name) for name in chosen]
                    wait_until_up(lab, [name for name in names if name not in chosen])
                    a_moment(0, 0.5)
                    for words in random.sample(back, 2):
                        change(lab, *words)
                    wait_until_up(lab, names)
                a_moment(0.4, 0.8)
                if rounds >= 2 and not load.lasts(seconds):
                    break
            load.finish()
        load.print_stalls(f"{rounds} rounds")
        undisturbed.check()
        return load

    in_promised_time(go_and_come, STALL_S)


def test_last_link_is_neither_removed_nor_disabled(linked):
    lab = linked(2)
    change(lab, "disable", "link1")
    for verb in ("remove", "disable"):
        for node in NODES:
            refused = ctl(lab, node, "link", verb, "link2")
            assert refused.returncode == 1 and "link2" in refused.stderr, refused.stderr
    assert lab.status("alpha")["state"] == "duplex"
    change(lab, "enable", "link1")
    all_up(lab, 2)


@pytest.mark.slow
def test_all_links_die_and_the_peer_is_lost_after_its_timeout(linked):
    lab = linked(2, peer_timeout="2s")

    def die():
        before = lab.status("alpha")["counters"]["peer_losses"]
        with connection(lab) as handle, Lateness() as machine:
            began = time.monotonic()
            for link in ("link1", "link2"):
                lab.network().drop(link)
            silent = time.monotonic()
            handle.pwrite(b"\x5a" * MIB, MIB)
            ended = time.monotonic()
        # The last heartbeat came up to 100 ms before the silence, or later than that.
        late_s = machine.allowance_s()
        said = (f"{ended - began:.2f} s since the first, {ended - silent:.2f} s since the last link was silent; "
                f"{late_s:.2f} s late")
        print(said)
        assert lab.status("alpha")["state"] == "simplex"
        assert lab.status("alpha")["counters"]["peer_losses"] == before + 1
        for link in ("link1", "link2"):
            lab.network().restore(link)
        lab.wait_state("alpha", "duplex")
        all_up(lab, 2)
        assert_identical(lab)
        return None if ended - began > 2 - 0.2 - late_s and ended - silent < 2.5 + late_s else said

    in_one_of_three(die)


def test_connection_that_is_reset_costs_no_resync(linked, scratch):
    """Not even the only one: the session lingers, and the link is joined again."""
    lab = linked(1, peer_timeout="30s")
    undisturbed = Undisturbed(lab)

    def reset(registers):
        with MixedLoad(lab, scratch, registers=registers) as load:
            for _ in range(3):
                a_moment(0.4, 0.6)
                with load.fault():
                    killed = subprocess.run([*lab.inside("alpha"), "ss", "-K", "dst", "10.77.1.2"],
                                            capture_output=True, text=True, check=True)
                    assert "10.77.1.2" in killed.stdout, killed
                    all_up(lab, 1)
            load.finish()
        load.print_stalls("the only connection, reset three times")
        undisturbed.check()
        return load

    in_promised_time(reset, STALL_S)


@pytest.mark.slow
def test_flapping_link_is_damped_and_then_used_again(linked):
    lab = linked(2, peer_timeout="30s")  # no machine is as late as that
    undisturbed = Undisturbed(lab)
    seen = set()
    for _ in range(20):  # so often on a machine that is too slow for them to count as one flapping
        lab.network().cut("link2")
        wait_until(lambda: states(lab)["link2"] != "up", what="link2 to be given up")
        lab.network().restore("link2")
        end = time.monotonic() + 1
        while time.monotonic() < end and states(lab)["link2"] != "up":
            seen.add(states(lab)["link2"])
            time.sleep(0.05)
        if "damped" in seen:
            break
    print(f"states of a flapping link: {seen}; {links_of(lab)['link2']}")
    assert "damped" in seen
    assert states(lab)["link1"] == "up"
    wait_until(lambda: states(lab)["link2"] == "up", what="link2 to be used again")
    undisturbed.check()


@pytest.mark.slow
def test_two_links_carry_twice_as_much_as_one(linked, scratch):
    """At a rate that no processor is short of, by turns; tests/bench/links measures the bar."""
    lab = linked(2, "50mbit", size="256MiB")

    def rate():
        return Fio(lab.node("alpha")["nbd"], scratch, bs="1m", iodepth=4, time_based=None,
                   runtime=2, norandommap=None).result()["write"]["bw_bytes"]

    gains = []
    for _ in range(3):
        both = rate()
        change(lab, "disable", "link2")
        one = rate()
        change(lab, "enable", "link2")
        all_up(lab, 2)
        print(f"two links {both * 8 / 1e6:.0f} Mbit/s, one {one * 8 / 1e6:.0f}: {both / one:.2f}x")
        gains.append(both / one)
    assert median(gains) >= 1.7


def compression(lab, *words):
    done = ctl(lab, random.choice(NODES), "compression", *words)
    assert done.returncode == 0, f"compression {words}: {done.stdout}{done.stderr}"


def switch_something(lab, disabled):
    """Mode, level or a link, on either node. The link that is disabled then, or None."""
    kind = random.randrange(3)
    if kind == 0:
        compression(lab, random.choice(("off", "on", "auto")))
    elif kind == 1:
        compression(lab, random.choice(("on", "auto")), "--level", random.randint(1, 9))
    elif disabled:
        change(lab, "enable", disabled)
        wait_until(lambda: states(lab)[disabled] == "up", what=f"{disabled} to be used again")
        disabled = None
    else:
        disabled = random.choice(list(links_of(lab)))
        change(lab, "disable", disabled)
    return disabled


@pytest.mark.slow
@pytest.mark.sanitize
@pytest.mark.parametrize("switches", [25, pytest.param(1000, marks=[
    pytest.mark.long, pytest.mark.seconds(600)])])
def test_compression_level_and_links_are_switched_under_load(make_lab, scratch, switches):
    lab = make_lab(links=3, peer_timeout="30s")  # no machine is as late as that
    all_up(lab, 3)
    undisturbed = Undisturbed(lab)
    disabled = None
    with MixedLoad(lab, scratch) as load:
        for _ in range(switches):
            disabled = switch_something(lab, disabled)
            a_moment(0, 0.1)
        load.finish()
    load.print_stalls(f"{switches} switches, {lab.status('alpha')['compression']}")
    undisturbed.check()
