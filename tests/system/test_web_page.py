"""The page of `twinblock web` in a browser, headless: figures, widths, dark and light, nothing from elsewhere."""

import base64
import hashlib
import json
import os
import shutil
import socket
import socketserver
import subprocess
import tarfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import KIB, MIB, connection, wait_until
from test_probe import probe, shaped_lab
from test_web import Web

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

DRIVER = shutil.which("chromedriver")
# It looks for what keeps people out. npm fetches it once, into the cache of who runs the tests.
AXE = "axe-core-4.10.3"
AXE_SHA512 = "Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="
# What would run, or be fetched, if it went in as anything but text; and it turns what follows around.
HOSTILE = "<img src=x onerror=\"window.injected=1\"><script>window.injected=1</script>&amp;\u202e"

pytestmark = pytest.mark.skipif(webdriver is None or DRIVER is None or not shutil.which("chromium"),
                                reason="no browser: packaging/install-dependencies browser")


@pytest.fixture(scope="module")
def axe():
    """The program of axe-core. Without npm or a way to its registry the test is skipped, and says so."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "twinblock-tests"
    package = cache / f"{AXE}.tgz"
    if not package.exists():
        if shutil.which("npm") is None:
            pytest.skip(f"no axe-core: needs npm, or {package}")
        cache.mkdir(parents=True, exist_ok=True)
        name, _, version = AXE.rpartition("-")
        done = subprocess.run(["npm", "pack", "--silent", f"{name}@{version}", "--pack-destination", str(cache)],
                              capture_output=True, text=True, check=False, timeout=120)
        if done.returncode != 0:
            pytest.skip(f"no axe-core: npm pack {name}@{version}: {done.stderr.strip()[-200:]}")
    digest = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    assert digest == AXE_SHA512, f"{package} is not the axe-core that is meant; remove it"
    with tarfile.open(package) as files:
        return files.extractfile("package/axe.min.js").read().decode()


def asked_for(browser):
    """All that was asked for to show pages, also what was blocked or did not come."""
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        url = message["params"].get("documentURL", "")
        if message["method"] == "Network.requestWillBeSent" and url.startswith("http"):
            yield message["params"]["request"]["url"]


@contextmanager
def opened(lab, scratch, control):
    """The page of who answers at `control`, in a browser that has just shown it: (web, browser)."""
    web = Web(lab, "--socket", control)
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 f"--user-data-dir={scratch}/browser"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = None
    try:
        browser = webdriver.Chrome(service=Service(DRIVER), options=options)
        browser.get(f"http://127.0.0.1:{web.port}/")
        wait_until(lambda: browser.find_elements(By.CSS_SELECTOR, "article svg"), what="the volume")
        yield web, browser
        assert not browser.get_log("browser")
        asked = list(asked_for(browser))
        assert asked, "its own server, at least"
        for url in asked:
            assert url.startswith(f"http://127.0.0.1:{web.port}/"), f"it asked for {url}"
    finally:
        if browser is not None:
            browser.quit()
        web.close()


@pytest.fixture
def page(lab, scratch):
    """Of alpha, to which something was written."""
    with connection(lab) as handle:
        for number in range(50):
            handle.pwrite(os.urandom(16 * KIB), number * 16 * KIB)
    with opened(lab, scratch, lab.node("alpha")["control"]) as both:
        yield both


def article(browser):
    """Its text; in one step, as the page may be drawn anew between two."""
    return browser.execute_script("return document.querySelector('article[data-volume=r0]').innerText")


def test_its_figures_are_those_of_status(lab, page):
    _, browser = page
    status = lab.status("alpha")
    assert status["status"] in article(browser) and status["state"] in article(browser)
    shown = browser.execute_script("return [...document.querySelectorAll('[data-value]')].map(each => each.dataset.value)")
    assert str(status["counters"]["write_bytes"]) in shown and str(status["size_bytes"]) in shown
    assert "50" in shown, "the writes of 16 KiB"
    with connection(lab) as handle:
        handle.pwrite(bytes(MIB), 0)
    written = str(lab.status("alpha")["counters"]["write_bytes"])
    wait_until(lambda: written in browser.page_source, what="that it shows what was written")


def test_a_node_that_dies_while_it_is_open(lab, page):
    _, browser = page
    lab.kill("alpha")
    wait_until(lambda: "does not answer" in article(browser), what="that it tells")
    assert "To do" in article(browser) and "Below is what it said" in article(browser)
    lab.start("alpha")
    wait_until(lambda: "duplex" in article(browser) and "does not answer" not in article(browser), what="that it is back")


def test_a_server_that_is_gone_is_told_and_waited_for(page):
    web, browser = page
    web.process.kill()
    wait_until(lambda: "does not answer" in browser.find_element(By.ID, "connection").text, what="that it tells")
    browser.get_log("browser")  # fetches that failed, as they should


def test_no_serious_fault_of_accessibility(page, axe):
    _, browser = page
    for width, scheme in ((360, "light"), (360, "dark"), (1600, "light"), (1600, "dark")):
        show(browser, width, scheme)
        browser.execute_script("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        browser.execute_script(axe)
        found = browser.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
        assert len(found["passes"]) > 20, "it has looked"
        serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
        assert not serious, [(width, scheme, each["id"], each["nodes"][0]["html"]) for each in serious]
    levels = browser.execute_script("return [...document.querySelectorAll('h1,h2,h3,h4')].map(each => Number(each.tagName[1]))")
    assert levels[0] == 1 and all(after <= before + 1 for before, after in zip(levels, levels[1:])), levels


def show(browser, width, scheme):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": 1200, "deviceScaleFactor": 1, "mobile": width < 500})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": scheme}]})
    browser.refresh()
    wait_until(lambda: browser.find_elements(By.CSS_SELECTOR, "article svg"), what="the volume")


class ChangedNode(socketserver.ThreadingUnixStreamServer):
    """Answers at `path` as the node at `control` does, but with what `change` makes of each result. For a `with`."""

    daemon_threads = True

    def __init__(self, path, control, change):
        super().__init__(str(path), ChangedAnswer)
        self.control, self.change = control, change

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return super().__enter__()

    def __exit__(self, *error):
        self.shutdown()
        super().__exit__(*error)


class ChangedAnswer(socketserver.StreamRequestHandler):
    def handle(self):
        request = self.rfile.readline()
        with socket.socket(socket.AF_UNIX) as node:
            node.connect(self.server.control)
            node.sendall(request)
            with node.makefile(encoding="utf-8") as answer:
                reply = json.loads(answer.readline())
        reply["result"] = self.server.change(reply["result"])
        self.wfile.write(json.dumps(reply).encode() + b"\n")


def spoiled(value):
    if isinstance(value, dict):
        return {name: spoiled(each) for name, each in value.items()}
    if isinstance(value, list):
        return [spoiled(each) for each in value]
    return HOSTILE if isinstance(value, str) and value else value


def test_what_a_probe_saw_and_what_other_links_would_bring_are_pictures(make_lab, scratch):
    lab = shaped_lab(make_lab, "1gbit")
    with connection(lab) as handle:
        for number in range(200):
            handle.pwrite(os.urandom(64 * KIB), number * 64 * KIB)
    with opened(lab, scratch, lab.node("alpha")["control"]) as (_, browser):
        assert "when it was probed" not in article(browser)
        link, = probe(lab)
        wait_until(lambda: "when it was probed" in article(browser), what="the probe")
        assert f"{link['stream']['bytes_per_s'] / 1e6:.0f} MB/s, from alpha to beta" in article(browser)
        picture = browser.find_element(By.CSS_SELECTOR, "svg[aria-label^='What came over link']")
        assert picture.find_elements(By.CSS_SELECTOR, ".arrived[d^='M']") and picture.find_elements(By.CSS_SELECTOR, ".plateau")
        for gap in link["stream"]["gaps"][:1]:
            assert picture.find_elements(By.CSS_SELECTOR, ".gap"), gap
        # It is asked for once, and stays.
        time.sleep(4.5)
        assert "when it was probed" in article(browser)
        bars = browser.find_elements(By.CSS_SELECTOR, "svg[aria-label^='What clients would move'] rect")
        assert len(bars) >= 6, "now, four links, a second one"


def test_texts_that_mean_harm_stay_texts(lab, scratch):
    """Names, reasons, actions and events are those of a node; a page must not believe them to be harmless."""
    with connection(lab) as handle:
        handle.pwrite(os.urandom(16 * KIB), 0)
    # The volume's name is that of its socket.
    path = scratch / "a<b onclick=alert(1)>.ctl"
    with ChangedNode(path, lab.node("alpha")["control"], spoiled), opened(lab, scratch, str(path)) as (_, browser):
        show(browser, 360, "dark")
        browser.execute_script("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        text = browser.execute_script("return document.querySelector('main').innerText")
        assert text.count("<img src=x onerror=") > 10 and "a<b onclick=alert(1)>" in text
        assert not browser.find_elements(By.CSS_SELECTOR, "main img, main script, main b, [onclick]")
        assert browser.execute_script("return window.injected") is None
        wide = browser.execute_script(
            "return [...document.querySelectorAll('main *')].filter(each => !each.closest('.wide, svg, .unseen') && "
            "each.getBoundingClientRect().right > 360).map(each => each.outerHTML.slice(0, 200))")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360, wide


def test_widths_and_colours_and_the_keyboard(page):
    _, browser = page
    out = os.environ.get("TWINBLOCK_SCREENSHOTS")
    for width in (360, 1600):
        for scheme in ("light", "dark"):
            show(browser, width, scheme)
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
            ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
            assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
            if out:
                height = browser.execute_script("return document.documentElement.scrollHeight")
                picture = browser.execute_cdp_cmd("Page.captureScreenshot", {
                    "captureBeyondViewport": True,
                    "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}})
                (Path(out) / f"web-{width}-{scheme}.png").write_bytes(base64.b64decode(picture["data"]))
    for _ in range(20):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        if browser.switch_to.active_element.tag_name == "summary":
            break
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait_until(lambda: "initialised" in article(browser), what="the events")
    time.sleep(2.5)  # it has been drawn anew since
    assert "initialised" in article(browser), "what was opened stays open"
    assert browser.switch_to.active_element.tag_name == "summary", "and the focus where it was"
