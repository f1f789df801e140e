"""A client of a node's control socket: one JSON object a line in each direction."""

import json
import socket


class NotReachable(Exception):
    """Nobody answers at the socket."""


class ControlError(Exception):
    """The node refused; the message holds its reason and what to do."""


def request(path, verb, args=None, timeout_s=10.0):
    """The node's `result` object. Raises ControlError or NotReachable."""
    line = json.dumps({"verb": verb, "args": args or {}}).encode() + b"\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(timeout_s)
        try:
            sock.connect(str(path))
            sock.sendall(line)
            answer = _read_line(sock)
        except OSError as error:
            raise NotReachable(f"{path}: {error}") from error
    if not answer:
        raise NotReachable(f"{path}: closed without an answer")
    reply = json.loads(answer)
    if reply.get("ok"):
        return reply.get("result") or {}
    words = [reply.get("error") or "refused without a reason", reply.get("action") or ""]
    raise ControlError(" ".join(word for word in words if word))


def _read_line(sock):
    received = bytearray()
    while not received.endswith(b"\n"):
        more = sock.recv(65536)
        if not more:
            break
        received += more
    return bytes(received)
