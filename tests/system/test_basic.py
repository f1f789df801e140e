"""What a client sees of the device: data, flags, limits, and who may open it."""

import os
import shutil
import subprocess

import nbd
import pytest

from support import KIB, MIB, assert_identical, connection, wait_until

pytestmark = pytest.mark.sanitize


def test_what_is_written_reads_back_and_reaches_both_replicas(lab):
    data = os.urandom(3 * MIB + 512)
    with connection(lab) as handle:
        handle.pwrite(data, 12 * KIB + 512)
        assert handle.pread(len(data), 12 * KIB + 512) == data
        handle.flush()
    assert_identical(lab)
    assert lab.down()
    assert_identical(lab)
    with open(lab.node("beta")["backing"], "rb") as image:
        image.seek(12 * KIB + 512)
        assert image.read(len(data)) == data


def test_fua_write_is_in_both_images_when_acknowledged(lab):
    data = os.urandom(64 * KIB)
    with connection(lab) as handle:
        assert handle.can_fua()
        handle.pwrite(data, MIB, nbd.CMD_FLAG_FUA)
        for name in ("alpha", "beta"):
            with open(lab.node(name)["backing"], "rb") as image:
                image.seek(MIB)
                assert image.read(len(data)) == data


def test_secondary_refuses_its_export_and_names_the_primary(lab):
    before = len(lab.log_text("beta"))
    with pytest.raises(nbd.Error):
        with connection(lab, "beta"):
            pass
    info = subprocess.run(["nbdinfo", lab.node("beta")["nbd"]], capture_output=True, text=True,
                          check=False)
    assert info.returncode != 0
    wait_until(lambda: "alpha" in lab.log_text("beta")[before:] + info.stderr, what="the primary's name")


def test_a_link_has_the_congestion_control_that_the_file_says(make_lab):
    """At both of its ends, whichever has dialled."""
    if shutil.which("ss") is None:
        pytest.skip("there is no ss")
    lab = make_lab(settings={"congestion": "reno"})
    ports = [lab.node(name)["replication"].rpartition(":")[2] for name in ("alpha", "beta")]
    ends = " or ".join(f"{end} = :{port}" for port in ports for end in ("sport", "dport"))
    shown = subprocess.run(["ss", "-tinHO", "state", "established", f"( {ends} )"], capture_output=True, text=True, check=True)
    sockets = shown.stdout.splitlines()
    assert len(sockets) >= 2 and all("reno" in each.split() for each in sockets), shown.stdout


def test_export_says_what_it_can(lab):
    with connection(lab) as handle:
        assert handle.get_size() == 64 * MIB
        assert not handle.is_read_only()
        assert handle.can_flush() and handle.can_fua() and handle.can_trim() and handle.can_zero()
        assert handle.can_fast_zero() and handle.can_cache() and handle.can_multi_conn()
        assert handle.get_block_size(nbd.SIZE_MINIMUM) in (1, 512)
        assert handle.get_block_size(nbd.SIZE_PREFERRED) >= 4 * KIB
        assert handle.get_block_size(nbd.SIZE_MAXIMUM) >= MIB
        assert handle.can_meta_context(nbd.CONTEXT_BASE_ALLOCATION)


@pytest.mark.parametrize("flags", [0, nbd.CMD_FLAG_NO_HOLE, nbd.CMD_FLAG_FAST_ZERO,
                                   nbd.CMD_FLAG_FUA])
def test_zeroed_range_reads_as_zeroes_on_both(lab, flags):
    with connection(lab) as handle:
        handle.pwrite(b"\xaa" * MIB, 0)
        handle.zero(300 * KIB + 512, 64 * KIB + 512, flags)
        expected = (b"\xaa" * (64 * KIB + 512) + bytes(300 * KIB + 512))
        expected += b"\xaa" * (MIB - len(expected))
        assert handle.pread(MIB, 0) == expected
        handle.flush()
    assert_identical(lab)


@pytest.mark.parametrize("how", ["zero", "trim"])
def test_a_client_decides_what_becomes_a_hole_on_both(lab, how):
    length = 8 * MIB
    slack = length // 2  # a file system takes some blocks for itself

    def allocated():
        handle.flush()
        return {name: os.stat(lab.node(name)["backing"]).st_blocks * 512 for name in ("alpha", "beta")}

    with connection(lab) as handle:
        handle.pwrite(b"\xaa" * length, 0)
        before = allocated()
        handle.zero(length, 0, nbd.CMD_FLAG_NO_HOLE)
        kept = allocated()
        assert all(kept[name] > before[name] - slack for name in kept), (before, kept)
        assert handle.pread(length, 0) == bytes(length)
        handle.pwrite(b"\xaa" * length, 0)
        (handle.trim if how == "trim" else handle.zero)(length, 0)
        rest = allocated()
        assert all(rest[name] < before[name] - slack for name in rest), (before, rest)
        assert handle.pread(length, 0) == bytes(length)
    assert_identical(lab)


def test_trim_keeps_the_rest_and_both_replicas_agree(lab):
    with connection(lab) as handle:
        handle.pwrite(b"\x55" * MIB, 0)
        handle.trim(256 * KIB, 256 * KIB)
        assert handle.pread(256 * KIB, 0) == b"\x55" * (256 * KIB)
        assert handle.pread(512 * KIB, 512 * KIB) == b"\x55" * (512 * KIB)
        handle.flush()
    assert_identical(lab)


def test_extents_tell_holes_from_data(lab):
    with connection(lab) as handle:
        handle.pwrite(b"\x11" * MIB, 8 * MIB)
        handle.flush()
        found = []
        position = 0
        while position < 32 * MIB:
            entries = []
            handle.block_status(32 * MIB - position, position,
                                lambda _context, _offset, list_, _error: entries.extend(list_))
            assert entries
            for length, kind in zip(entries[::2], entries[1::2]):
                found.append((position, length, kind))
                position += length
        data = sum(length for _, length, kind in found if kind == 0)
        holes = sum(length for _, length, kind in found if kind & nbd.STATE_HOLE)
        assert MIB <= data <= 2 * MIB
        assert holes >= 20 * MIB
        assert any(kind == 0 and offset <= 8 * MIB < offset + length
                   for offset, length, kind in found)


def test_cache_request_succeeds(lab):
    with connection(lab) as handle:
        handle.pwrite(b"\x11" * MIB, 0)
        handle.cache(MIB, 0)


def test_last_bytes_work_and_beyond_is_refused(lab):
    size = 64 * MIB
    with connection(lab) as handle:
        handle.set_strict_mode(0)  # let the server see what libnbd would refuse
        handle.pwrite(b"\x77" * 512, size - 512)
        assert handle.pread(512, size - 512) == b"\x77" * 512
        for request in (lambda: handle.pwrite(b"x" * 512, size),
                        lambda: handle.pwrite(b"x" * 1024, size - 512),
                        lambda: handle.pread(512, size),
                        lambda: handle.zero(1024, size - 512),
                        lambda: handle.trim(1024, size - 512)):
            with pytest.raises(nbd.Error):
                request()
        assert handle.pread(512, size - 512) == b"\x77" * 512
        handle.flush()
    assert_identical(lab)


def test_flush_on_one_connection_covers_another(lab):
    data = os.urandom(MIB)
    with connection(lab) as writer, connection(lab) as flusher:
        writer.pwrite(data, 0)
        flusher.flush()
        assert lab.status("alpha")["clients"] == 2
        assert flusher.pread(MIB, 0) == data
    assert_identical(lab)


def test_large_request_is_split_and_whole(lab):
    data = os.urandom(24 * MIB)
    with connection(lab) as handle:
        handle.pwrite(data, 4 * KIB)
        assert handle.pread(len(data), 4 * KIB) == data
        handle.flush()
    assert_identical(lab)


def test_counters_follow_the_client(lab):
    before = lab.status("alpha")["counters"]
    with connection(lab) as handle:
        for number in range(10):
            handle.pwrite(bytes(8 * KIB), number * 8 * KIB)
        handle.flush()
        handle.pread(4 * KIB, 0)
    after = lab.status("alpha")["counters"]
    assert after["writes"] - before["writes"] == 10
    assert after["write_bytes"] - before["write_bytes"] == 80 * KIB
    assert after["flushes"] - before["flushes"] >= 1
    assert after["reads"] - before["reads"] >= 1


def test_plugin_explains_itself(lab):
    plugin = f"{lab.state['build']}/plugins/twinblock/nbdkit-twinblock-plugin.so"
    preload = subprocess.run(["ldd", plugin], capture_output=True, text=True, check=False).stdout
    if "asan" in preload or "tsan" in preload:
        pytest.skip("nbdkit can't load a sanitized plugin for --dump-plugin without a preload")
    dump = subprocess.run(["nbdkit", "--dump-plugin", plugin], capture_output=True, text=True,
                          check=True).stdout
    assert "name=twinblock" in dump
    assert "max_thread_model=parallel" in dump
    shown = subprocess.run(["nbdkit", "--help", plugin], capture_output=True, text=True,
                           check=True).stdout
    assert "config=" in shown and "node=" in shown
