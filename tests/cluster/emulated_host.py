"""One host of a cluster as an emulated one of tests/vm: a kernel of its own, with its nbd, and a page cache that a power
cut takes. What it writes is in memory, but for its disk, where daemons keep theirs."""

import socket
import sys
import threading
import time
from pathlib import Path

from namespace_host import KEPT, OWNERS, lines_of

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "vm"))

from host import Host  # noqa: E402
from machine import LINKS, run  # noqa: E402

NOTES = "/dev/notes"
TOLD_IN = "/run/fence-answers"


class EmulatedHost(Host):
    switch = NOTES  # where its fence agent turns to

    def __init__(self, name, number, kernel, build, directory):
        super().__init__(name, kernel, build, directory)
        self.number = number
        self._power = threading.RLock()  # cut by a test, and by a power switch

    @property
    def alive(self):
        process = self._process
        return process is not None and process.poll() is None

    def begin_boot(self):
        with self._power:
            super().begin_boot()

    def cut(self):
        with self._power:
            super().cut()

    def boot(self):
        self.begin_boot()
        self.finish_boot()

    def finish_boot(self):
        self.wait_boot()
        lines = ["set -e", f"mkdir -p {' '.join(KEPT)} {TOLD_IN} /run/lock"]
        for path in KEPT:
            lines.append(f"mkdir -p /data/kept{path}; mount --bind /data/kept{path} {path}")
        lines += ["mkdir -p /var/log/pacemaker /var/log/corosync /var/log/crmsh",
                  *(f"mkdir -p {path} && chown -R {owner} {path}" for path, owner in OWNERS.items())]
        for link in range(LINKS):
            lines.append(f"ip address add 10.77.{link}.{self.number}/24 dev eth{link + 1}")
        self.run("\n".join(lines))

    def lines(self, script, ending):
        """What it prints, line by line, until it ends, or `ending` is set."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=5) as connection:
            words = script.encode()
            connection.sendall(b"%d\n" % len(words) + words)
            yield from lines_of(connection, ending)

    def cut_link(self, link):
        """Its cable is out: neither kernel sees its card go down."""
        run("ip", "link", "set", f"{self.name}{link}", "nomaster")

    def plug_in(self):
        for link in range(LINKS):
            run("ip", "link", "set", f"{self.name}{link}", "master", f"link{link}")

    def remove(self):
        self.cut()


class NotesWatcher:
    """Hands on to the power switch what hosts write to their notes, which are this machine's files, and answers in a file
    of theirs: a host that is isolated has no other way out."""

    def __init__(self, switch, hosts):
        self._switch = switch
        self._ending = threading.Event()
        for host in hosts.values():
            threading.Thread(target=self._watch, args=(host,), daemon=True).start()

    def close(self):
        self._ending.set()

    def _watch(self, host):
        read = 0
        while not self._ending.is_set():
            text = host.notes.read_text(encoding="ascii", errors="replace") if host.notes.exists() else ""
            end = text.rfind("\n") + 1
            for words in map(str.split, text[read:end].splitlines()):
                if len(words) == 3:  # else its writer was cut off amid them
                    threading.Thread(target=self._act, args=(host, *words), daemon=True).start()
            read = end
            time.sleep(0.1)

    def _act(self, host, number, action, name):
        answer = self._switch.act(action, name)
        try:
            host.run(f"echo {answer} >{TOLD_IN}/.{number} && mv {TOLD_IN}/.{number} {TOLD_IN}/{number}", 60)
        except (OSError, AssertionError):
            pass  # it was cut off itself
