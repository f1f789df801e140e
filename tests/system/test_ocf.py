"""The agent ocf:twinblock:volume: what each action does in each state of a node, and what it says of it."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

import ocf_agent
from lablib.error import LIVENESS_S
from lablib.lab import VOLUME
from ocf_agent import (AGENT, CONFIGURED, DEGRADED, DEGRADED_PROMOTED, FAILED_PROMOTED, GENERIC, INSTALLED, NOT_RUNNING,
                       PROMOTED, SUCCESS, UNIMPLEMENTED, Agent)
from support import IS_ROOT, MIB, connection, ctl, wait_until, wait_until_noted

pytestmark = pytest.mark.skipif(ocf_agent.missing() is not None, reason=ocf_agent.missing() or "")

DYING_S = 30


@pytest.fixture
def link():
    """/dev/twinblock/r0 is the host's: of tests that run beside each other, one at a time has it."""
    with socket.socket(socket.AF_UNIX) as held:
        def taken():
            with contextlib.suppress(OSError):
                held.bind("\0twinblock-device-r0")
                return True
            return False

        wait_until(taken, 10 * LIVENESS_S, "who else has the device's name")
        yield Path("/dev/twinblock/r0")


def start_anew(lab, agent):
    """The node's process is the agent's from now on."""
    lab.kill(agent.name)
    code, said = agent.run("start")
    assert code == SUCCESS, said


def half_copied(lab, name, source):
    """`name` has missed writes, and `source` ends while it copies them."""
    lab.kill(name)
    lab.wait_peer_lost(source)
    with connection(lab, source) as handle:
        for at in range(0, 32 * MIB, MIB):
            handle.pwrite(os.urandom(MIB), at)
    assert ctl(lab, source, "resync", "rate", "64KiB").returncode == 0
    lab.start(name)
    lab.wait_status(name, lambda status: status["data"] == "inconsistent")
    lab.kill(source)
    lab.wait_peer_lost(name)


@pytest.mark.usefixtures("link")
def test_ocf_tester_passes(make_agents):
    program = shutil.which("ocf-tester", path=f"{os.environ['PATH']}:/usr/sbin")
    if not program:
        pytest.skip("ocf-tester is not installed; run: packaging/install-dependencies cluster")
    if not IS_ROOT:
        pytest.skip("ocf-tester runs the agent as nobody, too, which takes root")
    lab, agents = make_agents(attach="true")
    agent = agents["alpha"]
    options = [word for key, value in agent.parameters.items() for word in ("-o", f"{key}={value}")]
    done = subprocess.run([program, "-v", "-n", "r0", *options, str(AGENT)], env=agent.environment(), check=False,
                          capture_output=True, text=True, timeout=4 * LIVENESS_S, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and "passed all tests" in done.stdout, done.stdout + done.stderr + lab.log_tail("alpha")
    assert not re.search(r"does not support the (promote|demote|notify)", done.stdout), done.stdout


def test_meta_data_says_which_actions_and_parameters_there_are(pair):
    text = pair[1]["alpha"].run("meta-data")[1]
    for action in ("start", "stop", "monitor", "promote", "demote", "notify", "validate-all", "meta-data"):
        assert f'<action name="{action}" timeout=' in text
    used = set(re.findall(r"OCF_RESKEY_([a-z_]+)", AGENT.read_text(encoding="utf-8")))
    used = {name.removesuffix("_default") for name in used if not name.startswith("crm_")}
    assert set(re.findall(r'<parameter name="(\w+)"', text)) == used
    assert pair[1]["alpha"].run("migrate_to")[0] == UNIMPLEMENTED


def test_each_action_twice_is_as_once(pair):
    lab, agents = pair
    alpha, beta = agents["alpha"], agents["beta"]
    for agent in (alpha, beta):
        assert agent.run("start")[0] == SUCCESS
    assert alpha.monitor() == alpha.monitor(probe=True) == PROMOTED
    assert beta.monitor() == beta.monitor(probe=True) == SUCCESS
    for action, result in (("demote", SUCCESS), ("promote", PROMOTED), ("demote", SUCCESS), ("stop", NOT_RUNNING),
                           ("start", SUCCESS), ("promote", PROMOTED), ("stop", NOT_RUNNING)):
        for _ in range(2):
            code, said = alpha.run(action)
            assert code == SUCCESS, f"{action}: {said}"
        assert alpha.monitor() == result, action
    # A stop of the primary has demoted it in order: the other one needs no word.
    assert beta.run("promote")[0] == SUCCESS
    assert lab.status("beta")["role"] == "primary"


def test_what_is_not_started_is_neither_promoted_nor_demoted(pair):
    lab, agents = pair
    alpha = agents["alpha"]
    assert alpha.run("stop")[0] == SUCCESS
    assert alpha.run("promote")[0] == alpha.run("demote")[0] == NOT_RUNNING
    assert not lab.alive("alpha")


def test_a_start_tells_why_it_fails_and_does_not_wait_for_its_deadline(pair):
    lab, agents = pair
    alpha = agents["alpha"]
    alpha.run("stop")
    backing = Path(lab.node("alpha")["backing"])
    backing.rename(backing.with_suffix(".away"))
    code, said = alpha.run("start")
    assert code == INSTALLED and str(backing) in said
    backing.with_suffix(".away").rename(backing)
    assert alpha.run("start")[0] == SUCCESS


def test_a_file_that_lets_a_primary_go_on_by_itself_is_refused(make_lab, scratch):
    lab = make_lab()
    agent = Agent(lab, "alpha", scratch)
    code, said = agent.run("validate-all")
    assert code == INSTALLED and 'on_restart = "secondary"' in said


@pytest.mark.parametrize("parameters, code, words", [
    ({"volume": ""}, CONFIGURED, "volume"), ({"config": "r0.toml"}, CONFIGURED, "r0.toml"),
    ({"connect_timeout": "soon"}, CONFIGURED, "soon"), ({"config": "/nonexistent/r0.toml"}, INSTALLED, "/nonexistent"),
    ({"volume": "r1"}, INSTALLED, "r1"), ({"node": "gamma"}, INSTALLED, "gamma")])
def test_validation_names_what_is_wrong(pair, parameters, code, words):
    agent = pair[1]["alpha"]
    assert agent.run("validate-all")[0] == SUCCESS
    found, said = agent.run("validate-all", **{f"OCF_RESKEY_{key}": value for key, value in parameters.items()})
    assert found == code and words in said


def test_where_nothing_is_installed_a_probe_finds_nothing(pair):
    agent = pair[1]["alpha"]
    without = {"OCF_RESKEY_CRM_meta_interval": "0"}
    assert agent.run("monitor", PATH="/usr/bin:/bin", **without)[0] == NOT_RUNNING
    assert agent.run("monitor", OCF_RESKEY_config="/nonexistent/r0.toml", **without)[0] == NOT_RUNNING


def test_a_node_that_died_is_not_running_and_one_that_hangs_has_failed(pair):
    lab, agents = pair
    alpha = agents["alpha"]
    lab.pause("alpha")
    assert alpha.monitor() == GENERIC
    assert alpha.score() is None
    lab.resume("alpha")
    wait_until(lambda: alpha.monitor() == PROMOTED, what="the node to answer")
    lab.kill("alpha")
    assert alpha.monitor() == NOT_RUNNING
    assert alpha.score() is None
    assert alpha.run("start")[0] == SUCCESS
    wait_until(lambda: alpha.monitor() == SUCCESS, what="the node, as secondary")


def test_a_stop_that_does_not_end_is_an_error_at_its_deadline(pair):
    lab, agents = pair
    alpha = agents["alpha"]
    lab.pause("alpha")
    began = time.monotonic()
    code, said = alpha.run("stop", timeout_s=DYING_S)
    assert code == GENERIC and "does not end" in said
    assert time.monotonic() - began >= DYING_S - 20, "a node that answers late was given up"
    lab.resume("alpha")
    wait_until(lambda: alpha.monitor() == NOT_RUNNING, what="the end of the node")


def test_scores_and_degradation_when_the_peer_dies_and_is_back(pair):
    lab, agents = pair
    alpha, beta = agents["alpha"], agents["beta"]
    assert (alpha.monitor(), alpha.score()) == (PROMOTED, 10000)
    assert (beta.monitor(), beta.score()) == (SUCCESS, 10000)
    lab.kill("beta")
    lab.wait_state("alpha", "simplex")
    assert (alpha.monitor(), alpha.score()) == (DEGRADED_PROMOTED, 10000)
    assert beta.run("start")[0] == SUCCESS
    lab.wait_state("alpha", "duplex")
    assert (alpha.monitor(), alpha.score()) == (PROMOTED, 10000)
    lab.kill("alpha")
    lab.wait_peer_lost("beta")
    assert (beta.monitor(), beta.score()) == (SUCCESS, 1000)
    # A notification of the other one's end is as good as a monitor.
    assert alpha.run("start")[0] == SUCCESS
    wait_until(lambda: lab.status("beta")["peer"]["connected"], what="the session")
    assert beta.run("notify")[0] == SUCCESS
    wait_until(lambda: beta.monitor() == SUCCESS and beta.score() == 10000, what="the score of one that knows its peer")


def test_a_half_copied_node_has_no_score_and_its_promotion_fails(pair):
    lab, agents = pair
    beta = agents["beta"]
    half_copied(lab, "beta", "alpha")
    assert (beta.monitor(), beta.score()) == (DEGRADED, None)
    code, said = beta.run("promote", timeout_s=DYING_S)
    assert code == GENERIC and "half-copied" in said
    assert (beta.monitor(), beta.score()) == (DEGRADED, None)


def test_the_source_of_a_resync_has_the_full_score_and_its_target_none(pair):
    lab, agents = pair
    lab.kill("beta")
    lab.wait_peer_lost("alpha")
    with connection(lab) as handle:
        for at in range(0, 32 * MIB, MIB):
            handle.pwrite(os.urandom(MIB), at)
    assert ctl(lab, "alpha", "resync", "rate", "64KiB").returncode == 0
    lab.start("beta")
    lab.wait_state("beta", "resync")
    lab.wait_state("alpha", "resync")
    assert (agents["alpha"].monitor(), agents["alpha"].score()) == (PROMOTED, 10000)
    assert (agents["beta"].monitor(), agents["beta"].score()) == (SUCCESS, None)


def test_blank_nodes_have_no_score(make_agents):
    _, agents = make_agents(init=False)
    for agent in agents.values():
        assert (agent.monitor(), agent.score()) == (DEGRADED, None)


def test_a_primary_that_died_is_not_replaced_without_a_word(pair):
    lab, agents = pair
    beta = agents["beta"]
    lab.kill("alpha")
    lab.wait_peer_lost("beta")
    for tool, text in fenced("alpha").items():
        beta.cluster_says(tool, text)
    code, said = beta.run("promote", timeout_s=20)
    assert code == GENERIC and "may still be writing" in reason(said), said
    assert lab.status("beta")["role"] == "secondary"


def fenced(peer, online="false", unclean="false", status="success", enabled="true", ago_s=0):
    """What Pacemaker's tools say of a node that was fenced."""
    completed = time.strftime("%Y-%m-%d %H:%M:%S.000001Z", time.gmtime(time.time() - ago_s))
    return {"crm_attribute": enabled + "\n",
            "crm_mon": f'<node name="{peer}" id="1" online="{online}" standby="false" unclean="{unclean}"/>',
            "stonith_admin": (f'<fence_event action="reboot" target="{peer}" client="pacemaker-controld.1" status="{status}" '
                              f'completed="{completed}"/>')}


@pytest.mark.parametrize("otherwise", [{"online": "true"}, {"unclean": "true"}, {"status": "failed"},
                                       {"enabled": "false"}, {"peer": "gamma"}], ids=str)
def test_fencing_that_is_not_proven_is_no_word(make_agents, otherwise):
    lab, agents = make_agents(fencing_is_proven="true")
    beta = agents["beta"]
    lab.kill("alpha")
    lab.wait_peer_lost("beta")
    for tool, text in fenced(**{"peer": "alpha", **otherwise}).items():
        beta.cluster_says(tool, text)
    assert beta.run("promote", timeout_s=10)[0] == GENERIC
    assert lab.status("beta")["role"] == "secondary"


@pytest.mark.parametrize("ago_s", [86_400, 60])
def test_fencing_before_the_other_node_was_last_heard_is_no_word(make_agents, ago_s):
    lab, agents = make_agents(fencing_is_proven="true")
    beta = agents["beta"]
    told = fenced("alpha", ago_s=ago_s)
    lab.kill("alpha")
    lab.wait_peer_lost("beta")
    for tool, text in told.items():
        beta.cluster_says(tool, text)
    assert beta.run("promote", timeout_s=10)[0] == GENERIC
    assert lab.status("beta")["role"] == "secondary"


def test_a_process_that_has_not_heard_the_other_one_takes_no_fencing_before_it_began(make_agents):
    """The other one may have been up since, and have gone on alone."""
    lab, agents = make_agents(fencing_is_proven="true", connect_timeout=0)
    beta = agents["beta"]
    lab.kill("alpha")
    lab.wait_peer_lost("beta")
    start_anew(lab, beta)
    assert lab.status("beta")["peer"]["silent_ms"] is None
    for ago_s, result in ((86_400, GENERIC), (-60, SUCCESS)):
        for tool, text in fenced("alpha", ago_s=ago_s).items():
            beta.cluster_says(tool, text)
        assert beta.run("promote", timeout_s=60 if result == SUCCESS else 10)[0] == result


def test_fencing_is_no_word_for_a_disk_that_holds_nothing(make_agents):
    """Another one in its place, or one that is not mounted."""
    lab, agents = make_agents(fencing_is_proven="true", connect_timeout=0)
    beta = agents["beta"]
    with connection(lab) as handle:
        handle.pwrite(os.urandom(MIB), 0)
        handle.flush()
    wait_until_noted(lab)
    for name in ("beta", "alpha"):
        lab.kill(name)
    backing = Path(lab.node("beta")["backing"])
    size = backing.stat().st_size
    backing.unlink()
    backing.touch()
    os.truncate(backing, size)
    assert beta.run("start")[0] == SUCCESS
    for tool, text in fenced("alpha", ago_s=-60).items():
        beta.cluster_says(tool, text)
    code, said = beta.run("promote", timeout_s=20)
    assert code == GENERIC and "zeroes" in reason(said), said
    assert lab.status("beta")["role"] == "secondary"


def reason(said):
    """What Pacemaker shows of an action that failed."""
    return next((line for line in said.splitlines() if line.startswith("ocf-exit-reason:")), "")


@pytest.mark.usefixtures("link")
@pytest.mark.parametrize("action, verb", [("promote", "promote"), ("demote", "demote"), ("promote", "attach")])
def test_an_order_that_is_cut_off_takes_no_reason_away(make_agents, action, verb):
    """At the deadline it is ended before it has said anything: what was said before is why the action failed."""
    _, agents = make_agents(attach=str(verb == "attach").lower())
    alpha = agents["alpha"]
    alpha.refuses_and_hangs(verb, "there is no room")
    code, said = alpha.run(action)
    assert code == GENERIC and "there is no room" in reason(said), said
    assert len(alpha.asked("twinblock")) == 2


def test_what_is_said_against_proven_fencing_is_the_reason(make_agents):
    """Also where that order is cut off in the end, after the one without the word was refused once more."""
    _, agents = make_agents(fencing_is_proven="true")
    beta = agents["beta"]
    for tool, text in fenced("alpha", ago_s=-60).items():
        beta.cluster_says(tool, text)
    beta.refuses_and_hangs("promote", "it may be writing", "the disk holds nothing", "it may be writing")
    code, said = beta.run("promote")
    assert code == GENERIC and "the disk holds nothing" in reason(said), said
    assert ["--peer-is-dead" in line for line in beta.asked("twinblock")] == [False, True] * 2


@pytest.mark.usefixtures("link")
def test_what_uses_the_device_of_a_dead_node_gets_errors(make_agents):
    """It would else wait for a process that Pacemaker does not start here: a umount, too."""
    lab, agents = make_agents(attach="true")
    alpha = agents["alpha"]
    lab.kill("alpha")
    for action in ("monitor", "demote", "stop"):
        before = len(alpha.detaches())
        alpha.run(action, OCF_RESKEY_CRM_meta_interval="10000")
        assert any("--force" in line and "--in-use" in line for line in alpha.detaches()[before:]), action


def test_proven_fencing_is_the_word(make_agents):
    lab, agents = make_agents(fencing_is_proven="true")
    beta = agents["beta"]
    lab.kill("alpha")
    # Later than now: beta counts nobody as silent while it stands still itself, and so what it last heard as later.
    for tool, text in fenced("alpha", ago_s=-60).items():
        beta.cluster_says(tool, text)
    code, said = beta.run("promote")
    assert code == SUCCESS, said
    assert (beta.monitor(), beta.score()) == (DEGRADED_PROMOTED, 10000)


@pytest.mark.skipif(not IS_ROOT, reason="loop devices need root")
def test_the_device_comes_with_the_promotion_and_goes_with_the_demotion(link, make_agents):
    lab, agents = make_agents(attach="true")
    alpha = agents["alpha"]
    assert alpha.monitor(probe=True) == PROMOTED, "promoted by hand: it is running, whatever it lacks"
    assert alpha.monitor() == FAILED_PROMOTED
    if link.is_symlink():
        pytest.skip(f"{link} is somebody's already")
    for _ in range(2):
        code, said = alpha.run("promote")
        assert code == SUCCESS, said
        assert link.is_block_device()
    assert alpha.monitor() == PROMOTED
    assert lab.status("alpha")["clients"] > 0
    for _ in range(2):
        code, said = alpha.run("demote")
        assert code == SUCCESS, said
        assert not link.is_symlink()
    assert alpha.monitor() == SUCCESS


@pytest.mark.usefixtures("link")
@pytest.mark.parametrize("looks, result", [(1, PROMOTED), (3, PROMOTED), (10 ** 6, FAILED_PROMOTED)])
def test_a_device_that_is_given_another_connection_has_not_failed(make_agents, looks, result):
    """So is one whose volume was made larger; one that nothing reconnects has failed, and the monitor ends."""
    _, agents = make_agents(attach="true")
    alpha = agents["alpha"]
    left = alpha.device_waits(looks)
    code, said = alpha.run("monitor", timeout_s=30, OCF_RESKEY_CRM_meta_interval="10000")
    assert code == result and (result == PROMOTED or "has no device that works: its process" in said), said
    assert int(left.read_text(encoding="utf-8")) < looks
    assert alpha.monitor(probe=True) == PROMOTED


@pytest.mark.skipif(not IS_ROOT, reason="loop devices need root")
def test_a_device_that_is_in_use_keeps_the_node_primary(link, make_agents, scratch):
    lab, agents = make_agents(attach="true")
    alpha = agents["alpha"]
    assert alpha.run("promote")[0] == SUCCESS
    mounted = scratch / "mounted"
    mounted.mkdir()
    subprocess.run(["mkfs.ext4", "-q", link], check=True)
    subprocess.run(["mount", link, mounted], check=True)
    try:
        for action in ("demote", "stop"):
            code, said = alpha.run(action, timeout_s=10)
            assert code == GENERIC and "mounted at" in said, action
            assert alpha.monitor() == PROMOTED
    finally:
        subprocess.run(["umount", mounted], check=True)
    assert alpha.run("demote")[0] == SUCCESS
    assert lab.status("alpha")["role"] == "secondary"


@pytest.mark.skipif(not IS_ROOT, reason="loop devices need root")
def test_an_attachment_that_was_cut_off_is_undone(link, make_agents):
    """Pacemaker has killed an action in the midst of it."""
    lab, agents = make_agents(attach="true")
    alpha = agents["alpha"]
    note = Path(lab.node("alpha")["control"]).with_suffix(".attach.json")

    def cut_off():
        mounted = note.with_name("r0.mnt")
        note.write_text(json.dumps({"volume": VOLUME, "node": "alpha", "method": "nbdfuse", "device": "",
                                    "mount_dir": str(mounted), "file": str(mounted / "r0"),
                                    "log": str(note.with_name("r0.nbdfuse.log")), "complete": False}), encoding="utf-8")

    cut_off()
    code, said = alpha.run("promote")
    assert code == SUCCESS and link.is_block_device(), said
    assert alpha.run("demote")[0] == SUCCESS
    assert alpha.run("promote")[0] == SUCCESS
    assert ctl(lab, "alpha", "detach").returncode == 0
    cut_off()
    assert alpha.run("demote")[0] == SUCCESS
    assert not note.exists()


@pytest.mark.skipif(not IS_ROOT, reason="loop devices need root")
def test_what_a_dead_node_leaves_of_its_device_does_not_stand_in_the_way(link, make_agents):
    lab, agents = make_agents(attach="true")
    alpha = agents["alpha"]
    assert alpha.run("promote")[0] == SUCCESS
    os.kill(alpha.pid(), signal.SIGKILL)
    wait_until(lambda: not lab.alive("alpha"), what="the end of the node")
    assert alpha.monitor() == NOT_RUNNING
    assert not link.is_symlink()
    assert alpha.run("start")[0] == SUCCESS
    lab.wait_status("alpha", lambda status: status["promotable"])
    code, said = alpha.run("promote")
    assert code == SUCCESS, said
    assert alpha.monitor() == PROMOTED


@pytest.mark.usefixtures("link")
def test_what_an_edited_file_says_is_not_about_a_node_that_ran(make_agents, scratch):
    """Where its device is, and that there is a node: also where the file names another place by now, or is away."""
    lab, agents = make_agents(attach="true")
    alpha = agents["alpha"]
    alpha.monitor()
    control, file = lab.status("alpha")["control"], Path(alpha.parameters["config"])
    right = file.read_text(encoding="utf-8")
    away = file.with_suffix(".away")
    file.rename(away)
    assert alpha.monitor(probe=True) == PROMOTED
    other = scratch / "other"
    other.mkdir()
    file.write_text(re.sub(r'(\[node\.alpha\].*?runtime *= *")[^"]*', rf"\g<1>{other}", right, flags=re.S), encoding="utf-8")
    assert file.read_text(encoding="utf-8") != right
    lab.kill("alpha")
    before = len(alpha.detaches())
    assert alpha.monitor() == NOT_RUNNING
    lines = alpha.asked("twinblock")[before:]
    away.rename(file)
    assert any(f"--socket {control}" in line and "--force" in line for line in lines), lines
