#!/usr/bin/python3
"""Holds manual pages and completions against what they describe: every verb and option that --help
names, every key that the configuration's reader allows, every parameter of the plugin, and none beside. And
that a package has each page which what it installs, or a message, sends its reader to. Prints what is wrong.

usage: documents_check.py SOURCE_DIR BUILD_DIR"""

import re
import shutil
import subprocess
import sys
from pathlib import Path


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def verbs_of(program):
    return re.findall(r"^  ([a-z]+) ", run(program, "--help").lower().split("subcommands:")[1], re.M)


def options_of(program, *verb):
    """The names that stand where --help lists options, read without what makes the pages."""
    heads = re.findall(r"^ {1,4}(-\S+(?:, +-\S+)*)", run(program, *verb, "--help"), re.M)
    return sorted({name for head in heads for name in re.split(r",\s*", head)})


def page_text(path):
    """A page as it is read, without its markup."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"\\f[BIRP]", "", text).replace("\\-", "-").replace("\\&", "")
    return re.sub(r"\\(.)", r"\1", text)


def said_as_a_head(name, text):
    return re.search(rf"^(?:-\S+, )*{re.escape(name)}(?:[, ]|$)", text, re.M) is not None


def section(text, title):
    found = re.search(rf'^\.S[SH] "?{re.escape(title)}"?$(.*?)(?=^\.S[SH]|\Z)', text, re.M | re.S)
    return found[1] if found else None


def programs_are_in_their_pages(build):
    control = build / "tools" / "twinblock"
    text = page_text(build / "packaging" / "twinblock.8")
    common = section(text, "OPTIONS OF EVERY VERB") or ""
    for verb in verbs_of(control):
        own = section(text, verb)
        if own is None:
            yield f"twinblock(8) has no section on the verb {verb}"
            continue
        for name in options_of(control, verb):
            if not said_as_a_head(name, own) and not said_as_a_head(name, common):
                yield f"twinblock(8) does not have {name} of {verb}"
    daemon = page_text(build / "packaging" / "twinblockd.8")
    for name in options_of(build / "daemon" / "twinblockd"):
        if not said_as_a_head(name, daemon):
            yield f"twinblockd(8) does not have {name}"


def keys_are_in_their_pages(source, build):
    """What is named in bold, alone at the beginning of a line, is a key; and nothing else is."""
    del build
    folder = source / "daemon" / "config"
    reader = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.cc")))
    known = {"rate"}  # of kRateKey
    for group in re.findall(r"allow_only\(\{(.*?)\}\)", reader, re.S):
        known.update(re.findall(r'"(\w+)"', group))
    known -= {"node", "link", "replication", "witness", "cache", "copies"}  # tables
    page = (source / "packaging" / "manuals" / "twinblock.toml.5.scd.in").read_text(encoding="utf-8")
    said = {name.replace("\\", "") for name in re.findall(r"^\*([\w\\]+)\*$", page, re.M)}
    yield from (f"twinblock.toml(5) does not have {name}" for name in sorted(known - said))
    yield from (f"twinblock.toml(5) has {name}, which is no key" for name in sorted(said - known))
    plugin = (source / "plugins" / "twinblock" / "plugin.cc").read_text(encoding="utf-8")
    page = (source / "packaging" / "manuals" / "nbdkit-twinblock-plugin.1.scd.in").read_text(encoding="utf-8")
    for name in re.findall(r'strcmp\(key, "(\w+)"\)', plugin):
        if not re.search(rf"^\*{name}=\*", page, re.M):
            yield f"nbdkit-twinblock-plugin(1) does not have {name}="


BASH = """
source "$1"; shift
compopt() { :; }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
"_$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(build, *words):
    return set(run("bash", "-c", BASH, "bash", build / "packaging" / "twinblock.bash", *words).split())


def bash_completes(build):
    control = build / "tools" / "twinblock"
    verbs = verbs_of(control)
    yield from (f"bash: no verb {verb}" for verb in sorted({*verbs, "help"} - completed(build, "twinblock", "")))
    for verb in verbs:
        missing = set(options_of(control, verb)) - completed(build, "twinblock", verb, "-")
        yield from (f"bash: {verb} has no {name}" for name in sorted(missing))
    missing = set(options_of(build / "daemon" / "twinblockd")) - completed(build, "twinblockd", "-")
    yield from (f"bash: twinblockd has no {name}" for name in sorted(missing))
    for words, expected in ((("sta",), {"status", "stats"}), (("help", "prom"), {"promote", "promoter"}),
                            (("link", "en"), {"enable"}), (("wait", "r0", "dup"), {"duplex"}),
                            (("resolve", "--keep", ""), {"local", "peer"}),
                            (("resync", "r0", "pau"), {"pause"}), (("compression", "au"), {"auto"})):
        found = completed(build, "twinblock", *words)
        if found != expected:
            yield f"bash: '{' '.join(words)}' becomes {sorted(found)}, not {sorted(expected)}"


def other_shells_complete(build):
    """Each shell reads its file without an error, where it is installed; the options are there anyway."""
    control = build / "tools" / "twinblock"
    for shell in ("bash", "zsh", "fish"):
        path = build / "packaging" / f"twinblock.{shell}"
        if shutil.which(shell):
            done = subprocess.run([shell, "-n", path], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                yield f"{shell} can't read its completion: {done.stderr.strip()}"
        lines = path.read_text(encoding="utf-8").splitlines()
        for verb in verbs_of(control) if shell != "bash" else ():
            own = "\n".join(line for line in lines if f"_from {verb}'" in line or line.startswith(f"  {verb}) "))
            for name in options_of(control, verb):
                long = name.startswith("--")
                said = f"-{'l' if long else 's'} {name.lstrip('-')} " if shell == "fish" else f"'{name}["
                if said not in own:
                    yield f"{shell}: {verb} has no {name}"


def installed_texts(source, build):
    """What the build's rules of installation take from these sources, and from what was made of them for readers."""
    rules = (build / "packaging" / "cmake_install.cmake").read_text(encoding="utf-8")
    for name in sorted(set(re.findall(r'"(/[^"]+)"', rules))):
        path = Path(name)
        if path.is_file() and (path.is_relative_to(source / "docs") or path.is_relative_to(source / "packaging") or
                               path.is_relative_to(build / "packaging")):
            yield path


def named_pages_are_installed(source, build):
    texts = list(installed_texts(source, build))
    pages = {path.name for path in texts if path.suffix == ".md"}
    if not pages:
        yield "no page is installed, or it is not known any more how"
    for path in texts:
        for name in sorted(set(re.findall(r"[\w-]+\.md\b", page_text(path))) - pages - {"NAME.md"}):
            yield f"{path.name} names {name}, which is not installed"
    for path in sorted([*(source / "tools").rglob("*.cc"), *(source / "daemon").rglob("*.cc")]):
        text = path.read_text(encoding="utf-8")
        for name in sorted(set(re.findall(r"/usr/share/doc/twinblock/([\w-]+\.md)", text)) - pages):
            yield f"{path.relative_to(source)} names {name}, which is not installed"


def main():
    source, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    wrong = [*programs_are_in_their_pages(build), *keys_are_in_their_pages(source, build),
             *bash_completes(build), *other_shells_complete(build), *named_pages_are_installed(source, build)]
    print("\n".join(wrong) if wrong else "the documents say what there is")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
