"""What mirroring costs where the disk is the limit: random write-through writes, mirrored and not."""

import subprocess
import time
from statistics import median

from ..error import LabError
from ..fio import run_fio
from ..round_trip import round_trip_us
from . import breakdown, held_disk
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
# Where the intent map is. A disk of its own: bytes a second, us a request; None: the data's disk.
MAPS = {"same disk": None, "slower disk": (60_000_000, 10_000), "faster disk": (1_000_000_000, 200)}
BASE = "not mirrored"
BAR_PERCENT = 2.0
# A vendor's published table, 4, 8 and 64 KiB: overhead in MB/s and in average latency, per cent.
VENDOR = {4 << 10: (21.84, 21.88), 8 << 10: (39.18, 39.21), 64 << 10: (0.00, -0.02)}
FUA = ("--filter=fua", "fuamode=force")  # every write is write-through, whatever the client asks for


def check():
    held_disk.check(2 << 30)


def measure(bench, options):
    size = "64MiB" if options.quick else "256MiB"
    preload = held_disk.library(bench)
    maps = {"same disk": None} if options.quick else MAPS
    uris = {BASE: plain_server(bench, preload, size)}
    labs = {}
    for name, own in maps.items():
        labs[name] = mirrored(bench, preload, name.split()[0], size, own)
        uris[name] = labs[name].node("alpha")["nbd"]
    points = {name: {str(each): [] for each in SIZES} for name in uris}
    alone = {name: [] for name in uris}
    trips = []
    for number in range(options.rounds):
        trips.append(round_trip_us(labs["same disk"], "link1", SIZES[0], options.seconds))
        for name, uri in uris.items():
            alone[name].append(run_fio(uri, "randwrite", "4096", 1, options.seconds, ramp=0.2)["mean_us"])
        for each in SIZES:
            for name in in_turn(uris, number):
                points[name][str(each)].append(one_point(uris[name], labs.get(name), each, options))
        say(f"round {number + 1}/{options.rounds} is done")
    return {"points": points, "alone_mean_us": alone, "round_trip_us": trips, "maps": maps,
            "disk": {"bytes_per_s": RATE_BYTES, "delay_us": DELAY_US}}


def plain_server(bench, preload, size):
    image = held_disk.image(bench, "plain", size)
    sock = bench.dir / "plain.sock"
    variables = held_disk.environment(preload, [(RATE_BYTES, DELAY_US, [image])])
    bench.spawn(["env", *(f"{key}={value}" for key, value in variables.items()), "nbdkit", "-f",
                 "--threads", 32, FUA[0], "--unix", sock, "file", image, FUA[1]], "plain")
    uri = f"nbd+unix:///?socket={sock}"
    deadline = time.monotonic() + 10
    while subprocess.run(["nbdinfo", "--size", uri], capture_output=True, check=False).returncode:
        if time.monotonic() > deadline:
            raise LabError(f"nbdkit does not serve {image}: {bench.log_tail('plain')}")
        time.sleep(0.05)
    return uri


def mirrored(bench, preload, name, size, own_disk):
    """Both nodes' disks are held."""
    images = {node: held_disk.image(bench, f"{name}-{node}", size) for node in ("alpha", "beta")}
    env = {}
    for node, image in images.items():
        metadata = bench.dir / name / node / "r0.meta"
        data = (RATE_BYTES, DELAY_US, [image] + ([] if own_disk else [metadata]))
        disks = [data] + ([(*own_disk, [metadata])] if own_disk else [])
        env[node] = {**held_disk.environment(preload, disks), "TWINBLOCK_DISK": "threads"}
    return bench.lab(name, size, LINK, backing=images, env=env, nbdkit_args=FUA)


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
    """Neighbours in time are compared. More is worse: less MB/s, or a longer latency."""
    pairs = zip(figures["points"][name][str(size)], figures["points"][BASE][str(size)])
    if key == "bytes_per_s":
        return median((1 - mine[key] / base[key]) * 100 for mine, base in pairs)
    return median((mine[key] / base[key] - 1) * 100 for mine, base in pairs)


def report(figures):
    disk = figures["disk"]
    made = Report(
        "Overhead: mirrored against not mirrored",
        f"{WRITERS} writers with {DEPTH} random writes outstanding each, every write stable before it "
        "is acknowledged (FUA on each, forced by nbdkit's fua filter in both cases). Each local disk "
        f"carries {disk['bytes_per_s'] / 1e6:.0f} MB/s and takes {disk['delay_us'] / 1000:g} ms a "
        "request, as some cloud disks do: files in memory, and a library in the process that writes "
        "them, which holds fdatasync for as long as such a disk would take for what was written "
        f"(alone, a 4 KiB write takes {median(figures['alone_mean_us'][BASE]) / 1e3:.2f} ms). Not "
        f"mirrored: nbdkit's file plugin. Mirrored: two nodes over {LINK}, each with such a disk, the "
        "intent map on the same disk or on one of its own. Taken in turn.")
    names = list(figures["maps"])
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
        for name in names:
            made.bars.append(bar(f"overhead in MB/s at {size_text(size)}, intent map on the {name}",
                                 overhead_percent(figures, name, size, "bytes_per_s"), BAR_PERCENT,
                                 at_least=False, unit="%"))
    header = [BASE, *(f"map on the {name}" for name in names), "a vendor's overhead"]
    made.add("MB/s, and the overhead", table(["write", *header], rows))
    made.add("Average latency in ms, and the overhead", table(["write", *header], latency))
    add_metadata(made, figures, names)
    conclude(made, figures, names)
    return made


def add_metadata(made, figures, names):
    rows = [[size_text(size), name] + [sum(sample["intents"][key] for sample in
                                           figures["points"][name][str(size)])
                                       for key in ("commits", "waits")]
            for size in SIZES for name in names]
    made.add("The intent map", "Commits of metadata during all rounds, their first moments (before "
             "fio counts) included, and writes that waited for one.\n\n"
             + table(["write", "map on the", "commits", "writes that waited"], rows))
    breakdown.add_table(
        made, ["write", "map on the", "total us"],
        [((size_text(size), name), breakdown.merged(figures["points"][name][str(size)]))
         for name in names for size in SIZES])


def alone_percent(figures, name):
    """How much longer one 4 KiB write takes, where no other is under way."""
    return median((mine / base - 1) * 100 for mine, base in
                  zip(figures["alone_mean_us"][name], figures["alone_mean_us"][BASE]))


def conclude(made, figures, names):
    trip, base = median(figures["round_trip_us"]), median(figures["alone_mean_us"][BASE])
    made.conclusions.append(
        f"{size_text(SIZES[0])} to the peer and an answer back take {trip:.0f} us on this link for two "
        f"programs that do nothing else: {trip / base * 100:.1f}% of an unmirrored write. Where the "
        "peer's disk is as slow, a lone write can't cost less.")
    alone, together = (alone_percent(figures, names[0]),
                       overhead_percent(figures, names[0], SIZES[0], "mean_us"))
    made.conclusions.append(
        f"A lone write of 4 KiB takes {alone:+.1f}% longer when mirrored, one of {WRITERS * DEPTH} "
        f"{together:+.1f}%: " + ("most of the cost comes with many writes at a time."
                                 if together > 2 * max(alone, BAR_PERCENT) else
                                 "many writes at a time do not cost more than a lone one."))
    for name in names:
        worst = max(SIZES, key=lambda size: overhead_percent(figures, name, size, "bytes_per_s"))
        value = overhead_percent(figures, name, worst, "bytes_per_s")
        made.conclusions.append(
            f"Intent map on the {name}: mirroring costs at the most {value:.2f}% of the MB/s, at "
            f"{size_text(worst)} (the vendor's worst: {max(each[0] for each in VENDOR.values()):.2f}%).")
    better = [size_text(size) for size in SIZES
              if overhead_percent(figures, names[0], size, "bytes_per_s") < VENDOR[size][0]]
    made.conclusions.append("With the map on the same disk, the overhead is below the vendor's at "
                            f"{', '.join(better) if better else 'no size'}.")


def plots(figures):
    names = [BASE, *figures["maps"]]

    def draw(panels):
        groups = [size_text(size) for size in SIZES]
        grouped_bars(panels[0], groups, {name: [middle(figures, name, size, "bytes_per_s") / 1e6
                                                for size in SIZES] for name in names}, "MB/s")
        over = {f"map on the {name}": [overhead_percent(figures, name, size, "bytes_per_s")
                                       for size in SIZES] for name in figures["maps"]}
        over["a vendor"] = [VENDOR[size][0] for size in SIZES]
        grouped_bars(panels[1], groups, over, "overhead in MB/s, %")
        panels[1].axhline(BAR_PERCENT, color="grey", linestyle=":")

    return [Plot("", 2, draw)]
