"""Fixtures of the tests on clusters: hosts that end with the run, whatever ends that."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))
sys.path.insert(0, str(HERE))

from cluster import NEEDED, NODES, Cluster  # noqa: E402
from lablib.guardian import Guardian  # noqa: E402
from lablib.lab import default_build  # noqa: E402
from power_switch import PowerSwitch  # noqa: E402

EMULATED = os.environ.get("TWINBLOCK_CLUSTER") == "emulated"
LINKS = 2


def pytest_configure(config):
    del config
    if not (default_build() / "daemon" / "twinblockd").exists():
        pytest.exit(f"{default_build()} has no twinblockd; build first, or set TWINBLOCK_BUILD", returncode=2)


def why_not_here():
    if os.geteuid() != 0:
        return "hosts with file systems and networks of their own need root"
    missing = [name for name in NEEDED if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")]
    if missing:
        return f"{', '.join(missing)} not found; run: packaging/install-dependencies cluster run"
    return None


class Namespaces:
    """Makes pairs of hosts on this machine."""

    def __init__(self):
        self._ends = []

    def pair(self, place):
        from namespace_host import NamespaceHost, join  # pylint: disable=import-outside-toplevel
        hosts = {name: NamespaceHost(name, number, place) for number, name in enumerate(NODES, 1)}
        self._ends += [host.remove for host in hosts.values()]
        for host in hosts.values():
            host.boot()
        join(*hosts.values(), LINKS)
        switch = PowerSwitch(place / "switch", hosts)
        self._ends.append(switch.close)
        return hosts, switch

    @staticmethod
    def rejoin(host, other):
        from namespace_host import rejoin  # pylint: disable=import-outside-toplevel
        rejoin(host, other, LINKS)

    def end(self):
        for end in self._ends:
            end()


class Emulation:
    """The same with emulated hosts, in the network namespace in which this runs."""

    def __init__(self):
        self._ends = []

    def pair(self, place):
        from emulated_host import EmulatedHost, NotesWatcher  # pylint: disable=import-outside-toplevel
        from machine import Kernel, make_networks  # pylint: disable=import-outside-toplevel
        kernel = Kernel(HERE.parents[1] / "build" / "vm" / "kernel")
        make_networks()
        place.mkdir(parents=True)
        hosts = {name: EmulatedHost(name, number, kernel, default_build().resolve(), place)
                 for number, name in enumerate(NODES, 1)}
        self._ends += [host.remove for host in hosts.values()]
        for host in hosts.values():
            host.begin_boot()
        for host in hosts.values():
            host.finish_boot()
        switch = PowerSwitch(place / "switch", hosts)
        watcher = NotesWatcher(switch, hosts)
        self._ends += [switch.close, watcher.close]
        return hosts, switch

    @staticmethod
    def rejoin(host, other):
        host.plug_in()
        other.plug_in()

    def end(self):
        for end in self._ends:
            end()


@pytest.fixture(scope="module")
def make_cluster():
    """make_cluster(witness=…, parameters=…): a cluster that runs the service."""
    if reason := why_not_here():
        pytest.skip(reason)
    guardian = Guardian()
    directory = Path(tempfile.mkdtemp(prefix="tbc-", dir=os.environ.get("TWINBLOCK_TEST_DIR", "/var/tmp")))
    directory.chmod(0o755)  # the database's user goes through it
    guardian.remove(directory)
    machines = Emulation() if EMULATED else Namespaces()
    made = []

    def make(**options):
        hosts, switch = machines.pair(directory / f"cluster{len(made)}")
        made.append(Cluster(hosts, default_build().absolute(), switch, machines.rejoin, **options))
        try:
            made[-1].begin()
        except BaseException:
            print(made[-1].logs())
            raise
        return made[-1]

    yield make
    machines.end()
    shutil.rmtree(directory, ignore_errors=True)
    guardian.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed and (cluster := item.funcargs.get("cluster")):
        report.sections.append(("the cluster", cluster.logs()))
