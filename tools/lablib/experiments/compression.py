"""Data that changes at a steady rate, with compression off, on and auto: processor time and bytes."""

import time
from statistics import median

from ..error import LabError
from ..links import NODES
from ..processes import cpu_seconds
from . import breakdown
from .bench import must_be, say
from .change_rate import BATCH_BYTES, ChangeRate
from .plots import Plot
from .report import Report, bar, table

NAME = "compression"
TITLE = "a steady rate of changes with compression off, on and auto: CPU of both nodes, bytes"
ROUNDS, SECONDS, SECONDS_QUICK = 3, 6.0, 1.0

MODES = ("off", "on", "auto")
RATES_MB = [1, 2, 3, 5, 7, 30, None]  # None: as fast as one client gets
RATES_MB_QUICK = [7, None]
BARRED_MB = [1, 2, 3, 5, 7]
LINK = "1gbit"
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
    import nbd  # pylint: disable=import-outside-toplevel
    rates = RATES_MB_QUICK if options.quick else RATES_MB
    lab = bench.lab("lab", "64MiB" if options.quick else "256MiB", LINK)
    handle = nbd.NBD()
    handle.connect_uri(lab.node("alpha")["nbd"])
    generator = ChangeRate(handle, handle.get_size(), seed=options.rounds * 1000 + 1)
    points = {mode: {rate_key(rate): [] for rate in rates} for mode in MODES}
    for number in range(options.rounds):
        for rate in rates:
            at = (number + rates.index(rate)) % len(MODES)
            for mode in MODES[at:] + MODES[:at]:
                points[mode][rate_key(rate)].append(
                    one_point(lab, generator, mode, rate, options.seconds))
        say(f"round {number + 1}/{options.rounds} is done")
    handle.flush()
    wrong = generator.wrong(handle.pread)
    handle.shutdown()
    return {"rates_mb": rates, "points": points, "verified": verify(lab, generator, wrong),
            "batch_bytes": BATCH_BYTES}


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


# --- from here on, everything follows from the figures ---


def cpu_per_mb(sample, node):
    return sample["cpu_s"][node] / (sample["written_bytes"] / 1e6)


def more_percent(figures, mode, rate, node):
    """CPU time a megabyte against `off`, all rounds together."""
    def total(which):
        samples = figures["points"][which][rate_key(rate)]
        return (sum(sample["cpu_s"][node] for sample in samples)
                / sum(sample["written_bytes"] for sample in samples))

    return (total(mode) / total("off") - 1) * 100 if total("off") else 0.0


def sums(figures, mode, rate):
    samples = figures["points"][mode][rate_key(rate)]
    return {"cpu_s": {node: sum(sample["cpu_s"][node] for sample in samples) for node in NODES},
            **{key: sum(sample[key] for sample in samples)
               for key in ("written_bytes", "out_bytes", "in_bytes", "took_s", "compressed")}}


def rate_text(rate):
    return "as fast as it goes" if rate is None else f"{rate} MB/s"


def report(figures):
    made = Report(
        "Compression: a steady rate of changes",
        "A generator writes seeded data in batches of "
        f"{figures['batch_bytes'] >> 20} MiB, 64 KiB at a time, evenly at a rate, deletes (trims) "
        f"what is older than two batches, and goes on. The link carries {LINK}. Processor time is "
        "user and system time of the two nodes' processes, all rounds together; bytes are those of "
        "the link as alpha counts them. At the end what must be there was read and compared: "
        f"{', '.join(figures['verified']['places'])}, all {figures['verified']['batches']} batches, "
        "those that were deleted as zeroes.")
    rows = []
    for rate in figures["rates_mb"]:
        for mode in MODES:
            each = sums(figures, mode, rate)
            cost = [f"{each['cpu_s'][node] / each['took_s'] * 100:.1f}% "
                    + (f"({more_percent(figures, mode, rate, node):+.0f}%)" if mode != "off" else "")
                    for node in NODES]
            rows.append([rate_text(rate), mode, f"{each['written_bytes'] / each['took_s'] / 1e6:.1f}",
                         *cost, f"{each['out_bytes'] / 1e6:.2f}", f"{each['in_bytes'] / 1e6:.2f}",
                         f"{each['out_bytes'] / each['written_bytes']:.3f}", each["compressed"]])
    made.add("Processor time and bytes", "CPU of one core; in brackets, how much more than with `off` "
             f"for each megabyte. A vendor's published cost: {VENDOR}.\n\n"
             + table(["changes", "compression", "MB/s", "CPU of the primary", "CPU of the secondary",
                      "MB out", "MB in", "sent/written", "writes compressed"], rows))
    add_bars(made, figures)
    conclude(made, figures)
    return made


def add_bars(made, figures):
    for rate in figures["rates_mb"]:
        if rate in BARRED_MB:
            made.bars.append(bar(f"CPU of the primary with auto at {rate} MB/s, more than off",
                                 more_percent(figures, "auto", rate, "alpha"), BAR_PERCENT,
                                 at_least=False, unit="%"))


def conclude(made, figures):
    for node, side in zip(NODES, ("compressing side", "target")):
        costs = [more_percent(figures, "on", rate, node) for rate in figures["rates_mb"]]
        made.conclusions.append(f"`on` costs {min(costs):+.0f}% to {max(costs):+.0f}% CPU at the {side} "
                                "(per megabyte, over all rates).")
    made.conclusions.append(f"The vendor: {VENDOR}.")
    for mode in ("on", "auto"):
        shares = [sums(figures, mode, rate)["out_bytes"] / sums(figures, "off", rate)["out_bytes"]
                  * sums(figures, "off", rate)["written_bytes"]
                  / sums(figures, mode, rate)["written_bytes"] for rate in figures["rates_mb"]]
        made.conclusions.append(f"`{mode}` sends {min(shares) * 100:.0f}% to {max(shares) * 100:.0f}% of "
                                "the bytes that `off` sends.")
    most = {mode: median(sample["written_bytes"] / sample["took_s"] for sample in
                         figures["points"][mode]["most"]) / 1e6 for mode in MODES}
    made.conclusions.append("As fast as one client gets: " + ", ".join(
        f"{rate:.0f} MB/s with `{mode}`" for mode, rate in most.items()) + ".")


def plots(figures):
    def draw(panels):
        rates = [rate for rate in figures["rates_mb"] if rate is not None]
        for panel, node, side in zip(panels, NODES, ("primary", "secondary")):
            for mode in MODES:
                panel.plot(rates, [sums(figures, mode, rate)["cpu_s"][node]
                                   / sums(figures, mode, rate)["took_s"] * 100 for rate in rates],
                           marker="o", markersize=3, label=mode)
            panel.set_xscale("log")
            panel.set_xticks(rates)
            panel.set_xticklabels([str(rate) for rate in rates])
            panel.set_xlabel("MB/s of changes")
            panel.set_ylabel(f"CPU of the {side}, % of a core")
            panel.grid(True, alpha=0.3)
            panel.legend(fontsize=8)
        groups = [rate_text(rate) for rate in figures["rates_mb"]]
        for mode, shift in zip(MODES, (-0.27, 0, 0.27)):
            panels[2].bar([at + shift for at in range(len(groups))],
                          [sums(figures, mode, rate)["out_bytes"]
                           / sums(figures, mode, rate)["written_bytes"]
                           for rate in figures["rates_mb"]], 0.27, label=mode)
        panels[2].set_xticks(range(len(groups)))
        panels[2].set_xticklabels(groups, rotation=60, fontsize=8)
        panels[2].set_ylabel("bytes sent for each written")
        panels[2].legend(fontsize=8)

    return [Plot("", 3, draw)]
