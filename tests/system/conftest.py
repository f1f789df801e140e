"""Fixtures of the system tests: labs that always end, a time limit for every test, and no
sanitizer report left unread."""

import atexit
import os
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))
sys.path.insert(0, str(HERE))

from lablib import Lab  # noqa: E402
from lablib.lab import NODES, default_build, sanitizer_libraries  # noqa: E402

TEST_SECONDS_MAX = 120
DEFAULT_SIZE = "64MiB"
ROOMY_BYTES = 1 << 30


def pytest_configure(config):
    program = default_build() / "daemon" / "twinblockd"
    if not program.exists():
        pytest.exit(f"{program} is not there; build first, or set TWINBLOCK_BUILD", returncode=2)
    config.twinblock_sanitized = bool(sanitizer_libraries(program))


@pytest.fixture
def sanitized(request):
    return request.config.twinblock_sanitized


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    setattr(item, f"report_{call.when}", outcome.get_result())


@pytest.fixture
def scratch():
    """A directory with a short path (sockets live in it); below /var/tmp, as images are large."""
    directory = Path(tempfile.mkdtemp(prefix="tb-", dir=os.environ.get("TWINBLOCK_TEST_DIR",
                                                                       "/var/tmp")))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def roomy():
    """A path for each node's image on tmpfs, where files may be 64 TiB long and a fragmented one is
    quickly removed."""
    if not os.path.isdir("/dev/shm") or shutil.disk_usage("/dev/shm").free < ROOMY_BYTES:
        pytest.skip("needs 1 GiB of room in /dev/shm")
    directory = Path(tempfile.mkdtemp(prefix="tb-", dir="/dev/shm"))
    yield {name: directory / f"{name}.img" for name in NODES}
    shutil.rmtree(directory, ignore_errors=True)


def kill_nodes(lab):
    for name in NODES:
        process = lab.process(name) if lab.state else None
        if process:
            process.signal(signal.SIGKILL)


@pytest.fixture
def make_lab(request, scratch):
    """make_lab(size=…, init=…, …) brings up a lab. All labs end with the test, paused nodes and
    timed out tests included; a sanitizer report fails the test."""
    labs = []

    def make(init=True, start=True, **options):
        options.setdefault("size", DEFAULT_SIZE)
        options.setdefault("peer_timeout", "2s")
        lab = Lab(scratch / f"lab{len(labs)}")
        labs.append(lab)
        atexit.register(kill_nodes, lab)  # also when a teardown is interrupted
        lab.create(**options)
        if start:
            lab.up(init=init)
        return lab

    def end_of_time():
        make.timed_out = True
        for lab in labs:
            kill_nodes(lab)  # ends calls that wait for an answer

    make.timed_out = False
    marker = request.node.get_closest_marker("seconds")
    seconds_max = marker.args[0] if marker else TEST_SECONDS_MAX
    watchdog = threading.Timer(seconds_max, end_of_time)
    watchdog.daemon = True
    watchdog.start()
    yield make
    watchdog.cancel()
    report = getattr(request.node, "report_call", None)
    failed = report is None or report.failed
    orderly = []
    for lab in labs:
        orderly.append(lab.down())
        if failed:
            print(f"\n{lab.log_tail('alpha', 40)}\n{lab.log_tail('beta', 40)}")
    reports = [text for lab in labs for text in lab.sanitizer_reports()]
    assert not reports, "a sanitizer reports:\n" + "\n".join(reports)
    assert not make.timed_out, f"the test took longer than {seconds_max} s"
    assert failed or all(orderly), "a node did not end by SIGTERM in time"


@pytest.fixture
def lab(make_lab):
    """A lab in duplex: alpha primary, 64 MiB, peer timeout 2 s."""
    return make_lab()
