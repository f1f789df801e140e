"""A primary whose process ends goes on as primary by itself when it runs again, if the other node was not
promoted meanwhile; who was acknowledged anything finds it there (registers.py)."""

import contextlib
import errno
import os
import signal
import subprocess
from pathlib import Path

import nbd
import pytest

from registers import Load, Registers
from support import MIB, assert_identical, connection, ctl, promote, wait_for_log, wait_until, wait_until_left

SIZE = 64 * MIB
OTHER = {"alpha": "beta", "beta": "alpha"}


@pytest.fixture
def scratch(scratch_in_memory):
    """Who is killed in a flush that a disk takes seconds for does not know how it ended, and does not go on."""
    return scratch_in_memory


def check(lab, registers, name="alpha"):
    with connection(lab, name) as handle:
        registers.check(lambda offset, length: handle.pread(length, offset), False,
                        f"the volume on {name}")


def serves(lab, name="alpha"):
    return lab.wait_status(name, lambda status: status["role"] == "primary", what="primary again")


def end(lab, how, load):
    """Of alpha's process, under that load."""
    if how == "killed":
        lab.kill("alpha")
    else:
        lab.stop("alpha")
    load.ended()


@pytest.mark.parametrize("how", ["killed", "asked to stop"])
def test_a_primary_goes_on_after_its_process(make_lab, rng, how):
    """Ten times under load. The term stays, by which who holds a device open knows its pages to be good."""
    lab = make_lab(size=f"{SIZE}")
    term = lab.status("alpha")["term"]
    registers = Registers(SIZE)
    for _ in range(10):
        load = Load(lab, "alpha", registers, seed=rng.getrandbits(32))
        load.wait_for(rng.randrange(20, 300))
        end(lab, how, load)
        lab.start("alpha")
        assert serves(lab)["term"] == term
        check(lab, registers)
    lab.wait_state("alpha", "duplex")
    assert_identical(lab)
    assert lab.status("beta")["role"] == "secondary"


def ended_alone(make_lab, rng):
    """A primary whose process ended when its peer was away; what it had acknowledged."""
    lab = make_lab(size=f"{SIZE}", peer_timeout="1s")
    registers = Registers(SIZE)
    lab.kill("beta")
    load = Load(lab, "alpha", registers, seed=rng.getrandbits(32))
    load.wait_for(200)
    lab.kill("alpha")
    load.ended()
    return lab, registers


def test_it_goes_on_while_the_other_node_is_away(make_lab, rng):
    """What it had acknowledged alone is here only: nobody else can have been promoted without a word."""
    lab, registers = ended_alone(make_lab, rng)
    lab.start("alpha")
    assert serves(lab)["state"] == "simplex"
    check(lab, registers)
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    check(lab, registers)
    assert_identical(lab)


def test_it_goes_on_beside_a_peer_that_came_without_data(make_lab, rng):
    """That peer's disk was lost; it knows nothing of the volume, and nobody can have been promoted there."""
    lab, registers = ended_alone(make_lab, rng)
    Path(lab.node("beta")["metadata"]).unlink()
    with open(lab.node("beta")["backing"], "wb") as file:
        file.truncate(SIZE)
    lab.start("beta")
    assert lab.status("beta")["data"] == "blank"
    lab.start("alpha")
    serves(lab)
    check(lab, registers)
    lab.wait_state("alpha", "duplex")
    check(lab, registers)
    assert_identical(lab)


def test_a_restart_before_the_client_is_back_is_no_end(make_lab):
    """A device that is attached needs its time to find its node again."""
    lab = make_lab()
    term = lab.status("alpha")["term"]
    with contextlib.ExitStack() as stack:
        handle = stack.enter_context(connection(lab, "alpha"))
        handle.pwrite(b"x" * 4096, 0)
        lab.stop("alpha")  # the client is cut off
        stack.pop_all()
    for _ in range(2):
        lab.start("alpha")
        assert serves(lab)["term"] == term
        lab.stop("alpha")  # nobody is there
    lab.start("alpha")
    assert serves(lab)["term"] == term


def test_who_only_looks_is_no_client_that_is_back(make_lab):
    """A monitor comes, reads and goes before the guest, or the device, that was cut off has found its node again."""
    lab = make_lab()
    term = lab.status("alpha")["term"]
    handle = nbd.NBD()
    handle.connect_uri(lab.node("alpha")["nbd"])
    handle.pwrite(b"x" * 4096, 0)
    lab.stop("alpha")  # the client is cut off
    for _ in range(2):
        lab.start("alpha")
        assert serves(lab)["term"] == term
        with connection(lab, "alpha") as look:
            assert look.pread(4096, 0) == b"x" * 4096
        wait_until_left(lab)
        lab.stop("alpha")
    lab.start("alpha")
    assert serves(lab)["term"] == term


def test_who_was_hung_up_on_is_waited_for(make_lab):
    """The device of a volume that grows is to make another connection: the node is stopped before it has."""
    lab = make_lab()
    term = lab.status("alpha")["term"]
    handle = nbd.NBD()
    handle.connect_uri(lab.node("alpha")["nbd"])
    handle.pwrite(b"x" * 4096, 0)
    assert lab.ctl("alpha", "hang-up", pid=os.getpid())["connections"] == 1
    wait_until_left(lab)
    lab.stop("alpha")
    lab.start("alpha")
    assert serves(lab)["term"] == term


def test_both_processes_end(make_lab, rng):
    lab = make_lab(size=f"{SIZE}")
    registers = Registers(SIZE)
    load = Load(lab, "alpha", registers, seed=rng.getrandbits(32))
    load.wait_for(200)
    for name in rng.sample(["alpha", "beta"], 2):
        lab.kill(name)
    load.ended()
    for name in rng.sample(["alpha", "beta"], 2):
        lab.start(name)
    serves(lab)
    lab.wait_state("alpha", "duplex")
    check(lab, registers)
    assert_identical(lab)


def test_it_waits_where_the_other_node_might_have_been_promoted(make_lab):
    """Both were current when it ended, and the other one is away: an operator decides."""
    lab = make_lab(peer_timeout="1s")
    term = lab.status("alpha")["term"]
    lab.stop("beta")
    lab.wait_peer_lost("alpha")
    lab.kill("alpha")
    lab.start("alpha")
    wait_for_log(lab, "alpha", "goes on as primary when it is known that beta was not promoted")
    status = lab.wait_status("alpha", lambda status: status["resumes"], what="that it waits")
    assert status["role"] == "secondary"
    assert "confirms that it was not promoted meanwhile" in status["status"]
    with pytest.raises(Exception, match="no export"):
        with connection(lab, "alpha"):
            pass
    promote(lab, "alpha")
    assert serves(lab)["term"] == term
    lab.start("beta")
    lab.wait_state("alpha", "duplex")


@pytest.mark.parametrize("how", ["killed", "asked to stop"])
def test_the_other_node_was_promoted_meanwhile(make_lab, rng, how):
    lab = make_lab(size=f"{SIZE}")
    term = lab.status("alpha")["term"]
    registers = Registers(SIZE)
    load = Load(lab, "alpha", registers, seed=rng.getrandbits(32))
    load.wait_for(100)
    end(lab, how, load)
    lab.wait_peer_lost("beta")
    promote(lab, "beta", "--peer-is-dead")
    check(lab, registers, "beta")
    lab.start("alpha")
    lab.wait_state("beta", "duplex")
    status = lab.status("alpha")
    assert (status["role"], status["resumes"]) == ("secondary", False)
    assert lab.status("beta")["term"] > term
    wait_for_log(lab, "alpha", "does not go on as primary")
    assert_identical(lab)


def test_a_stop_without_clients_is_for_good(make_lab):
    lab = make_lab()
    with connection(lab, "alpha") as handle:
        handle.pwrite(b"x" * 4096, 0)
    wait_until_left(lab)
    lab.stop("alpha")
    lab.wait_peer_lost("beta")
    promote(lab, "beta")
    lab.start("alpha")
    lab.wait_state("beta", "duplex")
    assert lab.status("alpha")["role"] == "secondary"


def test_a_held_write_is_not_answered_when_the_process_is_asked_to_stop(make_lab):
    """on_peer_loss = "freeze": its client is cut off instead, and does it again with the next process."""
    lab = make_lab(settings={"on_peer_loss": "freeze"}, peer_timeout="1s")
    lab.kill("beta")
    answers = []
    handle = nbd.NBD()
    handle.connect_uri(lab.node("alpha")["nbd"])
    handle.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(b"y" * 4096)), 0,
                      lambda error: answers.append(error.value) or 1)
    lab.wait_state("alpha", "frozen")
    lab.process("alpha").signal(signal.SIGTERM)
    wait_until(lambda: not lab.alive("alpha"), what="the end of alpha")
    while not answers:
        handle.poll(1000)
    assert answers == [errno.ENOTCONN]  # libnbd's own: the server said nothing
    lab.start("beta")
    lab.start("alpha")
    serves(lab)
    lab.wait_state("alpha", "duplex")


@pytest.mark.parametrize("structured", [True, False])
@pytest.mark.parametrize("late", [True, False])
def test_no_request_is_answered_with_an_error_when_the_process_is_asked_to_stop(scratch, make_lab, late, structured):
    """nbdkit would answer so what it reads after the signal, and the kernel's nbd pass that on as an I/O error. So would
    nbdkit 1.32 what a worker had read that then stands still until another one finds the end of the connection."""
    lab = make_lab(start=False)
    requests = 400
    if late:
        requests = 20  # fewer than there are workers, and all in the socket
        library = scratch / "late_worker.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library),
                        str(Path(__file__).with_name("late_worker.c")), "-ldl"], check=True)
        lab.set_env("alpha", LD_PRELOAD=str(library))
    lab.up()
    promote(lab, "alpha")
    answers = []
    handle = nbd.NBD()
    handle.set_request_structured_replies(structured)
    handle.connect_uri(lab.node("alpha")["nbd"])
    data = nbd.Buffer.from_bytearray(bytearray(b"z" * 512))
    process = lab.process("alpha")
    process.pause()  # so that there are requests in the socket when the signal comes
    for number in range(requests):
        ask = handle.aio_pread if number % 2 else handle.aio_pwrite  # errors of reads are answered in another way
        ask(data, number * 512, lambda *answer: answers.append(answer[-1].value) or 1)
        handle.poll(0)
    process.signal(signal.SIGTERM)
    process.signal(signal.SIGCONT)
    while handle.aio_in_flight() and not handle.aio_is_dead():
        with contextlib.suppress(nbd.Error):
            handle.poll(1000)
    assert len(answers) == requests and (late or answers.count(0) > 0)
    assert set(answers) <= {0, errno.ENOTCONN}, {each: answers.count(each) for each in set(answers)}


def test_who_comes_while_the_process_stops_is_sent_away(make_lab):
    """A device that connects anew waits for the next process; this one would end its requests with an error."""
    lab = make_lab(peer_timeout="60s")
    handle = nbd.NBD()
    handle.connect_uri(lab.node("alpha")["nbd"])
    lab.pause("beta")
    handle.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(b"z" * 4096)), 0)

    def is_under_way():
        with open(lab.node("alpha")["backing"], "rb") as image:
            return image.read(4096) == b"z" * 4096

    wait_until(is_under_way, what="a write that waits for beta")
    lab.process("alpha").signal(signal.SIGTERM)

    def is_sent_away():
        try:
            nbd.NBD().connect_uri(lab.node("alpha")["nbd"])
        except nbd.Error:
            return True
        return False  # it was there before the signal

    wait_until(is_sent_away, what="a client that is sent away")
    wait_for_log(lab, "alpha", "this node is stopping")
    lab.resume("beta")
    wait_until(lambda: not lab.alive("alpha"), what="the end of alpha")


def test_switched_off_it_waits_for_a_promotion(make_lab):
    lab = make_lab(settings={"on_restart": "secondary"})
    term = lab.status("alpha")["term"]
    lab.kill("alpha")
    lab.start("alpha")
    lab.wait_state("alpha", "connected")
    assert lab.status("alpha")["role"] == "secondary"
    promote(lab, "alpha")
    assert lab.status("alpha")["term"] > term


def test_a_demotion_ends_the_waiting(make_lab):
    lab = make_lab()
    lab.stop("beta")
    lab.wait_peer_lost("alpha")
    lab.kill("alpha")
    lab.start("alpha")
    lab.wait_status("alpha", lambda status: status["resumes"], what="that it waits")
    assert ctl(lab, "alpha", "demote").returncode == 0
    assert not lab.status("alpha")["resumes"]
