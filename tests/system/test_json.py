"""docs/json.md against what the verbs print: no key that it lacks, no type but the page's, none that never comes; and
against the code: the words that it lists for a key are those that come."""

import json
import re

import pytest

from conftest import HERE
from support import KIB, connection, ctl, demote, promote, twinblock
from test_web import Web

SOURCES = HERE.parents[1]
PAGE = SOURCES / "docs" / "json.md"
TYPES = {bool: "boolean", int: "number", float: "number", str: "text", type(None): "null"}
# What a lab has not in its short life.
SELDOM = {"status": {"compression.ratio", "resync.eta_s", "verify", "last_resync", "witness", "device", "cache"},
          "verify": {"eta_s"}, "latency": {"classes[].bytes_max"}, "plan": {"now", "while_writing", "links[]", "sure.doubts[]"},
          "probe": {"links[].error", "links[].stream.gaps[].begin_s", "links[].stream.gaps[].length_s",
                    "links[].warnings[].what", "links[].warnings[].to_do"},
          "stats": {"write_sizes[].bytes_max", "cache"}, "errors": set(),
          "orders": {"status", "messages", "messages[]", "links"},
          "key": {"also"}}
# Where the code has the words of a key: a file, what stands before them and what after.
WORDS = {
    "errors refused": ("tools/twinblock/exit_status.h", "kRefusedForGood = ", "constexpr int exit_status_of"),
    "status role": ("daemon/control/status_words.cc", "role_name(Role role)", "\n"),
    "status state": ("daemon/volume/volume_state.cc", "* state_name(", "}\n  return"),
    "status data": ("daemon/volume/volume_state.cc", "* data_state_name(", "}\n  return"),
    "status links[].state": ("daemon/session/link_view.cc", "* link_state_name(", "}\n  return"),
    "status encryption.mode": ("daemon/control/render.cc", "facts.key.empty() ?", "}"),
    "status compression.mode": ("daemon/config/config.cc", "kCompressions{", "}"),
    "status resync.direction": ("daemon/control/render.cc", '{"direction",', "}"),
    "latency window": ("daemon/control/requests.cc", '{{{"window",', "}"),
    "latency classes[].class": ("daemon/telemetry/stages.cc", '"4K"', "}"),
    "probe links[].limit": ("tools/twinblock/probe.cc", "* stream_limit_word(", "\n}"),
    "plan sure.level": ("tools/twinblock/plan.cc", '{{"level",', "}"),
}


def page():
    """{section: {key: types}}"""
    sections, section = {}, None
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = sections.setdefault(line[3:], {})
        elif row := re.fullmatch(r"\| (`.*?`) \| ([a-z, ]+) \|.*\|", line):
            for key in re.findall(r"`([^`]+)`", row[1]):
                section[key] = set(row[2].split(", "))
    return sections


def listed(section, key):
    """The words that the page lists for a key, in its order. Where a row is of several keys it names the one."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    for row in re.findall(r"\| (`.*?`) \| [a-z, ]+ \|(.*)\|", text):
        keys = re.findall(r"`([^`]+)`", row[0])
        if key in keys:
            named = row[1].split(f"`{key.rpartition('.')[2]}`: ")
            assert len(keys) == 1 or len(named) == 2, f"{section}: whose words are these? {row}"
            return re.findall(r"`([^`]+)`", named[-1].split(";")[0])
    raise AssertionError(f"{section}: the page has no {key}")


def paths(value, path=""):
    if isinstance(value, dict):
        for key, each in value.items():
            yield from paths(each, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        yield path, "array"
        for each in value:
            yield from paths(each, path + "[]")
    else:
        yield path, TYPES[type(value)]


def normal(path):
    return re.sub(r"\.(stages|parts)\.[a-z-]+\.", r".\1.NAME.", path)


def split_brain(lab):
    """beta is primary, and each has written alone."""
    lab.kill("alpha")
    lab.wait_state("beta", "simplex")
    with connection(lab, "beta") as handle:
        handle.pwrite(bytes(4 * KIB), 0)
    lab.kill("beta")
    lab.start("alpha")
    promote(lab, "alpha", "--peer-is-dead")
    with connection(lab, "alpha") as handle:
        handle.pwrite(bytes(4 * KIB), 0)
    demote(lab, "alpha")
    lab.start("beta")
    lab.wait_state("beta", "refused")


class Seen:
    """What was printed, by the page's sections."""

    def __init__(self, lab):
        self.lab = lab
        self.page = page()
        self.keys = {}

    def take(self, section, told, without=()):
        for path, kind in paths(told):
            key = normal(path)
            if any(key.startswith(f"{each}.") for each in without):
                continue
            allowed = self.page[section].get(key)
            assert allowed is not None, f"{section}: the page lacks {key}, which is {kind}"
            assert kind in allowed, f"{section}: {key} is {kind}, and the page says {allowed}"
            self.keys.setdefault(section, set()).add(key)

    def run(self, section, node, *words, without=()):
        shown = ctl(self.lab, node, *words, "--json")
        told = json.loads(shown.stdout)
        assert told["version"] == 1
        self.take(section if told.get("ok", True) else "errors", told, without)
        return told


def keys_of(text, before, after):
    return set(re.findall(r'\{"(\w+)",', text[text.index(before):].split(after)[0]))


def test_what_attach_and_detach_print_is_in_the_page():
    """Against the code: what can be attached is another thing on each host."""
    code = (SOURCES / "tools/twinblock/device_actions.cc").read_text(encoding="utf-8")
    assert "Output output{to_json(" not in code and "Output{to_json(" not in code, "the note is attach's own"
    printed = keys_of(code, "json shown(", "\n}") | keys_of(code, "Result<Output> run_detach(", "\n}")
    assert printed | {"version"} == set(page()["attach, detach"])


def test_web_prints_an_object(make_lab):
    lab = make_lab()
    web = Web(lab, "--json", "--socket", lab.node("alpha")["control"])
    web.process.terminate()
    told = json.loads(web.process.stdout.read())
    web.close()
    assert set(told) == set(page()["web"]) and told["url"].startswith("http://127.0.0.1"), told


def test_every_key_is_in_the_page_and_comes(make_lab):
    lab = make_lab(cache="16MiB")
    seen = Seen(lab)
    with connection(lab) as handle:
        for number in range(20):
            handle.pwrite(bytes(range(256)) * 64, number * 16 * KIB)
            handle.pread(4 * KIB, 0)
    assert ctl(lab, "alpha", "verify").returncode == 0
    for name in ("alpha", "beta"):
        told = seen.run("status", name, "status", without=("verify", "device", "witness"))
        if told["verify"]:
            seen.take("verify", told["verify"])
        seen.run("latency", name, "latency")
        seen.run("stats", name, "stats")
        seen.run("why, metrics", name, "why")
        seen.run("why, metrics", name, "metrics")
        links = seen.run("status", name, "link", "list")
        assert set(links) == {"links", "version"}
        assert set(seen.run("status", name, "compression")) == {"compression", "version"}
    seen.run("probe", "alpha", "probe")
    seen.run("plan", "alpha", "plan", "--window", "start", "--now", "1Gbit")
    seen.run("status", "alpha", "wait", "--for", "duplex", without=("verify",))
    seen.run("verify", "alpha", "verify")
    assert seen.run("orders", "beta", "promote")["ok"] is False
    seen.run("orders", "alpha", "demote", without=("status",))
    promote(lab, "beta")
    lab.wait_state("beta", "duplex")
    seen.run("orders", "beta", "resync", "auto")
    seen.run("orders", "beta", "grow", "64MiB", without=("status",))
    split_brain(lab)
    assert "--yes" in seen.run("orders", "beta", "resolve", "--keep", "local")["next"]
    seen.run("orders", "beta", "resolve", "--keep", "local", "--yes", without=("status",))
    for action in ("new", "add", "show"):
        made = twinblock(lab, "key", action, "--config", lab.state["config"], "--json")
        seen.take("key", json.loads(made.stdout))
    for line in ctl(lab, "alpha", "events", "--json").stdout.splitlines():
        assert {"event", "number", "time"} <= set(json.loads(line))
    for section, keys in seen.keys.items():
        never = set(seen.page[section]) - keys - SELDOM.get(section, set())
        assert not never, f"{section}: the page has {sorted(never)}, which never came"


@pytest.mark.parametrize("section_and_key", WORDS)
def test_words_for_programs_are_those_that_come(section_and_key):
    path, before, after = WORDS[section_and_key]
    text = (SOURCES / path).read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{path}: '{before}' is not where the words are any more"
    begin = text.index(before)
    said = set(re.findall(r'"([\w-]+)"', text[begin:text.index(after, begin + len(before))]))
    said -= {section_and_key.rpartition(" ")[2].rpartition(".")[2]}  # the key itself
    section, key = section_and_key.split(" ")
    assert sorted(listed(section, key)) == sorted(said)
