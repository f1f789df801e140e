"""Metrics for Prometheus: over HTTP and by the command line, read by promtool and by a Prometheus
server; and the dashboard, which may only show what there is."""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from lablib.links import free_ports
from support import KIB, MIB, connection, ctl, wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
ROUNDS = 5


@pytest.fixture
def served(make_lab):
    """A lab in duplex whose nodes serve their metrics, with some writes; node name -> port."""
    lab = make_lab(start=False)
    ports = dict(zip(("alpha", "beta"), free_ports(2, HOST)))
    text = Path(lab.state["config"]).read_text(encoding="utf-8")
    for name, port in ports.items():
        text = text.replace(f"[node.{name}]\n", f'[node.{name}]\nmetrics = "{HOST}:{port}"\n')
    for name in ports:
        lab.set_node_config(name, text)
    lab.up()
    with connection(lab) as handle:
        for i in range(100):
            handle.pwrite(os.urandom(4 * KIB), i * 4 * KIB)
        handle.pwrite(os.urandom(256 * KIB), 8 * MIB)
        handle.flush()
    return lab, ports


def get(port, path="/metrics", method="GET", body=None):
    client = http.client.HTTPConnection(HOST, port, timeout=60)
    try:
        client.request(method, path, body)
        answer = client.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()
    finally:
        client.close()


def families(text):
    return set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))


@pytest.mark.sanitize
def test_metrics_are_served_and_nothing_else(served):
    lab, ports = served
    status, kind, text = get(ports["alpha"])
    assert status == 200 and kind.startswith("text/plain; version=0.0.4")
    assert 'twinblock_state{volume="r0",node="alpha",state="duplex"} 1\n' in text
    assert 'twinblock_writes_total{volume="r0",node="alpha"} 101\n' in text
    assert 'twinblock_write_duration_seconds_count{volume="r0",node="alpha",size="4K"} 100\n' in text
    assert 'twinblock_role{volume="r0",node="beta",role="secondary"} 1\n' in get(ports["beta"])[2]
    assert families(ctl(lab, "alpha", "metrics").stdout) == families(text)
    assert families(json.loads(ctl(lab, "alpha", "metrics", "--json").stdout)["text"])
    assert get(ports["alpha"], "/")[0] == 404
    assert get(ports["alpha"], "/metrics/../etc/passwd")[0] == 404
    assert get(ports["alpha"], method="POST", body="x" * 100_000)[0] == 405
    with socket.create_connection((HOST, ports["alpha"]), timeout=60) as raw:
        raw.sendall(b"\x16\x03\x01 no HTTP\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 400 ")


def test_metrics_are_off_by_default(lab):
    config = Path(lab.state["config"]).read_text(encoding="utf-8")
    assert "metrics" not in config and "metrics are served" not in lab.log_text("alpha")
    assert ctl(lab, "alpha", "metrics").returncode == 0, "the verb is there all the same"


def test_an_address_that_is_taken_is_named(make_lab):
    lab = make_lab(start=False)
    with socket.create_server((HOST, 0)) as taken:
        address = f"{HOST}:{taken.getsockname()[1]}"
        text = Path(lab.state["config"]).read_text(encoding="utf-8")
        lab.set_node_config("alpha", text.replace("[node.alpha]\n",
                                                  f'[node.alpha]\nmetrics = "{address}"\n'))
        with pytest.raises(Exception):
            lab.start("alpha")
    assert address in lab.log_text("alpha") and "metrics" in lab.log_text("alpha")


def test_a_scraper_that_reads_nothing_harms_nobody(served):
    lab, ports = served

    def write_s(handle):
        started = time.monotonic()
        for i in range(200):
            handle.pwrite(b"\1" * 4 * KIB, i * 4 * KIB)
        return time.monotonic() - started

    deaf = []
    for _ in range(20):  # more than there is room for
        deaf.append(socket.create_connection((HOST, ports["alpha"]), timeout=60))
        deaf[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    with connection(lab) as handle:
        beside = [write_s(handle) for _ in range(ROUNDS)]
    for each in deaf:
        each.close()
    with connection(lab) as handle:
        alone = [write_s(handle) for _ in range(ROUNDS)]
    print(f"200 writes: {beside} s beside scrapers that do not read, {alone} s without")
    assert min(beside) < 3 * max(alone)
    assert get(ports["alpha"])[0] == 200


def test_promtool_has_no_complaint(served):
    lab, ports = served
    lab.kill("beta")  # what a primary says of itself alone
    lab.wait_state("alpha", "simplex")
    for text in (get(ports["alpha"])[2], ctl(lab, "alpha", "metrics").stdout):
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, text=True,
                                 capture_output=True, check=False, timeout=120)
        assert checked.returncode == 0 and not (checked.stdout + checked.stderr).strip(), \
            checked.stdout + checked.stderr


def query(port, expression):
    url = f"http://{HOST}:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)["data"]["result"]


def test_a_prometheus_server_scrapes_both_nodes(served, scratch):
    lab, ports = served
    port = free_ports(1, HOST)[0]
    config = scratch / "prometheus.yml"
    targets = ", ".join(f"'{HOST}:{each}'" for each in ports.values())
    config.write_text("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: twinblock\n"
                      f"  static_configs: [{{targets: [{targets}]}}]\n", encoding="utf-8")
    with open(scratch / "prometheus.log", "w", encoding="utf-8") as log, subprocess.Popen(
            [shutil.which("prometheus") or "/usr/bin/prometheus", f"--config.file={config}",
             f"--storage.tsdb.path={scratch / 'tsdb'}", f"--web.listen-address={HOST}:{port}"],
            stdout=log, stderr=log) as server:
        try:
            def scraped():
                try:
                    return len(query(port, "up == 1")) == 2
                except OSError:
                    return False

            wait_until(scraped, 30, "both nodes to be scraped")
            states = query(port, 'twinblock_state == 1')
            assert {(each["metric"]["node"], each["metric"]["state"]) for each in states} == {
                ("alpha", "duplex"), ("beta", "duplex")}
            stages = query(port, "sum by (node) (twinblock_write_stage_duration_seconds_sum)"
                                 " / sum by (node) (twinblock_write_duration_seconds_sum)")
            assert [each["metric"]["node"] for each in stages] == ["alpha"]
            assert abs(float(stages[0]["value"][1]) - 1) < 1e-6, "the stages add up"
            quantile = query(port, 'histogram_quantile(0.99, sum by (le) '
                                   '(twinblock_write_duration_seconds_bucket{size="4K"}))')
            assert 0 < float(quantile[0]["value"][1]) < float("inf")
        finally:
            server.terminate()


def test_the_dashboard_shows_only_what_there_is(served):
    _, ports = served
    exported = families(get(ports["alpha"])[2])
    text = (REPOSITORY / "packaging" / "grafana-dashboard.json").read_text(encoding="utf-8")
    panels = [each for each in json.loads(text)["panels"] if each["type"] != "row"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(panels) >= 8 and all("datasource" in panel for panel in panels)
    used = set(re.findall(r"twinblock_\w+", " ".join(expressions)))
    known = exported | {name + end for name in exported for end in ("_bucket", "_sum", "_count")}
    assert used <= known, used - known
    for name in used:
        if name.endswith(("_bucket", "_sum", "_count")) and name not in exported:
            assert f"# TYPE {name.rpartition('_')[0]} histogram" in get(ports["alpha"])[2], name


def test_every_metric_is_in_the_table(served):
    _, ports = served
    table = (REPOSITORY / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(twinblock_\w+)", " ".join(rows))) == families(get(ports["alpha"])[2])
