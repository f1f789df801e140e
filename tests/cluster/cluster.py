"""Two hosts with Corosync and Pacemaker, a volume between them and a database on it, as docs/pacemaker.md has it. Its
blocks of corosync.conf and crm's language are what is carried out here; what only the lab has is said here."""

import os
import re
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
PAGE = (TREE / "docs" / "pacemaker.md").read_text(encoding="utf-8")
NODES = ("alpha", "beta")
# Emulated hosts are some twenty times slower.
SLOW = os.environ.get("TWINBLOCK_CLUSTER") == "emulated"
PATIENCE_S = 1200 if SLOW else 300  # a state that has not come by then never will
TOKEN_MS = 15000 if SLOW else 3000
TIMES = 'link_timeout = "3s"\npeer_timeout = "10s"' if SLOW else 'peer_timeout = "5s"'
SIZE_MIB = 256 if SLOW else 512
ACTION_TIMES = 4 if SLOW else 1  # as long as the page says
ANSWER_S = 120 if SLOW else 60
PAUSE_S = 2 if SLOW else 0.2  # between two questions, each of which is work for a host
SERVICE = "db"
PG_BIN = "/usr/lib/postgresql/15/bin"
AS_POSTGRES = "setpriv --reuid postgres --regid postgres --init-groups"
PSQL = f"{AS_POSTGRES} {PG_BIN}/psql -qAt -h /run/postgresql -d postgres"
NEEDED = ("pacemakerd", "corosync", "crm", "crm_mon", "ocf-tester", f"{PG_BIN}/initdb")


def block(language):
    """The text of the page's only block in that language."""
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    assert len(found) == 1, f"docs/pacemaker.md has {len(found)} blocks of {language}"
    return found[0]


def volume_file(witness):
    nodes = "".join(f'[node.{name}]\nbacking = "/srv/r0.img"\nmetadata = "/var/lib/twinblock/r0.meta"\n'
                    for name in NODES)
    links = "".join(f'[link.link{link}]\n' + "".join(f'{name} = "10.77.{link}.{number}:7700"\n'
                                                     for number, name in enumerate(NODES, 1)) for link in (0, 1))
    return (f'volume = "r0"\nsize = "{SIZE_MIB}MiB"\nencryption = "off"\n{nodes}{links}[replication]\n'
            f'{TIMES}\non_restart = "secondary"\n{witness}')


def wait_until(condition, what, patience_s=PATIENCE_S):
    deadline = time.monotonic() + patience_s
    while not (result := condition()):
        assert time.monotonic() < deadline, f"waited {patience_s} s for {what} in vain"
        time.sleep(PAUSE_S)
    return result


class Cluster:
    """`hosts` by name, already booted and joined. `switch` is what their fence agents turn to."""

    def __init__(self, hosts, build, switch, rejoin, witness="", parameters="", otherwise=()):
        self.hosts = hosts
        self.rejoin = rejoin  # after a boot: the links between it and the other one
        self._build = Path(build)
        self.switch = switch
        self._witness = witness
        self._parameters = parameters  # of the volume's primitive, beside the page's
        self._otherwise = dict(otherwise)  # words of the page's configuration: what stands there instead

    def begin(self):
        """From hosts that have nothing to a service that runs."""
        for host in self.hosts.values():
            self.install(host)
            self.equip(host)
        self.make_volume()
        for host in self.hosts.values():
            self.start(host)
        self.configure()
        host = wait_until(self.where, "the service")
        self.ask(host, "create table promised (number integer primary key)")

    # --- what is on the hosts ---

    def equip(self, host):
        """At each boot: what is not on its disk."""
        programs = {f"{self._build}/tools/twinblock": "/usr/sbin/twinblock",
                    f"{self._build}/daemon/twinblockd": "/usr/sbin/twinblockd",
                    HERE / "fence_lab": "/usr/sbin/fence_lab"}
        lines = [f"ln -sf {source} {target}" for source, target in programs.items()]
        lines += [f"echo 10.77.0.{number} {name} >>/etc/hosts" for number, name in enumerate(NODES, 1)]
        lines += ["mkdir -p /usr/lib/ocf/resource.d/twinblock /usr/lib/twinblock /run/postgresql /var/log/pacemaker /srv/db",
                  f"ln -sf {TREE}/packaging/ocf/volume /usr/lib/ocf/resource.d/twinblock/volume",
                  f"ln -sf {TREE}/packaging/ocf/fence-by-pacemaker /usr/lib/twinblock/",
                  "chown postgres:postgres /run/postgresql",
                  "touch /var/log/postgresql-db.log; chown postgres:postgres /var/log/postgresql-db.log"]
        host.run("set -e\n" + "\n".join(lines))

    def install(self, host):
        """Once: the files of both daemons."""
        config = block("corosync").replace("token: 3000", f"token: {TOKEN_MS}")
        host.run(f"cat >/etc/corosync/corosync.conf <<'END'\n{config}END\n"
                 f"cat >/etc/twinblock/r0.toml <<'END'\n{volume_file(self._witness)}END\n"
                 f"truncate -s {SIZE_MIB}M /srv/r0.img")

    def make_volume(self):
        """As the page says: a volume, a file system, a database; then both nodes are stopped in order."""
        alpha = self.hosts["alpha"]
        for host in self.hosts.values():
            host.run("setsid twinblockd /etc/twinblock/r0.toml >>/var/log/twinblock-r0.log 2>&1 </dev/null &")
        for host in self.hosts.values():
            wait_until(lambda host=host: host.run("twinblock status r0", check=False)[1] == 0, "the node")
        alpha.run("twinblock init r0 && twinblock promote r0 && "
                  f"twinblock wait r0 duplex --timeout {PATIENCE_S}s", PATIENCE_S + 60)
        device = alpha.run("twinblock attach r0 2>/dev/null").splitlines()[-1]
        alpha.run(f"set -e; mkfs.ext4 -q {device}; mount {device} /srv/db; mkdir /srv/db/data; "
                  f"chown postgres:postgres /srv/db/data; chmod 700 /srv/db/data; "
                  f"{AS_POSTGRES} {PG_BIN}/initdb -N -D /srv/db/data -A trust >/dev/null; "
                  "umount /srv/db; twinblock detach r0")
        # A node learns of a client's end a moment after the client itself.
        wait_until(lambda: alpha.run("twinblock demote r0", check=False)[1] == 0, "the demotion")
        for host in self.hosts.values():
            host.run("pid=$(cat /run/twinblock/r0.pid); kill $pid; while test -e /proc/$pid; do sleep 0.1; done")

    # --- the daemons ---

    @staticmethod
    def start(host):
        host.run("corosync && setsid pacemakerd >>/var/log/pacemaker/pacemakerd.out 2>&1 </dev/null &")

    def configure(self):
        """The page's configuration, with what the lab has in place of the page's."""
        text = block("crm").replace("/lab/switch", self.hosts["alpha"].switch or self.switch.path)
        text = re.sub(r"(?<=timeout=)\d+(?=s)", lambda seconds: str(int(seconds[0]) * ACTION_TIMES), text)
        text = text.replace("params volume=r0", f"params volume=r0 {self._parameters}".rstrip(), 1)
        for words, instead in self._otherwise.items():
            assert words in text, words
            text = text.replace(words, instead)
        alpha = self.hosts["alpha"]
        wait_until(lambda: len(self.online()) == 2, "both hosts in the cluster")
        alpha.run(f"cat >/tmp/r0.crm <<'END'\n{text}END\n"
                  "crm --display=plain configure load update /tmp/r0.crm", PATIENCE_S)

    @staticmethod
    def standby(host, value):
        """value: "on" or "off"."""
        if SLOW:  # the same, without the minute that crmsh takes to start
            host.run(f"crm_attribute --type nodes --node {host.name} --name standby --update {value}")
        else:
            host.run(f"crm node {'standby' if value == 'on' else 'online'} {host.name}")

    # --- what the cluster says ---

    def living(self):
        return [host for host in self.hosts.values() if host.alive]

    def seen(self, *words):
        """crm_mon's XML, by the first host that answers."""
        for host in self.living():
            try:
                said, status = host.run(f"crm_mon --one-shot --output-as=xml {' '.join(words)}", ANSWER_S, check=False)
            except (OSError, AssertionError):  # it was cut off meanwhile
                continue
            if status == 0:
                return said
        return ""

    def online(self):
        return re.findall(r'<node name="(\w+)" id="\d+" online="true"[^>]* pending="false"', self.seen())

    def controller(self):
        """The host whose controller decides for the cluster (Pacemaker's DC)."""
        found = re.search(r'<current_dc present="true"[^>]* name="(\w+)"', self.seen())
        return self.hosts[found[1]] if found else None

    def where(self):
        """The host whose database answers, asked without the cluster; None: nobody's."""
        for host in self.living():
            if self.ask(host, "select 1") == "1":
                return host
        return None

    @staticmethod
    def ask(host, statement):
        try:
            # Without a socket it is not worth a program's start.
            said, status = host.run(f'test -S /run/postgresql/.s.PGSQL.5432 && {PSQL} -c "{statement}"', ANSWER_S,
                                    check=False)
        except (OSError, AssertionError, subprocess.TimeoutExpired):  # it is down, or just going
            return None
        return said if status == 0 else None

    @staticmethod
    def lines(host, statements, ending):
        """What the database answers, line by line, until it ends, or `ending` is set."""
        try:
            yield from host.lines(f"printf '%b' '{statements}' | env --default-signal=PIPE {PSQL}", ending)
        except (OSError, AssertionError):
            return

    def role(self, host):
        said = host.run("twinblock status r0 --json", ANSWER_S, check=False)[0]
        return (re.search(r'^  "role": "(\w+)"', said, re.M) or ["", ""])[1]

    def state(self, host):
        said = host.run("twinblock status r0 --json", ANSWER_S, check=False)[0]
        return (re.search(r'^  "state": "(\w+)"', said, re.M) or ["", ""])[1]

    def ban(self):
        """The node that went on alone, and is not together with the other one yet, as the cluster has it."""
        said = self.living()[0].run("cibadmin --query --xpath \"//rsc_location[@id='twinblock-r0-alone']//expression\"",
                                    ANSWER_S, check=False)[0]
        return (re.search(r' value="(\w+)"', said) or ["", ""])[1]

    @staticmethod
    def idle(host):
        """Whether the cluster carries nothing out, by its controller there."""
        return "S_IDLE" in host.run("crmadmin --status $(uname -n)", ANSWER_S, check=False)[0]

    def logs(self):
        text = ""
        for host in self.living():
            text += f"--- {host.name}\n" + host.run(
                "crm_mon -1rfA; twinblock status r0; cd /var/log; for f in pacemaker/pacemaker.log twinblock-r0.log "
                "corosync/corosync.log; do echo \"== $f\"; tail -n 60 $f; done", ANSWER_S, check=False)[0] + "\n"
        return text
