"""tools/lab experiment boot-storm: machines read clones of one system as a recorded boot did, each gets its own bytes,
and the report follows from the figures."""

import json
import stat
import subprocess
import sys

import nbd
import pytest

from conftest import HERE

from lablib import LabError, network
from lablib.experiments import boot_cases, boot_machines, boot_record, boot_storm, boot_trace
from lablib.experiments.bench import benches
from lablib.experiments.boot_cases import BASE, CASES, LEARNED, PHASES, REMOTE, REMOTE_WARM, RESTARTED, WARM
from lablib.experiments.boot_clones import Clones, content, write
from lablib.experiments.boot_trace import BLOCK, Trace
from support import left_in_memory

LAB = HERE.parents[1] / "tools" / "lab"
READERS = 3

needs_namespaces = pytest.mark.skipif(bool(network.unavailable()), reason=str(network.unavailable()))


def run(scratch, *words):
    (scratch / "images").mkdir()
    return subprocess.run([sys.executable, str(LAB), "experiment", "boot-storm", "--quick", "--readers", str(READERS),
                           "--scratch", str(scratch / "images"), "--out", str(scratch / "out"), *words],
                          capture_output=True, text=True, check=False, timeout=280)


def all_read(sample, node):
    """From that node's disk, in whole blocks: some of the boot's reads are of a sector."""
    return sample["bytes"] <= sample[node] <= sample["bytes"] * 1.02


@needs_namespaces
@pytest.mark.slow
@pytest.mark.parametrize("cases", [[BASE], [case.name for case in CASES if case.cache]], ids=["no-cache", "caches"])
def test_machines_boot_from_clones_in_each_case_and_nothing_is_left(scratch, cases):
    before = left_in_memory(scratch)
    done = run(scratch, "--json", "--cases", ",".join([BASE, *cases] if cases != [BASE] else cases))
    assert done.returncode == 0, done.stderr
    assert not list((scratch / "images").iterdir()) and left_in_memory(scratch) <= before
    found = json.loads(done.stdout)
    assert found == json.loads((scratch / "out" / "boot-storm.json").read_text(encoding="utf-8"))
    figures = found["figures"]
    for name in cases:
        points = figures["points"][name]
        assert set(points) == set(PHASES) - ({RESTARTED} if name == BASE else set())
        for samples in points.values():
            assert len(samples[0]["reader_s"]) == READERS and samples[0]["took_s"] == max(samples[0]["reader_s"])
    base = {phase: samples[0] for phase, samples in figures["points"][BASE].items()}
    for phase in (LEARNED, WARM):  # no page cache answers, and no peer
        assert all_read(base[phase], "alpha") and base[phase]["beta"] == 0
        assert base[phase]["took_s"] >= base[phase]["bytes"] / boot_cases.RATE_BYTES
    for phase in (REMOTE, REMOTE_WARM):
        assert all_read(base[phase], "beta") and base[phase]["alpha"] == 0
    if cases != [BASE]:  # what it takes is the machine's matter; what is read from a disk is the cache's
        for phase in (WARM, REMOTE_WARM):
            assert boot_storm.served(figures["points"]["twice"][phase][0], phase) < base[phase]["bytes"] / 2
    text = (scratch / "out" / "boot-storm.md").read_text(encoding="utf-8")
    assert all(f"- {each}" in text for each in found["conclusions"])
    for picture in ("boot-storm.png", "boot-storm-machines.png"):
        assert f"({picture})" in text and (scratch / "out" / picture).stat().st_size > 5000


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_build_that_knows_no_cache_is_told_from_one_that_does(scratch):
    config = scratch / "r0.toml"
    config.write_text('volume = "r0"\n', encoding="ascii")
    old = program(scratch / "old", 'grep -q cache "$1" && { echo "twinblockd: unknown table [cache]" >&2; exit 78; }; exit 0')
    assert "unknown table [cache]" in boot_cases.refusal(old, config, "alpha", boot_cases.cache_table("1GiB"))
    assert boot_cases.refusal(old, config, "alpha", "") is None
    new = program(scratch / "new", 'grep -q \'size = "1GiB"\' "$1"')
    assert boot_cases.refusal(new, config, "alpha", boot_cases.cache_table("1GiB")) is None
    assert sorted(path.name for path in scratch.iterdir()) == ["new", "old", "r0.toml"]


@needs_namespaces
def test_experiment_says_in_a_sentence_that_the_build_knows_no_cache(scratch):
    build = scratch / "build"
    (build / "daemon").mkdir(parents=True)
    program(build / "daemon" / "twinblockd", 'echo "twinblockd: unknown table [cache]" >&2; exit 78')
    done = run(scratch, "--build", str(build))
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "takes no [cache] table" in done.stderr and f"--cases {BASE}" in done.stderr
    assert not list((scratch / "images").iterdir())


@pytest.mark.parametrize("words, reason", [
    (("--cases", "half,thrice"), "no case 'thrice'"), (("--readers", "0"), "--readers 0"),
    (("--changed", "101"), "--changed 101"), (("--trace", "/nonexistent", "--cases", BASE), "no recorded boot")])
def test_wrong_options_are_refused_in_a_sentence(scratch, words, reason):
    done = run(scratch, *words)
    assert done.returncode == 1 and reason in done.stderr and "Traceback" not in done.stderr, done.stderr


# --- the trace and the clones ---


def test_recorded_boot_is_one():
    trace = boot_trace.load()
    assert len(trace.reads) > 500 and trace.bytes > 16 << 20
    assert max(depth for *_, depth in trace.reads) > 1, "nothing was read ahead"
    head = boot_trace.RECORDED.read_text(encoding="ascii").partition("# After these lines")[0]
    assert "--record" in head and "QEMU" in head


def test_log_of_the_disk_becomes_reads_with_what_was_under_way():
    lines = ["2026-01-01 00:00:00.000000 connection=1 Connect export=\"\" tls=0 size=0x100000",
             "2026-01-01 00:00:01.000000 connection=1 Read id=1 offset=0x1000 count=0x2000 ...",
             "2026-01-01 00:00:01.001000 connection=1 Read id=2 offset=0x8000 count=0x200 ...",
             "2026-01-01 00:00:01.002000 connection=1 ...Read id=1 return=0",
             "2026-01-01 00:00:01.003000 connection=1 Write id=3 offset=0x1000 count=0x1000 fua=0 ...",
             "2026-01-01 00:00:01.004000 connection=1 ...Write id=3 return=0",
             "2026-01-01 00:00:01.005000 connection=1 Read id=4 offset=0x0 count=0x4000 ..."]
    assert boot_record.parse(lines) == ([(0, 0x1000, 0x2000, 0), (1000, 0x8000, 0x200, 1), (5000, 0, 0x4000, 1)], 1)


def test_trace_is_the_same_from_its_file(scratch):
    reads = [(0, 4096, 8192, 0), (1500, 512, 512, 1), (2900, 1 << 30, 131072, 3)]
    twins = {2: 1, 3: None}
    boot_trace.store(scratch / "trace", ["One boot."], reads, twins)
    trace = boot_trace.load(scratch / "trace")
    assert trace.reads == [each[1:] for each in reads] and trace.twins == twins
    (scratch / "trace").write_text("0 1\n", encoding="ascii")
    with pytest.raises(LabError, match="no line of a trace"):
        boot_trace.load(scratch / "trace")


def test_equal_blocks_of_a_disk_are_found(scratch):
    blocks = [b"a" * BLOCK, b"b" * BLOCK, bytes(BLOCK), b"a" * BLOCK, b"c" * BLOCK]
    (scratch / "disk").write_bytes(b"".join(blocks))
    assert boot_record.equal_blocks(scratch / "disk", [(0, 4 * BLOCK, 0)]) == {2: None, 3: 0}


TRACE = Trace([(0, 40 * BLOCK, 0), (100 * BLOCK, 60 * BLOCK, 1)], {3: 1, 4: None, 5: None})


def held(clones):
    """The device's bytes, from what is written to it."""
    device = bytearray(clones.size)
    for offset, data in clones.pieces():
        device[offset:offset + len(data)] = data
    return device


@pytest.mark.parametrize("distinct", [False, True])
def test_clones_hold_what_readers_expect_and_are_as_unique_as_they_say(distinct):
    clones = Clones(TRACE, 3, 10, distinct)
    device, different = held(clones), set()
    for clone in range(3):
        stamps = clones.stamps(clone)
        for block in TRACE.blocks:
            at = clone * clones.stride + block * BLOCK
            data = bytes(device[at:at + BLOCK])
            assert data.startswith(stamps[block])
            different.add(data)
    assert len(different) * BLOCK == clones.unique_bytes()
    assert clones.working_set_bytes() == 3 * 100 * BLOCK
    # 100 blocks, of which two equal others; and ten of each clone, which may be those.
    assert len(different) == 300 if distinct else 100 - 2 < len(different) <= 100 - 2 + 30
    assert held(Clones(TRACE, 3, 10, distinct)) == device, "another time it is something else"


def test_clones_of_which_nothing_is_changed_are_equal_but_for_what_is_distinct():
    assert Clones(TRACE, 5, 0).unique_bytes() == len(TRACE.unique() + [None]) * BLOCK
    assert content(None) == bytes(BLOCK) and content("a") != content("b") and len(content("a")) == BLOCK


def test_readers_notice_blocks_that_do_not_hold_what_was_written(scratch):
    with benches(scratch, None) as bench:
        clones = Clones(TRACE, 2, 10)
        sock = bench.dir / "sock"
        bench.spawn(["nbdkit", "-f", "--unix", sock, "memory", clones.size], "memory")
        bench.first_answer(sock, "memory")
        uri = f"nbd+unix:///?socket={sock}"
        with pytest.raises(LabError, match="0 errors, and 9[0-9] blocks that do not hold"):
            boot_machines.boot(bench, clones, uri)
        write(clones, uri)
        assert len(boot_machines.boot(bench, clones, uri)) == 2
        flip(uri, clones.stride + 110 * BLOCK)
        with pytest.raises(LabError, match="0 errors, and 1 blocks that do not hold"):
            boot_machines.boot(bench, clones, uri)


def flip(uri, offset):
    handle = nbd.NBD()
    handle.connect_uri(uri)
    handle.pwrite(bytes([handle.pread(1, offset)[0] ^ 1]), offset)
    handle.shutdown()


# --- what the report says follows from the figures ---


def figures_of(takes):
    """`takes` maps a case to the seconds of its phases."""
    def sample(seconds):
        return {"took_s": seconds, "reader_s": [seconds / 2, seconds], "bytes": 2 * 10**9, "alpha": 10**9,
                "alpha_reads": 1000, "beta": 10**9, "beta_reads": 1000, "link": 0, "cache": {"hits": 12}}
    return {"readers": 2, "changed_percent": 5.0, "reads": 100, "read_bytes": 10**9, "blocks_bytes": 10**9,
            "equal_within_bytes": 0, "working_set_bytes": 2 * 10**9, "unique_bytes": 10**9,
            "disk": {"bytes_per_s": 240e6, "delay_us": 2000}, "link": "1gbit", "cases": list(takes),
            "cache_bytes": {name: 0 if name == BASE else 1 << 30 for name in takes}, "readers_alone_s": 1.0,
            "points": {name: {phase: [sample(seconds)] for phase, seconds in phases.items()}
                       for name, phases in takes.items()}}


NO_CACHE = {LEARNED: 10.0, WARM: 10.0, REMOTE: 20.0, REMOTE_WARM: 20.0}


def with_cache(cold, warm, remote):
    return figures_of({BASE: NO_CACHE, "twice": {LEARNED: cold, WARM: warm, RESTARTED: 9.5, REMOTE: remote,
                                                 REMOTE_WARM: 1.6}})


def test_bars_are_reached_or_missed_by_the_time_without_a_cache():
    good, bad = boot_storm.report(with_cache(5.9, 2.9, 7.8)), boot_storm.report(with_cache(6.1, 3.1, 8.1))
    assert [each["reached"] for each in good.bars] == [True] * 3
    assert [each["reached"] for each in bad.bars] == [False] * 3
    text = good.markdown([], [])
    assert "| twice the set | 1024 MiB | 5.9 (0.59x) | 2.9 (0.29x) | 9.5 (0.95x) | 7.8 (0.39x) | 1.6 (0.08x) |" in text
    assert "15:09" in text and "4:27 (0.29x)" in text and "hits" in text


def test_what_was_not_measured_has_no_bar_and_no_figure():
    made = boot_storm.report(figures_of({BASE: NO_CACHE}))
    assert not made.bars and "not measured" in made.markdown([], [])


def test_report_says_when_the_readers_were_the_limit():
    assert "limited by the readers" in boot_storm.report(with_cache(5, 1.5, 7)).markdown([], [])
    assert "limited by the readers" not in boot_storm.report(figures_of({BASE: NO_CACHE})).markdown([], [])


def test_counters_of_a_cache_are_told_by_whatever_names():
    assert boot_cases.changes({"hits": 1, "size": "2GiB"}, {"hits": 4, "size": "2GiB", "on": True}) == {"hits": 3}
    assert boot_cases.changes(None, None) is None and boot_cases.changes(None, {"hits": 4}) == {"hits": 4}
