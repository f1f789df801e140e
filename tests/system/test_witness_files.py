"""What `twinblockd --check` says of the files that [witness] names, before one of them is needed."""

import os
import subprocess
from pathlib import Path

import pytest

from certificates import Authority
from support import IS_ROOT


def check(lab, scratch, witness):
    config = scratch / "r0.toml"
    text = Path(lab.state["config"]).read_text(encoding="utf-8")
    config.write_text(f"{text}\n[witness]\n{witness}\n", encoding="utf-8")
    return subprocess.run([f"{lab.state['build']}/daemon/twinblockd", str(config), "--node", "alpha", "--check"],
                          capture_output=True, text=True, check=False, timeout=120)


def written(path, text, mode):
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_fence_command_is_a_program_that_nobody_else_can_change(make_lab, scratch):
    lab = make_lab(start=False)
    path = scratch / "fence"
    words = f'kind = "command"\ncommand = "{path}"'
    missing = check(lab, scratch, words)
    assert missing.returncode == 1 and f"fence command {path}: No such file" in missing.stderr
    for mode, said in ((0o644, "chmod +x"), (0o775, "chmod go-w"), (0o757, "chmod go-w")):
        written(path, "#!/bin/sh\nexit 5\n", mode)
        refused = check(lab, scratch, words)
        assert refused.returncode == 1 and said in refused.stderr, refused.stderr
    path.chmod(0o755)
    good = check(lab, scratch, words)
    assert good.returncode == 0 and "fine" in good.stdout, good.stderr


@pytest.mark.parametrize("key, text, said", [
    ("ca_file", "nothing", "it has to be PEM"), ("ca_file", None, "No such file"),
    ("password_file", "", "is empty"), ("password_file", None, "No such file"),
    ("certificate_key_file", "nothing", "it has to be PEM"), ("certificate_key_file", None, "No such file")])
def test_files_for_etcd_are_looked_at(make_lab, scratch, key, text, said):
    lab = make_lab(start=False)
    path = scratch / "file"
    if text is not None:
        written(path, text, 0o600)
    beside = 'user = "twinblock"\n' if key == "password_file" else ""
    if key == "certificate_key_file":
        beside = f'certificate_file = "{Authority(scratch / "authority").certificate}"\n'
    refused = check(lab, scratch, f'kind = "etcd"\nendpoints = ["https://127.0.0.1:1"]\n{beside}{key} = "{path}"')
    assert refused.returncode == 1, refused.stderr
    assert str(path) in refused.stderr and said in refused.stderr


def test_password_is_its_owner_s_alone(make_lab, scratch):
    lab = make_lab(start=False)
    path = written(scratch / "password", "secret\n", 0o600)
    words = f'kind = "etcd"\nendpoints = ["http://127.0.0.1:1"]\nuser = "twinblock"\npassword_file = "{path}"'
    good = check(lab, scratch, words)
    assert good.returncode == 0, good.stderr
    path.chmod(0o644)
    refused = check(lab, scratch, words)
    assert refused.returncode == 1 and "chmod 600" in refused.stderr and "secret" not in refused.stderr
    if not IS_ROOT:
        return
    path.chmod(0o600)
    os.chown(path, 65534, -1)
    refused = check(lab, scratch, words)
    assert refused.returncode == 1 and "belongs to user 65534" in refused.stderr
