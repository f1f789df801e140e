"""A primary whose disk failed works on its peer's replica. Where a witness let that peer be promoted meanwhile, what others
have written there is not for the old clients: they know nothing of it."""

import errno
import os

import nbd
import pytest

from faulty_disk import FaultyDisk
from support import MIB, assert_identical, connection, demote, wait_until
from test_witness_promotion import promoted
from witness_support import entry_key

OLD = os.urandom(MIB)
NEW = os.urandom(MIB)


@pytest.mark.parametrize("how", ["demoted", "killed"])
def test_a_primary_without_a_disk_yields_to_who_was_promoted_meanwhile(scratch, make_lab, how):
    disk = FaultyDisk(scratch, make_lab, "alpha", witness="etcd", peer_timeout="1s", witness_settings={"timeout": "1s"})
    lab = disk.lab
    entry_key(lab)
    before = nbd.NBD()  # it is cut off
    before.connect_uri(lab.node("alpha")["nbd"])
    disk.begin(errno.EIO)
    before.pwrite(OLD, 0)
    before.flush()
    lab.wait_state("alpha", "diskless", 20)
    lab.pause("alpha")
    promoted(lab, "beta")
    with connection(lab, "beta") as handle:
        assert handle.pread(len(OLD), 0) == OLD
        handle.pwrite(NEW, 0)
        handle.flush()
    if how == "demoted":
        demote(lab, "beta")
    else:
        lab.kill("beta")
        lab.start("beta")
    lab.resume("alpha")
    with pytest.raises(nbd.Error):  # at once, or when it is cut off
        before.pread(len(OLD), 0)
    wait_until(lambda: lab.status("alpha")["role"] == "secondary", what="alpha to yield")
    if how == "killed":
        wait_until(lambda: lab.status("beta")["role"] == "primary", what="beta to go on as primary")
    else:
        promoted(lab, "beta")
    disk.end()
    assert lab.stop("alpha")
    lab.start("alpha")
    lab.wait_state("beta", "duplex", 20)
    with connection(lab, "beta") as handle:
        assert handle.pread(len(NEW), 0) == NEW
    assert_identical(lab)
