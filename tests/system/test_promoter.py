"""`twinblock promoter` with two real nodes and a real etcd: who serves the volume, without an operator."""

import os
import signal
import time

import pytest

from lateness import Lateness, in_one_of_three
from lablib.lab import NODES
from links_support import need_namespaces
from promoter_support import OTHER, Promoters, Target, run_promoter
from registers import Load, Registers
from support import MIB, assert_identical, connection, ctl, may_lock_memory, status_field, wait_until

SIZE = 64 * MIB
ROUNDS = int(os.environ.get("TWINBLOCK_PROMOTER_ROUNDS", "2"))
PEER_TIMEOUT_S = 2
# What a lost host may take beyond peer_timeout: the pause for a primary that lives, the witness'
# answer, the target's start.
ALLOWED_S = PEER_TIMEOUT_S + 2


@pytest.fixture
def scratch(scratch_in_memory):
    """It is measured how long a service is away: no disk that others use is to take part."""
    return scratch_in_memory


@pytest.fixture
def make_promoters(make_lab, scratch):
    """make_promoters(*options, …): a lab in duplex with a witness, and a promoter beside each node; alpha serves."""
    made = []

    def make(*options, start=True, **of_the_lab):
        lab = make_lab(size=f"{SIZE}", peer_timeout=f"{PEER_TIMEOUT_S}s", witness="etcd", **of_the_lab)
        for name in NODES:  # it is told in the background
            lab.wait_status(name, lambda status: status["witness"]["state"] == "agreed", what="the witness' word")
        promoters = Promoters(lab, scratch, *options)
        made.append(promoters)
        if start:
            promoters.start()
            promoters.serves("alpha")
        return promoters

    yield make
    for promoters in made:
        failed = [name for name, process in promoters.processes.items() if not process.alive()]
        for name in NODES:
            print(f"promoter of {name}:\n{promoters.log(name)}")
        for name in list(promoters.processes):
            promoters.kill(name)
        assert not failed, f"the promoters of {failed} have ended by themselves"


def check(lab, registers, name):
    with connection(lab, name) as handle:
        registers.check(lambda offset, length: handle.pread(length, offset), False, f"the volume on {name}")


def too_long(took_s, machine, log):
    """What there is to say where it took longer than it may, but for what the machine made of it."""
    return f"{took_s:.2f} s: {log}" if took_s > ALLOWED_S + machine.allowance_s() else None


def returns(promoters, name):
    """A host that was lost, as its manager starts it."""
    promoters.lab.start(name)
    promoters.start(name)
    promoters.lab.wait_state(OTHER[name], "duplex")


@pytest.mark.seconds(300 + 60 * ROUNDS)
def test_a_lost_host_moves_the_service(make_promoters, rng):
    """… $TWINBLOCK_PROMOTER_ROUNDS times, from one node to the other and back."""
    promoters = make_promoters()
    lab = promoters.lab
    registers = Registers(SIZE - MIB)  # the probe of who writes is behind them
    name = "alpha"
    took = []

    def lose():
        nonlocal name
        load = Load(lab, name, registers, seed=rng.getrandbits(32))
        load.wait_for(rng.randrange(20, 300))
        with Lateness() as machine:
            began = time.monotonic()
            promoters.kill_host(name)
            took.append(promoters.writes(OTHER[name], SIZE - MIB) - began)
        said = too_long(took[-1], machine, promoters.log(OTHER[name]))
        load.ended()
        check(lab, registers, OTHER[name])
        returns(promoters, name)
        promoters.serves(OTHER[name])
        name = OTHER[name]
        return said

    for _ in range(ROUNDS):
        in_one_of_three(lose)
    print(f"lost host to first write: {', '.join(f'{each:.2f}' for each in sorted(took))} s")
    assert_identical(lab)


def test_a_host_that_stands_still_moves_the_service(make_promoters, rng):
    """… and when it goes on, its node is secondary, and its target stopped."""
    def stand_still():  # on a lab of its own: for a while after that alpha would not be promoted
        promoters = make_promoters()
        lab = promoters.lab
        registers = Registers(SIZE - MIB)
        load = Load(lab, "alpha", registers, seed=rng.getrandbits(32))
        load.wait_for(100)
        with Lateness() as machine:
            began = time.monotonic()
            lab.pause("alpha")
            promoters.processes["alpha"].pause()
            took = promoters.writes("beta", SIZE - MIB) - began
        said = too_long(took, machine, promoters.log("beta"))
        lab.resume("alpha")
        promoters.processes["alpha"].signal(signal.SIGCONT)
        load.ended()
        promoters.serves("beta")
        lab.wait_state("beta", "duplex")
        check(lab, registers, "beta")
        assert_identical(lab)
        for name in NODES if said else ():
            promoters.kill(name)
        return said

    in_one_of_three(stand_still)


def test_a_cut_link_leaves_the_service_where_it_is(make_promoters):
    need_namespaces()
    promoters = make_promoters(host_namespaces=True)
    lab = promoters.lab
    for link in lab.state["links"]:
        lab.network().cut(link["name"])
    lab.wait_state("alpha", "simplex")
    wait_until(lambda: "not promoted" in promoters.log("beta"), what="beta's try")
    for link in lab.state["links"]:
        lab.network().restore(link["name"])
    lab.wait_state("alpha", "duplex")
    promoters.serves("alpha")
    assert promoters.targets["alpha"].starts() == 1
    assert promoters.targets["beta"].starts() == 0


def test_a_process_that_comes_back_keeps_the_service(make_promoters):
    """Its device would wait for it: the target is not even touched."""
    promoters = make_promoters("--restart-wait", "60s")
    lab = promoters.lab
    term = lab.status("alpha")["term"]
    lab.kill("alpha")
    # Without the option beta's promoter would have acted by then.
    lab.wait_status("beta", lambda status: status["peer"]["silent_ms"] > 2 * ALLOWED_S * 1000, what="silence")
    lab.start("alpha")
    promoters.serves("alpha")
    lab.wait_state("alpha", "duplex")
    assert lab.status("alpha")["term"] == term
    assert promoters.targets["alpha"].done()[-1:] == ["start r0"]
    assert promoters.targets["alpha"].starts() == 1
    assert promoters.targets["beta"].starts() == 0


def test_a_promoter_stays_in_memory(make_promoters):
    """Where memory is short it may else wait for the device whose node it is to demote."""
    if not may_lock_memory():
        pytest.skip("that its memory is locked takes CAP_IPC_LOCK, or no limit of locked memory")
    promoters = make_promoters()
    for name in NODES:
        pid = promoters.processes[name].pid
        wait_until(lambda pid=pid: int(status_field(pid, "VmLck")) > 0, what=f"locked memory of the promoter of {name}")


def test_a_demotion_moves_the_service(make_promoters):
    promoters = make_promoters("--prefer", "alpha")
    lab = promoters.lab
    assert ctl(lab, "alpha", "demote").returncode == 0
    promoters.serves("beta")
    assert promoters.targets["alpha"].starts() == 1


def test_a_restart_of_the_promoter_moves_the_service(make_promoters):
    promoters = make_promoters()
    promoters.stop("alpha")
    assert promoters.lab.status("alpha")["role"] == "secondary"
    promoters.start("alpha")
    promoters.serves("beta")


def test_without_another_to_take_it_the_service_comes_back(make_promoters):
    promoters = make_promoters()
    promoters.stop("beta")
    assert ctl(promoters.lab, "alpha", "demote").returncode == 0
    wait_until(lambda: promoters.targets["alpha"].starts() == 2, what="the target's second start")
    promoters.serves("alpha")


def test_a_target_that_fails_is_tried_on_the_other_node(make_promoters):
    promoters = make_promoters(start=False)
    promoters.targets["alpha"].broken.touch()
    promoters.start()
    promoters.serves("beta")
    assert promoters.targets["alpha"].starts() == 0


def test_a_target_that_failed_while_somebody_keeps_the_device_is_tried_again_here(make_promoters):
    """A mount that came late, say: the node can't be demoted, and nobody else can have the volume."""
    promoters = make_promoters(start=False)
    promoters.targets["alpha"].broken.touch()
    with connection(promoters.lab, "alpha"):
        promoters.start()
        wait_until(lambda: "not demoted" in promoters.log("alpha"), what=f"a refused demotion: {promoters.log('alpha')}")
        promoters.targets["alpha"].broken.unlink()
        promoters.serves("alpha")


@pytest.mark.parametrize("options, expected", [((), "beta"), (("--prefer", "alpha"), "alpha")],
                         ids=["who was primary last", "who is preferred"])
def test_both_hosts_are_restarted(make_promoters, rng, options, expected):
    """As after a loss of power: in a lab, whose host goes on, a primary would else go on by itself."""
    promoters = make_promoters(*options, settings={"on_restart": "secondary"})
    lab = promoters.lab
    assert ctl(lab, "alpha", "demote").returncode == 0
    promoters.serves("beta")
    registers = Registers(SIZE)
    load = Load(lab, "beta", registers, seed=rng.getrandbits(32))
    load.wait_for(100)
    load.stop()
    for name in NODES:
        promoters.kill(name)
    for name in rng.sample(NODES, 2):
        lab.kill(name)
    for name in rng.sample(NODES, 2):
        lab.start(name)
    lab.wait_state("alpha", "connected")
    with Lateness() as machine:
        promoters.start(OTHER[expected], expected)
        wait_until(promoters.primary, what="a primary")
        serving = promoters.primary()
    # Who is not preferred leaves the other one 3 s, which may be too little for a machine that is late.
    assert serving == expected or machine.allowance_s() > 2, f"{serving} serves"
    promoters.serves(serving)
    lab.wait_state(serving, "duplex")
    check(lab, registers, serving)


def test_one_host_of_two_is_started(make_promoters):
    promoters = make_promoters("--boot-wait", "1s")
    lab = promoters.lab
    for name in ("beta", "alpha"):
        promoters.kill(name)
    for name in ("beta", "alpha"):
        lab.stop(name)
    lab.start("alpha")
    promoters.start("alpha")
    promoters.serves("alpha")


def test_the_witness_is_away(make_promoters):
    """With it nobody is promoted; when it is back, somebody is."""
    promoters = make_promoters()
    lab = promoters.lab
    lab.kill("witness")
    promoters.kill_host("alpha")
    wait_until(lambda: "not promoted" in promoters.log("beta"), what="beta's try")
    assert lab.status("beta")["role"] == "secondary"
    assert promoters.targets["beta"].starts() == 0
    lab.start("witness")
    promoters.serves("beta")


def test_it_refuses_to_start_without_a_witness(make_lab, scratch):
    lab = make_lab(init=False)
    target = Target(scratch, "alpha")
    done = run_promoter(lab, "alpha", "--start", target.start, "--stop", target.stop)
    assert done.returncode == 2
    assert "has no witness" in done.stderr
    assert f"[witness] into {lab.state['config']}" in done.stderr
    assert not target.done()


def test_it_says_what_it_lacks(make_lab):
    lab = make_lab(init=False)
    done = run_promoter(lab, "alpha", "--start", "/bin/true")
    assert done.returncode == 2 and "--start and --stop go together" in done.stderr
    done = run_promoter(lab, "alpha", "--start", "/nothing", "--stop", "/bin/true")
    assert done.returncode == 2 and "/nothing is not a program" in done.stderr
    done = run_promoter(lab, "alpha", "--restart-wait", "soon")
    assert done.returncode == 2 and "'soon' is not a duration" in done.stderr
