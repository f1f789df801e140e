"""packaging/ocf/fence-by-pacemaker beside stand-ins for Pacemaker's tools: to whom it grants to go on alone. With a
cluster it is run by tests/cluster."""

import os
import subprocess

import pytest

from conftest import HERE
from lablib.error import LIVENESS_S
from support import wait_until

COMMAND = HERE.parents[1] / "packaging" / "ocf" / "fence-by-pacemaker"
OUTDATED, REFUSED, SHOT, NO_ANSWER = 4, 6, 7, 1
# The cluster's register, a file `ban` with a node and the stamp of its run. What a file `appears` has comes there as soon
# as somebody has been told that there is no ban; with a file `cut` the peer's part of the cluster is not reached, and with
# a file `refuses` nothing is created.
CIBADMIN = r"""#!/bin/sh
cd {directory} || exit 99
node= stamp=
[ -e ban ] && read -r node stamp <ban
for last; do :; done
took() {{
  echo "$1" >>taken
  printf '%s %s\n' "$(printf '%s' "$last" | sed -n "s/.* value='\([^']*\)'.*/\1/p")" \
    "$(printf '%s' "$last" | sed -n "s/.*<rule id='twinblock-r0-alone-\([0-9.]*\)'.*/\1/p")" >ban
}}
case "$*" in *--host*) [ ! -e cut ] || exit 1 ;; esac
case "$*" in
  *--query*//clone*) echo "/cib/configuration/resources/clone[@id='r0-clone']" ;;
  *--query*//expression*)
    [ -z "$node" ] || echo "<expression id=\"twinblock-r0-alone-$stamp-node\" operation=\"ne\" value=\"$node\"/>"
    [ -n "$node" ] || [ ! -e appears ] || mv appears ban ;;
  *--query*/rule*) [ -z "$stamp" ] || echo "<rule id=\"twinblock-r0-alone-$stamp\" role=\"Promoted\">" ;;
  *--create*) [ ! -e refuses ] && [ ! -e ban ] && took create ;;
  *--replace*) [ -e ban ] && took replace ;;
  *--delete*)
    case "$last" in
      *"[rule[@id='twinblock-r0-alone-$stamp']]"*) rm ban; echo delete >>taken ;;
      *"[rule[@id="*) echo nothing >>taken ;;
      *) rm ban; echo anybody >>taken ;;
    esac ;;
esac
"""
CRM_MON = """#!/bin/sh
echo '<current_dc present="true" name="alpha" with_quorum="{quorum}"/>'
echo '<node name="beta" id="2" online="{online}" standby="false" unclean="{unclean}"/>'
case "$*" in *--resource*) cat {directory}/promoted 2>/dev/null ;; esac
"""
# A primary whose `wait` ends as a file `wait` says; without the file there is no node. What a file `later` has is the ban
# by the time that it tells how it is.
TWINBLOCK = """#!/bin/sh
cd {directory} && [ -e wait ] || exit 3
case $1 in
  wait) echo "$*" >>waits; sleep 0.05; exit "$(cat wait)" ;;
  status) [ ! -e later ] || mv later ban; echo '  "role": "primary",' ;;
esac
"""


class Cluster:
    def __init__(self, directory):
        self.directory = directory
        self._tool("cibadmin", CIBADMIN.format(directory=directory))
        self._tool("twinblock", TWINBLOCK.format(directory=directory))
        self.peer_is(online=True)
        self.fencing_is("true")

    def _tool(self, name, text):
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def peer_is(self, online, quorum="true", unclean="false"):
        self._tool("crm_mon", CRM_MON.format(online="true" if online else "false", quorum=quorum, unclean=unclean,
                                             directory=self.directory))

    def fencing_is(self, said, status=0):
        self._tool("crm_attribute", f"#!/bin/sh\n[ -z '{said}' ] || echo '{said}'\nexit {status}\n")

    def has(self, ban, file="ban"):
        (self.directory / file).write_text(ban + "\n", encoding="ascii")

    def ban(self):
        return (self.directory / "ban").read_text(encoding="ascii").strip()

    def taken(self):
        """How the ban came to be this node's."""
        path = self.directory / "taken"
        return path.read_text(encoding="ascii").split() if path.exists() else []

    def wait_ends(self, status):
        new = self.directory / "wait.new"
        new.write_text(str(status), encoding="ascii")
        new.replace(self.directory / "wait")

    def waits(self):
        path = self.directory / "waits"
        return path.read_text(encoding="ascii").splitlines() if path.exists() else []

    def begin(self, reason="loss"):
        environment = {**os.environ, "PATH": f"{self.directory}:{os.environ['PATH']}", "TWINBLOCK_VOLUME": "r0",
                       "TWINBLOCK_NODE": "alpha", "TWINBLOCK_PEER": "beta", "TWINBLOCK_REASON": reason}
        return subprocess.Popen([COMMAND], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def fence(self, reason="loss", timeout_s=LIVENESS_S):
        with self.begin(reason) as command:
            try:
                stdout, stderr = command.communicate(timeout=timeout_s)
            finally:
                command.kill()
        return subprocess.CompletedProcess(command.args, command.returncode, stdout, stderr)

    def end(self):
        """Who waits for both to have everything finds no node."""
        (self.directory / "wait").unlink(missing_ok=True)


@pytest.fixture
def cluster(scratch):
    cluster = Cluster(scratch)
    yield cluster
    cluster.end()


@pytest.mark.parametrize("online, consent", [(True, OUTDATED), (False, SHOT)])
def test_one_node_that_asks_is_granted_it(cluster, online, consent):
    cluster.peer_is(online)
    done = cluster.fence()
    assert done.returncode == consent, done.stdout + done.stderr
    assert cluster.ban().startswith("alpha ") and cluster.taken() == ["create"]


@pytest.mark.parametrize("said, status", [("false", 0), ("", 1)])
def test_without_fencing_nobody_is_down_for_sure(cluster, said, status):
    """Both halves of a cluster that was cut in two would say so of the other one."""
    cluster.fencing_is(said, status)
    cluster.peer_is(online=False)
    done = cluster.fence()
    assert done.returncode == NO_ANSWER and "stonith-enabled" in done.stdout, done.stdout + done.stderr
    assert cluster.taken() == []
    cluster.peer_is(online=True)
    assert cluster.fence().returncode == OUTDATED, "the peer's part of the cluster has it"


@pytest.mark.parametrize("online, consent", [(True, OUTDATED), (False, SHOT)])
def test_an_older_ban_of_its_own_is_replaced(cluster, online, consent):
    cluster.peer_is(online)
    cluster.has("alpha 17.4")
    assert cluster.fence().returncode == consent
    assert cluster.ban().startswith("alpha ") and cluster.ban() != "alpha 17.4" and cluster.taken() == ["replace"]


@pytest.mark.parametrize("online", [True, False])
def test_a_ban_of_the_peer_is_a_refusal(cluster, online):
    cluster.peer_is(online)
    cluster.has("beta 17.4")
    assert cluster.fence().returncode == REFUSED
    assert cluster.ban() == "beta 17.4" and not cluster.taken()


@pytest.mark.parametrize("online", [True, False])
def test_a_peer_that_asks_in_the_same_moment_keeps_what_it_was_granted(cluster, online):
    cluster.peer_is(online)
    cluster.has("beta 17.4", file="appears")
    done = cluster.fence()
    assert done.returncode == (REFUSED if online else NO_ANSWER), done.stdout + done.stderr
    assert cluster.ban() == "beta 17.4" and not cluster.taken()


def test_nobody_is_promoted_beside_a_promoted_peer(cluster):
    (cluster.directory / "promoted").write_text(
        '<resource id="r0" role="Promoted" active="true">\n<node name="beta" id="2"/>\n', encoding="ascii")
    done = cluster.fence("promotion")
    assert done.returncode == REFUSED and "beta is promoted" in done.stdout, done.stdout + done.stderr
    assert cluster.taken() == []
    (cluster.directory / "promoted").unlink()
    assert cluster.fence("promotion").returncode == OUTDATED


@pytest.mark.parametrize("how", [{"unclean": "true"}, {"quorum": "false"}], ids=str)
def test_a_peer_that_may_live_is_waited_for(cluster, how):
    cluster.peer_is(online=False, **how)
    with pytest.raises(subprocess.TimeoutExpired):
        cluster.fence(timeout_s=5)
    assert cluster.taken() == []
    cluster.peer_is(online=False)
    assert cluster.fence().returncode == SHOT


def test_a_ban_that_the_peer_s_part_of_the_cluster_has_not_got_is_no_consent(cluster):
    """It was cut in two a moment ago, and each half still has the other one as online."""
    (cluster.directory / "cut").touch()
    with cluster.begin() as command:
        try:
            wait_until(lambda: cluster.taken().count("replace") >= 2 or command.poll() is not None, what="more looks")
            assert command.poll() is None
            (cluster.directory / "cut").unlink()
            assert command.wait(LIVENESS_S) == OUTDATED
        finally:
            command.kill()


def test_a_ban_that_the_cluster_does_not_take_is_no_consent(cluster):
    (cluster.directory / "refuses").touch()
    cluster.peer_is(online=False)
    assert cluster.fence().returncode == NO_ANSWER
    assert not cluster.taken()


def test_the_ban_stays_until_both_have_everything(cluster):
    cluster.wait_ends(4)
    assert cluster.fence().returncode == OUTDATED
    wait_until(lambda: len(cluster.waits()) >= 3 or "delete" in cluster.taken(), what="who waits for both to have everything")
    assert cluster.taken() == ["create"] and cluster.ban().startswith("alpha ")
    assert cluster.waits()[0].startswith("wait r0 whole")
    cluster.wait_ends(0)
    wait_until(lambda: cluster.taken() == ["create", "delete"], what="the end of the ban")


def test_a_later_ban_is_not_the_one_to_be_taken_away(cluster):
    """The peer was lost once more between the look and the end of the ban."""
    cluster.has("alpha 99.9", file="later")
    cluster.wait_ends(0)
    assert cluster.fence().returncode == OUTDATED
    wait_until(lambda: len(cluster.taken()) > 1, what="the end of the ban that it knows")
    assert cluster.taken() == ["create", "nothing"] and cluster.ban() == "alpha 99.9"
