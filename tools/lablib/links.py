"""The links between a lab's nodes: their names, addresses, rates and delays; and who is at a link's ends."""

import random
import re
import socket

from .error import LabError

NODES = ("alpha", "beta")
WITNESS = "witness"
LINKS_MAX = 8
PORT = 7700  # in a namespace, where every port is free
PORTS_LEASED = 50  # at once, by a process
RATE_UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
DELAY_UNITS_US = {"us": 1, "ms": 10**3, "s": 10**6}
DELAY_US_MAX = 10**6


def parse_rate(text):
    """Bits a second."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.strip().lower())
    if not match or match[2] not in RATE_UNITS or not float(match[1]):
        raise LabError(f"'{text}' is not a rate; write it like 100mbit, 1gbit or 2.5gbit")
    return round(float(match[1]) * RATE_UNITS[match[2]])


def parse_delay(text):
    """Microseconds, each way; None for "none"."""
    if text.strip().lower() == "none":
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.strip().lower())
    delay_us = round(float(match[1]) * DELAY_UNITS_US[match[2]]) if match and match[2] in DELAY_UNITS_US else 0
    if not 0 < delay_us <= DELAY_US_MAX:
        raise LabError(f"'{text}' is not a delay; write it like 1ms or 200us, up to 1s, or none")
    return delay_us


def rate_text(bits_per_s):
    """As the configuration wants it."""
    for unit, factor in (("Gbit", 10**9), ("Mbit", 10**6), ("kbit", 10**3)):
        if bits_per_s % factor == 0:
            return f"{bits_per_s // factor}{unit}"
    return f"{bits_per_s}bit"


def _leased_ports():
    """Each once, and none that another process of a lab takes while this one runs: also while a node is down, when
    its port looks free. Below the range that the kernel gives to outgoing connections. A lease is an abstract
    socket's name: it goes with the process, and is the network namespace's own, as ports are."""
    leases = []
    blocks = range(20000, 32000, PORTS_LEASED)
    for block in random.SystemRandom().sample(blocks, len(blocks)):
        lease = socket.socket(socket.AF_UNIX)
        try:
            lease.bind(f"\0twinblock-ports-{block}")
        except OSError:
            lease.close()
            continue
        leases.append(lease)
        yield from range(block, block + PORTS_LEASED)


_PORTS = _leased_ports()


def free_ports(count, host="127.0.0.1"):
    """Distinct TCP ports free on `host`, which stay this process's."""
    ports = []
    for port in _PORTS:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((host, port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise LabError(f"found no free TCP ports on {host}")


def _one_each(values, count, what):
    """`values`: none, one for all or one each."""
    if len(values) not in (0, 1, count):
        raise LabError(f"{len(values)} {what} for {count} links; give one for all, or one each")
    return list(values) * count if len(values) == 1 else list(values) or [None] * count


def make_links(count, rates, host_namespaces, delays=()):
    """link1, link2, …: a list of objects. `rates`, `delays`: texts, none, one for all or one each."""
    if not 1 <= count <= LINKS_MAX:
        raise LabError(f"{count} links? A volume has 1 to {LINKS_MAX}")
    if rates and not host_namespaces:
        raise LabError("links on loopback can't be shaped; --rate needs --host-namespaces")
    if delays and not host_namespaces:
        raise LabError("links on loopback have no delay; --delay needs --host-namespaces")
    each_rate = _one_each([parse_rate(rate) for rate in rates], count, "rates")
    each_delay = _one_each([parse_delay(delay) for delay in delays], count, "delays")
    links = []
    for number, (rate, delay_us) in enumerate(zip(each_rate, each_delay), 1):
        if host_namespaces:
            addresses = [f"10.77.{number}.{host}:{PORT}" for host in (1, 2)]
        else:
            host = f"127.0.{number - 1}.1"
            addresses = [f"{host}:{port}" for port in free_ports(len(NODES), host)]
        links.append({"name": f"link{number}", "rate_bits_per_s": rate, "delay_us": delay_us,
                      **dict(zip(NODES, addresses))})
    return links


def ends(link):
    """Who is at its ends, the one who makes it first."""
    return [name for name in (*NODES, WITNESS) if name in link]


def config_lines(links):
    lines = []
    for link in links:
        lines += [f"[link.{link['name']}]", *(f'{name} = "{link[name]}"' for name in NODES)]
        if link["rate_bits_per_s"]:
            lines += [f'rate = "{rate_text(link["rate_bits_per_s"])}"']
        lines += [""]
    return lines
