"""Many machines that boot at once from clones of one system, with a cache that keeps equal blocks once, and without."""

import os
from statistics import median

from ..error import LabError
from . import boot_cases, boot_machines, boot_trace, held_disk
from .bench import say
from .boot_cases import BASE, CASES, LEARNED, PHASES, REMOTE, REMOTE_WARM, RESTARTED, WARM, titled
from .boot_clones import Clones
from .plots import Plot, grouped_bars
from .report import Report, bar, table

NAME = "boot-storm"
TITLE = "machines that boot at once from clones of one system, with a cache of blocks and without"
ROUNDS, SECONDS, SECONDS_QUICK = 1, 0, 0  # a storm lasts as long as it lasts

READERS, READERS_QUICK, READERS_MAX = 32, 4, 200
READS_QUICK = 400
CHANGED_PERCENT = 5.0
ROOM_BYTES = 1 << 30  # beside the images
# 200 machines, as published: cold without knowing equal blocks; warm with it and with the larger cache.
PAPER = {"machines": 200, "cold_s": 15 * 60 + 9, "warm_s": 4 * 60 + 27}
# The case and the phase that are held against the same phase without a cache, and how much of its time it may take.
BARS = [("twice", LEARNED, 0.6), ("twice", WARM, 0.3), ("twice", REMOTE, 0.4)]
READERS_SHARE_MAX = 0.5  # of a case's time; more, and it is they who are measured


def add_arguments(parser):
    group = parser.add_argument_group(NAME)
    group.add_argument("--readers", type=int, metavar="N", help=f"machines that boot (default {READERS})")
    group.add_argument("--cases", metavar="CASE[,CASE…]", help="of " + ", ".join(case.name for case in CASES)
                       + "; without caches: no-cache (default: all)")
    group.add_argument("--changed", type=float, metavar="PERCENT", default=CHANGED_PERCENT,
                       help=f"of the blocks are each clone's own (default {CHANGED_PERCENT:g})")
    group.add_argument("--trace", metavar="FILE", help="another recorded boot than the one that comes with twinblock")
    group.add_argument("--record", metavar="FILE", help="record a boot into FILE, as --trace takes it, and measure "
                       "nothing (root, QEMU, mmdebstrap; some ten minutes)")


def check_options(options):
    if options.readers is not None and not 1 <= options.readers <= READERS_MAX:
        raise LabError(f"--readers {options.readers}? 1 to {READERS_MAX}")
    if not 0 <= options.changed <= 100:
        raise LabError(f"--changed {options.changed:g}? 0 to 100")
    chosen(options)


def chosen(options):
    """The cases, in their order."""
    if not options.cases:
        return CASES
    names = options.cases.split(",")
    unknown = [name for name in names if name not in [case.name for case in CASES]]
    if unknown:
        raise LabError(f"no case '{unknown[0]}'; they are {', '.join(case.name for case in CASES)}")
    return [case for case in CASES if case.name in names]


def check():
    try:
        import nbd  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
    except ImportError as error:
        raise LabError("the readers need libnbd for Python (Debian: apt install python3-libnbd)") from error


def measure(bench, options):
    cases = chosen(options)
    trace = boot_trace.load(options.trace or boot_trace.RECORDED)
    if options.quick:
        trace = trace.first(READS_QUICK)
    count = options.readers or (READERS_QUICK if options.quick else READERS)
    clones = {distinct: Clones(trace, count, options.changed, distinct) for distinct in (False, True)}
    check_machine(clones[False])
    if any(case.cache for case in cases):
        boot_cases.check_support(bench)
    of_one = len(trace.blocks) * boot_trace.BLOCK
    figures = {"readers": count, "changed_percent": options.changed, "reads": len(trace.reads),
               "read_bytes": trace.bytes, "blocks_bytes": of_one,
               "equal_within_bytes": of_one - len(trace.unique()) * boot_trace.BLOCK,
               "working_set_bytes": clones[False].working_set_bytes(), "unique_bytes": clones[False].unique_bytes(),
               "disk": {"bytes_per_s": boot_cases.RATE_BYTES, "delay_us": boot_cases.DELAY_US},
               "link": boot_cases.LINK, "cases": [case.name for case in cases],
               "cache_bytes": {case.name: boot_cases.cache_bytes(case, clones[False]) for case in cases},
               "points": {case.name: {} for case in cases}}
    say(sizes_sentence(figures))
    figures["readers_alone_s"] = readers_alone(bench, clones[False])
    say(f"the readers alone, from nbdkit's memory: {figures['readers_alone_s']:.2f} s")
    for number in range(options.rounds):
        for case in cases:
            found = boot_cases.measure(bench, case, clones[case.distinct], figures["cache_bytes"][case.name])
            for phase, sample in found.items():
                figures["points"][case.name].setdefault(phase, []).append(sample)
        say(f"round {number + 1}/{options.rounds} is done")
    return figures


def check_machine(clones):
    """Images of both nodes, and a cache of twice the unique working set, in memory, which does direct I/O."""
    held_disk.check(2 * clones.working_set_bytes() + 2 * clones.unique_bytes() + ROOM_BYTES)
    trial = held_disk.MEMORY / f"tb-direct-{os.getpid()}"
    trial.touch()
    try:
        os.close(os.open(trial, os.O_RDONLY | os.O_DIRECT))
    except OSError as error:
        raise LabError(f"{held_disk.MEMORY} takes no direct I/O on this kernel (Linux 6.6 and later do), without "
                       "which the page cache would answer") from error
    finally:
        trial.unlink()


def readers_alone(bench, clones):
    """How long they take where nothing is slow: what they themselves cost on this machine."""
    sock = bench.dir / "memory.sock"
    server = bench.spawn(["nbdkit", "-f", "--threads", 32, "--unix", sock, "memory", clones.size], "memory")
    bench.first_answer(sock, "memory")
    took = boot_machines.boot(bench, clones, f"nbd+unix:///?socket={sock}", check=False)[-1]
    server.stop(10)
    return took


# --- from here on, everything follows from the figures ---


def mib(count):
    return f"{count / (1 << 20):.0f} MiB" if count >= 10 << 20 else f"{count / (1 << 20):.1f} MiB"


def clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def sizes_sentence(figures):
    return (f"{figures['readers']} clones, of whose blocks {figures['changed_percent']:g}% are each one's own: each boot "
            f"sends {figures['reads']} reads, {mib(figures['read_bytes'])}, of {mib(figures['blocks_bytes'])} of blocks "
            f"({mib(figures['equal_within_bytes'])} of them equal others of the same system). That is "
            f"{mib(figures['working_set_bytes'])} together, and {mib(figures['unique_bytes'])} where equal blocks count "
            "once, the unique working set.")


def took(figures, case, phase):
    """The median over the rounds; None where it was not measured."""
    samples = figures["points"].get(case, {}).get(phase)
    return median(sample["took_s"] for sample in samples) if samples else None


def of_base(figures, case, phase):
    """As a share of what the same takes without a cache, round by round. After a restart that is nothing but cold."""
    mine = figures["points"].get(case, {}).get(phase)
    base = figures["points"].get(BASE, {}).get(LEARNED if phase == RESTARTED else phase)
    if not mine or not base:
        return None
    return median(one["took_s"] / other["took_s"] for one, other in zip(mine, base))


def served(sample, phase):
    """What came from a disk, in bytes."""
    return sample["beta" if phase in (REMOTE, REMOTE_WARM) else "alpha"]


def report(figures):
    disk = figures["disk"]
    made = Report(
        "Boot storm: machines that boot at once from clones of one system",
        f"{sizes_sentence(figures)} The reads are those of a real boot, recorded once (`boot.trace` says how); each "
        "machine is a process that sends them to its clone over NBD, each read as soon as no more others are under way "
        "than were in the recording, and checks what it gets. Nobody computes anything in between: a real machine that "
        f"boots also does. Each node's disk is held: {disk['bytes_per_s'] / 1e6:.0f} MB/s, {disk['delay_us'] / 1000:g} ms "
        "a request, for direct reads too; the nodes use direct I/O, so that no page cache answers. *Cold*: the clones were "
        "just written through the device, and nothing was read since. *Warm*: the same once more. *Cold, restarted*: both "
        "nodes were, so that nothing is known of any block. *No disk*: the disk of the node that serves the machines failed "
        "before the clones were written through it once more; it reads from its peer over "
        f"{figures['link']}. *Nothing equal*: "
        "the same clones as if each were encrypted with a key of its own, with caches of the same bytes: what is lost "
        "there is what knowing equal blocks gains.")
    made.add("Until the last machine is up", "In s; in brackets, of the same without a cache (*cold, restarted*: of "
             "its *cold*).\n\n" + table(["cache", "its size", *PHASES], [time_row(figures, name)
                                                                         for name in figures["cases"]]))
    made.add("As it was published", paper_table(figures))
    made.add("Each storm", "*From disk*: what the held disk was read, the peer's where the node has none; *not from "
             "disk*: the share of what the machines read that no disk was asked for.\n\n" + table(
                 ["cache", "phase", "last s", "median s", "MB/s to the machines", "MB/s from disk", "reads of the disk",
                  "not from disk", "MB in by the link"], storm_rows(figures)))
    add_counters(made, figures)
    for name, phase, limit in BARS:
        if (share := of_base(figures, name, phase)) is not None:
            made.bars.append(bar(f"{phase}, cache of {titled(name)}, of the time without a cache", share, limit,
                                 at_least=False, unit="x"))
    conclude(made, figures)
    return made


def time_row(figures, name):
    size = figures["cache_bytes"][name]
    cells = []
    for phase in PHASES:
        value, share = took(figures, name, phase), of_base(figures, name, phase)
        cells.append("–" if value is None else f"{value:.1f}" if name == BASE or share is None else
                     f"{value:.1f} ({share:.2f}x)")
    return [titled(name), mib(size) if size else "–", *cells]


def storm_rows(figures):
    rows = []
    for name in figures["cases"]:
        for phase in PHASES:
            for sample in figures["points"][name].get(phase, []):
                from_disk, seconds = served(sample, phase), sample["took_s"]
                rows.append([titled(name), phase, f"{seconds:.2f}", f"{median(sample['reader_s']):.2f}",
                             f"{sample['bytes'] / seconds / 1e6:.0f}", f"{from_disk / seconds / 1e6:.0f}",
                             sample["beta_reads" if phase in (REMOTE, REMOTE_WARM) else "alpha_reads"],
                             f"{max(0.0, 1 - from_disk / sample['bytes']) * 100:.1f}%", f"{sample['link'] / 1e6:.1f}"])
    return rows


def add_counters(made, figures):
    """What the nodes count themselves, by whatever names."""
    rows = [(titled(name), phase, sample["cache"]) for name in figures["cases"] for phase in PHASES
            for sample in figures["points"][name].get(phase, []) if sample["cache"]]
    if rows:
        keys = sorted({key for *_, counters in rows for key, value in counters.items() if value})
        made.add("What the node says of its cache", "How far each of its figures rose in the storm.\n\n" + table(
            ["cache", "phase", *keys], [[title, phase, *(f"{counters.get(key, 0):g}" for key in keys)]
                                        for title, phase, counters in rows]))


def paper_table(figures):
    cold, warm = PAPER["cold_s"], PAPER["warm_s"]
    ours = {"cold, without a cache": took(figures, BASE, LEARNED),
            "warm, equal blocks kept once, the larger cache": took(figures, "twice", WARM)}
    first = ours["cold, without a cache"]
    rows = []
    for (what, mine), published in zip(ours.items(), (cold, warm)):
        rows.append([what, f"{clock(published)} ({published / cold:.2f}x)", "not measured" if mine is None else
                     f"{mine:.1f} s" + (f" ({mine / first:.2f}x)" if first else "")])
    return (f"{PAPER['machines']} machines that boot, which also compute, on hardware of their own: compare the ratios, "
            "and these with care.\n\n" + table(["", "published", f"here, {figures['readers']} machines"], rows))


def conclude(made, figures):
    base = took(figures, BASE, LEARNED)
    if base is not None:
        sample = figures["points"][BASE][LEARNED][0]
        made.conclusions.append(
            f"Without a cache, {figures['readers']} machines are up after {base:.1f} s, in which the disk gives "
            f"{served(sample, LEARNED) / sample['took_s'] / 1e6:.0f} MB/s of its "
            f"{figures['disk']['bytes_per_s'] / 1e6:.0f}.")
    if (remote := took(figures, BASE, REMOTE)) is not None:
        made.conclusions.append(f"Without a cache and without a disk of the node's own, they are after {remote:.1f} s, "
                                f"over a link of {figures['link']}.")
    for name in figures["cases"]:
        shares = {phase: share for phase in PHASES if (share := of_base(figures, name, phase)) is not None}
        if name != BASE and shares:
            made.conclusions.append(f"A cache of {mib(figures['cache_bytes'][name])} ({titled(name)}) takes, of the time "
                                    "without one: " + ", ".join(f"{share:.2f}x {phase}"
                                                                for phase, share in shares.items()) + ".")
    fastest = min((sample["took_s"], name, phase) for name, phases in figures["points"].items()
                  for phase, samples in phases.items() for sample in samples)
    alone = figures["readers_alone_s"]
    made.conclusions.append(
        f"The readers alone, from a server that has everything in memory, take {alone:.2f} s; the fastest storm "
        f"({titled(fastest[1])}, {fastest[2]}) took {fastest[0]:.2f} s. "
        + ("The readers are not what it waited for." if alone <= READERS_SHARE_MAX * fastest[0] else
           "**That one is limited by the readers and this machine's processors, more than by what is measured.**"))


def plots(figures):
    def draw(panels):
        for panel, phases, title in zip(panels, ([LEARNED, WARM, RESTARTED], [REMOTE, REMOTE_WARM]),
                                        ("from the node's disk", f"from the peer, over {figures['link']}")):
            grouped_bars(panel, phases, {titled(name): [took(figures, name, phase) for phase in phases]
                                         for name in figures["cases"]}, "s until the last machine is up")
            panel.set_title(title, fontsize=10)

    def draw_readers(panels):
        for panel, phase in zip(panels, (LEARNED, REMOTE)):
            for name in figures["cases"]:
                done = figures["points"][name][phase][-1]["reader_s"]
                panel.step(done, range(1, len(done) + 1), where="post", label=titled(name))
            panel.set_title(phase, fontsize=10)
            panel.set_xlabel("s")
            panel.set_ylabel("machines that are up")
            panel.set_xlim(left=0)
            panel.grid(True, alpha=0.3)
            panel.legend(fontsize=8)

    return [Plot("", 2, draw), Plot("machines", 2, draw_readers)]
