"""Every state of a volume on the page of `twinblock web`, beside what `twinblock status` says then."""

import os

import nbd
import pytest

from support import KIB, MIB, connection, ctl, promote, wait_until
from test_split_brain import Split, fill
from test_web_page import ChangedNode, opened, pytestmark  # pylint: disable=unused-import  # (skips without a browser)

# Written as the page shows it: (its text, exact figures by name, progress in percent by name).
LOOK = """
const article = document.querySelector('article');
const facts = {};
for (const row of article.querySelectorAll('tr'))
  for (const figure of row.querySelectorAll('[data-value]')) facts[row.firstChild.textContent] ??= figure.dataset.value;
return {text: article.innerText, state: article.querySelector('.state').textContent, facts,
  bad: article.querySelector('.state').classList.contains('bad'),
  progress: Object.fromEntries([...article.querySelectorAll('progress')].map(each => [each.ariaLabel, each.value]))};
"""


@pytest.fixture
def watch(scratch):
    """`watch(lab, name)`: the page of a node, and a function that says what it shows; for a `with`."""
    return lambda lab, name="alpha": opened(lab, scratch, lab.node(name)["control"])


def agree(lab, browser, state, name="alpha"):
    """Until the page shows that state, and then all that `status --json` says; what it shows."""
    found = {}

    def same():
        status = lab.status(name)
        found.update(shown=browser.execute_script(LOOK), status=status)
        shown = found["shown"]
        return (status["state"] == state and shown["state"].split(",")[0] == state and status["role"] in shown["text"]
                and status["status"] in shown["text"] and status["action"] in shown["text"]
                and shown["facts"]["size"] == str(status["size_bytes"])
                and shown["facts"]["dirty"] == str(status["dirty_bytes"])
                and shown["facts"]["written"] == str(status["counters"]["write_bytes"]))

    try:
        wait_until(same, what=f"'{state}' on the page")
    except AssertionError as late:
        raise AssertionError(f"{late}: {found}") from late
    return found["shown"]


def test_from_nothing_to_duplex_and_alone(make_lab, watch):
    lab = make_lab(init=False)
    with watch(lab) as (_, browser):
        assert "init" in agree(lab, browser, "blank")["text"]
        assert ctl(lab, "alpha", "init").returncode == 0
        promote(lab, "alpha")
        lab.wait_state("alpha", "duplex")
        assert not agree(lab, browser, "duplex")["bad"]
        lab.kill("beta")
        lab.wait_state("alpha", "simplex")
        with connection(lab) as handle:
            handle.pwrite(os.urandom(3 * MIB), 0)
        shown = agree(lab, browser, "simplex")
        assert int(shown["facts"]["dirty"]) >= 3 * MIB and "not connected" in shown["text"]


def test_a_resync_shows_how_far_it_is(lab, watch):
    with watch(lab) as (_, browser):
        fill(lab)
        lab.kill("beta")
        lab.wait_state("alpha", "simplex")
        with connection(lab) as handle:
            handle.pwrite(os.urandom(3 * MIB), 0)
        lab.ctl("alpha", "resync", pace="pause")
        lab.start("beta")
        lab.wait_state("alpha", "resync")
        shown = agree(lab, browser, "resync")
        resync = lab.status("alpha")["resync"]
        assert shown["progress"] == {"Resync": pytest.approx(resync["percent"])}
        assert resync["reason"] in shown["text"]
        lab.ctl("alpha", "resync", pace="resume")
        lab.wait_state("alpha", "duplex")
        assert not agree(lab, browser, "duplex")["progress"]


def test_a_verify_shows_how_far_it_is(lab, scratch):
    """A real one is over before anybody looks: of the node's answer, only how far it is is not its own."""
    assert ctl(lab, "alpha", "verify").returncode == 0
    verify = lab.status("alpha")["verify"]
    assert verify["bytes_total"] == 64 * MIB and not verify["active"]
    half = {**verify, "active": True, "bytes_done": 32 * MIB, "differing_bytes": 4 * KIB}

    def under_way(result):
        return {**result, "verify": half} if "verify" in result else result

    path = scratch / "r0.ctl"
    with ChangedNode(path, lab.node("alpha")["control"], under_way), opened(lab, scratch, str(path)) as (_, browser):
        shown = browser.execute_script(LOOK)
        assert shown["progress"] == {"Verify": 50}
        assert "50.0%, 32.0 MiB of 64.0 MiB" in shown["text"] and "4.00 KiB differ" in shown["text"]


def test_a_frozen_volume(make_lab, watch):
    lab = make_lab(settings={"on_peer_loss": "freeze"})
    with watch(lab) as (_, browser):
        lab.kill("beta")
        with connection(lab) as handle:
            cookie = handle.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(4 * KIB)), 0)
            lab.wait_state("alpha", "frozen")
            shown = agree(lab, browser, "frozen")
            assert shown["bad"] and shown["state"] == "frozen"
            lab.start("beta")
            wait_until(lambda: handle.poll(0) is not None and handle.aio_command_completed(cookie),
                       what="the write")
        agree(lab, browser, "duplex")


def test_a_split_brain(lab, watch):
    Split(lab)
    for name in ("alpha", "beta"):
        with watch(lab, name) as (_, browser):
            shown = agree(lab, browser, "refused", name)
            assert shown["bad"] and "split brain" in shown["text"] and "twinblock resolve" in shown["text"]
