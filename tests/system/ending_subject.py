"""What test_ending.py ends: a test that has started all kinds of things, and waits for a node that will
never answer. Not collected by itself."""

import os
from pathlib import Path

from lablib import network
from support import KIB, Fio, connection, wait_for_writes


def test_waits_for_an_answer_that_never_comes(make_lab, scratch, roomy):
    namespaces = network.unavailable() is None
    lab = make_lab(backing=roomy, host_namespaces=namespaces, peer_timeout="600s")
    Fio(lab.node("alpha")["nbd"], scratch, bs="4k", runtime=None)
    wait_for_writes(lab, 10)
    lab.pause("beta")
    with connection(lab) as handle:
        told = Path(os.environ["TWINBLOCK_ENDING_TELLS"])
        told.with_suffix(".new").write_text(f"{scratch}\n{roomy['alpha'].parent}\n", encoding="utf-8")
        told.with_suffix(".new").rename(told)
        handle.pwrite(bytes(4 * KIB), 0)
