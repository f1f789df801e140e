"""`twinblock plan --from`: what iostat, sar and fio have recorded here, and what Performance Monitor records, against
another reading of the same files; damaged files are refused with line and reason."""

import json
import os
import re
import subprocess

import pytest

from lablib.lab import default_build

DISK = re.compile(r"(sd|vd|xvd|hd)[a-z]+|nvme\d+n\d+|mmcblk\d+")
PAPER = {"write_bytes_per_s": {"yellow": 35e6, "red": 50e6}, "write_size_bytes": {"yellow": 8192, "red": 16384}}


def plan(*words):
    return subprocess.run([str(default_build() / "tools" / "twinblock"), "plan", *map(str, words)],
                          capture_output=True, text=True, check=False, timeout=60)


def planned(*words):
    done = plan(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(path, reason):
    done = plan("--from", path)
    assert done.returncode == 1 and done.stdout == "", done
    assert f"twinblock: {path}: {reason}" in done.stderr


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Recordings of the same seconds, in which fio writes pieces of 16 KiB."""
    folder = tmp_path_factory.mktemp("recorded")
    commands = {"iostat.txt": ["iostat", "-x", "-t", "1", "4"], "iostat.json": ["iostat", "-o", "JSON", "-x", "-t", "1", "4"],
                "sar.txt": ["sar", "-d", "1", "3"]}
    fio = ["fio", "--name=load", f"--filename={folder / 'load'}", "--size=8M", "--rw=write", "--bs=16k", "--direct=1",
           "--rate=4m", "--time_based", "--runtime=5", "--output-format=json"]
    running = []
    try:
        for name, command in {**commands, "fio.json": fio}.items():
            with open(folder / name, "wb") as out:
                running.append(subprocess.Popen(command, stdout=out, env={**os.environ, "LC_ALL": "C"}))
        for each in running:
            assert each.wait(120) == 0, each.args
    finally:
        for each in running:
            if each.poll() is None:
                each.kill()
                each.wait()
    (folder / "load").unlink()
    return folder


def iostat_sums(path):
    """Bytes and writes a second of each report but the first, by the columns' names."""
    reports, names = [], []
    for line in path.read_text().splitlines():
        words = line.split()
        if words and words[0] == "Device":
            names = words
            reports.append([0, 0])
        elif names and len(words) == len(names) and DISK.fullmatch(words[0]):
            row = dict(zip(names[1:], map(float, words[1:])))
            reports[-1][0] += row["wkB/s"] * 1024
            reports[-1][1] += row["w/s"]
    return reports[1:]


def test_iostat_as_another_reading_has_it(recorded):
    sums = iostat_sums(recorded / "iostat.txt")
    assert len(sums) == 3
    told = planned("--from", recorded / "iostat.txt")
    assert told["version"] == 1 and told["samples"] == 3 and told["limits"] == {"paper": PAPER, "measured": None}
    assert all(DISK.fullmatch(name) for name in told["files"][0]["devices"])
    # iostat's times are whole seconds: an interval may be one of two.
    assert told["write_bytes_per_s"]["peak"] == pytest.approx(max(each[0] for each in sums))
    assert told["writes_per_s"]["peak"] == pytest.approx(max(each[1] for each in sums))
    assert min(each[0] for each in sums) <= told["write_bytes_per_s"]["average"] <= told["write_bytes_per_s"]["peak"]
    assert told["write_size_bytes"] == pytest.approx(
        told["write_bytes_per_s"]["average"] / told["writes_per_s"]["average"])
    if told["span_s"] == 3:
        assert told["write_bytes_per_s"]["average"] == pytest.approx(sum(each[0] for each in sums) / 3)


def test_iostats_json_as_another_reading_has_it(recorded):
    reports = json.loads((recorded / "iostat.json").read_text())["sysstat"]["hosts"][0]["statistics"][1:]
    sums = [sum(disk["wkB/s"] * 1024 for disk in report["disk"] if DISK.fullmatch(disk["disk_device"]))
            for report in reports]
    told = planned("--from", recorded / "iostat.json")
    assert told["write_bytes_per_s"]["peak"] == pytest.approx(max(sums)) and told["samples"] == 3


def test_sar_as_another_reading_has_it(recorded):
    sums = {}
    for line in (recorded / "sar.txt").read_text().splitlines():
        words = line.split()
        if words and words[0] != "Average:" and DISK.fullmatch(words[1] if len(words) > 1 else ""):
            sums[words[0]] = sums.get(words[0], 0) + float(words[4]) * 1024
    told = planned("--from", recorded / "sar.txt")
    assert len(sums) == told["samples"] == 3
    assert told["write_bytes_per_s"]["peak"] == pytest.approx(max(sums.values()))
    assert told["files"][0]["writes_estimated"] is True


def test_fio_as_another_reading_has_it(recorded):
    text = (recorded / "fio.json").read_text()
    write = json.loads(text[text.index("{"):])["jobs"][0]["write"]
    told = planned("--from", recorded / "fio.json")
    assert told["write_bytes_per_s"]["average"] == pytest.approx(write["io_bytes"] / (write["runtime"] / 1000))
    assert told["write_size_bytes"] == pytest.approx(16384)
    (recorded / "noted.json").write_text("fio: this may not be\n" + text)
    noted = planned("--from", recorded / "noted.json")
    assert noted["write_bytes_per_s"] == told["write_bytes_per_s"]


def test_files_add_up_and_times_multiply(recorded):
    one = planned("--from", recorded / "iostat.txt")
    five = planned("--from", recorded / "iostat.txt", "--from", recorded / "iostat.txt", "--times", 2.5)
    assert five["added"] == "by_time"
    assert not any("same recording" in note for note in five["files"][0]["notes"])
    assert "same recording" in five["files"][1]["notes"][0]
    for key in ("average", "p95", "peak"):
        assert five["write_bytes_per_s"][key] == pytest.approx(5 * one["write_bytes_per_s"][key])
    fio = planned("--from", recorded / "iostat.txt", "--from", recorded / "fio.json")
    assert fio["added"] in ("by_time", "by_peaks")


def test_the_text_is_short_and_says_the_limits(recorded):
    words = [word for name in ("iostat.txt", "iostat.json", "sar.txt", "fio.json") for word in ("--from", recorded / name)]
    done = plan(*words)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) <= 30
    assert "35 and 50 MB/s, 8 and 16 KiB" in done.stdout and "not measured: no mirror runs here" in done.stdout


def perfmon(separator, point):
    def row(*cells):
        return separator.join(f'"{cell}"' for cell in cells)

    def number(value):
        return f"{value:.6f}".replace(".", point)

    lines = [row("(PDH-CSV 4.0) (W. Europe Standard Time)(-60)", r"\\VM\PhysicalDisk(0 C:)\Disk Write Bytes/sec",
                 r"\\VM\PhysicalDisk(_Total)\Disk Write Bytes/sec", r"\\VM\PhysicalDisk(0 C:)\Disk Writes/sec",
                 r"\\VM\PhysicalDisk(_Total)\Disk Writes/sec"),
             row("11/25/2026 08:00:00.100", " ", " ", " ", " ")]
    for i in range(1, 41):
        cells = [" "] * 4 if i == 7 else [number(i * 2e6)] * 2 + [number(i * 100)] * 2
        lines.append(row(f"11/25/2026 08:{i // 6:02}:{i % 6 * 10:02}.100", *cells))
    return "\r\n".join(lines) + "\r\n"


@pytest.mark.parametrize("separator,point", [(",", "."), (";", ",")])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_performance_monitor_in_both_locales(tmp_path, separator, point, encoding):
    path = tmp_path / "vm.csv"
    path.write_bytes(perfmon(separator, point).encode(encoding))
    told = planned("--from", path)
    rates = [i * 2e6 for i in range(1, 41) if i != 7]
    assert told["gaps"] == 1 and told["samples"] == 39 and told["files"][0]["devices"] == ["0 C:"]
    assert told["write_bytes_per_s"]["average"] == pytest.approx(sum(rates) / 39)
    assert told["write_bytes_per_s"]["peak"] == 80e6
    assert told["write_size_bytes"] == pytest.approx(20000)
    assert told["zones"]["write_bytes_per_s"]["peak"] == "red" and told["zones"]["write_size_bytes"] == "red"
    assert told["share_above"]["write_bytes_per_s"]["red"] == pytest.approx(15 / 39)


def test_damaged_files_are_refused_with_line_and_reason(recorded, tmp_path):
    def damaged(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    text = (recorded / "iostat.txt").read_text()
    last = len(text.rstrip().splitlines())
    refused(damaged("cut", text.rstrip()[:-30]), f"line {last}: there are ")
    lettered = re.sub(r"\d\n*$", "x\n", text)
    refused(damaged("letters", lettered), f"line {last}: column ")
    refused(damaged("no column", text.replace(" w/s ", " q/s ")), "line 7: there is no column w/s")
    refused(damaged("units", text + text.replace("wkB/s", "wMB/s")), f"line {len(text.splitlines()) + 7}: the bytes are in")
    cut = (recorded / "iostat.json").read_text()[:2000]
    refused(damaged("cut.json", cut), f"line {cut.count(chr(10)) + 1}: ")
    refused(damaged("empty", ""), "it is empty")
    refused(damaged("rubbish", b"\0" + os.urandom(100_000)), "line 1: ")  # at random, one of forty begins with a line of text
    refused(damaged("long line", b"x" * 100_000_000), "line 1: it is longer than 1 MiB")
    refused(damaged("words.csv", perfmon(",", ".").replace("2000000.000000", "two", 1)), "line 3: column 2: 'two'")
    refused(damaged("cut.csv", perfmon(",", ".")[:-20]), "line 42: ")
    refused(tmp_path, "it is a directory")
    refused(tmp_path / "nothing", "No such file or directory")
    refused("/dev/zero", "it is no regular file")
    with open(tmp_path / "huge", "wb") as huge:
        huge.truncate(1 << 40)
    refused(tmp_path / "huge", "it is larger than 256 MiB")


def test_wrong_words_are_named():
    for words in (("--device", "sda"), ("--times", "5"), ("--from", "/dev/null", "--now", "1Gbit")):
        done = plan(*words)
        assert done.returncode == 2 and "--from" in done.stderr, done
    for times in ("0", "-1", "nan", "many", "0x10", "1e3"):
        done = plan("--from", "/dev/null", "--times", times)
        assert done.returncode == 2 and "--times" in done.stderr, done
