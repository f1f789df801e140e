"""Several writers of files on a file system on the attached device, at 1 and at 10 Gbit/s."""

import json
import os
import subprocess
from pathlib import Path
from statistics import median

from .. import filesystems
from ..error import LabError
from . import breakdown, file_writers
from .bench import must_be, say
from .plots import Plot
from .report import Report, table

NAME = "writers"
TITLE = "aggregate throughput of 1 to 6 writers of files, at 1 and 10 Gbit/s"
ROUNDS, SECONDS, SECONDS_QUICK = 3, 4.0, 0.5

COUNTS = [1, 2, 4, 5, 6]
COUNTS_QUICK = [1, 2]
MIXES = {"copy": "file copy", "create": "file creation"}
LINKS = {"1 Gbit/s": "1gbit", "10 Gbit/s": "10gbit"}
SLOW, FAST = LINKS
# A vendor's paper, in MB/s.
PAPER = "85/140 and 95/441 MB/s (1/10 Gbit/s)"


def check():
    if os.geteuid() != 0:
        raise LabError("the experiment 'writers' mounts a file system, which needs root")
    if not os.path.exists("/dev/fuse") and not os.path.exists("/dev/nbd0"):
        raise LabError("attaching a device needs /dev/fuse or /dev/nbd0, and neither is there")


def measure(bench, options):
    size = "192MiB" if options.quick else "512MiB"
    counts = COUNTS_QUICK if options.quick else COUNTS
    labs = {name: bench.lab(rate, size, rate) for name, rate in LINKS.items()}
    mounts = {name: mount(bench, lab, name) for name, lab in labs.items()}
    points = {name: {mix: {str(count): [] for count in counts} for mix in MIXES} for name in labs}
    for number in range(options.rounds):
        for mix in MIXES:
            for count in counts:
                for name in list(labs) if number % 2 == 0 else list(labs)[::-1]:
                    points[name][mix][str(count)].append(
                        one_point(labs[name], mounts[name], mix, count, number, options.seconds))
        say(f"round {number + 1}/{options.rounds} is done")
    return {"counts": counts, "points": points}


def mount(bench, lab, name):
    """A fresh ext4 on the lab's device; where it is mounted."""
    program = Path(lab.state["build"]) / "tools" / "twinblock"
    done = subprocess.run([str(program), "attach", "--socket", lab.node("alpha")["control"], "--json"],
                          capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise LabError(f"the device of {name} can't be attached: {done.stderr.strip()}")
    reply = json.loads(done.stdout)
    directory = bench.dir / f"fs-{LINKS[name]}"
    directory.mkdir()
    held = filesystems.MountedFilesystem(reply.get("result", reply)["device"],
                                         lab.status("alpha")["size_bytes"], directory)
    bench.at_end(held.cleanup)
    try:
        held.start([])
    except filesystems.CommandFailed as error:
        raise LabError(f"no file system on the device of {name}: {error}") from error
    return held.mount


def one_point(lab, place, mix, count, seed, seconds):
    before = breakdown.read(lab)
    try:
        sample = file_writers.run(place, mix, count, seconds, seed)
    except OSError as error:
        raise LabError(f"{count} writers, {MIXES[mix]}: {error}\n{lab.log_tail('alpha')}") from error
    must_be(lab, "duplex")
    sample["breakdown"] = breakdown.between(before, breakdown.read(lab))
    return sample


# --- from here on, everything follows from the figures ---


def rate_mb(figures, name, mix, count):
    return median(sample["bytes"] / sample["took_s"]
                  for sample in figures["points"][name][mix][str(count)]) / 1e6


def report(figures):
    made = Report(
        "Writers: several at a time on one file system",
        "An ext4 on the mirrored device (`twinblock attach`: nbdfuse and a loop device where the "
        "kernel has no nbd), writers as threads of one process. *File copy*: files of 1 to 8 MiB, each "
        "fsynced. *File creation*: directories of 32 files of 4 to 256 KiB, fsynced together. Counted "
        "is what was fsynced on both nodes, for as long as the last writer took.")
    rows = [[MIXES[mix], count] + [f"{rate_mb(figures, name, mix, count):.1f}" for name in (SLOW, FAST)]
            + [f"{rate_mb(figures, FAST, mix, count) / rate_mb(figures, SLOW, mix, count):.2f}x"]
            for mix in MIXES for count in figures["counts"]]
    made.add("Aggregate MB/s", f"The paper's: {PAPER}.\n\n"
             + table(["mix", "writers", SLOW, FAST, "gain"], rows))
    add_breakdowns(made, figures)
    for mix, title in MIXES.items():
        best = {name: max(rate_mb(figures, name, mix, count) for count in figures["counts"])
                for name in (SLOW, FAST)}
        made.conclusions.append(
            f"{title}: at the most {best[SLOW]:.0f} MB/s at 1 Gbit/s and {best[FAST]:.0f} MB/s at 10 "
            f"Gbit/s, {best[FAST] / best[SLOW]:.2f} times as much.")
    made.conclusions.append(f"The paper: {PAPER}.")
    return made


def add_breakdowns(made, figures):
    breakdown.add_table(
        made, ["mix", "writers", "link", "total us"],
        [((MIXES[mix], count, name), breakdown.merged(figures["points"][name][mix][str(count)]))
         for mix in MIXES for count in figures["counts"] for name in (SLOW, FAST)])


def plots(figures):
    def draw(panels):
        for panel, (mix, title) in zip(panels, MIXES.items()):
            for name in (SLOW, FAST):
                panel.plot(figures["counts"], [rate_mb(figures, name, mix, count)
                                               for count in figures["counts"]], marker="o", label=name)
            panel.set_title(title, fontsize=10)
            panel.set_xticks(figures["counts"])
            panel.set_xlabel("writers")
            panel.set_ylabel("MB/s, all together")
            panel.set_ylim(bottom=0)
            panel.grid(True, alpha=0.3)
            panel.legend(fontsize=8)

    return [Plot("", 2, draw)]
