#!/usr/bin/python3
"""Makes manual pages and completions of what the programs say of themselves with --help, so that no
verb or option has to be written down twice.

usage: from_help.py manual TEMPLATE PROGRAM        scdoc's source: @VERBS@ and @OPTIONS@ filled in
       from_help.py bash|zsh|fish TWINBLOCK TWINBLOCKD"""

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

VOLUMES = "/etc/twinblock/*.toml"


@dataclass
class Option:
    names: list  # ["-f", "--follow"]; of a positional its name
    value: str = ""  # "TEXT", "([VOLUME] [GOAL])"; empty: a flag
    choices: list = field(default_factory=list)
    text: str = ""

    @property
    def takes_file(self):
        name = self.names[0]
        is_flag = name.startswith("-") and not self.value  # `verify --stop` takes nothing, `promoter --stop` a program
        return not is_flag and name in ("--config", "--socket", "--nbdkit", "--start", "--stop", "--from", "CONFIG")


@dataclass
class Help:
    summary: str = ""
    options: list = field(default_factory=list)
    positionals: list = field(default_factory=list)
    verbs: dict = field(default_factory=dict)  # name -> summary
    footer: list = field(default_factory=list)

    def words(self):
        """What may be typed where the positionals stand, beside a volume."""
        found = []
        for each in self.positionals:
            found += re.findall(r"(?<![\w=])[a-z]+\b", each.value)
            if "[GOAL]" in each.value:
                found += next(o.choices for o in self.options if "--for" in o.names)
        return found

    def takes_volume(self):
        return any("VOLUME" in (each.names[0] + each.value) for each in self.positionals)


def read_option(head, text):
    """A line like "--method TEXT:{auto,nbd-client} REQUIRED", split into its parts."""
    names, _, value = re.sub(r",\s+", ",", head).partition(" ")
    choices = re.search(r"\{(.*?)\}", value)
    value = re.sub(r"\s*REQUIRED\b|:\{.*?\}|:INT in ", " ", value).strip()
    value = re.sub(r"\s+", " ", value.replace(" ...", "..."))
    return Option(names.split(","), value, choices[1].split(",") if choices else [], text)


def parse(text):
    found = Help()
    section = "summary"
    last = None
    for line in text.splitlines():
        title = re.fullmatch(r"(Positionals|Options|Subcommands):", line.strip().capitalize())
        if title and not line.startswith(" "):
            section = title[1]
        elif line.startswith("Usage:"):
            section = "usage"
        elif section in ("summary", "footer"):
            if section == "footer":
                found.footer.append(line)
            elif line.strip():
                found.summary += (" " if found.summary else "") + line.strip()
        elif line.strip() and not line.startswith(" "):
            section = "footer"
            found.footer.append(line)
        elif line.strip() and section != "usage":
            last = read_line(found, section, line, last)
    return found


def read_line(found, section, line, last):
    if len(line) - len(line.lstrip()) > 8 and last is not None:  # the text of a long head
        last.text = (last.text + " " + line.strip()).strip()
        return last
    # Two blanks end the head, or the bracket of a range that has left no room for them.
    head, text = (re.split(r"\s{2,}|(?<=\d\]) ", re.sub(r",\s+-", ",-", line.strip()), maxsplit=1) + [""])[:2]
    if section == "Subcommands":
        found.verbs[head] = text
        return None
    option = read_option(head, text)
    (found.positionals if section == "Positionals" else found.options).append(option)
    return option


def help_of(program, *verb):
    done = subprocess.run([program, *verb, "--help"], capture_output=True, text=True, check=True)
    return parse(done.stdout)


# --- manual pages ---


def escaped(text):
    return re.sub(r"([\\_*<>#\[\]~`.])", r"\\\1", text)


def manual_options(options):
    for option in options:
        head = ", ".join(f"*{escaped(name)}*" for name in option.names)
        value = "|".join(option.choices) or option.value
        yield head + (f" _{escaped(value)}_" if value else "")
        yield f"\t{escaped(option.text)}"
        yield ""


def key(options):
    return [each.names for each in options]


def manual_verbs(program, own):
    helps = {name: help_of(program, name) for name in own.verbs}
    common = [each for each in next(iter(helps.values())).options
              if all(each.names in key(other.options) for other in helps.values())]
    for name, verb in helps.items():
        places = " ".join(escaped(each.value if each.value.startswith("(") else f"[{each.names[0]}]")
                          for each in verb.positionals)
        yield f"## {name}"
        yield ""
        yield f"*twinblock {name}* \\[_options_\\] {places}"
        yield ""
        paragraph = []
        for line in verb.footer:
            if line.startswith("Example:"):
                yield from (escaped(" ".join(paragraph)), "") if paragraph else ()
                paragraph = []
                yield f"Example: *{escaped(line.removeprefix('Example: '))}*"
                yield ""
            elif line.strip():
                paragraph.append(line.strip())
        if paragraph:
            yield escaped(" ".join(paragraph))
            yield ""
        yield from manual_options(each for each in verb.options if each.names not in key(common))
    yield "# OPTIONS OF EVERY VERB"
    yield ""
    yield from manual_options(common)


def manual(template, program):
    own = help_of(program)
    for line in Path(template).read_text(encoding="utf-8").splitlines():
        if line == "@VERBS@":
            yield from manual_verbs(program, own)
        elif line == "@OPTIONS@":
            yield from manual_options(own.options)
        else:
            yield line


# --- completions ---


def bash_case(name, own):
    """The branch of one verb: values of the option before the cursor, else its options and words."""
    yield f"  {name})"
    yield "    case $before in"
    for option in own.options:
        if option.takes_file:
            yield f"      {'|'.join(option.names)}) _twinblock_files; return ;;"
        elif option.choices:
            yield f"      {'|'.join(option.names)}) _twinblock_words '{' '.join(option.choices)}'; return ;;"
        elif option.value and option.names[0] != "--watch":
            yield f"      {'|'.join(option.names)}) return ;;"
    yield "    esac"
    names = " ".join(name for option in own.options for name in option.names)
    words = " ".join(own.words())
    yield f"    if [[ $word == -* ]]; then _twinblock_words '{names}'"
    if any(each.takes_file for each in own.positionals):
        yield "    else _twinblock_files; fi ;;"
    elif own.takes_volume():
        yield f"    else _twinblock_words \"{words} $(_twinblock_volumes)\"; fi ;;"
    else:
        yield f"    else _twinblock_words '{words}'; fi ;;"


BASH = r"""# Completion of twinblock and twinblockd for bash; made by packaging/from_help.py.
_twinblock_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$word"); }
_twinblock_files() { compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$word"); }
_twinblock_volumes() {
  local file
  for file in %s; do [[ ! -e $file ]] || basename "$file" .toml; done
}""" % VOLUMES


def bash(own, daemon, verbs):
    yield BASH
    yield "_twinblock() {"
    yield "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}"
    names = " ".join(name for option in own.options for name in option.names)
    yield f"  local verbs='{' '.join(own.verbs)} help'"
    yield "  COMPREPLY=()"
    yield "  if ((COMP_CWORD == 1)); then"
    yield f"    if [[ $word == -* ]]; then _twinblock_words '{names}'; else _twinblock_words \"$verbs\"; fi"
    yield "    return"
    yield "  fi"
    yield "  case ${COMP_WORDS[1]} in"
    for name, verb in verbs.items():
        yield from bash_case(name, verb)
    yield "  help) if ((COMP_CWORD == 2)); then _twinblock_words \"$verbs\"; fi ;;"
    yield "  esac"
    yield "}"
    yield "_twinblockd() {"
    yield "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}"
    yield "  COMPREPLY=()"
    yield "  case twinblockd in"
    yield from bash_case("*", daemon)
    yield "  esac"
    yield "}"
    yield "complete -F _twinblock twinblock"
    yield "complete -F _twinblockd twinblockd"


def zsh_text(text):
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


def zsh_arguments(own):
    specs = []
    for option in own.options:
        for name in option.names:
            value = ""
            if option.takes_file:
                value = ":file:_files"
            elif option.choices:
                value = f":value:({' '.join(option.choices)})"
            elif option.value:
                value = (":" if option.names[0] == "--watch" else "") + ":value:"
            specs.append(f"'{name}[{zsh_text(option.text)}]{value}'")
    if any(each.takes_file for each in own.positionals):
        specs.append("'*:file:_files'")
    elif own.positionals:
        specs.append(f"'*:word:_twinblock_places {' '.join(own.words())}'")
    return "_arguments " + " ".join(specs)


def zsh(own, daemon, verbs):
    yield "#compdef twinblock twinblockd"
    yield "# Completion of twinblock and twinblockd for zsh; made by packaging/from_help.py."
    yield f"_twinblock_places() {{ compadd -- \"$@\" {VOLUMES}(N:t:r) }}"
    yield f"if [[ $service == twinblockd ]]; then {zsh_arguments(daemon)}; return; fi"
    yield "if ((CURRENT == 2)); then"
    yield "  local -a verbs=(" + " ".join(f"'{n}:{zsh_text(t)}'" for n, t in own.verbs.items())
    yield "    'help:explain a verb')"
    yield "  if [[ $PREFIX == -* ]]; then compadd -- " + " ".join(
        name for option in own.options for name in option.names)
    yield "  else _describe verb verbs; fi"
    yield "  return"
    yield "fi"
    yield "local verb=$words[2]"
    yield "shift words; ((CURRENT--))"
    yield "case $verb in"
    for name, verb in verbs.items():
        yield f"  {name}) {zsh_arguments(verb)} ;;"
    yield f"  help) compadd -- {' '.join(own.verbs)} ;;"
    yield "esac"


def fish_text(text):
    return text.replace("\\", "\\\\").replace("'", "\\'")


def fish_options(condition, own, program="twinblock"):
    for option in own.options:
        names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
        value = ""
        if option.takes_file:
            value = " -r -F"
        elif option.choices:
            value = f" -x -a '{' '.join(option.choices)}'"
        elif option.value and option.names[0] != "--watch":
            value = " -x"
        yield f"complete -c {program}{condition} {names}{value} -d '{fish_text(option.text)}'"


def fish(own, daemon, verbs):
    yield "# Completion of twinblock and twinblockd for fish; made by packaging/from_help.py."
    yield "complete -c twinblock -f"
    for name, text in {**own.verbs, "help": "explain a verb"}.items():
        yield f"complete -c twinblock -n __fish_use_subcommand -a {name} -d '{fish_text(text)}'"
    yield from fish_options(" -n __fish_use_subcommand", own)
    for name, verb in verbs.items():
        condition = f" -n '__fish_seen_subcommand_from {name}'"
        yield from fish_options(condition, verb)
        if verb.positionals:
            volumes = f"(string replace -r \".*/(.*).toml\" \"\\$1\" {VOLUMES})" if verb.takes_volume() else ""
            yield f"complete -c twinblock{condition} -a '{' '.join(verb.words())} {volumes}'"
    yield f"complete -c twinblock -n '__fish_seen_subcommand_from help' -a '{' '.join(own.verbs)}'"
    yield from fish_options("", daemon, "twinblockd")


def main(argv):
    if len(argv) != 4 or argv[1] not in ("manual", "bash", "zsh", "fish"):
        print(__doc__, file=sys.stderr)
        return 2
    if argv[1] == "manual":
        lines = manual(argv[2], argv[3])
    else:
        own = help_of(argv[2])
        verbs = {name: help_of(argv[2], name) for name in own.verbs}
        lines = {"bash": bash, "zsh": zsh, "fish": fish}[argv[1]](own, help_of(argv[3]), verbs)
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
