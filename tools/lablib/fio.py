"""fio through its nbd engine, and images for it."""

import json
import os
import subprocess

from .error import LabError


def fill(image, size_bytes):
    """Allocated and written in full, so that no run pays for allocation, with no two blocks equal; in
    small pieces, since ext4 keeps a long write as one folio, in which each later 4 KiB write, whoever
    makes it, is slow."""
    with open(image, "wb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, size_bytes)
        left = size_bytes
        while left:
            left -= file.write(os.urandom(min(left, 1 << 16)))


def run_fio(uri, mode, block, depth, seconds=None, ramp=0.5, extra=()):
    """One run; random modes for `seconds`, others once over the device. Rates and latencies."""
    command = ["fio", "--name=run", "--ioengine=nbd", f"--uri={uri}", "--thread", f"--rw={mode}",
               f"--bs={block}", f"--iodepth={depth}", "--randrepeat=0", "--output-format=json"]
    if seconds is not None:
        # In whole milliseconds: fio takes a fraction of a second for no limit at all.
        command += ["--norandommap", "--time_based", f"--runtime={round(seconds * 1000)}ms",
                    f"--ramp_time={round(ramp * 1000)}ms"]
    fio = subprocess.run([*command, *extra], capture_output=True, text=True, check=False,
                         timeout=(seconds or 60) * 3 + 60)
    if fio.returncode:
        raise LabError(f"fio failed on {uri}: {fio.stdout[-500:]}{fio.stderr[-1000:]}")
    job = json.loads(fio.stdout[fio.stdout.index("{"):])["jobs"][0]
    if job["error"]:
        raise LabError(f"fio reports error {job['error']} on {uri}")
    io = job["read" if mode in ("read", "randread") else "write"]
    percentile = io["clat_ns"]["percentile"]
    return {"iops": io["iops"], "bytes_per_s": io["bw_bytes"], "mean_us": io["clat_ns"]["mean"] / 1e3,
            "p50_us": percentile["50.000000"] / 1e3, "p99_us": percentile["99.000000"] / 1e3}
