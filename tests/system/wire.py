"""Replication frames as a stranger would make them: right where the test wants them right. The
layout is the one of daemon/wire/frame_format.h."""

import socket
import struct

from lablib.error import LIVENESS_S

HEADER = struct.Struct("<IIBBHIQQQIIQQ")
HELLO_FIXED = struct.Struct("<HHIQQ16s16sQQ64s64s64s64s64s24s24sQQQQ264s")
MAGIC = 0x31425754
HELLO, REFUSE, VERDICT, DATA, FLUSH, READ, ACK, HEARTBEAT = range(1, 9)
GOODBYE = 13
JOIN = 17
LINK_CHANGE = 20
CHALLENGE = 23
PROBE, PROBE_HOST, PROBE_ASK, PROBE_ANSWER, PROBE_DATA, PROBE_REPORT = range(25, 31)
CONTROL = 32  # the flag of the control stream
LINK_CHANGE_FIXED = struct.Struct("<IIQQ64s64s64s")

assert HEADER.size == 64 and HELLO_FIXED.size == 736


def _make_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _make_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def frame(kind, payload=b"", *, flags=0, sequence=0, offset=0, length=0, payload_bytes=None,
          payload_crc=None, header_crc=None, magic=MAGIC, reserved=0, status=0, aux0=0, aux1=0):
    rest = HEADER.pack(0, magic, kind, flags, reserved,
                       len(payload) if payload_bytes is None else payload_bytes, sequence, offset,
                       length, (crc32c(payload) if payload else 0) if payload_crc is None
                       else payload_crc, status, aux0, aux1)[4:]
    crc = crc32c(rest) if header_crc is None else header_crc
    return struct.pack("<I", crc) + rest + payload


def hello_payload(volume=b"r0", node=b"beta", peer=b"alpha", link=b"main", size=64 << 20,
                  version=1, flags=1, uuid=bytes(16), instance=b"i" * 16, features=0, echo=0,
                  nonce=1):
    return HELLO_FIXED.pack(version, version, flags, features, size, uuid, instance, 0, 0,
                            bytes(64), volume, node, peer, link, bytes(24), bytes(24),
                            nonce, echo, 0, 0, bytes(264))


def link_change(change, number, name, alpha=b"", beta=b"", rate=0):
    """The payload of an order: 1 add, 2 remove, 3 enable, 4 disable."""
    return LINK_CHANGE_FIXED.pack(change, 0, number, rate, name, alpha, beta)


def dial(address, source="127.0.0.1", timeout_s=LIVENESS_S):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout_s, source_address=(source, 0))


def read_header_and_payload(sock):
    """(the header's fields in their order, payload) or None at the end of the stream."""
    head = _read_exactly(sock, HEADER.size)
    if head is None:
        return None
    fields = HEADER.unpack(head)
    payload = _read_exactly(sock, fields[5]) if fields[5] else b""
    return (fields, payload) if payload is not None else None


def read_frame(sock):
    """(kind, payload) or None at the end of the stream."""
    frame = read_header_and_payload(sock)
    return (frame[0][2], frame[1]) if frame else None


def read_challenge(sock):
    """The number that a node begins each connection with; 0 where it closes it at once."""
    frame = read_header_and_payload(sock)
    if frame is None:
        return 0
    assert frame[0][2] == CHALLENGE
    return frame[0][7]


def read_until_closed(sock):
    """Everything until the other side closes; raises TimeoutError when it does not."""
    received = bytearray()
    while True:
        try:
            more = sock.recv(65536)
        except ConnectionResetError:
            return bytes(received)
        if not more:
            return bytes(received)
        received += more


def _read_exactly(sock, length):
    received = b""
    while len(received) < length:
        try:
            more = sock.recv(length - len(received))
        except ConnectionResetError:
            return None
        if not more:
            return None
        received += more
    return received
