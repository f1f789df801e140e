"""QEMU's storage daemon with a quorum of a local file and an NBD peer over TCP on loopback: what people have
who mirror with QEMU. Plain, or with TLS and a pre-shared key, as NBD has it."""

import secrets
import subprocess
import time

from .error import LIVENESS_S, LabError
from .links import free_ports

NBDKIT_THREADS = "32"
USER = "mirror"


def wait_nbd(uri):
    deadline = time.monotonic() + LIVENESS_S
    while subprocess.run(["nbdinfo", "--size", uri], capture_output=True, check=False).returncode:
        if time.monotonic() > deadline:
            raise LabError(f"no NBD server answers at {uri}")
        time.sleep(0.05)


def peer_command(kind, image, port, aio):
    if kind == "nbdkit":
        return ["nbdkit", "-f", "--threads", NBDKIT_THREADS, "-i", "127.0.0.1", "-p", port, "file", str(image)]
    return ["qemu-storage-daemon",
            "--blockdev", f"driver=file,node-name=disk,filename={image},{aio}",
            "--nbd-server", f"addr.type=inet,addr.host=127.0.0.1,addr.port={port}",
            "--export", "type=nbd,id=export,node-name=disk,name=peer,writable=on"]


def start(spawn, directory, images, aio="threads", peer="nbdkit", tls=False):
    """`spawn(command, log)` starts a server; `images` are the local file and the peer's. The device's URI.
    With `tls` the peer is nbdkit."""
    aio = f"cache.direct=off,aio={aio}"
    port = str(free_ports(1)[0])
    command = peer_command(peer, images[1], port, aio)
    uri, client, secured = f"nbd://127.0.0.1:{port}/peer", [], ""
    if tls:
        keys = directory / "keys.psk"  # QEMU wants this name
        keys.write_text(f"{USER}:{secrets.token_hex(32)}\n", encoding="ascii")
        command[1:1] = ["--tls=require", f"--tls-psk={keys}"]
        uri = f"nbds://{USER}@127.0.0.1:{port}/peer?tls-psk-file={keys}"
        client = ["--object", f"tls-creds-psk,id=tls0,endpoint=client,dir={directory},username={USER}"]
        secured = ",tls-creds=tls0"
    spawn(command, directory / "peer.log")
    wait_nbd(uri)
    sock = directory / "quorum.sock"
    spawn(["qemu-storage-daemon", *client,
           "--blockdev", f"driver=file,node-name=local,filename={images[0]},{aio}",
           "--blockdev", "driver=nbd,node-name=remote,server.type=inet,server.host=127.0.0.1,"
           f"server.port={port},export=peer{secured}",
           "--blockdev", "driver=quorum,node-name=mirror,vote-threshold=2,read-pattern=fifo,"
           "children.0=local,children.1=remote",
           "--nbd-server", f"addr.type=unix,addr.path={sock}",
           "--export", "type=nbd,id=export,node-name=mirror,name=mirror,writable=on"],
          directory / "quorum.log")
    device = f"nbd+unix:///mirror?socket={sock}"
    wait_nbd(device)
    return device
