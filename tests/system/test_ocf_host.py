"""The agent ocf:twinblock:volume on a host with systemd, by stand-ins for it, in an /etc and a /run of their own."""

import os
import subprocess
from pathlib import Path

import pytest

import ocf_agent
from lablib.error import LIVENESS_S
from ocf_agent import AGENT, INSTALLED, SUCCESS
from support import can_mount_alone

pytestmark = [pytest.mark.skipif(ocf_agent.missing() is not None, reason=ocf_agent.missing() or ""),
              pytest.mark.skipif(not can_mount_alone(),
                                 reason="another /etc takes root, and a root directory that is a mount point")]

OVERRIDE = "/run/systemd/system/twinblock@r0.service.d/50-pacemaker.conf"
# What programs need of /etc, and the volume's file.
OWN_HOST = """set -e
mkdir -p {host}/etc/twinblock {host}/bin
cp -a /etc/alternatives /etc/passwd /etc/group {host}/etc
cp {config} {host}/etc/twinblock/r0.toml
mount --bind {host}/etc /etc
mount -t tmpfs none /run
mkdir -p /run/systemd/system
set +e
"""
# It says which process is the unit's, and ends that: not one that is to end after Pacemaker, which is ending, too, and
# waits for its agent.
MANAGER = """echo "$*" >>{host}/asked
case "$*" in
  {rival}) exit 0 ;;
  *is-enabled*|*is-active*) exit 1 ;;
  show*) echo {pid} ;;
  stop*) [ {pid} = 0 ] || [ -e {override} ] || kill {pid} ;;
esac"""


class Host:
    """That of one node, whose file has the usual place, and which is the node that is named like it."""

    def __init__(self, lab, agent, scratch):
        self.lab = lab
        self.agent = agent
        self.directory = scratch / f"host-{agent.name}"
        self.directory.mkdir()
        build = Path(lab.state["build"])
        named = f"--node {agent.name}"
        self._program("getent", "exit 0")
        self._program("journalctl", "exit 0")
        self._program("twinblockd", f'exec {build}/daemon/twinblockd "$@" {named}')
        self._program("twinblock", f'case "$*" in *--socket*) exec {build}/tools/twinblock "$@" ;; esac\n'
                                   f'verb=$1; shift; exec {build}/tools/twinblock "$verb" {named} "$@"')
        self.manager()

    def manager(self, rival="nobody", pid=0):
        self._program("systemctl", MANAGER.format(host=self.directory, rival=rival, pid=pid, override=OVERRIDE))

    def _program(self, name, text):
        path = self.directory / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def run(self, script, timeout_s=10):
        """`script` with the agent as $AGENT."""
        environment = self.agent.environment(timeout_s=timeout_s, OCF_RESKEY_config="", OCF_RESKEY_node="", AGENT=str(AGENT))
        text = OWN_HOST.format(host=self.directory, config=self.lab.node(self.agent.name)["config"]) + script
        return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", text],
                              env={**environment, "PATH": f"{self.directory}:{environment['PATH']}"}, capture_output=True,
                              text=True, check=False, timeout=2 * LIVENESS_S)

    def asked(self):
        return (self.directory / "asked").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def host(make_agents, scratch):
    lab, agents = make_agents()
    return Host(lab, agents["alpha"], scratch)


def test_the_unit_of_a_node_is_pacemakers_while_it_runs(host):
    """systemd neither starts it again nor ends it before Pacemaker, and its fence command may ask Pacemaker."""
    host.lab.kill("alpha")
    done = host.run(f'"$AGENT" start >&2; cat {OVERRIDE}; "$AGENT" stop >&2')
    lines = {"Before=pacemaker.service pacemaker_remote.service", "Restart=no", "SupplementaryGroups=haclient"}
    assert lines <= set(done.stdout.splitlines()), done
    asked = host.asked()
    assert asked.index("daemon-reload") < asked.index("start twinblock@r0.service")


def test_a_node_that_is_stopped_is_systemds_to_start_again(host):
    """A volume that is taken out of the cluster would else stay down when its process dies, until the host is restarted.
    It is so from before its end on: a host that goes down would else wait for Pacemaker, which waits for the agent. (That
    systemd looks at the order anew, and lets a stop go that waits already, is the stand-in's word here.)"""
    host.manager(pid=host.lab.status("alpha")["pid"])
    done = host.run(f'mkdir -p {OVERRIDE.rsplit("/", 1)[0]}; touch {OVERRIDE}; "$AGENT" stop >&2; echo $?; ls {OVERRIDE}',
                    timeout_s=60)
    assert done.stdout.splitlines() == [str(SUCCESS)], done
    asked = host.asked()
    assert "stop --no-block twinblock@r0.service" in asked, "who waits for the unit waits for Pacemaker, which waits for this"
    assert asked.index("daemon-reload") < asked.index("stop --no-block twinblock@r0.service")


def test_a_node_that_is_not_the_units_is_ended_too(host):
    """As one that an operator has started by hand. Pacemaker would fence a host whose node does not stop."""
    host.lab.kill("alpha")
    done = host.run("""twinblockd /etc/twinblock/r0.toml </dev/null >/dev/null 2>&1 & node=$!
                       until twinblock status --config /etc/twinblock/r0.toml >/dev/null 2>&1; do sleep 0.1; done
                       "$AGENT" stop >&2; echo $?
                       tr '\\0' ' ' </proc/$node/cmdline 2>/dev/null; kill -KILL $node""", timeout_s=60)
    assert done.stdout.splitlines() == [str(SUCCESS)], done


@pytest.mark.parametrize("rival", ["twinblock-promoter@r0.service", "twinblock-attach@r0.service"])
@pytest.mark.parametrize("question", ["is-enabled", "is-active"])
def test_who_else_would_promote_or_attach_is_to_be_stopped(host, rival, question):
    host.manager(rival=f"*{question}*{rival}*")
    done = host.run('"$AGENT" validate-all; echo $?')
    assert done.stdout.splitlines()[-1] == str(INSTALLED), done
    assert f"systemctl disable --now {rival}" in done.stdout + done.stderr, done
    host.manager()
    assert host.run('"$AGENT" validate-all; echo $?').stdout.splitlines()[-1] == str(SUCCESS)
