"""Benchmarks of two mirrors that differ in one setting: side by side on loopback, in one session, interleaved,
through fio's nbd engine. A bar is held against the median of the rounds' own ratios."""

import argparse
import json
import statistics
import sys
from pathlib import Path

from lablib import LabError
from servers import medians, run_all


def parse(argv, text, rounds):
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--seconds", type=float, default=1, help="of each measurement (default 1)")
    parser.add_argument("--ramp", type=float, default=0.3, help="seconds before it counts")
    parser.add_argument("--rounds", type=int, default=rounds, help=f"medians are over these (default {rounds})")
    parser.add_argument("--size", default="1GiB", help="of the device (default 1GiB)")
    parser.add_argument("--case", action="append", metavar="WORD", help="only cases whose name holds WORD")
    parser.add_argument("--dir", help="where the images go (default: a new directory in /var/tmp)")
    parser.add_argument("--build", help="build tree (default $TWINBLOCK_BUILD, else build/release)")
    parser.add_argument("--json", help="the figures as JSON, into this file")
    return parser.parse_args(argv)


def ratios(samples):
    """Of the rates, one a round, whose two were measured side by side."""
    one, other = samples.values()
    return [a["iops"] / b["iops"] for a, b in zip(one, other)]


def verdict(values, bar):
    """By the median. A neighbour's noise moves that, too, so its standard error is said (of a median some 1.25 times
    that of the mean); closer to the bar than that is not told from it."""
    value = statistics.median(values)
    error = 1.25 * statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 1.0
    said = "reached" if value >= bar else "MISSED" if value + error < bar else "NOT TOLD APART, more --rounds may"
    return (f"{value:.3f}x (+- {error:.3f}; the mean is {statistics.mean(values):.3f}x) its rate; "
            f"the bar is at least {bar:.2f}x: {said}")


def table(results, kinds, bar):
    lines = []
    for name, samples in results.items():
        lines.append(name)
        for kind, each in samples.items():
            figure = medians(each)
            lines.append(f"  {kinds[kind].title:22} {figure['iops']:9.0f}/s {figure['bytes_per_s'] / 1e6:7.0f} MB/s   "
                         f"p50 {figure['p50_us']:6.0f} us   p99 {figure['p99_us']:6.0f} us   "
                         f"CPU {figure['cpu_s_per_gib']:6.2f} s/GiB")
        lines.append(f"  -> the first beside the second: {verdict(ratios(samples), bar)}")
    return "\n".join(lines)


def compare(kinds, cases, options, bar):
    """`kinds`: by a short name, two classes of servers, whose bar is the first against the second; `cases` as `measure`
    takes them."""
    chosen = [case for case in cases if not options.case or any(word in case[0] for word in options.case)]
    if not chosen:
        raise LabError("no case of that name; they are: " + ", ".join(case[0] for case in cases))
    results = run_all(kinds, chosen, options)
    print(table(results, kinds, bar))
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def main(argv, text, kinds, cases, *, bar, rounds):
    """A benchmark's whole main function: its exit status."""
    try:
        compare(kinds, cases, parse(argv, text, rounds), bar)
    except (LabError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0
