"""Fixtures of the tests on emulated hosts: both are booted once, and end with the run."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))
sys.path.insert(0, str(HERE))

from host import Host  # noqa: E402
from lablib.guardian import Guardian  # noqa: E402
from machine import NODES, Kernel, make_networks  # noqa: E402
from volume import Volume  # noqa: E402


@pytest.fixture(scope="session")
def hosts(tmp_path_factory):
    guardian = Guardian()  # for SIGKILL
    tree = HERE.parents[1]
    build = Path(os.environ.get("TWINBLOCK_BUILD", tree / "build" / "release")).resolve()
    directory = tmp_path_factory.mktemp("hosts")
    guardian.remove(directory)
    kernel = Kernel(tree / "build" / "vm" / "kernel")
    make_networks()
    both = {name: Host(name, kernel, build, directory) for name in NODES}
    try:
        for host in both.values():
            host.begin_boot()
        for host in both.values():
            host.wait_boot()
        yield both
    finally:
        for host in both.values():
            host.cut()
        guardian.close()


@pytest.fixture
def make_volume(hosts):
    made = []

    def make(**settings):
        made.append(Volume(hosts, **settings))
        return made[-1]

    yield make
    for volume in made:
        volume.end()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed and (both := item.funcargs.get("hosts")):
        for host in both.values():
            report.sections.append((f"{host.name}'s console", host.console_tail()))
            try:
                report.sections.append((f"{host.name}'s logs", host.run(
                    "for f in /tmp/*.log; do echo \"== $f\"; tail -n 40 $f; done", 30)))
            except (OSError, AssertionError) as error:
                report.sections.append((f"{host.name}'s logs", str(error)))
