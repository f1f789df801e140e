"""tools/lab itself, as a user calls it."""

import re
import subprocess
import sys
from pathlib import Path

from conftest import HERE
from lablib import environment

LAB = HERE.parents[1] / "tools" / "lab"


def run_lab(directory, *words):
    return subprocess.run([sys.executable, str(LAB), *words, "--dir", str(directory)],
                          capture_output=True, text=True, check=False, timeout=240)


def test_lab_that_never_ran_is_made_anew_and_one_that_ran_is_not(scratch):
    directory = scratch / "lab"
    up = ("up", "--size", "16MiB")
    try:
        failed = run_lab(directory, *up, "--set", "on_peer_loss=shrug")
        assert failed.returncode == 1 and "on_peer_loss" in failed.stderr
        # With the quotes that TOML wants, and without.
        made = run_lab(directory, *up, "--set", 'on_peer_loss="freeze"')
        assert made.returncode == 0, made.stderr
        text = (directory / "r0.toml").read_text(encoding="utf-8")
        assert 'on_peer_loss = "freeze"\n' in text
        assert run_lab(directory, "down").returncode == 0
        other = run_lab(directory, *up, "--peer-timeout", "3s")
        assert other.returncode == 1
        assert "peer_timeout 5s" in other.stderr and "--purge" in other.stderr
        again = run_lab(directory, *up, "--set", 'on_peer_loss="freeze"')
        assert again.returncode == 0, again.stderr
    finally:
        assert run_lab(directory, "down", "--purge").returncode == 0
    assert not directory.exists()


def test_a_run_that_ends_badly_and_names_no_failure_counts_as_one():
    """Of tools/check: as when pytest or ctest itself dies."""
    text = (HERE.parents[1] / "tools" / "check").read_text(encoding="utf-8")
    counts = re.search(r"^add_counts\(\) \{.*?^\}\n", text, re.M | re.S)[0]
    script = f'passed=0 failed=0\nsay() {{ :; }}\n{counts}add_counts x 0 /dev/null "$@" >/dev/null\necho $failed\n'
    for words, failed in (("3 12 0", "1"), ("0 0 0", "1"), ("1 12 2", "2"), ("0 12 0", "0")):
        done = subprocess.run(["bash", "-c", script, "bash", *words.split()], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == failed, words


def test_a_report_of_a_sanitizer_is_found_where_a_node_writes_it(make_lab, monkeypatch):
    lab = make_lab(start=False)
    monkeypatch.setattr(environment, "sanitizer_libraries", lambda _program: ["/libtsan.so.2"])
    monkeypatch.delenv("TSAN_OPTIONS", raising=False)
    for name in ("alpha", "beta"):
        options = environment.node_environment("node", lab.node(name), lab.state["build"])["TSAN_OPTIONS"]
        where = dict(word.split("=", 1) for word in options.split(":"))["log_path"]
        report = Path(f"{where}.4711")  # the runtime adds its process
        report.write_text(f"data race on {name}", encoding="utf-8")
        try:
            assert lab.sanitizer_reports() == [f"data race on {name}"]
        finally:
            report.unlink()
