"""Where the time of a point's writes went: the difference of two readings of `twinblock latency`."""

from .. import control
from .report import table

STAGES = ("prepare", "compression", "queue", "intent", "send", "crypto", "link-queue", "wire", "stack", "peer-queue",
          "peer-disk", "local-disk", "completion")


def read(lab, node="alpha"):
    """The node's histograms since its start; None where it does not know the verb."""
    try:
        return lab.ctl(node, "latency", window="start")
    except control.ControlError as error:
        if "latency" in str(error) and "unknown verb" in str(error):
            return None
        raise


def between(before, after):
    """Means of all writes between two readings, over all size classes: of the total and of each
    stage, in us. None where there were none, or where a reading is missing."""
    if before is None or after is None:
        return None
    writes, total_ns = _grown(before, after, lambda each: each["total"])
    if not writes:
        return None
    stages = {stage: _grown(before, after, lambda each, stage=stage: each["stages"].get(stage))[1]
              for stage in STAGES}
    return {"writes": writes, "total_us": total_ns / writes / 1e3,
            "stages_us": {stage: spent / writes / 1e3 for stage, spent in stages.items()}}


def _grown(before, after, pick):
    """(count, ns) that a histogram gained, over all size classes."""
    def sums(reading):
        found = [pick(each) or {} for each in reading["classes"]]
        return (sum(each.get("count", 0) for each in found),
                sum(each.get("sum_ns", 0) for each in found))

    (count, spent), (count_before, spent_before) = sums(after), sums(before)
    return count - count_before, spent - spent_before


def merged(samples):
    """One breakdown of several rounds' samples, each write counting the same; None if there is none."""
    there = [sample["breakdown"] for sample in samples if sample["breakdown"]]
    writes = sum(sample["writes"] for sample in there)
    if not writes:
        return None

    def mean(pick):
        return sum(pick(sample) * sample["writes"] for sample in there) / writes

    return {"writes": writes, "total_us": mean(lambda sample: sample["total_us"]),
            "stages_us": {stage: mean(lambda sample, stage=stage: sample["stages_us"][stage])
                          for stage in STAGES}}


def add_table(made, header, found, places=0, text=""):
    """To a report: `found` are pairs, what each row begins with and its breakdown (None: no row).
    `header` ends with what the whole time is called."""
    rows = [[*begin, *(f"{value:.{places}f}" for value in
                       (each["total_us"], *(each["stages_us"][stage] for stage in STAGES)))]
            for begin, each in found if each]
    made.add("Where the time goes", text + table([*header, *STAGES], rows) if rows
             else "No breakdown: these nodes do not know `twinblock latency`.")


def software_us(breakdown):
    """What is neither wire nor a disk."""
    stages = breakdown["stages_us"]
    return breakdown["total_us"] - stages["wire"] - stages["peer-disk"] - stages["local-disk"]
