"""Links with a key: what both nodes show of it, what they say when their keys are not the same, which keys
are refused at start, and that nothing of the volume is on the wire."""

import json
import os
import stat
import subprocess
import time
from pathlib import Path

import pytest

from encryption_support import (capture, fingerprint, link_errors, restore_protection, sessions,
                                set_protection, status_words, tls_lab, write_key)
from lablib.environment import node_environment
from lablib.error import LIVENESS_S
from lablib.lab import NODES
from links_support import all_up, need_namespaces
from support import IS_ROOT, KIB, MIB, assert_identical, connection, ctl, promote, twinblock, \
    wait_until, write_all

ROUND_S = 8  # longer than a handshake may take, so that everything a node says was said


def peer_of(name):
    return NODES[1 - NODES.index(name)]


@pytest.mark.sanitize
def test_mirror_with_a_key_works_as_without_and_both_show_whose_it_is(make_lab):
    lab = tls_lab(make_lab, links=2)
    all_up(lab, 2)
    print_of_file = fingerprint(lab)
    secret = Path(lab.state["key"]).read_text(encoding="ascii").split()[0]
    data = os.urandom(MIB)
    with connection(lab) as handle:
        write_all(handle, [(number * MIB, data) for number in range(16)])
        handle.flush()
    assert_identical(lab)
    for name in NODES:
        status = lab.status(name)
        assert status["encryption"] == {"mode": "tls", "key": print_of_file}
        for link in status["links"]:
            assert link["encryption"].startswith("TLS 1.3, ") and print_of_file in link["encryption"]
        words = status_words(lab, name)
        assert "encrypted: TLS 1.3, " in words and f"key {print_of_file}, proven by the peer" in words
    lab.kill("beta")
    lab.wait_state("alpha", "simplex")
    other = os.urandom(MIB)
    with connection(lab) as handle:
        write_all(handle, [(number * MIB, other) for number in range(8, 24)])
        handle.flush()
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    assert lab.status("alpha")["counters"]["resync_bytes"] >= 16 * MIB
    verified = ctl(lab, "alpha", "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert_identical(lab)
    for name in NODES:  # the fingerprint is no secret, the key is
        assert secret not in lab.log_text(name).lower() + json.dumps(lab.status(name))


def test_status_of_a_mirror_without_a_key_says_so(make_lab):
    lab = make_lab(encryption="off")
    for name in NODES:
        assert lab.status(name)["encryption"] == {"mode": "off", "key": ""}
        assert lab.status(name)["links"][0]["encryption"] == ""
        assert "encrypted: off" in status_words(lab, name)


# --- keys that are not the same

def expected_words(what, on_the_wrong_one):
    """Of which `status` has one line whole: what is wrong, and what to do. Either side may say either."""
    if what == "another key":
        to_do = "compare `twinblock key show` on both nodes, and run `twinblock key reload` where the file was changed"
        return [f"does not take this node's key ({{own}}): {to_do}",
                f"has another key ({{other}}) than this node's key ({{own}}): {to_do}"]
    if on_the_wrong_one:
        return ["its links are encrypted, and this node has no key: "]
    return ['it has no key in its file, or encryption = "off"']


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("what", ["another key", "no key"])
def test_nodes_without_the_same_key_do_not_meet_and_both_say_why(make_lab, node, what):
    lab = tls_lab(make_lab)
    own = {name: fingerprint(lab) for name in NODES}
    lab.stop(node)
    if what == "another key":
        set_protection(lab, node, f'key = "{write_key(lab.dir / "other.key")}"')
        own[node] = fingerprint(lab, lab.node(node)["config"])
        assert own["alpha"] != own["beta"]
    else:
        set_protection(lab, node, 'encryption = "off"')
    before = {name: sessions(lab, name) for name in NODES}
    lab.start(node)

    def right(name):
        said = status_words(lab, name)
        return any(words.format(own=own[name], other=own[peer_of(name)]) in said
                   for words in expected_words(what, name == node))

    for name in NODES:
        wait_until(lambda: right(name),  # noqa: B023
                   what=f"the sentence; {name} says: {status_words(lab, name)}")
    told = {name: len(link_errors(lab, name)) for name in NODES}
    lines = {name: len(lab.log_text(name).splitlines()) for name in NODES}
    until = time.monotonic() + ROUND_S
    while time.monotonic() < until:
        for name in NODES:
            assert right(name), status_words(lab, name)
            assert not lab.status(name)["peer"]["connected"]
        time.sleep(0.1)
    for name in NODES:
        assert sessions(lab, name) == before[name]
        # Each reason once, however often they try.
        assert len(link_errors(lab, name)) <= told[name] + 2, link_errors(lab, name)
        assert len(lab.log_text(name).splitlines()) <= lines[name] + 6
    if node == "beta":
        with connection(lab) as handle:
            handle.pwrite(os.urandom(MIB), MIB)
    lab.stop(node)
    restore_protection(lab, node)
    lab.start(node)
    if node == "alpha":
        promote(lab, "alpha")
    lab.wait_state("alpha", "duplex")
    assert_identical(lab)


# --- keys that are refused

def run_node(lab, *words, name="alpha", **variables):
    """twinblockd, which is to end by itself."""
    program = Path(lab.state["build"]) / "daemon" / "twinblockd"
    node = lab.node(name)
    return subprocess.run([str(program), node["config"], "--node", name, *words], capture_output=True,
                          text=True, check=False, timeout=LIVENESS_S,
                          env=node_environment(program, node, lab.state["build"], variables))


def rewrite(text):
    return lambda path: path.write_text(text, encoding="ascii")


def replace_by_pipe(path):
    path.unlink()
    os.mkfifo(path, 0o600)


def replace_by_directory(path):
    path.unlink()
    path.mkdir(mode=0o700)


SECRET = "0123456789abcdef" * 4
# What is done to the key's file, and what is said then, besides its path.
BAD_KEYS = {
    "the group may read it": (lambda path: path.chmod(0o640), "other users", "chmod 600 {path}"),
    "all may read it": (lambda path: path.chmod(0o604), "other users", "chmod 600 {path}"),
    "the group may write it": (lambda path: path.chmod(0o620), "other users", "chmod 600 {path}"),
    "it is not there": (Path.unlink, "No such file", "twinblock key new"),
    "it is a directory": (replace_by_directory, "is not a file", "twinblock key new"),
    "it is a pipe": (replace_by_pipe, "is not a file", "twinblock key new"),
    "it is empty": (rewrite(""), "there is no key in it", "twinblock key new"),
    "it is a remark": (rewrite(f"# {SECRET}\n"), "there is no key in it", "twinblock key new"),
    "it is short": (rewrite(SECRET[:-2] + "\n"), "{path}:1: not a key", "twinblock key new"),
    "it is long": (rewrite(SECRET + "ab\n"), "{path}:1: not a key", "twinblock key new"),
    "it is text": (rewrite("correct horse battery staple\n"), "{path}:1: not a key", "twinblock key new"),
    "a digit is none": (rewrite(SECRET[:-1] + "g\n"), "{path}:1: not a key", "twinblock key new"),
    "the same key twice": (rewrite(f"{SECRET}\n{SECRET}\n"), "{path}:2: the same key", "remove the line"),
    "a third key": (rewrite(f"{SECRET}\n{SECRET[::-1]}\n{'ab' * 32}\n"), "{path}:3: a third key",
                    "keep the one in use"),
    "it is no key but a volume": (rewrite("#" * (64 * KIB)), "too long", "twinblock key new"),
    "it is another user's": (lambda path: os.chown(path, 65534, -1), "belongs to user 65534",
                             "twinblock key new"),
}


@pytest.mark.sanitize
@pytest.mark.parametrize("case", BAD_KEYS)
def test_key_that_is_not_only_this_user_s_own_is_refused_at_start(make_lab, case):
    if "user" in case and not IS_ROOT:
        pytest.skip("only root can give a file away")
    lab = tls_lab(make_lab, start=False)
    key = Path(lab.state["key"])
    good = run_node(lab, "--check")
    assert good.returncode == 0, good.stderr
    spoil, *expected = BAD_KEYS[case]
    spoil(key)
    for words in (["--check"], []):
        refused = run_node(lab, *words)
        assert refused.returncode == 1, refused.stderr
        for text in (str(key), *expected):
            assert text.format(path=key) in refused.stderr
        assert SECRET[:16] not in refused.stderr, "what is in the file stays there"


def test_key_of_another_user_is_named_as_that_where_root_may_not_read_it(make_lab):
    """As the unit starts a node: root, and without the capabilities that open other users' files."""
    if not IS_ROOT:
        pytest.skip("only root can give a file away")
    lab = tls_lab(make_lab, start=False)
    key = Path(lab.state["key"])
    os.chown(key, 65534, -1)
    program = Path(lab.state["build"]) / "daemon" / "twinblockd"
    refused = subprocess.run(
        ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search", str(program),
         lab.node("alpha")["config"], "--node", "alpha", "--check"], capture_output=True, text=True, check=False,
        timeout=LIVENESS_S)
    assert refused.returncode == 1
    assert f"{key} belongs to user 65534, and the node, which runs as user 0, can't read it" in refused.stderr, refused.stderr
    assert f"chown 0 {key}" in refused.stderr and "key new" not in refused.stderr


def test_host_whose_settings_forbid_it_is_told_so_at_start(make_lab, scratch):
    lab = tls_lab(make_lab, start=False)
    settings = scratch / "gnutls.config"
    settings.write_text("[overrides]\ndisabled-version = tls1.3\n", encoding="ascii")
    for words in (["--check"], []):
        refused = run_node(lab, *words, GNUTLS_SYSTEM_PRIORITY_FILE=str(settings))
        assert refused.returncode == 1, refused.stderr
        for text in ("no TLS 1.3 with pre-shared keys", "/etc/gnutls/config", 'encryption = "off"'):
            assert text in refused.stderr, refused.stderr


@pytest.mark.parametrize("line, said", [
    ("", ["leaves this host, and has no key", 'add key = "/etc/twinblock/r0.key" above the first table of',
          "`twinblock key new r0`", 'encryption = "off"']),
    ('encryption = "tls"', ["encryption needs a key", "key ="]),
    ('key = "r0.key"', ["not an absolute path", 'write key = "/etc/twinblock/r0.key"']),
    ('encryption = "none"', ["'none' is not a value", 'choose "tls" or "off"']),
])
def test_link_that_leaves_the_host_has_a_key_or_says_that_it_has_none(make_lab, line, said):
    lab = tls_lab(make_lab, start=False)
    for link in lab.state["links"]:
        link.update(alpha="10.77.1.1:7700", beta="10.77.1.2:7700")
    set_protection(lab, "alpha", line)
    for words in (["--check"], []):
        refused = run_node(lab, *words)
        assert refused.returncode in (1, os.EX_CONFIG), refused.stderr
        for text in (*said, lab.node("alpha")["config"]):
            assert text in refused.stderr
    for good in ('encryption = "off"', f'key = "{lab.state["key"]}"'):
        set_protection(lab, "alpha", good)
        checked = run_node(lab, "--check")
        assert checked.returncode == 0, checked.stderr


def test_link_on_loopback_needs_no_key(make_lab):
    lab = tls_lab(make_lab, start=False)
    set_protection(lab, "alpha", "")
    checked = run_node(lab, "--check")
    assert checked.returncode == 0, checked.stderr


# --- key new, key show

@pytest.mark.parametrize("file_is_there", [True, False])
def test_new_key_is_this_user_s_alone_and_never_overwrites_another(make_lab, scratch, file_is_there):
    lab = tls_lab(make_lab, start=False)
    config = lab.state["config"] if file_is_there else str(scratch / "later" / "r1.toml")
    path = Path(lab.state["key"] if file_is_there else scratch / "later" / "r1.key")
    path.unlink(missing_ok=True)
    words = ["new", "r0" if file_is_there else "r1", "--config", config]
    mask = os.umask(0)
    try:
        made = twinblock(lab, "key", *words)
    finally:
        os.umask(mask)
    assert made.returncode == 0, made.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text(encoding="ascii")
    secret = next(line for line in text.splitlines() if not line.startswith("#")).split()[0]
    assert len(set(secret)) > 4 and secret not in made.stdout + made.stderr
    assert str(path) in made.stdout and "other host" in made.stdout
    assert ("add key" in made.stdout) == (not file_is_there)

    again = twinblock(lab, "key", *words)
    assert again.returncode == 1 and str(path) in again.stderr and "may be in use" in again.stderr
    assert path.read_text(encoding="ascii") == text

    if not file_is_there:  # what the volume's file is still to say
        (scratch / "later" / "r1.toml").write_text(
            lab.config_text(lab.state["replication"], volume="r1").replace(lab.state["key"], str(path)),
            encoding="utf-8")
    shown = json.loads(twinblock(lab, "key", "show", "--config", config, "--json").stdout)
    assert shown == {"key": shown["key"], "path": str(path), "version": 1} and shown["key"] in made.stdout
    if file_is_there:
        lab.up()
        assert all(lab.status(name)["encryption"]["key"] == shown["key"] for name in NODES)


def test_key_show_of_a_key_that_others_can_read_says_so(make_lab):
    lab = tls_lab(make_lab, start=False)
    os.chmod(lab.state["key"], 0o644)
    shown = twinblock(lab, "key", "show", "--config", lab.state["config"])
    assert shown.returncode == 1 and shown.stdout == "" and "chmod 600" in shown.stderr


# --- what is on the wire

def marked(marker, bytes_each=64 * KIB):
    """Half of each 4 KiB shrinks to nothing; the marker stands in the half that stays as it is when
    compressed."""
    return b"".join(os.urandom(1 * KIB) + marker + os.urandom(1 * KIB - len(marker)) + bytes(2 * KIB)
                    for _ in range(bytes_each // (4 * KIB)))


def set_compression(lab, mode):
    for name in NODES:
        wait_until(lambda: ctl(lab, name, "compression", mode).returncode == 0)  # noqa: B023
        wait_until(lambda: lab.status(name)["compression"]["mode"] == mode)  # noqa: B023


@pytest.mark.parametrize("encryption", ["tls", "off"])
def test_what_is_written_is_not_on_the_wire(make_lab, scratch, encryption):
    """Without encryption it is, or this test sees nothing."""
    need_namespaces()
    lab = make_lab(encryption=encryption, host_namespaces=True)
    markers = {what: os.urandom(24) for what in ("written", "compressed", "resynced")}
    packets = scratch / "packets"

    def write(what, at):
        with connection(lab) as handle:
            write_all(handle, [(at + number * 64 * KIB, marked(markers[what])) for number in range(32)])
            handle.flush()

    with capture(lab, "link1", packets):
        set_compression(lab, "off")
        write("written", 0)
        set_compression(lab, "on")
        write("compressed", 4 * MIB)
        assert lab.status("alpha")["compression"]["writes_compressed"] >= 32
        lab.kill("beta")
        lab.wait_state("alpha", "simplex")
        write("resynced", 8 * MIB)
        lab.start("beta")
        lab.wait_state("alpha", "duplex")
        assert_identical(lab)
    seen = packets.read_bytes()
    assert len(seen) >= 2 * MIB + MIB + MIB, "what was written has to have been there"
    on_the_wire = {what for what, marker in markers.items() if marker in seen}
    spoken = b"alpha" + bytes(59) in seen  # a hello
    assert (on_the_wire, spoken) == ((set(), False) if encryption == "tls" else
                                     ({"written", "compressed", "resynced"}, True))
