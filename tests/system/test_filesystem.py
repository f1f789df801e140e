"""A filesystem on the attached device, through the loss of the peer."""

import filecmp
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support import IS_ROOT, assert_identical, ctl

SOURCE = Path("/usr/include")
FILE_BYTES_MAX = 24 << 20

pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(not IS_ROOT, reason="mounting needs root"),
              pytest.mark.skipif(not os.path.exists("/dev/fuse") and not Path("/dev/nbd0").exists(),
                                 reason="attaching needs /dev/fuse or /dev/nbd0")]


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          check=True, timeout=60).stdout


def copy_some(source, target, first, last):
    """The files numbered first to last of a directory tree, below `target`; the relative names."""
    names = sorted(path.relative_to(source) for path in source.rglob("*.h")
                   if path.is_file() and not path.is_symlink())[first:last]
    copied, total = [], 0
    for name in names:
        total += (source / name).stat().st_size
        if total > FILE_BYTES_MAX // 2:
            break
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)
        copied.append(name)
    return copied


def test_ext4_survives_the_loss_of_the_secondary_and_is_whole_on_it_afterwards(make_lab, scratch):
    lab = make_lab(size="128MiB")
    mount = scratch / "mnt"
    mount.mkdir()
    attached = ctl(lab, "alpha", "attach", "--json")
    assert attached.returncode == 0, attached.stderr
    reply = json.loads(attached.stdout)
    device = reply.get("result", reply)["device"]
    mounted = False
    try:
        run("mkfs.ext4", "-q", device)
        run("mount", device, mount)
        mounted = True
        copied = copy_some(SOURCE, mount, 0, 400)
        run("sync", "-f", mount)
        lab.kill("beta")
        copied += copy_some(SOURCE, mount, 400, 800)
        run("sync", "-f", mount)
        lab.wait_state("alpha", "simplex", 10)
        lab.start("beta")
        lab.wait_state("alpha", "duplex", 30)
        run("umount", mount)
        mounted = False
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(mount)], check=False)
        detached = ctl(lab, "alpha", "detach")
    assert detached.returncode == 0, detached.stderr
    assert copied
    lab.down()
    assert_identical(lab)
    image = lab.node("beta")["backing"]
    run("e2fsck", "-fn", image)
    run("mount", "-o", "ro,loop,noload", image, mount)
    try:
        for name in copied:
            assert filecmp.cmp(SOURCE / name, mount / name, shallow=False), name
    finally:
        run("umount", mount)
