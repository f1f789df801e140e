"""Everything that fio wrote through the device, with checksums, is on the secondary's image too."""

import subprocess

import pytest

from lablib.lab import parse_size
from support import Fio, assert_identical, fio_job

# Sizes are random, in steps of 512 bytes; each block is written once, so that the same parameters
# tell a later run, on another file, what must be where.
VERIFY = {"rw": "randwrite", "bsrange": "512-64k", "iodepth": 16, "verify": "crc32c",
          "verify_fatal": 1, "verify_dump": 0, "randseed": 4711}


@pytest.mark.slow
@pytest.mark.sanitize
def test_random_sizes_verify_on_the_device_and_on_the_secondarys_image(lab, scratch):
    size = parse_size(lab.state["size"])
    job = Fio(lab.node("alpha")["nbd"], scratch, **VERIFY, size=size, fsync=64,
              do_verify=1).result()
    assert job["read"]["io_bytes"] == size
    assert lab.down()
    verify_image(lab.node("beta")["backing"], size, scratch)
    assert_identical(lab)


def verify_image(image, size, scratch):
    output = scratch / "verify-only.json"
    words = [f"--{key}={value}" for key, value in VERIFY.items()]
    fio = subprocess.run(["fio", "--name=load", "--ioengine=psync", "--thread",
                          f"--filename={image}", f"--size={size}", "--fsync=64", "--verify_only",
                          "--output-format=json", f"--output={output}", *words],
                         capture_output=True, text=True, check=False, cwd=scratch, timeout=90)
    job = fio_job(fio.returncode, fio.stdout + fio.stderr, output)
    assert job["read"]["io_bytes"] == size
