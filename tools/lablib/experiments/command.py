"""`tools/lab experiment`: which ones there are, and the running of one."""

import json
import os
import shutil
from datetime import datetime, timezone
from pathlib import Path

from .. import network
from ..error import LabError
from ..called import BUILD
from ..lab import default_build
from . import (boot_record, boot_storm, compression, encryption, link_speed, machine, overhead, plan, plots,
               resync_speed, writers)
from .bench import benches, say

EXPERIMENTS = {module.NAME: module for module in (link_speed, writers, overhead, compression, encryption,
                                                resync_speed, plan, boot_storm)}
ALL = "all"
LOAD_QUIET = 0.7  # the load average of the minute before; more, and others had work to do
# Where each is from, for those that are missing.
PROGRAMS = {"fio": "fio", "iperf3": "iperf3", "nbdkit": "nbdkit", "nbdfuse": "libnbd-bin"}


def add_arguments(parser):
    parser.add_argument("name", nargs="?", choices=[*EXPERIMENTS, ALL], metavar="NAME",
                        help=f"{', '.join(EXPERIMENTS)}, or {ALL}")
    parser.add_argument("--list", action="store_true", help="what each of them shows")
    parser.add_argument("--out", metavar="DIR", help="where NAME.json, NAME.md and the plots go "
                        f"(default ./experiments/NAME; with {ALL}: folders below DIR)")
    parser.add_argument("--rounds", type=int, metavar="N", help="medians are over these")
    parser.add_argument("--seconds", type=float, metavar="S", help="of each point")
    parser.add_argument("--quick", action="store_true",
                        help="coarser and shorter: shows that it works, not what is true")
    parser.add_argument("--scratch", metavar="DIR", default="/var/tmp",
                        help="where the images of the labs go (default /var/tmp)")
    parser.add_argument("--build", metavar="DIR",
                        help="build tree (default $TWINBLOCK_BUILD, else build/release)")
    parser.add_argument("--json", action="store_true", help="print what NAME.json holds, not where NAME.md is")
    boot_storm.add_arguments(parser)


def run(options):
    if options.list:
        width = max(map(len, EXPERIMENTS))
        for name, module in EXPERIMENTS.items():
            print(f"{name:{width}}  {module.TITLE}")
        return 0
    if options.name is None:
        raise LabError(f"which experiment? One of {', '.join(EXPERIMENTS)}, or {ALL}; --list says "
                       "what they show")
    if options.record:
        return record(options)
    check(options)
    names = list(EXPERIMENTS) if options.name == ALL else [options.name]
    for name in names:  # what one lacks is known before another has taken minutes
        if hasattr(EXPERIMENTS[name], "check"):
            EXPERIMENTS[name].check()
    for name in names:
        run_one(EXPERIMENTS[name], out_directory(options, name), options)
    return 0


def record(options):
    """A boot, for boot-storm."""
    if options.name != boot_storm.NAME:
        raise LabError(f"--record is of the experiment {boot_storm.NAME}")
    boot_record.check()
    with benches(options.scratch, options.build) as bench:
        boot_record.record(bench, options.record)
    return 0


def out_directory(options, name):
    parent = Path(options.out) if options.out else Path("experiments") / name
    return parent / name if options.out and options.name == ALL else parent


def check(options):
    """All that can be known before minutes of measuring."""
    plots.need_matplotlib()
    if options.rounds is not None and options.rounds < 1:
        raise LabError(f"--rounds {options.rounds}? At least 1")
    if options.seconds is not None and not 0.1 <= options.seconds <= 3600:
        raise LabError(f"--seconds {options.seconds:g}? 0.1 to 3600")
    boot_storm.check_options(options)
    reason = network.unavailable()
    if reason:
        raise LabError(reason)
    for program, package in PROGRAMS.items():
        if not shutil.which(program):
            raise LabError(f"{program} is not installed (Debian: apt install {package})")
    if not (Path(options.build or default_build()) / "daemon" / "twinblockd").exists():
        raise LabError(f"{options.build or default_build()} holds no twinblockd; {BUILD}")
    if not os.path.isdir(options.scratch):
        raise LabError(f"--scratch {options.scratch} is no directory")


def settle(module, options):
    """The experiment's own rounds and seconds, where none were asked for."""
    settled = type(options)(**vars(options))
    settled.rounds = options.rounds or (1 if options.quick else module.ROUNDS)
    settled.seconds = options.seconds or (module.SECONDS_QUICK if options.quick else module.SECONDS)
    return settled


def repetitions(rounds, seconds):
    return f"{rounds} round{'s' if rounds != 1 else ''}, " + (
        f"{seconds:g} s a point" if seconds else "each point as long as it takes")


def run_one(module, out, options):
    options = settle(module, options)
    out.mkdir(parents=True, exist_ok=True)
    say(f"{module.NAME}: {module.TITLE}; {repetitions(options.rounds, options.seconds)}")
    began = datetime.now(timezone.utc)
    load = os.getloadavg()[0]
    with benches(options.scratch, options.build) as bench:
        figures = module.measure(bench, options)
    write(module, out, figures, {
        "experiment": module.NAME, "title": module.TITLE, "machine": machine.describe(),
        "date": began.isoformat(timespec="seconds"),
        "took_s": round((datetime.now(timezone.utc) - began).total_seconds(), 1),
        "load_before": round(load, 2), "rounds": options.rounds, "seconds": options.seconds, "quick": options.quick},
        options.json)


def write(module, out, figures, head, print_json=False):
    """The three kinds of file, from the figures alone; on standard output where the report is, or all of it."""
    report = module.report(figures)
    pictures = []
    for plot in module.plots(figures):
        pictures.append(f"{module.NAME}{'-' + plot.suffix if plot.suffix else ''}.png")
        plot.save(out / pictures[-1])
    facts = [f"Machine: {machine.sentence(head['machine'])}",
             f"{head['date']}, {head['took_s']:g} s; {repetitions(head['rounds'], head['seconds'])}; "
             "medians over the rounds unless it says otherwise"]
    if head["load_before"] > LOAD_QUIET:
        facts.append(f"**The machine was not quiet when it began (load average "
                     f"{head['load_before']:g}): others' work is in these figures.**")
    if head["quick"]:
        facts.append("**Measured with --quick: it shows that the experiment works. Its figures are "
                     "too few to conclude from.**")
    found = json.dumps({**head, "bars": report.bars, "conclusions": report.conclusions, "figures": figures}, indent=1)
    (out / f"{module.NAME}.json").write_text(found + "\n", encoding="utf-8")
    (out / f"{module.NAME}.md").write_text(report.markdown(facts, pictures), encoding="utf-8")
    missed = [each["what"] for each in report.bars if not each["reached"]]
    for each in report.conclusions:
        say(f"  {each}")
    for what in missed:
        say(f"  bar MISSED: {what}")
    print(found if print_json else out / f"{module.NAME}.md")
