"""A synchronous copy as simple as can be, to measure a mirror against: nbdkit's file plugin, in
which each thread sends what it writes to a program on the other node, and waits for its answer
(bare_mirror.c and bare_peer.c). It keeps none of a mirror's promises."""

from pathlib import Path

from ..error import LabError
from . import held_disk

HERE = Path(__file__).resolve().parent


def environment(bench, preload, disks, peer):
    """What nbdkit needs, so that its writes go to `peer`, too. `disks` as of held_disk."""
    library = bench.compiled("bare_mirror.so", HERE / "bare_mirror.c", "-shared", "-fPIC")
    held = held_disk.environment(preload, disks)
    return {**held, "LD_PRELOAD": f"{library}:{held['LD_PRELOAD']}", "TWINBLOCK_BARE_PEER": peer}


def start_peer(bench, lab, name, image, env):
    """The program at the lab's beta, which writes `image`; its ADDRESS:PORT on link1."""
    program = bench.compiled("bare_peer", HERE / "bare_peer.c")
    address = lab.link_address("link1", "beta")
    bench.spawn([*lab.inside("beta"), "env", *(f"{key}={value}" for key, value in env.items()),
                 program, address, image], name)
    port = bench.first_line(name)
    if not port.isdigit():
        raise LabError(f"bare_peer does not listen at {address}: {bench.log_tail(name)}")
    return f"{address}:{port}"


def check_copied(image, copy):
    """After random writes over all of it: that they went to both."""
    block, same, count = 64 << 10, 0, 0
    with open(image, "rb") as here, open(copy, "rb") as there:
        while data := here.read(block):
            same += data == there.read(block)
            count += 1
    # They began with different bytes, and not each block was written.
    if same < count / 2:
        raise LabError(f"a bare copy that is none: {same} of {count} blocks are the same")
