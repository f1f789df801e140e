"""The agent ocf:twinblock:volume: what it tells Pacemaker of a node, by what that says of itself."""

from pathlib import Path

import pytest

import ocf_agent
from ocf_agent import DEGRADED, DEGRADED_PROMOTED, FAILED_PROMOTED, GENERIC, INSTALLED, NOT_RUNNING, PROMOTED, SUCCESS
from support import wait_until

pytestmark = pytest.mark.skipif(ocf_agent.missing() is not None, reason=ocf_agent.missing() or "")


def test_a_primary_that_waits_for_its_disk_has_degraded(pair):
    alpha = pair[1]["alpha"]
    for stalled_s, result in ((0.0, (PROMOTED, 10000)), (12.5, (DEGRADED_PROMOTED, 10))):
        alpha.status_says(disk={"error": "", "stalled_s": stalled_s})
        assert (alpha.monitor(), alpha.score()) == result


def test_a_primary_that_works_on_its_peers_disk_had_better_be_there(pair):
    alpha = pair[1]["alpha"]
    alpha.status_says(state="diskless")
    assert (alpha.monitor(), alpha.score()) == (DEGRADED_PROMOTED, 10)


def test_a_primary_whose_disk_has_failed_without_a_peer_has_failed(pair):
    alpha = pair[1]["alpha"]
    alpha.status_says(state="failed", status="The disk of alpha has failed.")
    code, said = alpha.run("monitor", OCF_RESKEY_CRM_meta_interval="10000")
    assert (code, alpha.score()) == (FAILED_PROMOTED, None) and "The disk of alpha has failed." in said, said


def test_a_secondary_with_a_failed_disk_is_no_candidate(pair):
    """It has everything, as it says, and would be refused: Pacemaker would try it again and again."""
    beta = pair[1]["beta"]
    assert (beta.monitor(), beta.score()) == (SUCCESS, 10000)
    beta.status_says(disk={"error": "a flush failed", "stalled_s": 0.0})
    assert (beta.monitor(), beta.score()) == (DEGRADED, None)


def test_what_is_refused_for_good_is_asked_once(pair):
    beta = pair[1]["beta"]
    beta.refuses("promote", 7, "it is half-copied")
    code, said = beta.run("promote")
    assert code == GENERIC and "it is half-copied" in said, said
    assert len(beta.asked("twinblock")) == 1


def test_a_node_to_which_the_witness_says_no_is_to_be_recovered_on_the_other_one(pair):
    """Not one that has degraded: Pacemaker would leave the service on it, and what is asked there waits."""
    _, agents = pair
    alpha, beta = agents["alpha"], agents["beta"]
    refused = {"kind": "etcd", "state": "refused", "holder": "beta", "error": "the witness says that beta may have gone on"}
    # A fence command knows no holder.
    by_command = {"kind": "command", "state": "refused", "holder": "", "error": "x says (exit status 6) that beta refuses"}
    for told in (refused, by_command):
        alpha.status_says(witness=told, state="frozen")
        code, said = alpha.run("monitor", OCF_RESKEY_CRM_meta_interval="10000")
        assert (code, alpha.score()) == (FAILED_PROMOTED, None), said
        assert f"this node may not go on: {told['error']}" in said and "since" not in said, said
    # A secondary that stands apart: what the witness has of itself is no hindrance.
    for holder, score in (("alpha", None), ("beta", 1000)):
        beta.status_says(witness={**refused, "holder": holder}, state="waiting")
        assert (beta.monitor(), beta.score()) == (SUCCESS, score)


def test_the_ban_of_the_fence_command_ends_when_both_have_everything(pair):
    """What had waited for that beside the node's process ended with it."""
    _, agents = pair
    alpha, beta = agents["alpha"], agents["beta"]
    constraint = '<rule id="twinblock-r0-alone-17.4" role="Promoted">\n'
    witness = {"kind": "command", "state": "agreed", "holder": ""}

    def deleted(agent, **told):
        agent.cluster_says("cibadmin", constraint)
        agent.status_says(witness=witness, **told)
        before = len(agent.asked("cibadmin"))
        assert agent.monitor() in (PROMOTED, DEGRADED_PROMOTED, SUCCESS)
        return [line for line in agent.asked("cibadmin")[before:] if "--delete" in line]

    assert not deleted(alpha, state="simplex") and not deleted(beta)
    # A place that a disk can't read, or one that has failed, takes nothing from the other node.
    for state in ("duplex", "degraded", "diskless"):
        lines = deleted(alpha, state=state)
        # This one, and not what has come there since.
        assert len(lines) == 1 and "rsc_location[@id='twinblock-r0-alone'][rule[@id='twinblock-r0-alone-17.4']]" in lines[0]


def test_a_ban_that_came_since_the_look_stays(pair):
    """It is read after the look that says that both have everything: what is said then of the node is what counts."""
    alpha = pair[1]["alpha"]
    alpha.cluster_says("cibadmin", '<rule id="twinblock-r0-alone-17.4" role="Promoted">\n')
    witness = {"kind": "command", "state": "agreed", "holder": ""}
    alpha.status_says_in_turn({"witness": witness, "state": "duplex"}, {"witness": witness, "state": "simplex"})
    assert alpha.monitor() == PROMOTED
    assert any("--query" in line for line in alpha.asked("cibadmin"))
    assert not [line for line in alpha.asked("cibadmin") if "--delete" in line]


def test_a_file_that_is_edited_is_about_the_next_node(pair):
    """A slip in it takes no service from those who use the volume, nor does it let a process stay that is to end."""
    lab, agents = pair
    alpha = agents["alpha"]
    assert (alpha.monitor(), alpha.score()) == (PROMOTED, 10000)
    file = Path(alpha.parameters["config"])
    right = file.read_text(encoding="utf-8")
    file.write_text(right + "\n[replication\n", encoding="utf-8")
    try:
        assert (alpha.monitor(), alpha.monitor(probe=True), alpha.score()) == (PROMOTED, PROMOTED, 10000)
        lab.pause("alpha")
        assert alpha.monitor() == GENERIC
        lab.resume("alpha")
        wait_until(lambda: alpha.monitor() == PROMOTED, what="the node to answer")
        for action in ("demote", "promote", "stop"):
            code, said = alpha.run(action)
            assert code == SUCCESS, said
        assert not lab.alive("alpha")
        assert alpha.monitor() == NOT_RUNNING
        code, said = alpha.run("start")
        assert code == INSTALLED and str(file) in said, said
    finally:
        file.write_text(right, encoding="utf-8")
    assert alpha.run("start")[0] == SUCCESS
