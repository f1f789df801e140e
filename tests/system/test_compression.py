"""Compression of what travels: switched under load, heeded by both nodes, counted; and a payload
that can't be decompressed."""

import os
import random
import struct
import threading
import time

import pytest

import wire
from relay import Relay, lab_over
from support import (KIB, MIB, Fio, assert_identical, connection, ctl, demote, promote, wait_for_log, wait_for_writes,
                     write_all)

MODES = ("off", "on", "auto")
COMPRESSED = 8  # the flag of data frames


def compressible(length, seed=0):
    """A third of it random."""
    rng = random.Random(seed)
    return b"".join(rng.randbytes(170) + bytes(342) for _ in range(length // 512))


def set_compression(lab, mode, *words, name="alpha"):
    done = ctl(lab, name, "compression", mode, *words)
    assert done.returncode == 0, done.stdout + done.stderr


def compression(lab, name="alpha"):
    return lab.status(name)["compression"]


def load(lab, scratch, **parameters):
    """Until its end is asked for."""
    return Fio(lab.node("alpha")["nbd"], scratch, bsrange="512-256k", iodepth=8, runtime=None,
               norandommap=None, randrepeat=0, refill_buffers=None,
               buffer_compress_percentage=60, **parameters)


@pytest.mark.sanitize
def test_what_compresses_travels_compressed_and_random_data_does_not(make_lab):
    lab = make_lab(settings={"compression": "on", "level": 3})
    with connection(lab) as handle:
        write_all(handle, [(i * 64 * KIB, compressible(64 * KIB, i)) for i in range(32)])
        after_text = compression(lab)
        write_all(handle, [((32 + i) * 64 * KIB, os.urandom(64 * KIB)) for i in range(32)])
        handle.pwrite(compressible(3 * MIB + 512), 8 * MIB + 512)  # several pieces
        handle.flush()
    after = compression(lab)
    assert after_text["mode"] == "on" and after_text["level"] == 3
    assert after_text["writes_compressed"] == 32 and after_text["writes_raw"] == 0
    assert after_text["raw_bytes"] == 2 * MIB
    assert after_text["sent_bytes"] < 0.6 * 2 * MIB
    assert after["writes_raw"] == 32 and after["incompressible_bytes"] == 2 * MIB
    assert after["raw_bytes"] == 5 * MIB + 512
    assert after["compress_s"] > 0
    assert compression(lab, "beta")["decompress_s"] > 0
    assert_identical(lab)


@pytest.mark.slow
@pytest.mark.sanitize
def test_switching_under_load_disturbs_nobody(make_lab, scratch):
    lab = make_lab(peer_timeout="30s")  # no machine is as late as that
    fio = load(lab, scratch, rw="randrw", rwmixread=30, fsync=200)
    sessions = lab.log_text("alpha").count("session with beta")
    wait_for_writes(lab, 50)
    end, switches = time.monotonic() + 8, 0
    while switches < 20 or time.monotonic() < end:
        set_compression(lab, random.choice(MODES), "--level", str(random.randint(1, 4)),
                        name=random.choice(("alpha", "beta")))
        switches += 1
    wait_for_writes(lab, 50)
    fio.finish()
    set_compression(lab, "on", "--level", "1")
    with connection(lab) as handle:
        handle.pwrite(compressible(MIB), 0)
        handle.flush()
    figures = compression(lab)
    print(f"{switches} switches; {figures}")
    assert figures["writes_compressed"] > 0 and figures["writes_raw"] > 0
    assert 0 < figures["sent_bytes"] < figures["raw_bytes"]
    assert lab.status("alpha")["state"] == "duplex"
    assert lab.log_text("alpha").count("session with beta") == sessions, "no reconnection"
    assert_identical(lab)


@pytest.mark.long
def test_a_thousand_switches_under_load(lab, scratch):
    fio = load(lab, scratch, rw="randwrite", fsync=500, rate="80m")
    for number in range(1000):
        set_compression(lab, MODES[number % 3], "--level", str(1 + number % 5),
                        name=("alpha", "beta")[number % 2])
    fio.finish()
    lab.wait_state("alpha", "duplex", 20)
    with connection(lab) as handle:
        handle.flush()
    assert_identical(lab)


def test_an_order_is_heeded_by_both_nodes_and_survives_a_restart_of_either(lab):
    set_compression(lab, "auto", "--level", "5")
    for name in ("alpha", "beta"):
        lab.wait_status(name, lambda status: (status["compression"]["mode"],
                                              status["compression"]["level"]) == ("auto", 5))
    lab.stop("beta")
    set_compression(lab, "on")  # the level stays; beta hears it when it is back
    lab.start("beta")
    lab.wait_state("alpha", "duplex")
    lab.wait_status("beta", lambda status: status["compression"]["mode"] == "on")
    assert compression(lab, "beta")["level"] == 5
    lab.kill("alpha")
    lab.start("alpha")  # begins with what its configuration says
    lab.wait_status("alpha", lambda status: status["peer"]["connected"])
    lab.wait_status("alpha", lambda status: status["compression"]["mode"] == "on")
    set_compression(lab, "off", name="beta")
    lab.wait_status("alpha", lambda status: status["compression"]["mode"] == "off")


def test_of_orders_given_apart_both_nodes_follow_the_same(lab):
    lab.stop("beta")
    set_compression(lab, "on", "--level", "2")
    set_compression(lab, "auto", "--level", "3")
    lab.kill("alpha")  # its orders are forgotten
    lab.start("beta")
    set_compression(lab, "on", "--level", "7", name="beta")
    lab.start("alpha", wait=False)
    lab.wait_status("alpha", lambda status: status["peer"]["connected"])
    for name in ("alpha", "beta"):
        lab.wait_status(name, lambda status: (status["compression"]["mode"],
                                              status["compression"]["level"]) == ("on", 7))


def test_an_order_with_the_number_of_another_one_is_heard(lab):
    set_compression(lab, "off")
    lab.wait_status("beta", lambda status: status["compression"]["mode"] == "off")
    lab.pause("beta")
    try:
        lab.kill("alpha")  # what it was ordered is forgotten there, and beta can't say it
        lab.start("alpha")
        set_compression(lab, "on")
    finally:
        lab.resume("beta")
    lab.wait_status("alpha", lambda status: status["peer"]["connected"])
    for name in ("alpha", "beta"):
        lab.wait_status(name, lambda status: status["compression"]["mode"] == "on")


class Forger(Relay):
    """When `armed`, the next compressed frame's payload is something else, with a good checksum."""

    armed = None  # makes the new payload of the old one

    def passed(self, data, stream):
        held = stream.setdefault("held", bytearray())
        held += data
        out = bytearray()
        while len(held) >= wire.HEADER.size:
            fields = list(wire.HEADER.unpack_from(held))
            length = wire.HEADER.size + fields[5]
            if len(held) < length:
                break
            frame = held[:length]
            del held[:length]
            if self.armed and fields[2] == wire.DATA and fields[3] & COMPRESSED:
                frame = self.forged(fields, bytes(frame[wire.HEADER.size:]))
            out += frame
        return out, False

    def forged(self, fields, payload):
        payload, self.armed = self.armed(payload), None
        self.damaged += 1
        fields[5], fields[9] = len(payload), wire.crc32c(payload)
        rest = wire.HEADER.pack(*fields)[4:]
        return struct.pack("<I", wire.crc32c(rest)) + rest + payload


def flip_in_the_middle(payload):
    return payload[:len(payload) // 2] + bytes(byte ^ 0xFF for byte in payload[len(payload) // 2:])


FORGERIES = {
    "damaged": flip_in_the_middle,
    "cut off": lambda payload: payload[:-3],
    "no zstd": lambda payload: os.urandom(len(payload)),
    "something behind it": lambda payload: payload + b"x",
    # Single segment, eight bytes of length: 1 GiB of zeroes, in blocks that each repeat one byte.
    "bomb": lambda payload: b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 30)
                            + b"\x02\x00\x10\x00" * 8191 + b"\x03\x00\x10\x00",
}


@pytest.mark.sanitize
def test_a_payload_that_can_not_be_decompressed_ends_the_session_and_no_more(make_lab):
    with lab_over(Forger, make_lab, encryption="off", compression="on") as (lab, forgers):
        offset = 0
        for title, forgery in FORGERIES.items():
            before = {name: len(lab.log_text(name)) for name in ("alpha", "beta")}
            for forger in forgers:
                forger.armed = forgery
            data = compressible(64 * KIB, offset)
            with connection(lab) as handle:
                handle.pwrite(data, offset)  # acknowledged all the same
                wait_for_log(lab, "beta", "can't be decompressed", since=before["beta"])
                wait_for_log(lab, "alpha", "is lost", since=before["alpha"])
                assert any(forger.armed is None for forger in forgers), title
                for forger in forgers:
                    forger.armed = None
                lab.wait_state("alpha", "duplex", 30)
                assert handle.pread(len(data), offset) == data
                handle.flush()
            offset += 256 * KIB
        assert lab.alive("alpha") and lab.alive("beta")
        assert_identical(lab)


@pytest.mark.slow
def test_many_writers_switch_roles_while_it_changes(lab, scratch):
    stop = threading.Event()

    def switch():
        while not stop.is_set():
            set_compression(lab, random.choice(MODES), name=random.choice(("alpha", "beta")))
            time.sleep(0.05)

    switcher = threading.Thread(target=switch)
    switcher.start()
    try:
        for primary, other in (("alpha", "beta"), ("beta", "alpha")):
            fio = Fio(lab.node(primary)["nbd"], scratch, rw="randwrite", bs="16k", iodepth=16,
                      time_based=None, runtime=3, norandommap=None, refill_buffers=None,
                      buffer_compress_percentage=60)
            fio.result()
            demote(lab, primary)
            promote(lab, other)
    finally:
        stop.set()
        switcher.join()
    lab.wait_state("alpha", "duplex", 20)
    assert_identical(lab)
