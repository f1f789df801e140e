"""One writer, each write waiting for the one before, over 1 Gbit/s, 10 Gbit/s and without a peer."""

from statistics import median

from ..fio import run_fio
from ..iperf import iperf
from . import breakdown
from .bench import in_turn, must_be, say
from .plots import Plot, size_axis
from .report import Report, bar, middle, size_text, table

NAME = "link-speed"
TITLE = "throughput and latency of one writer by write size, at 1 and 10 Gbit/s and without a peer"
ROUNDS, SECONDS, SECONDS_QUICK = 3, 2.0, 0.3

SIZES = [512 << power for power in range(12)]  # 512 B to 1 MiB
SIZES_QUICK = [4 << 10, 64 << 10]
RATE_1G_BYTES = 125e6
# What passes a link's token bucket unshaped. As small as the kernel's timers allow, since a lone write
# that fits would see no wire at all: two frames at 1 Gbit/s, 52 us at 10 Gbit/s.
BURST_BYTES = {"1 Gbit/s": 3200, "10 Gbit/s": 64 << 10}
SLOW, FAST, ALONE = "1 Gbit/s", "10 Gbit/s", "simplex"

BAR_SIZES = [size for size in SIZES if size >= 64 << 10]
BAR_DEPTH = 8
IPERF_BAR = 0.97

DISTURBED = 0.7  # a larger write that takes less than this part of a smaller one's time
BEGINS, CLEARLY = 0.10, 0.25  # how much better is called a gain, and how much a clear one
# A vendor's paper on 1 against 10 Gbit replication links.
PAPER = {"sizes": "8 KiB, 16 KiB", "rates": "35 MB/s, 50 MB/s", "share": 0.75}


def measure(bench, options):
    size = "128MiB" if options.quick else "512MiB"
    sizes = SIZES_QUICK if options.quick else SIZES
    labs = {SLOW: bench.lab("slow", size, "1gbit"), FAST: bench.lab("fast", size, "10gbit"),
            ALONE: bench.lab("alone", size)}
    labs[ALONE].kill("beta")
    labs[ALONE].wait_state("alpha", "simplex", 30)
    points = {name: {str(each): [] for each in sizes} for name in labs}
    for name, burst in BURST_BYTES.items():
        labs[name].network().shape("link1", "1gbit" if name == SLOW else "10gbit", burst)
    for number in range(options.rounds):
        for each in sizes:
            for name in in_turn(labs, number + sizes.index(each)):
                points[name][str(each)].append(one_point(labs[name], name, each, options))
        say(f"round {number + 1}/{options.rounds} of single writes is done")
    return {"sizes": sizes, "points": points, "beside_iperf": beside_iperf(labs[SLOW], options)}


def one_point(lab, name, size_bytes, options):
    before = breakdown.read(lab)
    sample = run_fio(lab.node("alpha")["nbd"], "write", str(size_bytes), 1, options.seconds, ramp=0.3)
    sample["breakdown"] = breakdown.between(before, breakdown.read(lab))
    must_be(lab, "simplex" if name == ALONE else "duplex")
    return sample


def beside_iperf(lab, options):
    """The link as the lab shapes it always: a stream gets its whole rate."""
    lab.network().shape("link1", "1gbit")
    rows = {str(each): [] for each in (BAR_SIZES[:1] if options.quick else BAR_SIZES)}
    for number in range(options.rounds):
        carried = iperf(lab, "link1", max(1, options.seconds))
        for each, samples in rows.items():
            sample = run_fio(lab.node("alpha")["nbd"], "write", each, BAR_DEPTH, options.seconds)
            must_be(lab, "duplex")
            samples.append({"iperf3_bytes_per_s": carried, "bytes_per_s": sample["bytes_per_s"]})
        say(f"round {number + 1}/{options.rounds} beside iperf3 is done")
    return rows


# --- from here on, everything follows from the figures ---


def gains(figures):
    """By size: how much lower the latency is at 10 Gbit/s, by p50, which a disturbance moves least.
    One writer, so that its throughput is higher by as much: 10% less latency are 11% more."""
    return [1 - middle(figures, FAST, size, "p50_us") / middle(figures, SLOW, size, "p50_us")
            for size in figures["sizes"]]


def disturbed(figures):
    """Points that can't be true: where a larger write took clearly less. (name, size)"""
    found = []
    for name in (SLOW, FAST, ALONE):
        for size, larger in zip(figures["sizes"], figures["sizes"][1:]):
            if middle(figures, name, larger, "p50_us") < DISTURBED * middle(figures, name, size, "p50_us"):
                found.append((name, size))
    return found


def pays_from(sizes, values, threshold):
    """The smallest size from which on all larger ones gain as much, too; None where there is none."""
    first = None
    for size, value in zip(sizes, values):
        if value < threshold:
            first = None
        elif first is None:
            first = size
    return first


def share_of_slow(figures):
    """The most of 1 Gbit/s that one writer used."""
    return max(middle(figures, SLOW, size, "bytes_per_s")
               for size in figures["sizes"]) / RATE_1G_BYTES


def breakdowns(figures):
    """{(name, size): breakdown} where the nodes gave one."""
    found = {}
    for name, sizes in figures["points"].items():
        for size, samples in sizes.items():
            merged = breakdown.merged(samples)
            if merged:
                found[name, int(size)] = merged
    return found


def report(figures):
    made = Report(
        "Link speed: where 10 Gbit/s begins to pay",
        "One writer writes sequentially, from 512 B to 1 MiB at a time, and waits for each write "
        "before the next (fio's nbd engine, depth 1). Two pairs of nodes in network namespaces, "
        "their links shaped by token buckets so small that a lone write takes its time on the wire "
        f"({', '.join(f'{name}: {size} B' for name, size in BURST_BYTES.items())}; what fits passes "
        "unshaped, at 10 Gbit/s by 52 us too early at most), and a primary whose peer is lost "
        "(simplex). There is no delay but the machine's own.")
    add_points(made, figures)
    add_breakdowns(made, figures)
    add_marks(made, figures)
    add_bars(made, figures)
    return made


def add_points(made, figures):
    rows = []
    for size, gain in zip(figures["sizes"], gains(figures)):
        rows.append([size_text(size)] + [
            f"{middle(figures, name, size, key) / scale:.{places}f}"
            for key, scale, places in (("p50_us", 1, 0), ("p99_us", 1, 0), ("bytes_per_s", 1e6, 1))
            for name in (SLOW, FAST, ALONE)] + [f"{gain * 100:.1f}%"])
    header = ["write"] + [f"{what} {name}" for what in ("p50 us", "p99 us", "MB/s")
                          for name in (SLOW, FAST, ALONE)] + ["p50 lower at 10 Gbit/s"]
    made.add("Latency and throughput", table(header, rows))


def add_breakdowns(made, figures):
    found = sorted(breakdowns(figures).items(), key=lambda item: (item[0][1], item[0][0]))
    breakdown.add_table(
        made, ["write", "link", "total"],
        [((size_text(size), name), each) for (name, size), each in found], places=1,
        text="Means, us a write, by the node's own clocks (they begin in the plugin: the client's own "
             "time is not in it).\n\n")


def mark(figures, threshold):
    size = pays_from(figures["sizes"], gains(figures), threshold)
    if size is None:
        return None
    return size, middle(figures, SLOW, size, "bytes_per_s") / 1e6


def mark_text(found):
    return (f"{size_text(found[0])}", f"{found[1]:.0f} MB/s") if found else ("none", "none")


def add_marks(made, figures):
    wrong = disturbed(figures)
    if wrong:
        made.conclusions.append(
            "**Disturbed**: a write took longer than one of twice the size at "
            + ", ".join(f"{size_text(size)} and {name}" for name, size in wrong)
            + ". Measure again on a quiet machine; what follows is not to be relied on.")
    begins, clearly = (mark(figures, threshold) for threshold in (BEGINS, CLEARLY))
    rows = [["sizes from which 10 Gbit/s pays", mark_text(begins)[0], mark_text(clearly)[0],
             PAPER["sizes"]],
            ["what the writer moves there at 1 Gbit/s", mark_text(begins)[1], mark_text(clearly)[1],
             PAPER["rates"]],
            ["share of 1 Gbit/s that one writer uses at the most",
             f"{share_of_slow(figures) * 100:.0f}%", "", f"{PAPER['share'] * 100:.0f}%"]]
    made.add("Marks", f"*Begins*: p50 of the latency at least {BEGINS * 100:.0f}% lower, at this size and "
             f"all larger ones; *clearly*: {CLEARLY * 100:.0f}%. The limits are ours; the paper's two "
             "figures are the bounds of its zones.\n\n"
             + table(["", "ours, begins", "ours, clearly", "the paper"], rows))
    if begins:
        made.conclusions.append(
            f"10 Gbit/s begins to pay at {mark_text(begins)[0]} a write, where the writer moves "
            f"{mark_text(begins)[1]} at 1 Gbit/s (the paper: {PAPER['sizes']}; {PAPER['rates']}).")
    else:
        made.conclusions.append(f"At no size is the latency at 10 Gbit/s {BEGINS * 100:.0f}% lower on "
                                "all sizes from there on.")
    made.conclusions.append(
        f"One writer uses {share_of_slow(figures) * 100:.0f}% of 1 Gbit/s at the most (the paper: "
        f"{PAPER['share'] * 100:.0f}%).")
    found = breakdowns(figures)
    for size in (figures["sizes"][0], figures["sizes"][-1]):
        if (SLOW, size) in found:
            each = found[SLOW, size]
            made.conclusions.append(
                f"At {size_text(size)} and 1 Gbit/s the wire is "
                f"{each['stages_us']['wire'] / each['total_us'] * 100:.0f}% of the latency, software "
                f"(all but wire and disks) {breakdown.software_us(each) / each['total_us'] * 100:.0f}%.")


def add_bars(made, figures):
    rows = []
    for size, samples in figures["beside_iperf"].items():
        ratio = median(each["bytes_per_s"] / each["iperf3_bytes_per_s"] for each in samples)
        rows.append([size_text(int(size))] + [f"{median(each[key] for each in samples) / 1e6:.1f}"
                    for key in ("bytes_per_s", "iperf3_bytes_per_s")] + [f"{ratio:.3f}x"])
        made.bars.append(bar(f"one writer of {size_text(int(size))} with {BAR_DEPTH} outstanding on 1 "
                             "Gbit/s against iperf3", ratio, IPERF_BAR, unit="x"))
    made.add("One writer beside iperf3", "On the 1 Gbit/s link as the lab always shapes it, "
             f"{BAR_DEPTH} writes outstanding; iperf3 in the same round.\n\n"
             + table(["write", "twinblock MB/s", "iperf3 MB/s", "ratio"], rows))


def plots(figures):
    made = [Plot("", 2, lambda panels: draw(panels, figures))]
    if breakdowns(figures):
        made.append(Plot("breakdown", 2, lambda panels: draw_breakdown(panels, figures)))
    return made


def draw(panels, figures):
    sizes = figures["sizes"]
    for panel, key, scale, label in ((panels[0], "p50_us", 1, "latency (p50), us"),
                                     (panels[1], "bytes_per_s", 1e6, "MB/s")):
        for name in (SLOW, FAST, ALONE):
            panel.plot(sizes, [middle(figures, name, size, key) / scale for size in sizes],
                       marker="o", markersize=3, label=name)
        size_axis(panel, sizes, "bytes a write")
        panel.set_yscale("log")
        panel.set_ylabel(label)
        for threshold, style in ((BEGINS, ":"), (CLEARLY, "--")):
            found = mark(figures, threshold)
            if found:
                panel.axvline(found[0], color="grey", linestyle=style,
                              label=f"10 Gbit/s: {threshold * 100:.0f}% less latency")
        panel.legend(fontsize=8)
    panels[0].set_title("one writer, each write waits for the one before", fontsize=10)


def draw_breakdown(panels, figures):
    found = breakdowns(figures)
    for panel, name in zip(panels, (SLOW, FAST)):
        sizes = [size for size in figures["sizes"] if (name, size) in found]
        below = [0.0] * len(sizes)
        for stage in breakdown.STAGES:
            # Shares, so that 512 B and 1 MiB fit into one picture.
            values = [found[name, size]["stages_us"][stage] / found[name, size]["total_us"] * 100
                      for size in sizes]
            panel.bar(range(len(sizes)), values, bottom=below, label=stage)
            below = [low + value for low, value in zip(below, values)]
        panel.set_xticks(range(len(sizes)))
        panel.set_xticklabels([size_text(size) for size in sizes], rotation=60, fontsize=8)
        panel.set_ylabel("% of a write's latency")
        panel.set_title(name, fontsize=10)
    panels[1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
