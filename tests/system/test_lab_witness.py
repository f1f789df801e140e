"""The witness of tools/lab: it runs beside the nodes, can be reached over links of its own, and goes with the lab."""

import json
import os
import signal
import subprocess
import sys

import pytest

from conftest import HERE
from lablib import Lab, LabError
from lablib.etcd import EtcdError
from lablib.network import unavailable
from lablib.processes import Process
from lablib.witness import VOLUMES
from links_support import need_namespaces
from support import wait_until

LAB = HERE.parents[1] / "tools" / "lab"
REACHES = """
import socket, sys
host, port = sys.argv[1].rsplit(":", 1)
try: socket.create_connection((host, int(port)), 0.5); print("yes")
except OSError as error: print("no:", error)
"""


def run_lab(directory, *words):
    return subprocess.run([sys.executable, str(LAB), *words, "--dir", str(directory)],
                          capture_output=True, text=True, check=False, timeout=240)


@pytest.fixture
def alone(scratch):
    """The witness of a lab whose nodes do not run; in a namespace, with a link to each of theirs."""
    need_namespaces()
    lab = Lab(scratch / "lab")
    lab.create(size="4MiB", links=2, host_namespaces=True, witness="etcd")
    try:
        lab.start("witness")
        yield lab
    finally:
        lab.down()


def reaches(lab, node):
    done = subprocess.run([*lab.inside(node), sys.executable, "-c", REACHES, lab.member("witness")["address"]],
                          capture_output=True, text=True, check=True)
    return done.stdout.startswith("yes")


def test_each_node_reaches_the_witness_over_a_link_of_its_own(alone):
    network = alone.network()
    for end in ("cut", "silence"):
        for node, other in (("alpha", "beta"), ("beta", "alpha")):
            for each in (node, other):  # a link that was down carries again a moment after it is up
                wait_until(lambda each=each: reaches(alone, each), what=f"{each} to reach the witness")
            if end == "cut":
                network.cut(f"witness-{node}")
            else:
                network.drop(f"witness-{node}", ["witness"])
            assert not reaches(alone, node)
            wait_until(lambda other=other: reaches(alone, other), what=f"{other} to reach the witness")
            network.restore(f"witness-{node}")
    network.cut("link1")
    network.cut("link2")
    wait_until(lambda: reaches(alone, "alpha") and reaches(alone, "beta"), what="both to reach the witness")
    with pytest.raises(LabError, match="does not lead to beta"):
        network.cut("witness-alpha", "beta")


def test_what_stands_at_the_witness_outlives_its_process_and_its_links(alone):
    etcd = alone.etcd()
    etcd.put(f"{VOLUMES}r0/1", "once")
    for node in ("alpha", "beta"):
        alone.network().cut(f"witness-{node}")
    assert etcd.entries(VOLUMES) == {f"{VOLUMES}r0/1": "once"}, "it can be asked where it is"
    alone.kill("witness")
    with pytest.raises(EtcdError):
        etcd.entries(VOLUMES)
    alone.start("witness")
    assert etcd.entries(VOLUMES) == {f"{VOLUMES}r0/1": "once"}
    alone.pause("witness")
    assert alone.process_state("witness") == "stopped"
    alone.resume("witness")
    assert alone.stop("witness")


@pytest.mark.slow
def test_command_starts_and_ends_a_witness(scratch):
    directory = scratch / "lab"
    namespaces = [] if unavailable() else ["--host-namespaces"]
    try:
        made = run_lab(directory, "up", "--size", "16MiB", "--witness", "etcd", "--witness-timeout", "2s", *namespaces)
        assert made.returncode == 0, made.stderr
        described = json.loads(made.stdout)
        witness = described["witness"]
        config = (directory / "r0.toml").read_text(encoding="utf-8")
        assert f'[witness]\nkind = "etcd"\nendpoints = ["http://{witness["address"]}"]\ntimeout = "2s"\n' in config
        process = Process.of(json.loads((directory / "lab.json").read_text(encoding="utf-8"))["witness"]["process"])
        assert process.alive() and process.pid == witness["pid"]
        wait_until(lambda: "r0: shared by both nodes" in run_lab(directory, "status").stdout, what="the volume's entry")
        assert run_lab(directory, "kill", "witness").returncode == 0
        assert "witness: gone" in run_lab(directory, "status").stdout
        assert run_lab(directory, "kill", "witness").returncode == 1
        assert run_lab(directory, "start", "witness").returncode == 0
        for verb, state in (("pause", "stopped"), ("continue", "running"), ("stop", "gone"), ("start", "running")):
            assert run_lab(directory, verb, "witness").returncode == 0
            assert json.loads(run_lab(directory, "status", "--json").stdout)["witness"]["process"] == state
        if namespaces:
            assert run_lab(directory, "link", "cut", "witness-beta").returncode == 0
            assert run_lab(directory, "link", "restore", "witness-beta").returncode == 0
        other = run_lab(directory, "down")
        assert other.returncode == 0 and not process.alive(), other.stderr
        again = run_lab(directory, "up", "--witness", "command", "--fence-command", "/bin/true")
        assert again.returncode == 1 and "witness etcd" in again.stderr
    finally:
        assert run_lab(directory, "down", "--purge").returncode == 0
    assert not directory.exists()


def test_lab_with_a_fence_command_says_so_in_its_file(make_lab):
    lab = make_lab(witness="command", fence_command="/bin/false", witness_settings={"timeout": "7s"}, start=False)
    text = lab.config_text(lab.state["replication"])
    assert '[witness]\nkind = "command"\ncommand = "/bin/false"\ntimeout = "7s"\n' in text
    with pytest.raises(LabError, match="runs no witness"):
        lab.kill("witness")


@pytest.mark.parametrize("words, said", [
    (["--witness", "command"], "--fence-command"),
    (["--witness", "command", "--fence-command", "/nowhere"], "/nowhere"),
    (["--fence-command", "/bin/true"], "--witness command"),
    (["--witness", "etcd", "--fence-command", "/bin/true"], "--witness command"),
])
def test_wrong_witnesses_are_refused(scratch, words, said):
    refused = run_lab(scratch / "lab", "up", *words)
    assert refused.returncode == 1 and said in refused.stderr, refused.stderr


KILLED = """
import sys, time
sys.path[:0] = [{tools!r}, {tests!r}]
from lablib import Lab
from lablib.guardian import Guardian
guardian = Guardian()
guardian.remove({directory!r})
lab = Lab({directory!r} + "/lab")
lab.create(size="4MiB", witness="etcd")
lab.start("witness")
print(lab.member("witness")["pid"], flush=True)
time.sleep(600)
"""


def test_witness_ends_when_the_one_who_made_the_lab_is_killed(scratch):
    directory = scratch / "guarded"
    directory.mkdir()
    code = KILLED.format(tools=str(HERE.parents[1] / "tools"), tests=str(HERE), directory=str(directory))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as maker:
        witness = int(maker.stdout.readline())
        assert os.path.exists(f"/proc/{witness}")
        maker.send_signal(signal.SIGKILL)
        maker.wait()
        wait_until(lambda: not os.path.exists(f"/proc/{witness}"), what="the end of etcd")
    wait_until(lambda: not directory.exists(), what="the end of its files")
