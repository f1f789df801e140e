"""Fixtures of the system tests: labs that always end, also when pytest is ended by a signal; a time limit
for every test; and no sanitizer report left unread."""

import os
import random
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

import ocf_agent  # noqa: E402
from lablib import Lab  # noqa: E402
from lablib.guardian import Guardian  # noqa: E402
from lablib.environment import sanitizer_libraries  # noqa: E402
from lablib.lab import NODES, default_build  # noqa: E402

TEST_SECONDS_MAX = 300  # on however busy a machine
DEFAULT_SIZE = "64MiB"
ROOMY_BYTES = 1 << 30


class Ending:
    """SIGTERM and SIGHUP end the tests as Ctrl-C does: the fixtures clean up. Calls that wait for a node,
    in which Python handles no signal, fail, since the nodes are killed."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self):
        self.begun = False
        self.labs = []  # that may have nodes
        # On a busy machine a worker of xdist may find itself beside its main thread (execnet before 2.1), where there are no
        # signals: whoever ends it kills it, and the guardian cleans up.
        if threading.current_thread() is not threading.main_thread():
            return
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(reading, True)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reading,), daemon=True).start()
        for number in self.SIGNALS:
            signal.signal(number, self._end)

    def _end(self, _number, _frame):
        self.begun = True
        for number in self.SIGNALS:  # cleaning up goes on when somebody is impatient
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    def _watch(self, reading):
        while number := os.read(reading, 1):
            if number[0] in self.SIGNALS:
                for lab in list(self.labs):
                    kill_nodes(lab)


def pytest_configure(config):
    program = default_build() / "daemon" / "twinblockd"
    if not program.exists():
        pytest.exit(f"{program} is not there; build first, or set TWINBLOCK_BUILD", returncode=2)
    config.twinblock_sanitized = bool(sanitizer_libraries(program))
    config.twinblock_ending = Ending()
    config.twinblock_guardian = Guardian()  # for SIGKILL


def pytest_unconfigure(config):
    if hasattr(config, "twinblock_guardian"):
        config.twinblock_guardian.close()
        if config.twinblock_ending.begun:  # libnbd's handles may wait for ever for their servers
            sys.stdout.flush()
            os._exit(pytest.ExitCode.INTERRUPTED)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Tests that need an idle machine run where they are asked for."""
    if "idle" in (config.option.markexpr or "") or any("::" in word for word in config.args):
        return
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("idle")])
    items[:] = [item for item in items if not item.get_closest_marker("idle")]


def temporary_directory(config, parent):
    """Goes with the test, or with pytest."""
    directory = Path(tempfile.mkdtemp(prefix="tb-", dir=parent))
    config.twinblock_guardian.remove(directory)
    return directory


@pytest.fixture
def sanitized(request):
    return request.config.twinblock_sanitized


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    setattr(item, f"report_{call.when}", outcome.get_result())


@pytest.fixture(autouse=True)
def seed():
    """Of all that rests on chance, also of what a test draws from `random` itself."""
    drawn = int(os.environ.get("TWINBLOCK_SEED") or random.SystemRandom().getrandbits(32))
    print(f"TWINBLOCK_SEED={drawn}")  # shown when the test fails
    random.seed(drawn)
    return drawn


@pytest.fixture
def rng(seed):
    return random.Random(seed)


def has_room_in_memory():
    return os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free >= ROOMY_BYTES


@pytest.fixture
def scratch(request):
    """A directory with a short path (sockets live in it); below /var/tmp, as images are large."""
    directory = temporary_directory(request.config, os.environ.get("TWINBLOCK_TEST_DIR", "/var/tmp"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def scratch_in_memory(request):
    """The same where no disk is to take part in what a request waits for, if there is room for that in memory."""
    where = "/dev/shm" if has_room_in_memory() else os.environ.get("TWINBLOCK_TEST_DIR", "/var/tmp")
    directory = temporary_directory(request.config, where)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def scratch_in_tmp(request):
    """The same where a node is careful, as others can make what it is about to make."""
    directory = temporary_directory(request.config, "/tmp")
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def roomy(request):
    """A path for each node's image on tmpfs, where files may be 64 TiB long and a fragmented one is
    quickly removed."""
    if not has_room_in_memory():
        pytest.skip("needs 1 GiB of room in /dev/shm")
    directory = temporary_directory(request.config, "/dev/shm")
    yield {name: directory / f"{name}.img" for name in NODES}
    shutil.rmtree(directory, ignore_errors=True)


def kill_nodes(lab):
    for name in NODES:
        process = lab.process(name) if lab.state and lab.state["nodes"] else None
        if process:
            process.signal(signal.SIGKILL)


@pytest.fixture
def make_lab(request, scratch):
    """make_lab(size=…, init=…, …) brings up a lab, below `scratch` unless it is told where. All labs end with
    the test, paused nodes and timed out tests included; a sanitizer report fails the test."""
    labs = []
    in_memory = []
    ending = request.config.twinblock_ending

    def keep_in_memory(witness):
        """etcd answers when it has written down what it was told, and has no more time for that than a test's timeout."""
        if has_room_in_memory():
            in_memory.append(temporary_directory(request.config, "/dev/shm"))
            witness["data"] = str(in_memory[-1] / "etcd")

    def make(init=True, start=True, below=scratch, **options):
        options.setdefault("size", DEFAULT_SIZE)
        options.setdefault("peer_timeout", "2s")
        lab = Lab(below / f"lab{len(labs)}")
        labs.append(lab)
        ending.labs.append(lab)
        lab.create(**options)
        for name in lab.witness_names():
            keep_in_memory(lab.member(name))
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
        ending.labs.remove(lab)
        if failed:
            print(f"\n{lab.log_tail('alpha', 40)}\n{lab.log_tail('beta', 40)}")
    for directory in in_memory:
        shutil.rmtree(directory, ignore_errors=True)
    reports = [text for lab in labs for text in lab.sanitizer_reports()]
    assert not reports, "a sanitizer reports:\n" + "\n".join(reports)
    assert not make.timed_out, f"the test took longer than {seconds_max} s"
    assert failed or all(orderly), "a node did not end by SIGTERM in time"


@pytest.fixture
def make_agents(make_lab, scratch):
    """A lab and an agent for each of its nodes; nodes that agents started end with the test."""
    started = []

    def make(init=True, options=None, **parameters):
        lab = make_lab(init=init, settings={"on_restart": "secondary"}, **(options or {}))
        agents = {name: ocf_agent.Agent(lab, name, scratch, **parameters) for name in ("alpha", "beta")}
        started.extend(agents.values())
        return lab, agents

    yield make
    for agent in started:
        code, said = agent.run("stop")
        assert code == ocf_agent.SUCCESS, said


@pytest.fixture
def pair(make_agents):
    return make_agents()


@pytest.fixture
def lab(make_lab):
    """A lab in duplex: alpha primary, 64 MiB, peer timeout 2 s."""
    return make_lab()
