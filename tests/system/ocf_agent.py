"""packaging/ocf/volume as a cluster manager runs it, beside a lab's nodes. What it tells and asks Pacemaker goes to
stand-ins: no cluster runs here."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from lablib.error import LIVENESS_S
from lablib.lab import NODES, REPOSITORY, VOLUME

AGENT = REPOSITORY / "packaging" / "ocf" / "volume"
OCF_ROOT = Path("/usr/lib/ocf")
SHELL_FUNCTIONS = OCF_ROOT / "lib" / "heartbeat" / "ocf-shellfuncs"

SUCCESS, GENERIC, UNIMPLEMENTED, CONFIGURED = 0, 1, 3, 6
INSTALLED, NOT_RUNNING, PROMOTED, FAILED_PROMOTED = 5, 7, 8, 9
DEGRADED, DEGRADED_PROMOTED = 190, 191

# What each stand-in prints, and keeps of its arguments.
STAND_IN = """#!/bin/sh
echo "$*" >>"{directory}/{name}.asked"
cat "{directory}/{name}.says" 2>/dev/null
exit 0
"""

# `twinblock` of which `status` says what the node does not, by what the file has.
TOLD = """#!{python}
import json, os, subprocess, sys
if sys.argv[1] != "status":
    os.execv("{real}", ["{real}", *sys.argv[1:]])
done = subprocess.run(["{real}", *sys.argv[1:]], stdout=subprocess.PIPE)
if done.returncode == 0:
    status = json.loads(done.stdout)
    with open("{file}", "r+") as file:
        has = json.load(file)
        {tells}
    print(json.dumps(status, indent=2))
sys.exit(done.returncode)
"""
MORE = "status |= has"
IN_TURN = """status |= has[0]
        file.seek(0)
        file.truncate()
        json.dump(has[1:] or has, file)"""
# As on a host whose kernel has nbd, in place of one whose kernel has none.
WAITING_DEVICE = """status["device"] = dict(state="waits", why="its process has ended") if has else dict(state="connected", why="")
        file.seek(0)
        file.truncate()
        json.dump(max(has - 1, 0), file)"""
# The agent's clock, which goes by what it has done so far, however long that took.
CLOCK = """#!/bin/sh
[ "$*" = "-d. -f1 /proc/uptime" ] || exec {real} "$@"
echo $((1000 + {passed_s}))
"""
# `twinblock` that is asked for what `verb` is, as a file keeps it.
ASKED = """#!/bin/sh
if [ "$1" = {verb} ]; then
  echo "$*" >>"{asked}"
  {then}
fi
exec "{real}" "$@"
"""


def missing():
    """Why the agent can't be run here; None when it can."""
    if not SHELL_FUNCTIONS.exists():
        return f"there is no {SHELL_FUNCTIONS}; run: packaging/install-dependencies cluster"
    return None


class Agent:
    """The agent's instance on one node's host. `parameters` are the resource's."""

    def __init__(self, lab, name, scratch, **parameters):
        self.lab = lab
        self.name = name
        self._directory = Path(scratch) / f"cluster-{name}"
        self._directory.mkdir()
        for tool in ("cibadmin", "crm_attribute", "crm_master", "crm_mon", "stonith_admin"):
            self._program(tool, STAND_IN.format(directory=self._directory, name=tool))
        self.parameters = {"volume": VOLUME, "config": lab.node(name)["config"], "node": name, "attach": "false",
                           "connect_timeout": 10, **parameters}

    def environment(self, timeout_s=60, **more):
        build = Path(self.lab.state["build"])
        path = f"{self._directory}:{build}/tools:{build}/daemon:{os.environ['PATH']}:/usr/sbin:/sbin"
        return {**os.environ, "PATH": path, "OCF_ROOT": str(OCF_ROOT), "OCF_RESOURCE_INSTANCE": VOLUME,
                "HA_SBIN_DIR": str(self._directory), "HA_RSCTMP": str(self._directory), "HA_LOGFACILITY": "none",
                "OCF_RESKEY_crm_feature_set": "3.16.2", "OCF_RESKEY_CRM_meta_timeout": str(timeout_s * 1000),
                "TWINBLOCK_OCF_LOG": self.lab.node(self.name)["log"],
                **{f"OCF_RESKEY_{key}": str(value) for key, value in self.parameters.items()}, **more}

    def run(self, action, timeout_s=60, **more):
        """(exit status, what it said). Pacemaker would kill it at `timeout_s`."""
        # Into a file: a node that it starts may keep what it inherits.
        said = self._directory / "said"
        with open(said, "w", encoding="utf-8") as file:
            done = subprocess.run([AGENT, action], env=self.environment(timeout_s, **more), stdin=subprocess.DEVNULL,
                                  stdout=file, stderr=file, check=False, timeout=timeout_s + LIVENESS_S)
        return done.returncode, said.read_text(encoding="utf-8")

    def monitor(self, probe=False):
        return self.run("monitor", OCF_RESKEY_CRM_meta_interval="0" if probe else "10000")[0]

    def score(self):
        """The promotion score that it told last; None: it took it away, or never told one."""
        asked = self.asked("crm_attribute")
        words = asked[-1].split() if asked else []
        return int(words[words.index("-v") + 1]) if "-v" in words else None

    def asked(self, tool):
        path = self._directory / f"{tool}.asked"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def cluster_says(self, tool, text):
        (self._directory / f"{tool}.says").write_text(text, encoding="utf-8")

    def device_waits(self, looks):
        """By the node's status a device waits for so many looks, and is connected then; each takes a second. The file of how many
        are left."""
        file = self._status_tells(WAITING_DEVICE, looks)
        self._clock(f"{looks} - $(cat {file})")
        return file

    def status_says(self, **members):
        """These in place of what the node says."""
        self._status_tells(MORE, members)

    def status_says_in_turn(self, *looks):
        """As `status_says`: one a look, and the last one from then on."""
        self._status_tells(IN_TURN, looks)

    def detaches(self):
        """From the first look on."""
        self._notes("detach", ":")
        return self.asked("twinblock")

    def refuses(self, verb, status, words):
        """`verb` ends with this exit status; how often it is asked for is what `asked("twinblock")` has."""
        self._notes(verb, f"echo '{words}' >&2; exit {status}")

    def refuses_and_hangs(self, verb, *answers):
        """`verb` is refused with one of these at a time, and hangs from then on, 5 s before the agent's deadline."""
        asked = self._directory / "twinblock.asked"
        cases = " ".join(f"{number}) echo '{words}' >&2; exit 1 ;;" for number, words in enumerate(answers, 1))
        self._notes(verb, f"case $(wc -l <{asked}) in {cases} esac; exec sleep 3600")
        asked.touch()
        late = f"$(wc -l <{asked}) - {len(answers) - 1}"
        self._clock(f"50 * ({late} > 0 ? {late} : 0)")

    def _clock(self, passed_s):
        self._program("cut", CLOCK.format(real=shutil.which("cut"), passed_s=passed_s))

    def _notes(self, verb, then):
        self._program("twinblock", ASKED.format(verb=verb, then=then, asked=self._directory / "twinblock.asked",
                                                real=self._real()))

    def _real(self):
        return Path(self.lab.state["build"]) / "tools" / "twinblock"

    def _status_tells(self, tells, has):
        file = self._directory / "told.json"
        file.write_text(json.dumps(has), encoding="utf-8")
        self._program("twinblock", TOLD.format(python=sys.executable, real=self._real(), file=file, tells=tells))
        return file

    def _program(self, name, text):
        path = self._directory / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def pid(self):
        return int(self.lab.status(self.name)["pid"])


def peer_of(name):
    return NODES[1 - NODES.index(name)]
