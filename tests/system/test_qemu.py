"""QEMU as a client that connects again by itself (reconnect-delay), while its node's process is replaced."""

import shlex
import subprocess

import pytest

from support import assert_identical, connection, demote, promote, wait_for_log

PIECE = 64 << 10
# Longer than any test: what ends a request is the node's answer, or its process.
RECONNECT_S = 3600


class Qemu:
    """qemu-io at alpha's export `name`."""

    def __init__(self, lab, name):
        options = {"driver": "nbd", "server.type": "unix", "server.path": lab.node("alpha")["nbd"].split("socket=")[1],
                   "export": name, "reconnect-delay": RECONNECT_S}
        words = ["qemu-io", "--image-opts", ",".join(f"{key}={value}" for key, value in options.items())]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, bufsize=1)

    def begin(self, order):
        self.process.stdin.write(order + "\n")

    def answer(self):
        """The next line that says how an order ended."""
        for line in self.process.stdout:
            if line.startswith(("qemu-io> wrote", "wrote")):
                return line
            if "rror" in line or "failed" in line or "mismatch" in line:
                pytest.fail(line)
        return pytest.fail(f"qemu-io ended: {shlex.join(self.process.args)}")

    def write(self, number):
        self.begin(f"write -P {number} {number * PIECE} {PIECE}")

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def qemu():
    made = []

    def make(lab, name):
        made.append(Qemu(lab, name))
        return made[-1]

    yield make
    for each in made:
        each.end()


def pieces(lab, count):
    with connection(lab) as handle:
        return [handle.pread(1, number * PIECE)[0] for number in range(count)]


def test_qemu_goes_on_with_the_next_process_of_its_node(lab, qemu):
    guest = qemu(lab, f"r0@{lab.status('alpha')['term']}")
    for number in range(1, 6):
        guest.write(number)
        guest.answer()
        lab.kill("alpha")
        guest.write(number + 5)  # waits
        lab.start("alpha")
        guest.answer()
    guest.end()
    assert pieces(lab, 11) == list(range(11))
    lab.wait_state("alpha", "duplex")
    assert_identical(lab)


def test_qemu_does_not_go_on_beside_another_promotion(lab, qemu):
    """The volume was written elsewhere meanwhile, and alpha is primary again before QEMU gives up: what a guest
    has in its memory is older than the volume."""
    guest = qemu(lab, f"r0@{lab.status('alpha')['term']}")
    guest.write(1)
    guest.answer()
    lab.kill("alpha")
    guest.write(2)  # waits
    promote(lab, "beta", "--peer-is-dead")
    with connection(lab, "beta") as handle:
        handle.pwrite(b"\x63" * PIECE, 2 * PIECE)
    lab.start("alpha")
    lab.wait_state("beta", "duplex")
    demote(lab, "beta")
    promote(lab, "alpha")
    wait_for_log(lab, "alpha", "may be old")
    assert pieces(lab, 3) == [0, 1, 0x63]
