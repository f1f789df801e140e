"""What mirroring costs where the disk is the limit: random write-through writes, mirrored and not."""

import subprocess
import time
from statistics import median

from ..error import LabError
from ..fio import run_fio
from ..lab import parse_size
from ..round_trip import round_trip_us
from . import bare_mirror, breakdown, held_disk
from .bench import in_turn, must_be, say
from .plots import Plot, grouped_bars
from .report import Report, bar, middle, size_text, table

NAME = "overhead"
TITLE = "mirrored against not mirrored, random write-through on a disk of 240 MB/s and 2 ms"
ROUNDS, SECONDS, SECONDS_QUICK = 5, 3.0, 0.5

SIZES = [4 << 10, 8 << 10, 64 << 10]
WRITERS, DEPTH = 8, 3
RATE_BYTES, DELAY_US = 240_000_000, 2000
LINK = "10gbit"
DISK = (RATE_BYTES, DELAY_US)
# Where the intent map is, on a disk of its own or (None) the data's; the peer's disk (None: memory); backing_io.
CASES = {"map on the same disk": (None, DISK),
         "map on a slower disk": ((60_000_000, 10_000), DISK),
         "map on a faster disk": ((1_000_000_000, 200), DISK),
         "same disk, quick peer": (None, None),
         "direct, map on the same disk": (None, DISK, "direct")}
# For scale: what a simple copy costs that keeps no promises; the peer's disk.
BARE = {"bare copy": DISK, "bare copy, quick peer": None}
CASES_QUICK, BARE_QUICK = [next(iter(CASES)), list(CASES)[-1]], list(BARE)[:1]
BASE = "not mirrored"
BAR_PERCENT = 2.0
# A vendor's published table, 4, 8 and 64 KiB: overhead in MB/s and in average latency, per cent.
VENDOR = {4 << 10: (21.84, 21.88), 8 << 10: (39.18, 39.21), 64 << 10: (0.00, -0.02)}
FUA = ("--filter=fua", "fuamode=force")  # every write is write-through, whatever the client asks for


SIZE, SIZE_QUICK = "256MiB", "64MiB"


def check():
    images = 1 + 2 * (len(CASES) + len(BARE))
    held_disk.check(images * parse_size(SIZE) + (256 << 20))


def measure(bench, options):
    size = SIZE_QUICK if options.quick else SIZE
    preload = held_disk.library(bench)
    cases = CASES_QUICK if options.quick else list(CASES)
    bare = BARE_QUICK if options.quick else list(BARE)
    uris = {BASE: file_server(bench, "plain", held_disk.image(bench, "plain", size), preload)}
    labs = {}
    for number, name in enumerate(cases):
        labs[name] = mirrored(bench, preload, f"lab{number}", size, *CASES[name])
        uris[name] = labs[name].node("alpha")["nbd"]
    first = labs[cases[0]]
    copies = []
    for number, name in enumerate(bare):
        uris[name], *images = bare_copy(bench, preload, f"bare{number}", size, first, BARE[name])
        copies.append(images)
    points = {name: {str(each): [] for each in SIZES} for name in uris}
    alone = {name: [] for name in (BASE, cases[0], *bare[:1])}
    trips = []
    for number in range(options.rounds):
        trips.append(round_trip_us(first, "link1", SIZES[0], options.seconds))
        for name, found in alone.items():
            found.append(run_fio(uris[name], "randwrite", "4096", 1, options.seconds, ramp=0.2)["mean_us"])
        for each in SIZES:
            for name in in_turn(uris, number):
                points[name][str(each)].append(one_point(uris[name], labs.get(name), each, options))
        say(f"round {number + 1}/{options.rounds} is done")
    for images in copies:
        bare_mirror.check_copied(*images)
    return {"points": points, "alone_mean_us": alone, "round_trip_us": trips, "cases": cases,
            "bare": bare, "disk": {"bytes_per_s": RATE_BYTES, "delay_us": DELAY_US}}


def file_server(bench, name, image, preload, peer=None, where=()):
    """nbdkit's file plugin on a held disk; its writes go to `peer`, too, where there is one. Its URI."""
    sock = bench.dir / f"{name}.sock"
    disks = [(*DISK, [image])]
    variables = (bare_mirror.environment(bench, preload, disks, peer) if peer
                 else held_disk.environment(preload, disks))
    bench.spawn([*where, "env", *(f"{key}={value}" for key, value in variables.items()), "nbdkit",
                 "-f", "--threads", 32, FUA[0], "--unix", sock, "file", image, FUA[1]], name)
    uri = f"nbd+unix:///?socket={sock}"
    deadline = time.monotonic() + 10
    while subprocess.run(["nbdinfo", "--size", uri], capture_output=True, check=False).returncode:
        if time.monotonic() > deadline:
            raise LabError(f"nbdkit does not serve {image}: {bench.log_tail(name)}")
        time.sleep(0.05)
    return uri


def bare_copy(bench, preload, name, size, lab, peer_disk):
    """Over the link of `lab`, whose nodes have nothing to do meanwhile. Its URI and both images."""
    image, copy = (held_disk.image(bench, f"{name}{end}", size) for end in ("", "-peer"))
    held = held_disk.environment(preload, [(*peer_disk, [copy])]) if peer_disk else {}
    peer = bare_mirror.start_peer(bench, lab, f"{name}-peer", copy, held)
    return file_server(bench, name, image, preload, peer, lab.inside("alpha")), image, copy


def mirrored(bench, preload, name, size, map_disk, peer_disk, backing_io="buffered"):
    images = {node: held_disk.image(bench, f"{name}-{node}", size) for node in ("alpha", "beta")}
    env = {}
    for node, data_disk in (("alpha", DISK), ("beta", peer_disk)):
        metadata = bench.dir / name / node / "r0.meta"
        on_data = [] if map_disk else [metadata]
        disks = [(*data_disk, [images[node], *on_data])] if data_disk else []
        if map_disk:
            disks.append((*map_disk, [metadata]))
        env[node] = {**(held_disk.environment(preload, disks) if disks else {}),
                     "TWINBLOCK_DISK": "threads"}
    return bench.lab(name, size, LINK, backing=images, env=env, nbdkit_args=FUA,
                     backing_io=backing_io)


def one_point(uri, lab, size_bytes, options):
    before = lab and (breakdown.read(lab), intents(lab))
    sample = run_fio(uri, "randwrite", str(size_bytes), DEPTH, options.seconds,
                     ramp=min(1.0, options.seconds / 2),
                     extra=(f"--numjobs={WRITERS}", "--group_reporting"))
    if lab:
        must_be(lab, "duplex")
        sample["breakdown"] = breakdown.between(before[0], breakdown.read(lab))
        after = intents(lab)
        sample["intents"] = {key: after[key] - before[1][key] for key in ("commits", "waits")}
    return sample


def intents(lab):
    return lab.status("alpha")["intents"]


# --- from here on, everything follows from the figures ---


def overhead_percent(figures, name, size, key):
    """What was measured in the same round is compared. More is worse: less MB/s, or a longer latency."""
    pairs = zip(figures["points"][name][str(size)], figures["points"][BASE][str(size)])
    if key == "bytes_per_s":
        return median((1 - mine[key] / base[key]) * 100 for mine, base in pairs)
    return median((mine[key] / base[key] - 1) * 100 for mine, base in pairs)


def report(figures):
    disk = figures["disk"]
    made = Report(
        "Overhead: mirrored against not mirrored",
        f"{WRITERS} writers with {DEPTH} random writes outstanding each, every write stable before it "
        "is acknowledged (FUA on each, forced by nbdkit's fua filter in all cases). A held disk "
        f"carries {disk['bytes_per_s'] / 1e6:.0f} MB/s and takes {disk['delay_us'] / 1000:g} ms a "
        "request, as some cloud disks do: files in memory, and a library in the process that writes "
        "them, which holds fdatasync for as long as such a disk would take for what was written "
        f"(alone, a 4 KiB write takes {median(figures['alone_mean_us'][BASE]) / 1e3:.2f} ms). Not "
        f"mirrored: nbdkit's file plugin. Mirrored: two nodes over {LINK}, each with such a disk, the "
        "intent map on the same disk or on one of its own; *quick peer*: only the primary's disk is "
        "held, the peer's is memory. Taken in turn.")
    if figures["bare"]:
        made.measured += (
            " *Bare copy*, for scale: the file plugin, each of whose threads sends what it writes to "
            "a program on the other node and waits for its answer. It keeps none of a mirror's "
            "promises (no order, no checks, no record of what is missing, no second link), and "
            "bundles nothing.")
    names = [*figures["cases"], *figures["bare"]]
    rows, latency = [], []
    for size in SIZES:
        vendor = VENDOR[size]
        rows.append([size_text(size), f"{middle(figures, BASE, size, 'bytes_per_s') / 1e6:.1f}"]
                    + [f"{middle(figures, name, size, 'bytes_per_s') / 1e6:.1f} "
                       f"({overhead_percent(figures, name, size, 'bytes_per_s'):+.2f}%)"
                       for name in names] + [f"{vendor[0]:+.2f}%"])
        latency.append([size_text(size), f"{middle(figures, BASE, size, 'mean_us') / 1e3:.2f}"]
                       + [f"{middle(figures, name, size, 'mean_us') / 1e3:.2f} "
                          f"({overhead_percent(figures, name, size, 'mean_us'):+.2f}%)"
                          for name in names] + [f"{vendor[1]:+.2f}%"])
        for name in figures["cases"]:
            made.bars.append(bar(f"overhead in MB/s at {size_text(size)}, {name}",
                                 overhead_percent(figures, name, size, "bytes_per_s"), BAR_PERCENT,
                                 at_least=False, unit="%"))
    header = [BASE, *names, "a vendor's overhead"]
    made.add("MB/s, and the overhead", table(["write", *header], rows))
    made.add("Average latency in ms, and the overhead", table(["write", *header], latency))
    add_metadata(made, figures)
    conclude(made, figures)
    return made


def add_metadata(made, figures):
    names = figures["cases"]
    rows = [[size_text(size), name] + [sum(sample["intents"][key] for sample in
                                           figures["points"][name][str(size)])
                                       for key in ("commits", "waits")]
            for size in SIZES for name in names]
    made.add("The intent map", "Commits of metadata during all rounds, their first moments (before "
             "fio counts) included, and writes that waited for one.\n\n"
             + table(["write", "case", "commits", "writes that waited"], rows))
    breakdown.add_table(
        made, ["write", "case", "total us"],
        [((size_text(size), name), breakdown.merged(figures["points"][name][str(size)]))
         for name in names for size in SIZES])


def alone_percent(figures, name):
    """How much longer one 4 KiB write takes, where no other is under way."""
    return median((mine / base - 1) * 100 for mine, base in
                  zip(figures["alone_mean_us"][name], figures["alone_mean_us"][BASE]))


def conclude(made, figures):
    names = figures["cases"]
    trip, base = median(figures["round_trip_us"]), median(figures["alone_mean_us"][BASE])
    made.conclusions.append(
        f"{size_text(SIZES[0])} to the peer and an answer back take {trip:.0f} us on this link for two "
        f"programs that do nothing else: {trip / base * 100:.1f}% of an unmirrored write. Where the "
        "peer's disk is as slow, a lone write can't cost less.")
    for name in figures["bare"]:
        costs = ", ".join(f"{overhead_percent(figures, name, size, 'bytes_per_s'):.1f}% at "
                          f"{size_text(size)}" for size in SIZES)
        made.conclusions.append(f"With {WRITERS * DEPTH} writes at a time, a {name}, which keeps no "
                                f"promises, costs {costs} of the MB/s.")
    alone, together = (alone_percent(figures, names[0]),
                       overhead_percent(figures, names[0], SIZES[0], "mean_us"))
    made.conclusions.append(
        f"A lone write of 4 KiB takes {alone:+.1f}% longer when mirrored"
        + "".join(f" ({name}: {alone_percent(figures, name):+.1f}%)" for name in figures["bare"][:1])
        + f", one of {WRITERS * DEPTH} {together:+.1f}%: " + ("most of the cost comes with many writes at a time."
                                 if together > 2 * max(alone, BAR_PERCENT) else
                                 "many writes at a time do not cost more than a lone one."))
    for name in names:
        worst = max(SIZES, key=lambda size: overhead_percent(figures, name, size, "bytes_per_s"))
        value = overhead_percent(figures, name, worst, "bytes_per_s")
        made.conclusions.append(
            f"Mirrored, {name}: it costs at the most {value:.2f}% of the MB/s, at {size_text(worst)} "
            f"(the vendor's worst: {max(each[0] for each in VENDOR.values()):.2f}%).")
    better = [size_text(size) for size in SIZES
              if overhead_percent(figures, names[0], size, "bytes_per_s") < VENDOR[size][0]]
    made.conclusions.append("With the map on the same disk, the overhead is below the vendor's at "
                            f"{', '.join(better) if better else 'no size'}.")


def plots(figures):
    names = [BASE, *figures["cases"], *figures["bare"]]

    def draw(panels):
        groups = [size_text(size) for size in SIZES]
        grouped_bars(panels[0], groups, {name: [middle(figures, name, size, "bytes_per_s") / 1e6
                                                for size in SIZES] for name in names}, "MB/s")
        over = {name: [overhead_percent(figures, name, size, "bytes_per_s") for size in SIZES]
                for name in names[1:]}
        over["a vendor"] = [VENDOR[size][0] for size in SIZES]
        grouped_bars(panels[1], groups, over, "overhead in MB/s, %")
        panels[1].axhline(BAR_PERCENT, color="grey", linestyle=":")

    return [Plot("", 2, draw)]
