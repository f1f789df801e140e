"""What `twinblock plan` says of other links while the clients run over one, and what is measured when they do."""

import json
import subprocess
import time
from pathlib import Path
from statistics import median

from ..error import LabError
from ..fio import run_fio
from ..links import parse_rate
from .bench import must_be, say
from .plots import Plot
from .report import Report, bar, size_text, table

NAME = "plan"
TITLE = "what `twinblock plan` foretells of another link, against what is measured there"
ROUNDS, SECONDS, SECONDS_QUICK = 3, 3.0, 1.0

SIZES = [4 << 10, 16 << 10, 64 << 10, 128 << 10, 1 << 20]
SIZES_QUICK = [4 << 10, 128 << 10]
DEPTHS = [1, 8]
SOURCES = ["200mbit", "1gbit"]
TARGETS = ["400mbit", "1gbit", "2gbit", "10gbit"]
RATES = ["200mbit", *TARGETS]
RAMP_S = 0.3
# The node's window of 10 s holds the last 12 s at the most; meanwhile it is the other labs' turn.
APART_S = 12
NEAR, FAR, TAIL, RESYNC = 0.15, 0.30, 0.30, 0.20
DIFFERS = 0.20  # a measured difference that a verdict must not deny


def measure(bench, options):
    sizes = SIZES_QUICK if options.quick else SIZES
    seconds = max(options.seconds, APART_S / (len(RATES) - 1))
    labs = {rate: bench.lab(f"at-{rate}", "192MiB", rate) for rate in RATES}
    points = []
    for number in range(options.rounds):
        for size in sizes:
            for depth in DEPTHS:
                for rate in RATES:
                    points.append(one_point(labs[rate], rate, size, depth, seconds))
        say(f"round {number + 1}/{options.rounds} is done")
    return {"points": points, "outages": outages(bench, options)}


# Random writes of 4 KiB all over, of 64 KiB to one eighth again and again, and a stream.
PATTERNS = {"scattered": ("randwrite", "4k", []), "hot": ("randwrite", "64k", ["--size=24MiB"]),
            "stream": ("write", "256k", [])}
OUTAGE_RATE, OUTAGE_BYTES_PER_S = "200mbit", 3 << 20
OUTAGE_S, OUTAGE_S_QUICK = 60, 10
IDLE_S = 3


def outages(bench, options):
    """For each pattern: what is foretold of the resync after a minute without the peer, and how long it is."""
    seconds = OUTAGE_S_QUICK if options.quick else OUTAGE_S
    found = {}
    for name, (mode, block, extra) in PATTERNS.items():
        lab = bench.lab(f"outage-{name}", "512MiB", OUTAGE_RATE)
        uri = lab.node("alpha")["nbd"]
        words = [*extra, f"--rate={OUTAGE_BYTES_PER_S}"]
        run_fio(uri, mode, block, 1, seconds, ramp=0, extra=words)
        [minute, *_] = plan(lab)["now"]["resync"]
        time.sleep(IDLE_S)  # until the nodes have flushed on their own: what was written before is no loss
        lab.kill("beta")
        lab.wait_state("alpha", "simplex", 30)
        run_fio(uri, mode, block, 1, seconds, ramp=0, extra=words)
        lab.start("beta")
        lab.wait_state("alpha", "duplex", 120)
        last = lab.status("alpha")["last_resync"]
        found[name] = {"foretold_s": minute["duration_s"], "foretold_bytes": minute["bytes"],
                       "measured_s": last["duration_s"], "measured_bytes": last["bytes"]}
        say(f"outage, {name}: {found[name]}")
        lab.down()
    return found


def one_point(lab, rate, size, depth, seconds):
    sample = run_fio(lab.node("alpha")["nbd"], "randwrite", str(size), depth, seconds, ramp=RAMP_S)
    latency = lab.ctl("alpha", "latency", window="10s")
    must_be(lab, "duplex")
    classes = latency["classes"]
    if len(classes) != 1:
        raise LabError(f"more than one size of writes in 10 s: {[each['class'] for each in classes]}")
    total = classes[0]["total"]
    return {"rate": rate, "size": size, "depth": depth, "bytes_per_s": sample["bytes_per_s"],
            "p50_us": sample["p50_us"], "p99_us": sample["p99_us"],
            "node_p50_us": total["p50_ns"] / 1e3, "node_p99_us": total["p99_ns"] / 1e3,
            "latency": latency, "plan": plan(lab) if rate in SOURCES else None}


def plan(lab):
    """By target: what the program says."""
    program = Path(lab.state["build"]) / "tools" / "twinblock"
    words = [word for rate in TARGETS for word in ("--link", f"{parse_rate(rate) // 10**6}Mbit")]
    done = subprocess.run([str(program), "plan", "--socket", lab.node("alpha")["control"], "--window", "10s",
                           "--json", *words], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise LabError(f"twinblock plan failed: {done.stderr}")
    told = json.loads(done.stdout)
    rows = {}
    for rate, row in zip(TARGETS, told["links"]):
        [each] = row["classes"]
        rows[rate] = {"bytes_per_s": row["bytes_per_s"], "p50_us": each["p50_ns"] / 1e3,
                      "p99_us": each["p99_ns"] / 1e3, "mean_us": row["mean_ns"] / 1e3}
    return {"now": told["now"], "load": told["load"], "rows": rows}


# --- from here on, everything follows from the figures ---


def at(figures, rate, size, depth):
    found = [each for each in figures["points"] if (each["rate"], each["size"], each["depth"]) == (rate, size, depth)]
    return found


def cells(figures):
    """Each foretold cell: medians over the rounds, and by how much they differ from what was measured there."""
    made = []
    keys = sorted({(each["size"], each["depth"]) for each in figures["points"]}, key=lambda key: (key[1], key[0]))
    for source in SOURCES:
        for size, depth in keys:
            here = at(figures, source, size, depth)
            for target in TARGETS:
                if target == source:
                    continue
                there = at(figures, target, size, depth)
                cell = {"source": source, "target": target, "size": size, "depth": depth}
                for key in ("bytes_per_s", "p50_us", "p99_us"):
                    foretold = median(each["plan"]["rows"][target][key] for each in here)
                    measured = median(each[key] for each in there)
                    cell[key] = {"now": median(each[key] for each in here), "foretold": foretold,
                                 "measured": measured, "off": foretold / measured - 1}
                made.append(cell)
    return made


def share_within(found, keys, limit):
    return sum(all(abs(cell[key]["off"]) <= limit for key in keys) for cell in found) / len(found)


def wrong_verdicts(found):
    """Cells where it says that another link changes nothing and it does, or the other way round."""
    wrong = []
    for cell in found:
        rate = cell["bytes_per_s"]
        measured, foretold = rate["measured"] / rate["now"] - 1, rate["foretold"] / rate["now"] - 1
        if measured > DIFFERS and foretold <= DIFFERS / 2:
            wrong.append(cell)
        elif foretold > DIFFERS and measured <= DIFFERS / 2:
            wrong.append(cell)
    return wrong


def name_of(cell):
    return f"{size_text(cell['size'])} QD {cell['depth']}, {cell['source']} to {cell['target']}"


def report(figures):
    made = Report(
        "Plan: what it foretells of another link, and what is true",
        "The clients (fio's nbd engine, random writes of one size at a depth of 1 and of 8) run over one link; "
        "`twinblock plan` says what they would see over others; then the same is measured over those. Pairs of "
        "nodes in network namespaces, their links shaped by the lab's token buckets. p50 and p99 are the "
        "client's.")
    found = cells(figures)
    both = ("bytes_per_s", "p50_us")
    worst = max(found, key=lambda cell: max(abs(cell[key]["off"]) for key in both))
    wrong = wrong_verdicts(found)
    made.bars += [
        bar(f"cells of {len(found)} whose p50 and MB/s are within {NEAR:.0%}", share_within(found, both, NEAR), 0.9),
        bar(f"the worst of them ({name_of(worst)})", max(abs(worst[key]["off"]) for key in both), FAR, False),
        bar(f"cells whose p99 is within {TAIL:.0%}", share_within(found, ("p99_us",), TAIL), 0.8),
        bar("wrong verdicts", len(wrong), 0, False)]
    made.bars += [bar(f"resync after a minute's outage, {name}: off by",
                      abs(each["foretold_s"] / each["measured_s"] - 1), RESYNC, False)
                  for name, each in figures["outages"].items()]
    made.conclusions.append(
        f"Of {len(found)} cells, {sum(all(abs(cell[key]['off']) <= NEAR for key in both) for cell in found)} are "
        f"foretold within {NEAR:.0%} in p50 and in MB/s.")
    made.conclusions += [f"The verdict is wrong at {name_of(cell)}." for cell in wrong]

    def three(of, factor, places):
        return (f"{of['foretold'] / factor:.{places}f} / {of['measured'] / factor:.{places}f} "
                f"({of['off']:+.0%})")

    made.add("Foretold / measured", table(
        ["write, from, to", "MB/s", "p50 us", "p99 us"],
        [[name_of(cell), three(cell["bytes_per_s"], 1e6, 1), three(cell["p50_us"], 1, 0),
          three(cell["p99_us"], 1, 0)] for cell in found]))
    made.add(f"Resync after {OUTAGE_S} s without the peer, over {OUTAGE_RATE}", table(
        ["writes", "foretold", "measured"],
        [[name, f"{each['foretold_s']:.2f} s, {each['foretold_bytes'] / 1e6:.0f} MB",
          f"{each['measured_s']:.2f} s, {each['measured_bytes'] / 1e6:.0f} MB"]
         for name, each in figures["outages"].items()]))
    return made


def plots(figures):
    found = cells(figures)

    def draw(axes):
        for axis, (key, factor, label) in zip(axes, (("bytes_per_s", 1e6, "MB/s"), ("p50_us", 1e3, "p50, ms"))):
            for source in SOURCES:
                mine = [cell[key] for cell in found if cell["source"] == source]
                axis.scatter([each["measured"] / factor for each in mine],
                             [each["foretold"] / factor for each in mine], s=14, label=f"while at {source}")
            low, high = axis.get_xlim()
            low = max(low, 0.01)
            axis.plot([low, high], [low, high], color="grey", linewidth=1, label="what is true")
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_title(f"{label}: foretold against measured")
            axis.set_xlabel(f"measured, {label}")
            axis.set_ylabel(f"foretold, {label}")
            axis.grid(True, alpha=0.3)
            axis.legend(fontsize=8)

    return [Plot("", 2, draw)]
