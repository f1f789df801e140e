"""What the benchmarks hold beside each other: servers of one NBD device each, and what one fio run
against one of them says."""

import os
import shutil
import statistics
from itertools import product

from benchlib import bench_directory, fill, run_fio, say
from lablib import Lab, LabError, quorum
from lablib.lab import parse_size
from lablib.processes import Process, cpu_seconds
from lablib.quorum import NBDKIT_THREADS, wait_nbd

GIB = 1 << 30
ROUNDS_A_SITTING = 4


class Twinblock:
    """Two nodes over loopback TCP, in duplex."""

    title = "twinblock duplex"
    encryption = "off"
    witness = None
    cache = None  # of reads, on both nodes: its size

    def __init__(self, directory, size_bytes, options):
        self.start(directory, size_bytes, options.build)

    def start(self, directory, size_bytes, build):
        images = {name: directory / f"{name}.img" for name in ("alpha", "beta")}
        for image in images.values():
            fill(image, size_bytes)
        self.lab = Lab(directory / "lab")
        self.lab.create(size=str(size_bytes), backing=images, build=build, encryption=self.encryption,
                        witness=self.witness, cache=self.cache)
        self.lab.up(timeout_s=120)
        self.uri = self.lab.node("alpha")["nbd"]

    def pids(self):
        return [self.lab.node(name)["pid"] for name in ("alpha", "beta")]

    def check(self):
        state = self.lab.status("alpha")["state"]
        if state != "duplex":
            raise LabError(f"twinblock is no longer in duplex but in {state}\n"
                           + self.lab.log_tail("alpha"))

    def close(self):
        self.lab.down()


class Servers:
    """Servers that this script starts itself; each with its log beside its images."""

    def __init__(self):
        self.processes = []

    def spawn(self, command, log):
        self.processes.append(Process.spawn(command, log))

    def pids(self):
        return [process.pid for process in self.processes]

    def check(self):
        for process in self.processes:
            if not process.alive():
                raise LabError(f"a server of '{self.title}' has ended")

    def close(self):
        for process in reversed(self.processes):
            process.stop(5)


class FilePlugin(Servers):
    """nbdkit's file plugin on one image: what a device costs without replication."""

    title = "nbdkit file (simplex)"

    def __init__(self, directory, size_bytes, _options):
        super().__init__()
        image = directory / "single.img"
        fill(image, size_bytes)
        sock = directory / "file.sock"
        self.spawn(["nbdkit", "-f", "--threads", NBDKIT_THREADS, "--unix", str(sock),
                    "file", str(image)], directory / "file.log")
        self.uri = f"nbd+unix:///?socket={sock}"
        wait_nbd(self.uri)


class Quorum(Servers):
    """QEMU's storage daemon: a quorum of a local file and an NBD peer over TCP."""

    title = "QEMU quorum"
    tls = False  # or TLS with a pre-shared key, as NBD has it

    def __init__(self, directory, size_bytes, options):
        super().__init__()
        images = [directory / "local.img", directory / "peer.img"]
        for image in images:
            fill(image, size_bytes)
        self.uri = quorum.start(self.spawn, directory, images, options.quorum_aio, options.quorum_peer,
                                self.tls)


def sittings(kinds, options):
    """All rounds, a few at a time, on servers that were started for them, each time in the other order: of two that
    are the same, who is started first has up to 7% less of large writes, as its images and its memory lie elsewhere. Yields
    the servers by `kinds`' names, and the rounds' numbers. `options`: rounds, size, dir and what the kinds want."""
    for first in range(0, options.rounds, ROUNDS_A_SITTING):
        directory = bench_directory(options.dir or "/var/tmp")
        names = list(kinds) if first // ROUNDS_A_SITTING % 2 == 0 else list(kinds)[::-1]
        servers = {}
        try:
            for name in names:
                say(f"starting {kinds[name].title}")
                below = directory / name
                below.mkdir()
                servers[name] = kinds[name](below, parse_size(options.size), options)
            yield servers, range(first, min(first + ROUNDS_A_SITTING, options.rounds))
        finally:
            for server in servers.values():
                server.close()
            shutil.rmtree(directory, ignore_errors=True)


def measure(server, case, options):
    """One fio run: rates, latency and the servers' CPU time. `case`: a name, fio's rw, block size, depth, …;
    `options`: seconds, ramp."""
    _, mode, block, depth = case[:4]
    before = sum(cpu_seconds(pid) for pid in server.pids())
    sample = run_fio(server.uri, mode, block, depth, options.seconds, options.ramp)
    cpu = sum(cpu_seconds(pid) for pid in server.pids()) - before
    server.check()
    # CPU time covers the ramp as well; so must the bytes it is divided by.
    bytes_all = sample["bytes_per_s"] * (options.seconds + options.ramp)
    sample["cpu_s_per_gib"] = cpu / (bytes_all / GIB) if bytes_all else 0.0
    return sample


def run_all(kinds, cases, options):
    """results[case][kind]: a list of measurements, one a round. The order rotates, so that none always runs behind
    the same other one."""
    results = {case[0]: {name: [] for name in kinds} for case in cases}
    names = list(kinds)
    for servers, numbers in sittings(kinds, options):
        for number, case in product(numbers, cases):
            for name in names[number % len(names):] + names[:number % len(names)]:
                os.sync()  # write-back left by one run must not slow down the next
                sample = measure(servers[name], case, options)
                results[case[0]][name].append(sample)
                say(f"round {number + 1}/{options.rounds}  {case[0]:18} {name:10}"
                    f"{sample['iops']:9.0f}/s  p50 {sample['p50_us']:7.0f} us")
    return results


def medians(samples):
    return {key: statistics.median(sample[key] for sample in samples) for key in samples[0]}
