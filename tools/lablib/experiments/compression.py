"""Data that changes at a steady rate, with compression off, on and auto: processor time and bytes."""

import time
from statistics import median

from ..error import LabError
from ..links import NODES
from ..processes import cpu_seconds
from . import breakdown
from .bench import in_turn, must_be, say
from .change_rate import BATCH_BYTES, ChangeRate
from .plots import Plot, grouped_bars, rate_axis
from .report import Report, bar, table

NAME = "compression"
TITLE = "a steady rate of changes with compression off, on and auto: CPU of both nodes, bytes"
ROUNDS, SECONDS, SECONDS_QUICK = 3, 5.0, 0.6

MODES = ("off", "on", "auto")
RATES_MB = [1, 2, 3, 5, 7, 30, None]  # None: as fast as one client gets
RATES_MB_QUICK = [7, None]
BARRED_MB = [1, 2, 3, 5, 7]
LINKS = ["1gbit", "10gbit"]  # `auto` decides by what the link carries
BAR_PERCENT = 10.0
# A vendor's published CPU cost of compression, per cent, at the compressing side and at the target.
VENDOR = "27% to 198% at the compressing side, 1% to 39% at the target"


def check():
    try:
        import nbd  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
    except ImportError as error:
        raise LabError("the change-rate generator needs libnbd for Python (Debian: apt install "
                       "python3-libnbd)") from error


def measure(bench, options):
    rates = RATES_MB_QUICK if options.quick else RATES_MB
    found = {link: measure_link(bench, link, rates, options) for link in LINKS}
    return {"rates_mb": rates, "batch_bytes": BATCH_BYTES, "links": found}


def measure_link(bench, link, rates, options):
    import nbd  # pylint: disable=import-outside-toplevel
    lab = bench.lab(link, "64MiB" if options.quick else "256MiB", link)
    handle = nbd.NBD()
    handle.connect_uri(lab.node("alpha")["nbd"])
    generator = ChangeRate(handle, handle.get_size(), seed=options.rounds * 1000 + 1)
    points = {mode: {rate_key(rate): [] for rate in rates} for mode in MODES}
    for number in range(options.rounds):
        for rate in rates:
            for mode in in_turn(MODES, number + rates.index(rate)):
                points[mode][rate_key(rate)].append(
                    one_point(lab, generator, mode, rate, options.seconds))
        say(f"{link}: round {number + 1}/{options.rounds} is done")
    handle.flush()
    wrong = generator.wrong(handle.pread)
    handle.shutdown()
    return {"points": points, "verified": verify(lab, generator, wrong)}


def rate_key(rate):
    return "most" if rate is None else str(rate)


def one_point(lab, generator, mode, rate, seconds):
    lab.ctl("alpha", "compression", mode=mode)
    before = reading(lab)
    clocks = breakdown.read(lab)
    written, took = generator.run(seconds, rate and rate * 1e6)
    after = reading(lab)
    must_be(lab, "duplex")
    return {"written_bytes": written, "took_s": took,
            "cpu_s": {node: after[node] - before[node] for node in NODES},
            "out_bytes": after["out"] - before["out"], "in_bytes": after["in"] - before["in"],
            "compressed": after["compressed"] - before["compressed"],
            "breakdown": breakdown.between(clocks, breakdown.read(lab))}


def reading(lab):
    status = lab.status("alpha")
    return {**{node: cpu_seconds(lab.node(node)["pid"]) for node in NODES},
            "out": sum(link["out_bytes"] for link in status["links"]),
            "in": sum(link["in_bytes"] for link in status["links"]),
            "compressed": status["compression"]["writes_compressed"]}


def verify(lab, generator, wrong_on_primary):
    """Both replicas' files after an orderly end, and what the primary said before it. Raises where
    anything is not what was written."""
    time.sleep(0.2)
    lab.down()
    wrong = {"the device": wrong_on_primary}
    for node in NODES:
        with open(lab.node(node)["backing"], "rb") as file:
            def read(length, offset, file=file):
                file.seek(offset)
                return file.read(length)
            wrong[f"{node}'s replica"] = generator.wrong(read)
    for where, places in wrong.items():
        if places:
            raise LabError(f"{where} does not hold what was written, first in batch {places[0][0]} "
                           f"at byte {places[0][1]} of it ({len(places)} blocks are wrong)")
    return {"places": list(wrong), "batches": len(generator.content)}


# --- from here on, everything follows from the figures. `points` are those of one link ---


def sums(points, mode, rate):
    """All rounds together."""
    samples = points[mode][rate_key(rate)]
    return {"cpu_s": {node: sum(sample["cpu_s"][node] for sample in samples) for node in NODES},
            **{key: sum(sample[key] for sample in samples)
               for key in ("written_bytes", "out_bytes", "in_bytes", "took_s", "compressed")}}


def more_percent(points, mode, rate, node):
    """CPU time a megabyte against `off`: neighbours in time are compared, since what a second of the
    processor does for one changes by a third with what else the host has to do."""
    def costs(which):
        return [each["cpu_s"][node] / each["written_bytes"] for each in points[which][rate_key(rate)]]

    return median((mine / base - 1) * 100 if base else 0.0
                  for mine, base in zip(costs(mode), costs("off")))


def sent_share(points, mode, rate):
    """Bytes sent for each that was written."""
    each = sums(points, mode, rate)
    return each["out_bytes"] / each["written_bytes"]


def core_percent(points, mode, rate, node):
    each = sums(points, mode, rate)
    return each["cpu_s"][node] / each["took_s"] * 100


def rate_text(rate):
    return "as fast as it goes" if rate is None else f"{rate} MB/s"


def report(figures):
    verified = {link: each["verified"] for link, each in figures["links"].items()}
    made = Report(
        "Compression: a steady rate of changes",
        "A generator writes seeded data in batches of "
        f"{figures['batch_bytes'] >> 20} MiB, 64 KiB at a time, evenly at a rate, deletes (trims) "
        f"what is older than two batches, and goes on; over links of {' and '.join(verified)}. "
        "Processor time is user and system time of the two nodes' processes, all rounds together, and "
        "in comparisons with `off` the median of the rounds; bytes are those of the link as alpha "
        "counts them. At the end what must be there was read and compared, with what was deleted as "
        "zeroes: " + "; ".join(
            f"{link}: {', '.join(each['places'])}, {each['batches']} batches"
            for link, each in verified.items()) + ".")
    for link, found in figures["links"].items():
        add_table(made, figures["rates_mb"], link, found["points"])
        for rate in figures["rates_mb"]:
            if rate in BARRED_MB:
                made.bars.append(bar(
                    f"CPU of the primary with auto at {rate} MB/s over {link}, more than off",
                    more_percent(found["points"], "auto", rate, "alpha"), BAR_PERCENT, at_least=False,
                    unit="%"))
        conclude(made, figures["rates_mb"], link, found["points"])
    made.conclusions.append(f"A vendor's published CPU cost: {VENDOR}.")
    return made


def add_table(made, rates, link, points):
    rows = []
    for rate in rates:
        for mode in MODES:
            each = sums(points, mode, rate)
            cost = [f"{core_percent(points, mode, rate, node):.1f}%"
                    + (f" ({more_percent(points, mode, rate, node):+.0f}%)" if mode != "off" else "")
                    for node in NODES]
            rows.append([rate_text(rate), mode, f"{each['written_bytes'] / each['took_s'] / 1e6:.1f}",
                         *cost, f"{each['out_bytes'] / 1e6:.2f}", f"{each['in_bytes'] / 1e6:.2f}",
                         f"{sent_share(points, mode, rate):.3f}", each["compressed"]])
    made.add(f"Processor time and bytes, {link}", "CPU of one core; in brackets, how much more than with "
             f"`off` for each megabyte. A vendor's published cost: {VENDOR}.\n\n"
             + table(["changes", "compression", "MB/s", "CPU of the primary", "CPU of the secondary",
                      "MB out", "MB in", "sent/written", "writes compressed"], rows))


def conclude(made, rates, link, points):
    for mode in ("on", "auto"):
        costs = {node: [more_percent(points, mode, rate, node) for rate in rates] for node in NODES}
        shares = [sent_share(points, mode, rate) for rate in rates]
        made.conclusions.append(
            f"{link}, `{mode}`: {min(costs['alpha']):+.0f}% to {max(costs['alpha']):+.0f}% CPU at the "
            f"compressing side, {min(costs['beta']):+.0f}% to {max(costs['beta']):+.0f}% at the target, "
            f"a megabyte against `off`; {min(shares) * 100:.0f}% to {max(shares) * 100:.0f}% of what is "
            "written is sent.")
    made.conclusions.append(f"{link}, as fast as one client gets: " + ", ".join(
        f"{median(each['written_bytes'] / each['took_s'] for each in points[mode]['most']) / 1e6:.0f} "
        f"MB/s with `{mode}`" for mode in MODES) + ".")


def plots(figures):
    links = figures["links"]
    return [Plot("" if link == LINKS[0] else link, 3,
                 lambda panels, link=link: draw(panels, figures["rates_mb"], link, links[link]["points"]))
            for link in links]


def draw(panels, all_rates, link, points):
    rates = [rate for rate in all_rates if rate is not None]
    for panel, node, side in zip(panels, NODES, ("primary", "secondary")):
        for mode in MODES:
            panel.plot(rates, [core_percent(points, mode, rate, node) for rate in rates], marker="o",
                       markersize=3, label=mode)
        rate_axis(panel, rates, [str(rate) for rate in rates], "MB/s of changes")
        panel.set_ylabel(f"CPU of the {side}, % of a core")
        panel.set_title(link, fontsize=10)
    grouped_bars(panels[2], [rate_text(rate) for rate in all_rates],
                 {mode: [sent_share(points, mode, rate) for rate in all_rates] for mode in MODES},
                 "bytes sent for each written")
    panels[2].tick_params(axis="x", rotation=60)
