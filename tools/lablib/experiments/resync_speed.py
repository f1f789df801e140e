"""How long a node that lost its power takes to be current again, by the speed of the link."""

import time
from statistics import median

from ..error import LabError
from ..fio import run_fio
from ..lab import parse_size
from ..links import parse_rate
from .bench import say
from .plots import Plot, rate_axis
from .report import Report, table

NAME = "resync-speed"
TITLE = "time to resync after a power-down, against the speed of the link"
ROUNDS, SECONDS, SECONDS_QUICK = 3, 2.0, 0.5

RATES = ["100mbit", "1gbit", "2.5gbit", "10gbit"]
RATES_QUICK = ["1gbit", "10gbit"]
PIECE = "64k"
LIMIT_SHARE = 0.8  # the link is the limit where a resync uses at least so much of it


def measure(bench, options):
    size = "64MiB" if options.quick else "256MiB"
    rates = RATES_QUICK if options.quick else RATES
    labs = {rate: bench.lab(f"at-{rate}", size, rate) for rate in rates}
    points = {rate: [] for rate in rates}
    for number in range(options.rounds):
        for rate in rates if number % 2 == 0 else rates[::-1]:
            points[rate].append(one_point(labs[rate], parse_size(size) // 2, options.seconds))
            say(f"round {number + 1}/{options.rounds}, {rate}: "
                f"{points[rate][-1]['resync_s']:.2f} s")
    return {"rates": rates, "points": points}


def one_point(lab, missed_bytes, seconds):
    """Every other 64 KiB are written while beta has no power, half of the device."""
    uri = lab.node("alpha")["nbd"]
    run_fio(uri, "randwrite", "4k", 4, seconds, ramp=0.1)  # what is not flushed when the power goes
    lab.kill("beta")
    lab.wait_state("alpha", "simplex", 30)
    run_fio(uri, f"write:{PIECE}", PIECE, 8, extra=[f"--io_size={missed_bytes}"])
    dirty = lab.status("alpha")["dirty_bytes"]
    if dirty < missed_bytes:
        raise LabError(f"alpha has {dirty} bytes on record for its peer, of {missed_bytes} written")
    began = time.monotonic()
    lab.start("beta")
    lab.wait_state("alpha", "duplex", 300)
    took = time.monotonic() - began
    last = lab.status("alpha")["last_resync"]
    return {"dirty_bytes": dirty, "back_s": took, "resync_s": last["duration_s"],
            "resync_bytes": last["bytes"], "sent": last["sent"]}


# --- from here on, everything follows from the figures ---


def middle(figures, rate, key):
    return median(sample[key] for sample in figures["points"][rate])


def speed(figures, rate):
    return median(sample["resync_bytes"] / sample["resync_s"] for sample in figures["points"][rate])


def share(figures, rate):
    return speed(figures, rate) * 8 / parse_rate(rate)


def report(figures):
    made = Report(
        "Resync speed: after a power-down, against the speed of the link",
        "A client writes 4 KiB at random places; then the secondary's node is killed (SIGKILL), every "
        "other 64 KiB of the device, half of it, are written to the primary alone, and the node is "
        "started again. No client writes while it is brought up to date. What must be copied are those "
        "blocks, and what was not flushed when the power went. Measured: the resync itself as the "
        "primary reports it, and the whole time from the node's start until both are current. The "
        "disks are files in this machine's page cache: they are no limit here.")
    rows = [[rate, f"{middle(figures, rate, 'dirty_bytes') / 1e6:.0f}",
             f"{middle(figures, rate, 'resync_bytes') / 1e6:.0f}",
             f"{middle(figures, rate, 'resync_s'):.2f}", f"{middle(figures, rate, 'back_s'):.2f}",
             f"{speed(figures, rate) / 1e6:.0f}", f"{share(figures, rate) * 100:.0f}%"]
            for rate in figures["rates"]]
    made.add("Time and speed", table(["link", "missed MB", "copied MB", "resync s", "start to duplex s",
                                      "MB/s", "of the link"], rows))
    limited = [rate for rate in figures["rates"] if share(figures, rate) >= LIMIT_SHARE]
    others = [rate for rate in figures["rates"] if rate not in limited]
    if limited:
        made.conclusions.append(f"The link is the limit at {', '.join(limited)}: the resync uses at "
                                f"least {LIMIT_SHARE * 100:.0f}% of it.")
    if others:
        made.conclusions.append(
            f"At {', '.join(others)} it is not: the resync moves "
            f"{max(speed(figures, rate) for rate in others) / 1e6:.0f} MB/s at the most.")
    for slow, fast in zip(figures["rates"], figures["rates"][1:]):
        made.conclusions.append(
            f"From {slow} to {fast}, {parse_rate(fast) / parse_rate(slow):.3g} times the rate, a resync "
            f"is {speed(figures, fast) / speed(figures, slow):.1f} times as fast.")
    return made


def plots(figures):
    def draw(panels):
        rates = [parse_rate(rate) / 1e6 for rate in figures["rates"]]
        panels[0].plot(rates, [middle(figures, rate, "resync_s") for rate in figures["rates"]],
                       marker="o", label="resync")
        panels[0].plot(rates, [middle(figures, rate, "back_s") for rate in figures["rates"]],
                       marker="s", label="from the node's start until duplex")
        panels[0].plot(rates, [middle(figures, rate, "resync_bytes") * 8 / parse_rate(rate)
                               for rate in figures["rates"]], linestyle=":", color="grey",
                       label="the wire alone")
        panels[0].set_ylabel("s")
        panels[1].plot(rates, [speed(figures, rate) / 1e6 for rate in figures["rates"]], marker="o",
                       label="resync")
        panels[1].plot(rates, [rate / 8 for rate in rates], linestyle=":", color="grey",
                       label="the link's rate")
        panels[1].set_ylabel("MB/s")
        for panel in panels:
            panel.set_yscale("log")
            rate_axis(panel, rates, figures["rates"], "link")
            panel.tick_params(axis="x", labelsize=8)

    return [Plot("", 2, draw)]
