"""Metrics for Prometheus: by `twinblock web` and by the command line, read by promtool and by a Prometheus
server; and the dashboard, which may only show what there is."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from lablib.links import free_ports
from support import KIB, MIB, connection, ctl, wait_for_log, wait_until
from test_web import Web

REPOSITORY = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
OWN = "twinblock_node_answers"  # of the page's server, and of no node


@pytest.fixture
def served(make_lab):
    """A lab in duplex with a cache of reads, some writes, and a page for each node; node name -> Web."""
    lab = make_lab(cache="16MiB")
    with connection(lab) as handle:
        for i in range(100):
            handle.pwrite(os.urandom(4 * KIB), i * 4 * KIB)
        handle.pwrite(os.urandom(256 * KIB), 8 * MIB)
        handle.flush()
    webs = {}
    try:
        for name in ("alpha", "beta"):
            webs[name] = Web(lab, "--socket", lab.node(name)["control"])
        # What they asked before is not what is written now.
        wait_until(lambda: 'twinblock_writes_total{volume="r0",node="alpha"} 101\n' in text_of(webs["alpha"]),
                   what="the writes")
        yield lab, webs
    finally:
        for web in webs.values():
            web.close()


def text_of(web):
    return web.get("/metrics")[1]


def families(text):
    return set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))


@pytest.mark.sanitize
def test_metrics_are_served_as_the_verb_tells_them(served):
    lab, webs = served
    status, text, headers = webs["alpha"].get("/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert 'twinblock_state{volume="r0",node="alpha",state="duplex"} 1\n' in text
    assert 'twinblock_writes_total{volume="r0",node="alpha"} 101\n' in text
    assert 'twinblock_write_duration_seconds_count{volume="r0",node="alpha",size="4K"} 100\n' in text
    assert 'twinblock_role{volume="r0",node="beta",role="secondary"} 1\n' in text_of(webs["beta"])
    assert families(text) - families(ctl(lab, "alpha", "metrics").stdout) == {OWN}
    assert families(ctl(lab, "alpha", "metrics").stdout) < families(text)
    assert families(json.loads(ctl(lab, "alpha", "metrics", "--json").stdout)["text"])


def test_a_node_that_is_gone_is_told_and_comes_back(served):
    lab, webs = served
    one, none = (f'{OWN}{{volume="r0"}} {value}\n' for value in (1, 0))
    assert one in text_of(webs["alpha"])
    lab.kill("alpha")
    wait_until(lambda: none in text_of(webs["alpha"]), what="that it does not answer")
    assert families(text_of(webs["alpha"])) == {OWN}, "what it said last is no figure of now"
    lab.start("alpha")
    wait_until(lambda: one in text_of(webs["alpha"]), what="that it answers")


def test_a_file_with_the_former_key_starts_a_node_and_is_told_of(make_lab):
    """Earlier versions served metrics themselves, where `metrics =` said so: an upgrade must not end a mirror."""
    lab = make_lab(start=False)
    text = Path(lab.state["config"]).read_text(encoding="utf-8")
    with socket.create_server((HOST, 0)) as taken:
        address = f"{HOST}:{taken.getsockname()[1]}"  # nobody tries to listen there any more
        text = text.replace("[node.alpha]\n", f'[node.alpha]\nmetrics = "{address}"\n')
        for name in ("alpha", "beta"):
            lab.set_node_config(name, text)
        lab.up()
    line = text.splitlines().index(f'metrics = "{address}"') + 1
    for name in ("alpha", "beta"):
        told = wait_for_log(lab, name, "warning", "'metrics' in [node.alpha]")
        assert f":{line}: " in told and "twinblock-web.service" in told and "remove this line" in told
    checked = subprocess.run(
        [str(Path(lab.state["build"]) / "daemon" / "twinblockd"), lab.node("alpha")["config"], "--node", "alpha", "--check"],
        capture_output=True, text=True, check=False, timeout=120)
    assert f":{line}: " in checked.stderr and "'metrics' in [node.alpha] has no effect" in checked.stderr


def test_nothing_of_the_storage_process_listens_but_its_links(served):
    lab, _ = served
    process = lab.process("alpha")
    own = set()
    for each in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile: who asks for status comes and goes
            own.add(os.readlink(each))
    rows = [row.split() for row in Path(f"/proc/{process.pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    listening = [row for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]
    assert len(listening) == len(lab.status("alpha")["links"]), listening


def test_promtool_has_no_complaint(served):
    lab, webs = served
    lab.kill("beta")  # what a primary says of itself alone
    lab.wait_state("alpha", "simplex")
    wait_until(lambda: 'state="simplex"} 1\n' in text_of(webs["alpha"]), what="simplex")
    for text in (text_of(webs["alpha"]), text_of(webs["beta"]), ctl(lab, "alpha", "metrics").stdout):
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, text=True,
                                 capture_output=True, check=False, timeout=120)
        assert checked.returncode == 0 and not (checked.stdout + checked.stderr).strip(), \
            checked.stdout + checked.stderr


def query(port, expression):
    url = f"http://{HOST}:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)["data"]["result"]


def test_a_prometheus_server_scrapes_both_nodes(served, scratch):
    _, webs = served
    port = free_ports(1, HOST)[0]
    config = scratch / "prometheus.yml"
    targets = ", ".join(f"'{HOST}:{each.port}'" for each in webs.values())
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
    _, webs = served
    exported = families(text_of(webs["alpha"]))
    text = (REPOSITORY / "packaging" / "grafana-dashboard.json").read_text(encoding="utf-8")
    panels = [each for each in json.loads(text)["panels"] if each["type"] != "row"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(panels) >= 8 and all("datasource" in panel for panel in panels)
    used = set(re.findall(r"twinblock_\w+", " ".join(expressions)))
    known = exported | {name + end for name in exported for end in ("_bucket", "_sum", "_count")}
    assert used <= known, used - known
    for name in used:
        if name.endswith(("_bucket", "_sum", "_count")) and name not in exported:
            assert f"# TYPE {name.rpartition('_')[0]} histogram" in text_of(webs["alpha"]), name


def test_every_metric_is_in_the_table(served):
    _, webs = served
    table = (REPOSITORY / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(twinblock_\w+)", " ".join(rows))) == families(text_of(webs["alpha"]))
