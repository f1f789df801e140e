"""What encryption of the links costs: plain, TLS, and QEMU's quorum with TLS, by write size and depth."""

from statistics import median

from .. import quorum
from ..error import LabError
from ..fio import fill, run_fio
from ..lab import parse_size
from ..links import NODES
from ..processes import cpu_seconds
from .bench import in_turn, must_be, say
from .plots import Plot, grouped_bars
from .report import Report, bar, size_text, table

NAME = "encryption"
TITLE = "plain links, encrypted ones, and QEMU's quorum with TLS: rate, p50, CPU"
ROUNDS, SECONDS, SECONDS_QUICK = 5, 2.0, 0.5
RAMP_S = 0.3

KINDS = {"plain": "twinblock, plain", "tls": "twinblock, TLS 1.3", "quorum": "QEMU quorum, TLS"}
# bytes of a write, depth; what of the plain rate is to be left, what the p50 may be, times the quorum's rate
POINTS = ((4096, 1, None, 1.15, 1.5), (4096, 32, 0.85, None, 2.5), (16384, 8, None, None, None),
          (65536, 8, 0.75, None, 1.6), (1 << 20, 4, 0.7, None, 1.6))
POINTS_QUICK = (POINTS[1], POINTS[3])


def point_name(point):
    return f"{size_text(point[0])}, depth {point[1]}"


class Target:
    """A device, and the processes that are behind it."""

    def __init__(self, uri, pids, check=lambda: None):
        self.uri, self.pids, self.check = uri, pids, check

    def cpu_s(self):
        return sum(cpu_seconds(pid) for pid in self.pids)


def start_lab(bench, kind, size):
    lab = bench.lab(kind, size, host_namespaces=False, encryption="tls" if kind == "tls" else "off")
    return Target(lab.node("alpha")["nbd"], [lab.node(name)["pid"] for name in NODES],
                  lambda: must_be(lab, "duplex"))


def start_quorum(bench, size):
    directory = bench.dir / "quorum"
    directory.mkdir()
    images = [directory / "local.img", directory / "peer.img"]
    for image in images:
        fill(image, parse_size(size))
    servers = []

    def spawn(command, log):
        servers.append(bench.spawn(command, f"quorum-{log.stem}"))

    uri = quorum.start(spawn, directory, images, tls=True)

    def check():
        if not all(server.alive() for server in servers):
            raise LabError(f"a server of the quorum has ended:\n{bench.log_tail('quorum-quorum')}")

    return Target(uri, [server.pid for server in servers], check)


def measure(bench, options):
    size = "128MiB" if options.quick else "1GiB"
    points = POINTS_QUICK if options.quick else POINTS
    targets = {kind: start_lab(bench, kind, size) for kind in ("plain", "tls")}
    targets["quorum"] = start_quorum(bench, size)
    found = {point_name(point): {kind: [] for kind in KINDS} for point in points}
    for number in range(options.rounds):
        for point in points:
            for kind in in_turn(KINDS, number + points.index(point)):
                found[point_name(point)][kind].append(one(targets[kind], point, options.seconds))
        say(f"round {number + 1}/{options.rounds} is done")
    return {"points": found, "order": [point_name(point) for point in points]}


def one(target, point, seconds):
    before = target.cpu_s()
    sample = run_fio(target.uri, "randwrite", str(point[0]), point[1], seconds, RAMP_S)
    target.check()
    written = sample["bytes_per_s"] * (seconds + RAMP_S)  # the ramp takes CPU time, too
    return {**sample, "cpu_s_per_gib": (target.cpu_s() - before) / (written / (1 << 30)) if written else 0.0}


# --- from here on, everything follows from the figures ---


def of(figures, point, kind, key):
    return median(sample[key] for sample in figures["points"][point][kind])


def ratio(figures, point, key, kind, other):
    """Of neighbours in time."""
    samples = figures["points"][point]
    return median(a[key] / b[key] if b[key] else 0.0 for a, b in zip(samples[kind], samples[other]))


def report(figures):
    made = Report(
        "What encryption of the links costs",
        "Random writes through fio's nbd engine to a device on loopback: twinblock in duplex with plain links, with TLS "
        "1.3 (a pre-shared key, AES-128-GCM), and QEMU's storage daemon with a quorum of a file and an NBD peer (nbdkit) "
        "over TLS with a pre-shared key. Measured in turn; ratios are medians over the rounds. CPU is that of both "
        "nodes, or of both servers, without the client's.")
    rows = []
    for point in figures["order"]:
        for kind, title in KINDS.items():
            rows.append([point if kind == "plain" else "", title,
                         *(f"{of(figures, point, kind, key) * factor:.{places}f}" for key, factor, places in (
                             ("iops", 1, 0), ("bytes_per_s", 1e-6, 0), ("p50_us", 1, 0), ("p99_us", 1, 0),
                             ("cpu_s_per_gib", 1, 2)))])
    made.add("Figures", table(["writes", "what", "a second", "MB/s", "p50 us", "p99 us", "CPU s/GiB"], rows))
    for point in POINTS:
        name = point_name(point)
        if name in figures["order"]:
            add_bars(made, figures, point, name)
    return made


def add_bars(made, figures, point, name):
    _, _, rate_bar, p50_bar, quorum_bar = point
    rate = ratio(figures, name, "iops", "tls", "plain")
    if rate_bar:
        made.bars.append(bar(f"{name}: rate with TLS, of plain", rate, rate_bar, unit="x"))
    if p50_bar:
        made.bars.append(bar(f"{name}: p50 with TLS, of plain", ratio(figures, name, "p50_us", "tls", "plain"), p50_bar,
                             at_least=False, unit="x"))
    if quorum_bar:
        made.bars.append(bar(f"{name}: rate with TLS, of QEMU's quorum with TLS",
                             ratio(figures, name, "iops", "tls", "quorum"), quorum_bar, unit="x"))
    cpu = ratio(figures, name, "cpu_s_per_gib", "tls", "plain")
    made.conclusions.append(f"{name}: TLS leaves {rate * 100:.0f}% of the plain rate, and the nodes need {cpu:.2f} times "
                            "the processor time for each byte.")


def plots(figures):
    return [Plot("", 2, lambda panels: draw(panels, figures))]


def draw(panels, figures):
    order = figures["order"]
    for panel, key, label, factor in ((panels[0], "bytes_per_s", "MB/s", 1e-6),
                                      (panels[1], "cpu_s_per_gib", "CPU of both nodes, s/GiB", 1)):
        grouped_bars(panel, order, {title: [of(figures, point, kind, key) * factor for point in order]
                                    for kind, title in KINDS.items()}, label)
        panel.tick_params(axis="x", rotation=45)
