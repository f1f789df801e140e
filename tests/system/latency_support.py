"""What the tests of latency share: how long each of some writes was in each stage."""

import time
from statistics import median

STAGES = ["prepare", "compression", "queue", "intent", "send", "crypto", "link-queue", "wire", "stack", "peer-queue",
          "peer-disk", "local-disk", "completion"]


def sums(lab):
    """How many writes there were, and the ns that they took in all, by stage."""
    classes = lab.ctl("alpha", "latency")["classes"]
    total = {stage: sum(each["stages"][stage]["sum_ns"] for each in classes) for stage in STAGES}
    for each in classes:
        assert list(sorted(each["stages"])) == sorted(STAGES)
        assert sum(s["sum_ns"] for s in each["stages"].values()) == each["total"]["sum_ns"]
    return sum(each["writes"] for each in classes), total


def write_alone(lab, write):
    """The seconds in each stage of the one write that `write` makes."""
    count_before, before = sums(lab)
    write()
    count, after = sums(lab)
    assert count - count_before == 1
    return {stage: (after[stage] - before[stage]) / 1e9 for stage in STAGES}


def medians(lab, handle, data, count):
    """Of writes one after the other: a median is not moved by the few for which the machine had no time."""
    each = []
    for number in range(count):
        each.append(write_alone(lab, lambda at=number * len(data): handle.pwrite(data, at)))
        time.sleep(0.002)
    return {stage: median(one[stage] for one in each) for stage in STAGES}
