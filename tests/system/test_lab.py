"""tools/lab itself, as a user calls it."""

import subprocess
import sys

from conftest import HERE

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
