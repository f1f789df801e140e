"""More to write than the host's limit of dirty pages allows, and little memory for the node: whoever fills the volume
holds the memory and the dirty pages that the node would need to get that written.

With $TWINBLOCK_PRESSURE_UNMENDED the nodes have not the rights to prepare for that: waits get longer (0.9 s for 0.5 s
with $TWINBLOCK_VM_DISK_BYTES_PER_S at 15 MB/s), but not beyond what is allowed here."""

import os

import pytest
from machine import NODES

WRITE_MIB = int(os.environ.get("TWINBLOCK_PRESSURE_MIB", "256"))
LIMIT_MIB = int(os.environ.get("TWINBLOCK_PRESSURE_LIMIT_MIB", "512"))
DIRTY_BYTES = 64 << 20
UNMENDED = "setpriv --bounding-set -sys_resource,-ipc_lock " if os.environ.get("TWINBLOCK_PRESSURE_UNMENDED") else ""
LONGEST_WAIT_S = 2
GROUP = "/sys/fs/cgroup/twinblock"
LIMIT = (f"set -e; mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup; mkdir -p {GROUP}; "
         f"echo +memory >/sys/fs/cgroup/cgroup.subtree_control; echo {LIMIT_MIB}M >{GROUP}/memory.max; "
         f"sysctl -q -w vm.dirty_bytes={DIRTY_BYTES} vm.dirty_background_bytes={DIRTY_BYTES // 2}")


def fill(host):
    """Writes through the host's page cache to a file system on the volume, again and again over the same place."""
    times = max(1, WRITE_MIB // 64)
    host.run(f"for i in $(seq {times}); do dd if=/dev/zero bs=1M count=64 conv=notrunc,fsync of=/mnt/f 2>/dev/null || "
             "exit 1; dd if=/dev/urandom bs=64k count=256 conv=notrunc,fsync of=/mnt/g 2>/dev/null || exit 1; done", 1800)
    host.run("sync -f /mnt", 600)


@pytest.mark.parametrize("backing_io", ["direct", "buffered"])
def test_more_is_written_than_the_host_may_hold(hosts, make_volume, backing_io):
    for host in hosts.values():
        host.run(LIMIT)
    volume = make_volume(backing_io=backing_io, around=f"echo $BASHPID >{GROUP}/cgroup.procs; exec {UNMENDED}")
    alpha = volume.alpha
    try:
        for name in NODES:
            status = volume.status(hosts[name])
            assert status["disk"]["io"] == backing_io
            assert bool(UNMENDED) == bool(status["memory"]["refused"]), status["memory"]
            hosts[name].run(f"grep -qx {status['pid']} {GROUP}/cgroup.procs && grep -qx {LIMIT_MIB << 20} {GROUP}/memory.max")
        volume.stay_attached(alpha)
        volume.mount(alpha)
        fill(alpha)
        status = volume.status(alpha)
        longest_s = status["latency"]["write_max_us"] / 1e6
        peak = alpha.run(f"cat {GROUP}/memory.peak 2>/dev/null || cat {GROUP}/memory.current")
        print(f"{backing_io}: cgroup {int(peak) >> 20} MiB, {status['counters']['writes']} writes, "
              f"{status['counters']['write_bytes'] >> 20} MiB, longest {longest_s:.3f} s")
        assert status["counters"]["peer_losses"] == 0
        assert status["state"] == "duplex"
        assert longest_s <= LONGEST_WAIT_S
        volume.check_no_error(alpha)
    finally:
        for host in hosts.values():
            host.run("sysctl -q -w vm.dirty_ratio=20 vm.dirty_background_ratio=10")

