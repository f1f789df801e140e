"""`twinblock web`: what it tells of nodes in every state, and what it does with clients that mean no good."""

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from lablib.error import LIVENESS_S
from lablib.links import free_ports
from registers import Load, Registers
from support import MIB, can_mount_alone, connection, ctl, promote, wait_until
from test_probe import probe

HOST = "127.0.0.1"


class Web:
    """The program, and what it answers."""

    def __init__(self, lab, *words, before=(), **environment):
        self.port = free_ports(1)[0]
        program = Path(lab.state["build"]) / "tools" / "twinblock"
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [*before, str(program), "web", "--listen", f"{HOST}:{self.port}", *map(str, words)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **environment})
        wait_until(lambda: self.process.poll() is not None or self.answers(), what="the page to be served")
        assert self.process.poll() is None, self.process.stdout.read()

    def answers(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.get("/api/volumes")[0] == 200 and bool(self.volumes())
        return False

    def get(self, path, method="GET", timeout_s=LIVENESS_S, **headers):
        asked = http.client.HTTPConnection(HOST, self.port, timeout=timeout_s)
        try:
            asked.request(method, path, headers=headers)
            answer = asked.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())
        finally:
            asked.close()

    def volumes(self):
        return {each["volume"]: each for each in json.loads(self.get("/api/volumes")[1])["volumes"]}

    def wait(self, condition, what):
        """Until it tells of r0 what the condition wants; that."""
        wait_until(lambda: condition(self.volumes()["r0"]), what=f"{what}; it says {self.volumes()['r0']}")
        return self.volumes()["r0"]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def serve():
    """`serve(lab, words…)` starts one, which ends with the test."""
    made = []

    def start(lab, *words, **options):
        words = words or ("--socket", lab.node("alpha")["control"])
        made.append(Web(lab, *words, **options))
        return made[-1]

    yield start
    for web in made:
        web.close()


def test_it_tells_what_status_tells_in_every_state(make_lab, serve):
    lab = make_lab(init=False)
    web = serve(lab)
    assert "init" in web.wait(lambda told: told["answers"], "an answer")["status"]["action"]
    assert ctl(lab, "alpha", "init").returncode == 0
    promote(lab, "alpha")
    lab.wait_state("alpha", "duplex")
    with connection(lab) as handle:
        handle.pwrite(bytes(MIB), 0)
    told = web.wait(lambda told: told["status"]["counters"]["write_bytes"] == MIB, "what was written")

    def differs():  # it asks now and then
        status, shown = lab.status("alpha"), web.volumes()["r0"]["status"]
        keys = ("state", "role", "status", "action", "size_bytes", "generation", "dirty_bytes", "counters")
        return {key: (shown[key], status[key]) for key in keys if shown[key] != status[key]}

    wait_until(lambda: not differs(), what=f"what status tells; {differs()}")
    assert [each["class"] for each in told["latency"]["classes"]] == ["larger"]
    assert any(event["event"] == "initialised" for event in told["events"])
    lab.kill("beta")
    assert web.wait(lambda told: told["status"]["state"] == "simplex", "simplex")["status"]["status"]
    lab.start("beta")
    web.wait(lambda told: told["status"]["state"] == "duplex", "duplex")
    wait_until(lambda: json.loads(web.get("/api/history")[1])["volumes"]["r0"], what="a point of the history")


def test_the_last_events_are_shown_and_not_the_first(lab, serve):
    web = serve(lab)
    for each in range(60):
        assert ctl(lab, "alpha", "compression", ("on", "off")[each % 2]).returncode == 0
    lines = ctl(lab, "alpha", "events", "--json").stdout.splitlines()
    last = json.loads(lines[-1])["number"]
    assert last > 60
    told = web.wait(lambda told: told["events"] and told["events"][-1]["number"] >= last, "the last event")
    assert len(told["events"]) == 50 and told["events"][-1]["event"] == "compression-order"


def test_a_node_that_dies_or_hangs_is_told_and_comes_back(lab, serve):
    web = serve(lab)
    before = web.wait(lambda told: told["status"].get("state") == "duplex", "duplex")
    for fails, heals in ((lab.kill, lab.start), (lab.pause, lab.resume)):
        fails("alpha")
        told = web.wait(lambda told: not told["answers"], "that it does not answer")
        assert told["error"], told
        assert told["status"]["volume"] == "r0" and told["told_ms"] > 0, "what it said last is still there"
        metrics = web.get("/metrics")[1]
        assert 'twinblock_node_answers{volume="r0"} 0' in metrics
        assert "twinblock_state" not in metrics, "who reads figures is not told those of before"
        began = time.monotonic()
        assert web.get("/")[0] == 200
        assert time.monotonic() - began < LIVENESS_S, "nobody waits for a node"
        heals("alpha")
        web.wait(lambda told: told["answers"] and told["status"]["state"] == "duplex", "that it is back")
    assert before["status"]["volume_uuid"] == web.volumes()["r0"]["status"]["volume_uuid"]


# Another /run than this host's, with nodes' sockets in it.
RUN = """mount -t tmpfs tmpfs /run && mkdir /run/twinblock && cd /run/twinblock
ln -s "$1" one.ctl; ln -s "$2" two.ctl; shift 2
exec "$@"
"""


@pytest.mark.skipif(not can_mount_alone(), reason="another /run takes root, and a root directory that is a mount point")
def test_all_volumes_of_a_host_and_their_metrics_as_one(lab, serve):
    """Both nodes of a lab stand for two volumes of one host."""
    sockets = [lab.node(name)["control"] for name in ("alpha", "beta")]
    web = serve(lab, "--host", "lab.example", before=("unshare", "--mount", "sh", "-c", RUN, "sh", *sockets))
    assert web.get("/", Host="lab.example")[0] == 200
    wait_until(lambda: {"one", "two"} <= set(web.volumes()), what="both")
    assert web.volumes()["one"]["status"]["node"] == "alpha" and web.volumes()["two"]["status"]["node"] == "beta"
    text = web.get("/metrics")[1]
    assert 'node="alpha"' in text and 'node="beta"' in text
    heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads)) > 20
    if promtool := shutil.which("promtool"):
        checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True,
                                 timeout=LIVENESS_S, check=False)
        assert checked.returncode in (0, 3) and "error" not in checked.stderr, checked.stderr
    Path(f"/proc/{web.process.pid}/root/run/twinblock/two.ctl").unlink()
    wait_until(lambda: not web.volumes()["two"]["answers"], what="that it is gone")
    assert "no node of two" in web.volumes()["two"]["error"]
    # One whose file is gone, too, was taken away; the other one's node runs.
    config = Path(lab.node("beta")["config"])
    aside = config.rename(config.with_suffix(".aside"))
    try:
        wait_until(lambda: set(web.volumes()) == {"one"}, what="that it is taken off the page")
        assert 'volume="two"' not in web.get("/metrics")[1]
    finally:
        aside.rename(config)


def test_its_unit_has_started_when_it_is_served(lab, serve, scratch):
    """Else systemd ends it after 90 s, again and again."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(scratch / "notify"))
        manager.settimeout(LIVENESS_S)
        serve(lab, NOTIFY_SOCKET=str(scratch / "notify"))
        assert b"READY=1" in manager.recv(4096)


def test_who_may_not_read_it_does_not(lab, serve):
    web = serve(lab)
    assert web.get("/", Host="evil.example")[0] == 403
    assert web.get("/metrics", Host="evil.example")[0] == 403
    for method in ("POST", "PUT", "DELETE"):
        assert web.get("/", method=method)[0] == 405
    _, _, headers = web.get("/")
    assert "default-src 'none'" in headers["Content-Security-Policy"] and headers["X-Content-Type-Options"] == "nosniff"
    assert web.get("/../../etc/passwd")[0] == 404
    assert web.get("/" + "a" * 100_000)[0] in (404, 413, 414, 431)
    assert web.get("/", Much="a" * 100_000)[0] in (413, 431)


def test_slow_many_and_broken_clients_keep_nobody_else_away(lab, serve):
    web = serve(lab)
    load = Load(lab, "alpha", Registers(16 * MIB))
    clients = []
    try:
        for number in range(300):
            sock = socket.create_connection((HOST, web.port), timeout=LIVENESS_S)
            clients.append(sock)
            sock.sendall([b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"\x16\x03\x01\xff\x00"][number % 4])
        for _ in range(20):
            assert web.get("/api/volumes")[0] == 200
        # They are cut off for their silence, not for ever waited for.
        clients[1].settimeout(3 * LIVENESS_S)
        assert clients[1].recv(4096) == b"", "it is cut off"
        assert web.volumes()["r0"]["answers"]
    finally:
        for sock in clients:
            sock.close()
        load.stop()
    assert lab.status("alpha")["state"] == "duplex"


def test_it_ends_in_order_and_says_where_it_can_not_listen(lab, serve):
    web = serve(lab)
    program = Path(lab.state["build"]) / "tools" / "twinblock"
    for listen, code, why in ((f"{HOST}:{web.port}", 1, "can't listen on"), ("here:80", 2, "--listen"),
                              ("", 2, "--listen")):
        done = subprocess.run([str(program), "web", "--listen", listen, "--socket", lab.node("alpha")["control"]],
                              capture_output=True, text=True, timeout=LIVENESS_S, check=False)
        assert done.returncode == code and why in done.stderr, (listen, done.stderr)
    web.process.terminate()
    assert web.process.wait(timeout=LIVENESS_S) == 0


def test_a_probe_of_the_node_s_next_process_takes_the_last_one_s_place(lab, serve):
    web = serve(lab)
    probe(lab)
    first = web.wait(lambda told: told["probe"], "the probe")["probe"]
    lab.kill("alpha")
    lab.start("alpha")
    lab.wait_state("alpha", "duplex")
    probe(lab)
    web.wait(lambda told: told["probe"] != first, "what was measured last")
