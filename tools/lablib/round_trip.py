"""What a message to the peer and its answer take for anybody: two programs that do nothing else."""

import subprocess
import sys

from .error import LabError

# Each waits for the whole message of the other one. The client prints the median in us.
SERVER = """
import socket, sys
listener = socket.create_server((sys.argv[1], 0))
print(listener.getsockname()[1], flush=True)
peer, _ = listener.accept()
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
message = bytearray(int(sys.argv[2]))
while peer.recv_into(message, 0, socket.MSG_WAITALL) == len(message):
    peer.send(bytes(64))
"""
CLIENT = """
import socket, sys, time
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
message, answer, trips = bytes(int(sys.argv[3])), bytearray(64), []
end, pause_s = time.monotonic() + float(sys.argv[4]), float(sys.argv[5])
while time.monotonic() < end or not trips:
    began = time.monotonic()
    peer.sendall(message)
    peer.recv_into(answer, 0, socket.MSG_WAITALL)
    trips.append(time.monotonic() - began)
    time.sleep(pause_s)
print(sorted(trips)[len(trips) // 2] * 1e6)
"""


def round_trip_us(lab, link, message_bytes, seconds, pause_s=0.0):
    """Median, one at a time: a message of that length from alpha to beta, 64 bytes back; after each a
    pause."""
    address = lab.link_address(link, "beta")
    with subprocess.Popen([*lab.inside("beta"), sys.executable, "-c", SERVER, address,
                           str(message_bytes)], stdout=subprocess.PIPE, text=True) as server:
        try:
            port = server.stdout.readline().strip()
            if not port:
                raise LabError(f"no program listens on {address}")
            client = subprocess.run(
                [*lab.inside("alpha"), sys.executable, "-c", CLIENT, address, port,
                 str(message_bytes), str(seconds), str(pause_s)],
                capture_output=True, text=True, check=False, timeout=seconds + 30)
        finally:
            server.kill()
    if client.returncode:
        raise LabError(f"no answer from {address}: {client.stderr[-500:]}")
    return float(client.stdout)
