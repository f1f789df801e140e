"""packaging/two-hosts.md, line by line, on two hosts with systemd and udev; then what the page promises of restarts,
reboots and newer packages ($TWINBLOCK_UPGRADES of each). For Debian 12; $TWINBLOCK_RELEASE and $TWINBLOCK_DEB say which
other one."""

import json
import os
from pathlib import Path

import pytest
from debian import DebianHost, the_package, the_system
from guide import FOLDER, HOSTS, blocks, copied_files
from lablib.guardian import Guardian
from machine import HERE, NODES, make_networks, run
from volume import PATIENCE_S, wait_until

UPGRADES = int(os.environ.get("TWINBLOCK_UPGRADES", "2"))
DOWN_S = 300  # for an orderly end, on however busy a machine: units that hang take systemd 60 s each
PAGE = (HERE.parents[1] / "packaging" / "two-hosts.md").read_text(encoding="utf-8")
FILE = "/etc/twinblock/r0.toml"
PROMISED = "/root/promised"
RECORDS_A_RUN = 1 << 24  # more than a load ever writes
WRITER = "python3 /root/writer.py"


class Pair:
    def __init__(self, hosts, package):
        self.hosts = hosts
        self.package = package
        self.alpha, self.beta = (hosts[name] for name in NODES)
        self._next_record = 1  # never one that the files may hold already

    def do(self, section):
        """The commands of the page's section; what they printed."""
        said = ""
        for block in blocks(PAGE):
            if block.section == section and block.language == "scp":
                for source, name, target in copied_files(block.text):
                    self.copy(source, self.hosts[name], target)
            if block.section == section and block.language == "fstab":
                for name in HOSTS:
                    self.hosts[name].run(f"cat >>/etc/fstab <<'END'\n{block.text}END\n")
            if block.section == section and block.language == "sh":
                for names, command in block.commands():
                    for name in names:
                        said += self.hosts[name].run(f"cd {FOLDER} && {command}", 900) + "\n"
        return said

    def copy(self, source, host, target):
        """A file of alpha's, with its mode, as `scp -p` does it, which these hosts do not have."""
        mode = self.alpha.run(f"stat -c %a {source}").strip()
        data = self.alpha.run(f"base64 -w 0 {source}").strip()
        host.run(f"(umask 077; echo {data} | base64 -d >{target}) && chmod {mode} {target}")

    def text_of(self, section, language):
        return next(block.text for block in blocks(PAGE) if (block.section, block.language) == (section, language))

    def status(self, host):
        return json.loads(host.run("twinblock status r0 --json"))

    def is_mounted(self):
        return self.alpha.run("mountpoint -q /mnt", check=False)[1] == 0

    def wait(self, host, goal):
        return host.run(f"twinblock wait r0 {goal} --timeout {PATIENCE_S}s", 2 * PATIENCE_S)

    def write(self, stray=False):
        """Begins the load: a service that the host's manager ends before the mount, or one that it knows nothing of."""
        how = "setsid" if stray else "systemd-run -q --unit=writer --collect -p RequiresMountsFor=/mnt"
        self.alpha.run(f"rm -f {PROMISED}*; {how} {WRITER} write /mnt {PROMISED} {self._next_record} </dev/null "
                       ">/root/writer.log 2>&1 &")
        self._next_record += RECORDS_A_RUN
        self.wait_for_writes(5)

    def writes(self):
        return int(self.alpha.run(f"cat {PROMISED} 2>/dev/null | wc -l"))

    def wait_for_writes(self, more):
        goal = self.writes() + more
        wait_until(lambda: self.writes() >= goal, f"{goal} writes")

    def longest_write_s(self):
        return float(self.alpha.run(f"cut -d' ' -f2 {PROMISED} | sort -n | tail -n 1"))

    def end_writer_and_check(self):
        assert self.alpha.run(f"test -e {PROMISED}.end", check=False)[1] != 0, \
            self.alpha.run(f"cat {PROMISED}.end /root/writer.log; journalctl -k -n 20")
        self.alpha.run(f"kill $(cat {PROMISED}.pid); while ! test -e {PROMISED}.end; do sleep 0.1; done")
        self.check_promised()

    def check_promised(self):
        self.alpha.run("echo 3 >/proc/sys/vm/drop_caches")
        self.alpha.run(f"{WRITER} check /mnt {PROMISED}", 600)

    def check_no_error(self):
        kernel = self.alpha.run("journalctl -k -b --no-pager")
        for words in ("I/O error", "Remounting filesystem read-only", "EXT4-fs error"):
            assert words not in kernel, kernel[-4000:]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    guardian = Guardian()
    tree = HERE.parents[1]
    directory = tmp_path_factory.mktemp("guide")
    guardian.remove(directory)
    package = the_package(tree)
    system = the_system(tree, package)
    make_networks()
    hosts = {name: DebianHost(name, system, directory) for name in NODES}
    try:
        for host in hosts.values():
            host.begin_boot()
        for host in hosts.values():
            host.wait_boot()
            host.send(package, f"{FOLDER}/{package.name}")
            host.send(HERE / "guest" / "writer.py", "/root/writer.py")
        yield Pair(hosts, package)
    finally:
        for host in hosts.values():
            host.cut()
        guardian.close()


def test_the_page_works_as_it_is_written(pair):
    pair.do(1)
    for host in pair.hosts.values():
        host.run(f"cat >{FILE} <<'END'\n{pair.text_of(2, 'toml')}END\n")
    pair.do(2)
    pair.do(3)
    pair.do(4)
    assert pair.is_mounted()
    keys = {host.run("twinblock key show r0") for host in pair.hosts.values()}
    assert len(keys) == 1
    assert {link["encryption"].rpartition(" ")[2] for link in pair.status(pair.alpha)["links"]} == keys
    for host in pair.hosts.values():
        said = host.run("systemctl is-system-running --wait || systemctl --failed --no-legend", check=False)[0]
        assert said == "running"
    # The line of fstab in place of the mount by hand.
    pair.write()
    pair.end_writer_and_check()
    pair.alpha.run("umount /mnt; mount /mnt")
    pair.check_promised()
    pair.check_no_error()


def test_the_primary_s_node_is_restarted_under_the_mounted_device(pair):
    pair.write()
    for _ in range(UPGRADES):
        pair.alpha.run("systemctl restart twinblock@r0", 300)
        pair.wait_for_writes(5)
    pair.end_writer_and_check()
    pair.check_no_error()
    pair.wait(pair.alpha, "duplex")
    # The node's mount namespace was made while the device was mounted: its copy of that goes with it.
    pair.alpha.run("umount /mnt; systemctl stop twinblock-attach@r0; test ! -e /dev/twinblock/r0", 300)
    pair.alpha.run("systemctl start twinblock-attach@r0; mount /mnt", 300)
    pair.check_promised()


def test_the_death_of_who_looks_after_the_device_is_nothing_to_who_uses_it(pair):
    """systemd restarts what requires a unit together with that."""
    alpha = pair.alpha
    of_mount = "grep ' /mnt ' /proc/self/mountinfo; systemctl show writer -P MainPID"
    main_pid = "systemctl show twinblock-attach@r0 -P MainPID"
    pair.write()
    before, process = alpha.run(of_mount), alpha.run(main_pid)
    for _ in range(3):
        alpha.run("systemctl kill -s KILL twinblock-attach@r0")
        wait_until(lambda: alpha.run(main_pid) not in ("0", process), "another process")
        process = alpha.run(main_pid)
        pair.wait_for_writes(5)
    assert alpha.run(of_mount) == before
    pair.end_writer_and_check()
    pair.check_no_error()


def test_hosts_change_places_and_back_as_the_page_says(pair):
    [block] = [block for block in blocks(PAGE) if block.section == 5 and block.language == "sh" and "umount" in block.text]
    back = {"alpha": "beta", "beta": "alpha"}
    for other in ({}, back):
        for hosts, command in block.commands():
            for name in hosts:
                pair.hosts[other.get(name, name)].run(command, 300)
        pair.wait(pair.hosts[other.get("beta", "beta")], "duplex")
    pair.check_promised()


def test_what_the_unit_leaves_to_a_node_is_enough_and_who_may_use_its_sockets(pair):
    alpha = pair.alpha
    memory = pair.status(alpha)["memory"]
    assert not memory["refused"], memory
    assert memory["io_flusher"] and memory["locked"], memory
    exposure = alpha.run("systemd-analyze security twinblock@r0 | sed -n 's/.*level for .*: \\([0-9.]*\\) .*/\\1/p'")
    print(f"exposure of twinblock@r0: {exposure}")
    assert float(exposure) <= 2.5
    alpha.run("useradd -G twinblock member; useradd stranger")
    assert json.loads(alpha.run("runuser -u member -- twinblock status r0 --json"))["role"] == "primary"
    assert alpha.run("runuser -u stranger -- twinblock status r0", check=False)[1] != 0
    readable = "find /etc/twinblock /run/twinblock /var/lib/twinblock ! -type d -perm /o+rwx ! -name '*.toml*'"
    assert alpha.run(readable).strip() == ""


def newer(package, directory, version):
    """The same package under a newer version."""
    tree = directory / f"tree-{version}"
    run("dpkg-deb", "-R", package, tree)
    control = tree / "DEBIAN" / "control"
    control.write_text("".join(f"{line}+{version}\n" if line.startswith("Version:") else f"{line}\n"
                               for line in control.read_text().splitlines()))
    made = directory / f"twinblock_newer{version}.deb"
    run("dpkg-deb", "-b", tree, made, stdout=-3)
    return made


def test_newer_packages_under_load(pair, tmp_path):
    pair.write()
    for number in range(1, UPGRADES + 1):
        made = newer(pair.package, tmp_path, number)
        for host in (pair.beta, pair.alpha):
            host.run("rm -f /root/*.deb")
            host.send(made, f"/root/{made.name}")
            host.run(f"apt install /root/{made.name}", 900)
            host.run("systemctl restart twinblock@r0", 300)
            pair.wait(pair.alpha, "duplex")
            pair.wait_for_writes(5)
        assert pair.alpha.run("dpkg-query -W -f '${Version}' twinblock").endswith(f"+{number}")
    print(f"longest write: {pair.longest_write_s()} s in {UPGRADES} upgrades of both hosts")
    pair.end_writer_and_check()
    pair.check_no_error()


@pytest.mark.parametrize("order, stray", [("systemctl reboot", False), ("systemctl reboot", True), ("cut", False)],
                         ids=["in order", "in order while the device is in use", "by a power cut"])
def test_after_a_reboot_the_file_system_is_mounted_when_the_node_is_promoted(pair, order, stray):
    """A device that somebody uses to the end does not keep the host from going down."""
    pair.write(stray)
    pair.alpha.run(f"cp {PROMISED} {PROMISED}.before; sync {PROMISED}.before")
    if order == "cut":
        for host in pair.hosts.values():
            host.cut()
            host.begin_boot()
        for host in pair.hosts.values():
            host.wait_boot()
    else:
        print(f"alpha was down after {pair.alpha.reboot(order, DOWN_S):.0f} s")
        pair.beta.reboot(order, DOWN_S)
    pair.wait(pair.alpha, "promotable")
    assert not pair.is_mounted()
    pair.alpha.run("twinblock promote r0")
    wait_until(pair.is_mounted, "the file system")
    pair.alpha.run(f"mv {PROMISED}.before {PROMISED}")
    pair.check_promised()
    pair.check_no_error()
    pair.wait(pair.alpha, "duplex")
    assert "identical" in pair.alpha.run("twinblock verify r0", 600)


def test_a_device_that_was_attached_by_hand_lets_its_host_go_down(pair):
    alpha = pair.alpha
    alpha.run("umount /mnt; systemctl disable --now twinblock-attach@r0; sed -i '/twinblock/d' /etc/fstab; "
              "systemctl daemon-reload; twinblock attach r0; mount /dev/twinblock/r0 /mnt", 300)
    pair.write(stray=True)
    alpha.run(f"cp {PROMISED} {PROMISED}.before; sync {PROMISED}.before")
    print(f"alpha was down after {alpha.reboot('systemctl reboot', DOWN_S):.0f} s")
    pair.wait(alpha, "promotable")
    alpha.run("twinblock promote r0; twinblock attach r0; mount /dev/twinblock/r0 /mnt; "
              f"mv {PROMISED}.before {PROMISED}")
    pair.check_promised()
    pair.check_no_error()
    pair.wait(alpha, "duplex")
