"""The configuration of docs/pacemaker.md on two hosts in namespaces: a host that loses its power, one that is put on
standby, links that are cut. The service moves, every row that was acknowledged is there, and it is told how long none
was acknowledged."""

import time

import pytest

from client import Client
from cluster import NODES, block, wait_until

ROWS = 20
IDLE_S = 25  # longer than the interval of a monitor


@pytest.fixture(scope="module")
def cluster(make_cluster):
    return make_cluster(witness=block("toml"))


def other(cluster, host):
    return next(each for each in cluster.hosts.values() if each is not host)


def both_up(cluster):
    """The service runs, the other node is up to date, and the cluster knows."""
    def settled():
        active = cluster.where()
        return active and {cluster.state(host) for host in cluster.hosts.values()} == {"duplex"} and \
            len(cluster.online()) == 2 and not cluster.ban() and active
    return wait_until(settled, "the service, with both nodes in duplex")


def rows_while(client):
    goal = client.count() + ROWS
    wait_until(lambda: client.count() >= goal, f"{ROWS} more rows")


def moves_the_service(cluster, client, host, event):
    """From the host to the other one, with rows before and after; when that began."""
    rows_while(client)
    began = time.monotonic()
    event()
    wait_until(lambda: cluster.where() is other(cluster, host), "the service on the other host")
    rows_while(client)
    return began


def power_on(cluster, host):
    host.boot()
    cluster.rejoin(host, other(cluster, host))
    cluster.equip(host)
    cluster.start(host)


def check(cluster, client, what, since):
    """On the host that serves now: what was acknowledged is there."""
    host = both_up(cluster)
    rows = {int(row) for row in cluster.ask(host, "select number from promised").split()}
    lost = [number for _, number in client.acknowledged if number not in rows]
    assert not lost, f"{len(lost)} of {client.count()} rows that were acknowledged are lost: {lost[:5]}"
    print(f"{what}: {client.outage_s(since):.1f} s without an acknowledgement, {client.count()} rows, none lost")
    assert "identical" in host.run("twinblock verify r0", 300)


def test_the_service_runs_where_the_volume_is_promoted(cluster):
    host = both_up(cluster)
    assert cluster.role(host) == "primary" and cluster.role(other(cluster, host)) == "secondary"
    assert host.run("findmnt -n -o SOURCE /srv/db")
    assert "unclean=\"true\"" not in cluster.seen()


def test_a_host_on_standby_gives_the_service_to_the_other_one(cluster):
    host = both_up(cluster)
    with Client(cluster) as client:
        began = moves_the_service(cluster, client, host, lambda: cluster.standby(host, "on"))
        cluster.standby(host, "off")
        assert both_up(cluster) is other(cluster, host), "who was away stays a secondary"
    check(cluster, client, "standby", began)
    assert cluster.switch.log == [], "nobody had to be fenced"


def test_a_host_that_loses_its_power_is_replaced(cluster):
    host = both_up(cluster)
    fenced = len(cluster.switch.log)
    with Client(cluster) as client:
        began = moves_the_service(cluster, client, host, host.cut)
        power_on(cluster, host)
        both_up(cluster)
    check(cluster, client, "power cut of the primary's host", began)
    assert [name for _, _, name in cluster.switch.log[fenced:]] == [host.name]


def test_the_other_hosts_power_cut_does_not_move_the_service(cluster):
    host = both_up(cluster)
    with Client(cluster) as client:
        rows_while(client)
        began = time.monotonic()
        other(cluster, host).cut()
        rows_while(client)
        power_on(cluster, other(cluster, host))
        assert both_up(cluster) is host
    check(cluster, client, "power cut of the secondary's host", began)


def test_a_node_that_dies_is_replaced(cluster):
    host = both_up(cluster)
    with Client(cluster) as client:
        rows_while(client)
        began = time.monotonic()
        host.run("kill -9 $(cat /run/twinblock/r0.pid)")
        wait_until(lambda: client.acknowledged[-1][0] < time.monotonic() - 2, "the database to stand still")
        rows_while(client)
        both_up(cluster)
    check(cluster, client, "twinblockd killed", began)


def test_when_all_links_are_cut_one_host_is_fenced_and_the_other_serves(cluster):
    host = both_up(cluster)
    fenced = len(cluster.switch.log)
    with Client(cluster) as client:
        rows_while(client)
        began = time.monotonic()
        for link in (0, 1):
            host.cut_link(link)
        wait_until(lambda: len(cluster.switch.log) > fenced, "a host to be fenced")
        wait_until(lambda: len(cluster.living()) == 1, "the fenced host to be down")
        living = cluster.living()[0]
        wait_until(cluster.where, "the service on the host that is left")
        rows_while(client)
        power_on(cluster, other(cluster, living))
        both_up(cluster)
    check(cluster, client, f"all links cut, {'the standby' if living is host else 'the active'} host fenced", began)
    assert len(cluster.switch.log) == fenced + 1


def test_a_replica_that_missed_something_is_not_promoted_though_its_peer_was_fenced(cluster):
    """Fencing proves that the other host is down, and not that this one has everything."""
    host = both_up(cluster)
    stale = other(cluster, host)
    with Client(cluster) as client:
        rows_while(client)
        began = time.monotonic()
        for each in cluster.hosts.values():
            each.run("nft add table ip cut; nft add chain ip cut in '{ type filter hook input priority 0; }'; "
                     "nft add rule ip cut in tcp dport 7700 drop; nft add rule ip cut in tcp sport 7700 drop")
        wait_until(lambda: cluster.ban() == host.name, "the cluster to know who went on alone")
        rows_while(client)
        fenced = len(cluster.switch.log)
        host.cut()
        wait_until(lambda: len(cluster.switch.log) > fenced, "the host to be fenced")
        # Until the cluster has nothing to do any more, and some more time for it to think again.
        wait_until(lambda: cluster.idle(stale), "the cluster to settle")
        time.sleep(IDLE_S)
        assert cluster.role(stale) == "secondary" and cluster.where() is None
        stale.run("nft delete table ip cut")
        power_on(cluster, host)
        assert both_up(cluster) is host
    check(cluster, client, "replication cut, then the primary's host: until that is back", began)


def test_at_the_end_nothing_has_failed(cluster):
    both_up(cluster)
    assert sorted(cluster.online()) == sorted(NODES)
