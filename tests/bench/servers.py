"""What the benchmarks hold beside each other: servers of one NBD device each, and what one fio run
against one of them says."""

import secrets
import statistics
import subprocess
import time

from benchlib import fill, run_fio
from lablib import Lab, LabError
from lablib.links import free_ports
from lablib.processes import Process, cpu_seconds

GIB = 1 << 30
NBDKIT_THREADS = "32"
USER = "mirror"


class Twinblock:
    """Two nodes over loopback TCP, in duplex."""

    title = "twinblock duplex"
    encryption = "off"

    def __init__(self, directory, size_bytes, options):
        self.start(directory, size_bytes, options.build)

    def start(self, directory, size_bytes, build):
        images = {name: directory / f"{name}.img" for name in ("alpha", "beta")}
        for image in images.values():
            fill(image, size_bytes)
        self.lab = Lab(directory / "lab")
        self.lab.create(size=str(size_bytes), backing=images, build=build, encryption=self.encryption)
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
        aio = f"cache.direct=off,aio={options.quorum_aio}"
        port = str(free_ports(1)[0])
        peer = self.peer_command(options.quorum_peer, images[1], port, aio)
        uri = f"nbd://127.0.0.1:{port}/peer"
        client, secured = [], ""
        if self.tls:
            keys = directory / "keys.psk"  # QEMU wants this name
            keys.write_text(f"{USER}:{secrets.token_hex(32)}\n", encoding="ascii")
            peer[1:1] = ["--tls=require", f"--tls-psk={keys}"]
            uri = f"nbds://{USER}@127.0.0.1:{port}/peer?tls-psk-file={keys}"
            client = ["--object", f"tls-creds-psk,id=tls0,endpoint=client,dir={directory},username={USER}"]
            secured = ",tls-creds=tls0"
        self.spawn(peer, directory / "peer.log")
        wait_nbd(uri)
        sock = directory / "quorum.sock"
        self.spawn(["qemu-storage-daemon", *client,
                    "--blockdev", f"driver=file,node-name=local,filename={images[0]},{aio}",
                    "--blockdev", "driver=nbd,node-name=remote,server.type=inet,"
                    f"server.host=127.0.0.1,server.port={port},export=peer{secured}",
                    "--blockdev", "driver=quorum,node-name=mirror,vote-threshold=2,"
                    "read-pattern=fifo,children.0=local,children.1=remote",
                    "--nbd-server", f"addr.type=unix,addr.path={sock}",
                    "--export", "type=nbd,id=export,node-name=mirror,name=mirror,writable=on"],
                   directory / "quorum.log")
        self.uri = f"nbd+unix:///mirror?socket={sock}"
        wait_nbd(self.uri)

    @staticmethod
    def peer_command(kind, image, port, aio):
        if kind == "nbdkit":
            return ["nbdkit", "-f", "--threads", NBDKIT_THREADS, "-i", "127.0.0.1", "-p", port,
                    "file", str(image)]
        return ["qemu-storage-daemon",
                "--blockdev", f"driver=file,node-name=disk,filename={image},{aio}",
                "--nbd-server", f"addr.type=inet,addr.host=127.0.0.1,addr.port={port}",
                "--export", "type=nbd,id=export,node-name=disk,name=peer,writable=on"]


def wait_nbd(uri):
    deadline = time.monotonic() + 10
    while subprocess.run(["nbdinfo", "--size", uri], capture_output=True, check=False).returncode:
        if time.monotonic() > deadline:
            raise LabError(f"no NBD server answers at {uri}")
        time.sleep(0.05)


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


def medians(samples):
    return {key: statistics.median(sample[key] for sample in samples) for key in samples[0]}
