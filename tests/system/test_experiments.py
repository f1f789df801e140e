"""tools/lab experiment: it measures, writes what it found, and leaves nothing behind; and what a report
says follows from its figures."""

import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import HERE
from lateness import Lateness
from support import IS_ROOT, left_in_memory, wait_until

from lablib import Lab, network
from lablib.experiments import (breakdown, change_rate, command as experiments, link_speed, overhead,
                                report)

LAB = HERE.parents[1] / "tools" / "lab"
HEADS = {"experiment", "machine", "date", "rounds", "seconds", "quick", "bars", "conclusions",
         "figures"}

needs_namespaces = pytest.mark.skipif(bool(network.unavailable()), reason=str(network.unavailable()))


def experiment(*words):
    return [sys.executable, str(LAB), "experiment", *map(str, words)]


def run(*words, env=None):
    return subprocess.run(experiment(*words), capture_output=True, text=True, check=False, timeout=280,
                          env={**os.environ, **(env or {})})


def loops():
    return subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=False).stdout


@pytest.fixture
def places(scratch):
    """Where it may put images, and where the report goes."""
    (scratch / "images").mkdir()
    yield scratch / "images", scratch / "out"
    for path in (scratch / "images").glob("*/*/lab.json"):  # of an experiment that failed to
        Lab(path.parent).purge()


def check_files(name, out, rounds):
    """The three kinds of file; the object of NAME.json."""
    found = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
    assert HEADS <= set(found), set(found)
    assert found["experiment"] == name and found["rounds"] == rounds and found["quick"]
    assert found["machine"]["cores"] == os.cpu_count()
    assert found["machine"]["kernel"].endswith(os.uname().release)
    assert found["conclusions"]
    text = (out / f"{name}.md").read_text(encoding="utf-8")
    for each in found["conclusions"]:
        assert f"- {each}" in text
    for each in found["bars"]:
        assert report.bar_text(each) in text
    pictures = sorted(path.name for path in out.glob("*.png"))
    assert f"{name}.png" in pictures
    for picture in pictures:
        assert f"({picture})" in text
        data = (out / picture).read_bytes()
        width, height = struct.unpack(">II", data[16:24])
        assert data.startswith(b"\x89PNG\r\n\x1a\n") and width > 400 and height > 300
    return found, text


@needs_namespaces
def test_resync_speed_writes_its_report_and_leaves_nothing(places):
    images, out = places
    done = run("resync-speed", "--quick", "--rounds", 2, "--out", out, "--scratch", images)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(out / "resync-speed.md")
    assert not list(images.iterdir()), "something is left of the labs"
    found, text = check_files("resync-speed", out, rounds=2)
    points = found["figures"]["points"]
    assert set(points) == {"1gbit", "10gbit"} and all(len(each) == 2 for each in points.values())
    for sample in sum(points.values(), []):
        assert sample["resync_bytes"] >= 32 << 20 and 0 < sample["resync_s"] <= sample["back_s"]
    slow = min(each["resync_s"] for each in points["1gbit"])
    assert slow >= (32 << 20) / 125e6 * 0.9, "faster than the link"
    assert "| 1gbit |" in text and "| 10gbit |" in text


@needs_namespaces
@pytest.mark.long
@pytest.mark.parametrize("name", ["link-speed", "overhead", "compression", "encryption", "writers"])
def test_experiment_writes_its_report_and_leaves_nothing(places, name):
    if name == "writers" and not IS_ROOT:
        pytest.skip("mounting needs root")
    images, out = places
    before, devices = left_in_memory(images.parent), loops()
    done = run(name, "--quick", "--out", out, "--scratch", images)
    assert done.returncode == 0, done.stderr
    assert not list(images.iterdir()), "something is left of the labs"
    assert left_in_memory(images.parent) <= before and loops() == devices
    found, _ = check_files(name, out, rounds=1)
    assert len(found["bars"]) >= {"link-speed": 1, "overhead": 3, "compression": 1}.get(name, 0)


def nodes_of(images):
    """The pids of all nodes that labs below `images` have started."""
    pids = []
    for path in images.glob("*/*/lab.json"):
        state = json.loads(path.read_text(encoding="utf-8"))
        pids += [node["pid"] for node in state["nodes"].values() if node["pid"]]
    return pids


def processes_below(directory):
    """The commands of all processes that have a file of that directory as an argument."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_text(encoding="utf-8", errors="replace").replace("\0", " ")
        except OSError:
            continue
        if f"{directory}/" in command and "tools/lab " not in command:
            found.append(command)
    return found


def runs(pid):
    """An orphan that has ended may stay in the list until somebody takes note of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


@needs_namespaces
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_interrupted_experiment_ends_everything_and_writes_no_report(places, number):
    images, out = places
    before = left_in_memory(images.parent)
    def heed_interrupts():  # a shell's background jobs do not
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(experiment("overhead", "--quick", "--seconds", 30, "--out", out, "--scratch",
                                     images), stderr=subprocess.PIPE, text=True,
                          preexec_fn=heed_interrupts) as process:
        wait_until(lambda: len(nodes_of(images)) == 2, what="two nodes")
        pids = nodes_of(images)
        assert process.poll() is None
        wait_until(lambda: list(images.glob("*/bare0.sock")), what="the bare copy")
        assert len(processes_below(images)) >= 3, "a peer and two servers run by now"
        time.sleep(0.5)  # it measures
        process.send_signal(number)
        said = process.communicate(timeout=120)[1]
    assert process.returncode == (-number if number == signal.SIGKILL else 130), said
    if number == signal.SIGKILL:  # somebody else sees to it
        wait_until(lambda: not list(images.iterdir()) and left_in_memory(images.parent) <= before,
                   what="the guardian")
    assert not [pid for pid in pids if runs(pid)]
    assert not processes_below(images)
    assert not list(images.iterdir()) and left_in_memory(images.parent) <= before
    assert not list(out.glob("*"))


def test_without_matplotlib_nothing_is_measured_and_the_package_is_named(places):
    images, out = places
    (out / "fake").mkdir(parents=True)
    (out / "fake" / "matplotlib.py").write_text("raise ImportError('not here')\n", encoding="utf-8")
    done = run("link-speed", "--quick", "--out", out / "report", "--scratch", images,
               env={"PYTHONPATH": str(out / "fake")})
    assert done.returncode == 1 and "python3-matplotlib" in done.stderr
    assert not list(images.iterdir()) and not (out / "report").exists()


def test_list_names_each_experiment_of_the_issue():
    done = run("--list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == \
        ["link-speed", "writers", "overhead", "compression", "encryption", "resync-speed", "plan", "boot-storm"]


def test_wrong_options_are_refused_before_anything_is_made(places):
    images, out = places
    for words, reason in ((("overhead", "--rounds", 0), "--rounds 0"), ((), "which experiment"),
                          (("overhead", "--seconds", 0), "--seconds 0"),
                          (("overhead", "--build", images), "build first")):
        done = run(*words, "--out", out, "--scratch", images)
        assert done.returncode == 1 and reason in done.stderr, done.stderr
    assert not out.exists() and not list(images.iterdir())


# --- what reports say follows from the figures ---


def overhead_figures(slower):
    """Mirrored writes that take `slower` times as long."""
    def sample(factor):
        return {"bytes_per_s": 40e6 / factor, "mean_us": 2000 * factor, "p50_us": 0, "p99_us": 0,
                "iops": 0, "breakdown": None, "intents": {"commits": 0, "waits": 0}}
    return {"points": {name: {str(size): [sample(factor)] * 3 for size in overhead.SIZES}
                       for name, factor in ((overhead.BASE, 1), ("same disk", slower),
                                            ("bare copy", 1.25))},
            "alone_mean_us": {overhead.BASE: [2000], "same disk": [2000 * slower], "bare copy": [2500]},
            "round_trip_us": [30], "cases": ["same disk"], "bare": ["bare copy"],
            "disk": {"bytes_per_s": 240e6, "delay_us": 2000}}


def test_overhead_of_one_per_cent_reaches_the_bar_and_of_three_misses_it():
    good, bad = (overhead.report(overhead_figures(slower)) for slower in (1.01, 1.03))
    assert [each["reached"] for each in good.bars] == [True] * 3
    assert [each["reached"] for each in bad.bars] == [False] * 3
    assert "**MISSED**" in bad.markdown([], []) and "MISSED" not in good.markdown([], [])
    assert good.conclusions != bad.conclusions
    # What only is to compare with has no bar.
    assert any("a bare copy" in each and "20.0% at 4 KiB" in each for each in good.conclusions)


@pytest.mark.parametrize("values, size", [
    ([0.0, 0.2, 0.3], 2), ([0.2, 0.0, 0.3], 4), ([0.2, 0.2, 0.05], None), ([0.1, 0.1, 0.1], 1)])
def test_ten_gbit_pays_from_where_all_larger_writes_gain_too(values, size):
    assert link_speed.pays_from([1, 2, 4], values, 0.1) == size


def link_speed_figures(wire_us_per_kib, with_breakdown=True):
    """Writes that take 50 us, and so much for each KiB on the links' wires."""
    def sample(size, wire_us):
        total = 50 + wire_us
        stages = {**dict.fromkeys(breakdown.STAGES, 0.0), "stack": 50.0, "wire": wire_us}
        return {"p50_us": total, "p99_us": total, "mean_us": total, "iops": 1e6 / total,
                "bytes_per_s": size * 1e6 / total, "breakdown": {
                    "writes": 100, "total_us": total, "stages_us": stages} if with_breakdown else None}
    sizes = link_speed.SIZES
    names = (link_speed.SLOW, link_speed.FAST, link_speed.ALONE)
    return {"sizes": sizes, "points": {
        name: {str(size): [sample(size, size / 1024 * factor)] * 2 for size in sizes}
        for name, factor in zip(names, wire_us_per_kib)},
        "beside_iperf": {"65536": [{"bytes_per_s": 97.5e6, "iperf3_bytes_per_s": 100e6}]}}


def test_link_speed_marks_the_size_from_which_the_wire_is_a_tenth_of_a_write():
    # At 1 Gbit/s 8.2 us a KiB: of 1 KiB 14%, of 2 KiB 25%, less what 10 Gbit/s take.
    made = link_speed.report(link_speed_figures((8.2, 0.82, 0.0)))
    assert "begins to pay at 1 KiB a write" in made.conclusions[0]
    assert made.bars[0]["reached"]
    made = link_speed.report(link_speed_figures((0.82, 0.82, 0.0)))
    assert "At no size" in made.conclusions[0]
    assert not any("Disturbed" in each for each in made.conclusions)
    noisy = link_speed_figures((8.2, 0.82, 0.0))
    noisy["points"][link_speed.FAST]["2048"] = [{**noisy["points"][link_speed.FAST]["2048"][0],
                                                 "p50_us": 900}]
    assert "2 KiB and 10 Gbit/s" in link_speed.report(noisy).conclusions[0]


def test_breakdown_of_each_point_is_shown_where_there_is_one_and_missed_where_not(scratch):
    options = {"experiment": "link-speed", "machine": {"cpu": "x", "cores": 1, "memory_gib": 1,
                                                       "kernel": "y", "versions": {}},
               "date": "now", "took_s": 1, "rounds": 1, "seconds": 1, "quick": False,
               "load_before": 0}
    experiments.write(link_speed, scratch, link_speed_figures((8.2, 0.82, 0.0)), options)
    text = (scratch / "link-speed.md").read_text(encoding="utf-8")
    # 1 MiB at 1 Gbit/s: 1024 * 8.2 us of wire.
    assert "| 1 MiB | 1 Gbit/s | 8446.8 |" in text and "| 8396.8 |" in text
    assert "the wire is 99% of the latency" in text
    assert (scratch / "link-speed-breakdown.png").stat().st_size > 5000
    without = link_speed.report(link_speed_figures((8.2, 0.82, 0.0), with_breakdown=False))
    assert "No breakdown" in without.markdown([], [])
    assert len(link_speed.plots(link_speed_figures((8, 1, 0), with_breakdown=False))) == 1


def reading(count, wire_ns, rest_ns):
    def histogram(spent):
        return {"count": count, "sum_ns": spent, "p50_ns": 0, "p90_ns": 0, "p99_ns": 0, "max_ns": 0}
    stages = {stage: histogram(0) for stage in breakdown.STAGES}
    stages["wire"] = histogram(wire_ns)
    stages["stack"] = histogram(rest_ns)
    return {"classes": [{"class": "4K", "bytes_max": 4096, "writes": count,
                         "total": histogram(wire_ns + rest_ns), "stages": stages}], "links": []}


def test_breakdown_of_a_point_is_what_the_histograms_gained_in_it():
    point = breakdown.between(reading(10, 1000, 9000), reading(30, 41000, 49000))
    assert point["writes"] == 20
    assert point["stages_us"]["wire"] == 2.0 and point["stages_us"]["stack"] == 2.0
    assert point["total_us"] == sum(point["stages_us"].values()) == 4.0
    assert breakdown.between({"classes": [], "links": []}, reading(30, 30000, 0))["writes"] == 30
    assert breakdown.between(reading(10, 1, 1), reading(10, 1, 1)) is None
    assert breakdown.between(None, reading(10, 1, 1)) is None


class MemoryDevice:
    def __init__(self, size):
        self.data = bytearray(b"\xff" * size)

    def pwrite(self, data, offset):
        self.data[offset:offset + len(data)] = data

    def pread(self, length, offset):
        return bytes(self.data[offset:offset + length])

    def trim(self, length, offset):
        self.data[offset:offset + length] = bytes(length)


def test_generator_knows_what_must_be_there_deleted_batches_included():
    batch = change_rate.BATCH_BYTES
    device = MemoryDevice(4 * batch)
    generator = change_rate.ChangeRate(device, 4 * batch, seed=7)
    written = 0
    while len(generator.content) < 4 or generator.number < 6:
        written += generator.run(0.001, None)[0]
    assert written == generator.number * batch
    assert not generator.wrong(device.pread)
    kept = generator.order[-1]
    deleted = next(place for place, number in generator.content.items() if number is None)
    for place in (kept, deleted):
        device.data[place * batch + 70000] ^= 1
        assert generator.wrong(device.pread) == [(place, change_rate.BLOCK)]
        device.data[place * batch + 70000] ^= 1


def test_generator_keeps_to_its_rate():
    batch = change_rate.BATCH_BYTES
    generator = change_rate.ChangeRate(MemoryDevice(4 * batch), 4 * batch, seed=7)
    with Lateness() as machine:
        written, took = generator.run(0.1, 20e6)
    due = batch / 20e6
    assert written == batch and 0.95 * due <= took <= 1.1 * due + machine.allowance_s()
