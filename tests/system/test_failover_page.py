"""The units of docs/failover.md, as the page has them, together with those of the package: systemd takes them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
PAGE = (TREE / "docs" / "failover.md").read_text(encoding="utf-8")


def unit_files():
    """name -> text: of the page, and of the package for r0; of the page's PostgreSQL as much as matters here."""
    files = {}
    block = r"^`([\w@.\-/]+\.(?:target|mount|conf))`[^\n]*(?:\n[^\n`]+)*\n*```ini\n(.*?)^```"
    for name, text in re.findall(block, PAGE, re.M | re.S):
        files[name] = text
    for source in (TREE / "packaging").glob("*@.service.in"):
        text = re.sub(r"@\w+@", "/bin", source.read_text(encoding="utf-8"))
        name = source.name.replace("@.service.in", "@r0.service")
        files[name] = re.sub(r"(?m)^(Exec\w+=[-+!:@]*)\S+", r"\1/bin/true", text)
    files["postgresql@15-main.service"] = "[Service]\nExecStart=/bin/true\n"
    return files


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze not found")
def test_systemd_takes_the_units_of_the_page_without_a_circle(tmp_path):
    files = unit_files()
    assert {"twinblock-r0.target", "srv-r0.mount", "twinblock-attach@r0.service.d/twinblock.conf",
            "postgresql@15-main.service.d/twinblock.conf"} <= set(files), sorted(files)
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    units = [str(tmp_path / name) for name in files if "/" not in name]
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units],
                          env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
                          text=True, capture_output=True, timeout=60, check=False)
    said = done.stdout + done.stderr
    assert "cycle" not in said, said
    wrong = [line for line in said.splitlines() if str(tmp_path) in line or "twinblock" in line or "srv-r0" in line]
    assert not wrong, "\n".join(wrong)
