"""The volumes that the machines boot from: a pair of nodes on held disks, with a cache or without one."""

import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..error import LIVENESS_S, LabError
from ..lab import Lab
from ..links import NODES
from . import boot_clones, boot_machines, held_disk
from .bench import PEER_TIMEOUT, say

RATE_BYTES, DELAY_US = 240_000_000, 2000
FAST_LINK, LINK = "10gbit", "1gbit"  # while clones are written; while a node reads from its peer
MIB = 1 << 20
TRIAL_CACHE = "1GiB"
CACHE_BYTES_MIN = 16 * MIB  # that a configuration may ask for; only the sets of a quick trial are smaller


@dataclass(frozen=True)
class Case:
    """`cache` is in multiples of the unique working set, 0 for none; `distinct`: no two blocks are equal."""

    name: str
    title: str
    cache: float = 0
    distinct: bool = False


CASES = [Case("no-cache", "no cache"),
         Case("half", "half the set", 0.5), Case("twice", "twice the set", 2),
         Case("half-distinct", "half, nothing equal", 0.5, True),
         Case("twice-distinct", "twice, nothing equal", 2, True)]
BASE = CASES[0].name
# The phases of each: what the table's columns say.
LEARNED, WARM, RESTARTED = "cold", "warm", "cold, restarted"
REMOTE, REMOTE_WARM = "no disk, cold", "no disk, warm"
PHASES = [LEARNED, WARM, RESTARTED, REMOTE, REMOTE_WARM]


def titled(name):
    return next(case.title for case in CASES if case.name == name)


def cache_bytes(case, clones_with_equals):
    """The same for clones that are distinct: it is the bytes that an operator gives."""
    wanted = round(case.cache * clones_with_equals.unique_bytes())
    return max(CACHE_BYTES_MIN, -(-wanted // MIB) * MIB) if wanted else 0


def refusal(program, config, node, table):
    """Why this build does not take a configuration with the table [cache]; None where it does."""
    trial = Path(config).with_suffix(".trial.toml")
    trial.write_text(Path(config).read_text(encoding="utf-8") + table, encoding="utf-8")
    try:
        done = subprocess.run([str(program), str(trial), "--node", node, "--check"], capture_output=True, text=True,
                              check=False, timeout=LIVENESS_S)
    finally:
        trial.unlink()
    return None if done.returncode == 0 else " ".join((done.stderr or done.stdout).split()) or "it says nothing"


def cache_table(size):
    return f'\n[cache]\nsize = "{size}"\n'


def check_support(bench):
    """Before minutes are spent on the first case. Raises LabError where the build can't do the others."""
    lab = Lab(bench.dir / "trial")
    lab.create(size="64MiB", build=bench.build)
    reason = refusal(Path(lab.state["build"]) / "daemon" / "twinblockd", lab.state["config"], "alpha",
                     cache_table(TRIAL_CACHE))
    lab.purge()
    if reason:
        raise LabError("this build of twinblock takes no [cache] table, with which boot-storm compares; measure what "
                       f"it can do with --cases {BASE}. twinblockd says: {reason}")


class Volume:
    """A lab whose clones are written, for one case."""

    def __init__(self, bench, case, clones, size):
        self._bench = bench
        self._clones = clones
        self._broken = bench.dir / f"{case.name}-broken"
        self._broken.unlink(missing_ok=True)  # of the round before, whose disk ended failed
        images = {node: held_disk.sparse_image(bench, f"{case.name}-{node}", clones.size) for node in NODES}
        preload = held_disk.library(bench)
        self._images = list(images.values())
        self._counts = {node: held_disk.new_count(bench.dir / f"{case.name}-{node}-reads") for node in NODES}
        env = {node: {**held_disk.environment(preload, [(RATE_BYTES, DELAY_US, [images[node]])],
                                              self._broken if node == "alpha" else None, self._counts[node]),
                      "TWINBLOCK_DISK": "threads"} for node in NODES}
        self._lab = Lab(bench.dir / case.name)
        bench.at_end(self._lab.purge)
        self._lab.create(size=f"{clones.size // MIB}MiB", backing=images, env=env, backing_io="direct", links=1,
                         rates=[FAST_LINK], host_namespaces=True, peer_timeout=PEER_TIMEOUT, build=bench.build,
                         encryption="off")
        if size:
            self._add_cache(size)
        self._lab.up(timeout_s=120)

    def _add_cache(self, size):
        config, table = Path(self._lab.state["config"]), cache_table(f"{size // MIB}MiB")
        program = Path(self._lab.state["build"]) / "daemon" / "twinblockd"
        if (reason := refusal(program, config, "alpha", table)):
            raise LabError(f"twinblockd refuses a cache of {size // MIB} MiB: {reason}")
        config.write_text(config.read_text(encoding="utf-8") + table, encoding="utf-8")

    def close(self):
        self._lab.purge()
        for image in self._images:  # memory that the next one needs
            image.unlink()

    def write(self):
        boot_clones.write(self._clones, self._lab.node("alpha")["nbd"])

    def restart(self):
        """Both nodes: what they have learned is gone."""
        self._lab.down()
        self._lab.up(timeout_s=120)

    def lose_disk(self):
        """Alpha's fails from now on: it goes on with the peer's."""
        import nbd  # pylint: disable=import-outside-toplevel
        self._broken.touch()
        handle = nbd.NBD()
        handle.connect_uri(self._lab.node("alpha")["nbd"])
        handle.pwrite(bytes(boot_clones.BLOCK), self._clones.spare)  # by which the node finds out
        handle.shutdown()
        self._lab.wait_state("alpha", "diskless")

    def narrow_link(self):
        self._lab.network().shape("link1", LINK)

    def storm(self, state):
        """One, and what it cost. It counts only where the volume was in `state` to its end."""
        before = self._reading()
        ended = boot_machines.boot(self._bench, self._clones, self._lab.node("alpha")["nbd"])
        after = self._reading()
        if (now := self._lab.status("alpha")["state"]) != state:
            raise LabError(f"alpha should be in {state}, and is in {now}\n{self._lab.log_tail('alpha')}")
        return {"took_s": ended[-1], "reader_s": ended, "bytes": self._clones.count * self._clones.trace.bytes,
                **{key: after[key] - before[key] for key in ("alpha", "alpha_reads", "beta", "beta_reads", "link")},
                "cache": changes(before["cache"], after["cache"])}

    def _reading(self):
        status = self._lab.status("alpha")
        found = {"link": sum(link["in_bytes"] for link in status["links"]), "cache": status.get("cache")}
        for node, path in self._counts.items():
            found[f"{node}_reads"], found[node] = held_disk.counted(path)
        return found


def changes(before, after):
    """Of the numbers among what a node says of its cache, whatever they are called; None where it says nothing."""
    if not isinstance(after, dict):
        return None
    return {key: value - (before or {}).get(key, 0) for key, value in after.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)}


@contextmanager
def volume(bench, case, clones, size):
    made = Volume(bench, case, clones, size)
    try:
        yield made
    finally:
        made.close()


def measure(bench, case, clones, size):
    """All phases of one case, each a storm."""
    found = {}

    def storm(each, phase, state="duplex"):
        found[phase] = each.storm(state)
        say(f"{case.title}, {phase}: {found[phase]['took_s']:.1f} s")

    with volume(bench, case, clones, size) as each:
        began = time.monotonic()
        each.write()
        say(f"{case.title}: {clones.count} clones are written in {time.monotonic() - began:.1f} s")
        storm(each, LEARNED)
        storm(each, WARM)
        if case.cache:  # without one there is nothing to forget
            each.restart()
            storm(each, RESTARTED)
            each.restart()
        each.lose_disk()
        if case.cache:  # a node may forget what it has learned when its disk fails: it is without one from the start
            each.write()
        each.narrow_link()
        storm(each, REMOTE, "diskless")
        storm(each, REMOTE_WARM, "diskless")
    return found
