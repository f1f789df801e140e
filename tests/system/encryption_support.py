"""What the tests of encrypted links share: nodes with a key of their own, a packet capture, strangers in
great number, and what `status` says of it all."""

import ctypes
import json
import os
import secrets
import select
import struct
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import wire
from lablib.error import LIVENESS_S
from support import ctl, twinblock

CAPTURE = """
import select, socket, struct, sys
ALL, SOL_PACKET, STATISTICS, RCVBUFFORCE = socket.htons(3), 263, 6, 33
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, ALL)
try: sock.setsockopt(socket.SOL_SOCKET, RCVBUFFORCE, 256 << 20)
except PermissionError: pass
sock.bind((sys.argv[1], 0)); sock.setblocking(False); print("listens", flush=True)
with open(sys.argv[2], "wb", buffering=1 << 20) as file:
    ending = False
    while not ending:
        ending = sys.stdin in select.select([sock, sys.stdin], [], [])[0]
        try:
            while True: file.write(sock.recv(1 << 18) + b"<end of packet>")
        except BlockingIOError: pass
print(struct.unpack("II", sock.getsockopt(SOL_PACKET, STATISTICS, 8))[1], flush=True)
"""

# Connections to each address, of which the first `half_open` stay open and are replaced when they are closed,
# and `garbage` say something that is no handshake. It goes on until it is told to end.
FLOOD = """
import json, os, random, select, socket, struct, sys
half_open, garbage, *addresses = json.loads(sys.argv[1])
addresses = [tuple(each) for each in addresses]
NOISE = [os.urandom(300), b"\\x16\\x03\\x01\\x01\\x00" + os.urandom(256), b"GET / HTTP/1.1\\r\\n\\r\\n", bytes(64),
         b"\\x16\\x03\\x01\\xff\\xff\\x01" + os.urandom(3000), b"\\x17\\x03\\x03\\x00\\x20" + os.urandom(32)]
RESET = struct.pack("ii", 1, 0)
poll, held, made, dials, said = select.poll(), {}, 0, 0, False
poll.register(sys.stdin, select.POLLIN)

def dial(address):
    global dials
    dials += 1
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)  # no port stays taken
    sock.settimeout(2)
    try: sock.connect(address)
    except OSError: return sock.close()
    return sock

def hold(number):
    sock = dial(addresses[number % len(addresses)])
    if sock is None: return
    if number % 3 == 0: sock.send(b"\\x16\\x03\\x01")  # the begin of a hello
    held[sock.fileno()] = sock
    poll.register(sock, select.POLLIN)

def speak(number):
    sock = dial(addresses[number % len(addresses)])
    if sock is None: return 0
    with sock:
        if number < 10000: sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes(8))  # all of it is to arrive
        try: sock.sendall(NOISE[number % len(NOISE)]); number % len(NOISE) == 3 and sock.recv(100)
        except OSError: pass
    return 1

ending = False
for number in range(half_open): hold(number)
while not ending:
    seen = poll.poll(0)
    ending = any(fd == sys.stdin.fileno() for fd, _ in seen)
    for fd, _ in random.sample(seen, min(len(seen), 20)):
        if fd in held:
            poll.unregister(fd); held.pop(fd).close(); hold(fd)
    if made < garbage: made += sum(speak(number) for number in range(made, made + 20))
    elif not said: print(json.dumps({"garbage": made, "held": len(held)}), flush=True); said = True
print(dials)
"""


def tls_lab(make_lab, **options):
    return make_lab(encryption="tls", **options)


def write_key(path, secret=None):
    Path(path).unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write((secret or secrets.token_hex(32)) + "\n")
    return str(path)


@contextmanager
def hanging(path):
    """Who opens the file waits in the kernel until the end, as on a file system that does not answer (fanotify(7), which asks
    this process for a permission that it does not give). Yields a function that waits for the next one, and returns its
    process number."""
    content, add, open_perm, here = 0x4 | 0x1, 0x1, 0x10000, -100  # and closed by exec
    libc = ctypes.CDLL(None, use_errno=True)
    asked = libc.fanotify_init(content, os.O_RDONLY | os.O_CLOEXEC)
    if asked < 0:
        pytest.skip(f"fanotify_init: {os.strerror(ctypes.get_errno())}")
    try:
        if libc.fanotify_mark(asked, add, ctypes.c_uint64(open_perm), here, os.fsencode(path)) != 0:
            pytest.skip(f"fanotify_mark: {os.strerror(ctypes.get_errno())}")

        def next_one():
            assert select.select([asked], [], [], LIVENESS_S)[0], f"nobody opens {path}"
            file, process = struct.unpack("ii", os.read(asked, 24)[16:])
            os.close(file)
            return process

        yield next_one
    finally:
        os.close(asked)  # those who wait get what they asked for


def openssl(address, *words):
    """What the node that listens there says to openssl's client before either closes; the handshake's own words aside."""
    with subprocess.Popen(["openssl", "s_client", "-quiet", "-connect", address, *words],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
        try:
            return client.stdout.read(wire.HEADER.size)
        finally:
            client.kill()


def set_protection(lab, name, line):
    """This node's file says `line` in place of the lab's key."""
    own = f'key = "{lab.state["key"]}"'
    text = lab.config_text(lab.state["replication"])
    assert own in text
    lab.set_node_config(name, text.replace(own, line))


def restore_protection(lab, name):
    lab.set_node_config(name, lab.config_text(lab.state["replication"]))


def fingerprint(lab, config=None):
    shown = twinblock(lab, "key", "show", "--config", config or lab.state["config"])
    assert shown.returncode == 0, shown.stderr
    return shown.stdout.strip()


def status_words(lab, name):
    """What `twinblock status` prints, without its lines' ends."""
    return " ".join(ctl(lab, name, "status").stdout.split())


def link_errors(lab, name):
    """The events of links that failed."""
    said = ctl(lab, name, "events", "--json").stdout
    return [event for event in map(json.loads, said.splitlines()) if event["event"] == "link-error"]


def sessions(lab, name, since=0):
    return lab.log_text(name)[since:].count(") is up: ")


@contextmanager
def capture(lab, link, path):
    """Every packet of alpha's end of a link, into the file, until the end; asserts that none was missed."""
    with subprocess.Popen([*lab.inside("alpha"), sys.executable, "-c", CAPTURE, link, str(path)],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "listens\n"
            yield
            missed = process.communicate("end\n", timeout=LIVENESS_S)[0]
        finally:
            process.kill()
    assert missed == "0\n", f"{missed.strip()} packets were not captured"


class Flood:
    """Strangers in a process of their own, until `close()`."""

    def __init__(self, addresses, half_open, garbage):
        where = [[host, int(port)] for host, _, port in (each.rpartition(":") for each in addresses)]
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [sys.executable, "-c", FLOOD, json.dumps([half_open, garbage, *where])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.connections = 0

    def wait_for_garbage(self):
        """Until all of it was said."""
        return json.loads(self.process.stdout.readline())

    def close(self):
        try:
            self.connections = int(self.process.communicate("end\n", timeout=LIVENESS_S)[0] or 0)
        finally:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()
