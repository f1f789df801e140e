"""The host that loses its power is the one that decided for the cluster, too. The other one's controller takes over, and
reads anew what is known of resources there: what was said of them in the meantime must not be in its way."""

import pytest

from client import Client
from cluster import block, wait_until
from test_pacemaker import both_up, check, moves_the_service, other, power_on


@pytest.fixture(scope="module")
def cluster(make_cluster):
    # So often that the secondary is looked at after it has lost its peer, and before it is promoted.
    return make_cluster(witness=block("toml"), otherwise={"role=Unpromoted interval=20s": "role=Unpromoted interval=1s"})


def test_a_secondary_that_was_seen_without_its_peer_is_promoted_without_delay(cluster):
    """Pacemaker 2.1.5 waits in vain, for the monitor's timeout and cluster-delay, before it fences anybody, when it
    cancels a monitor whose last result was a degradation, and was read anew."""
    host = both_up(cluster)
    if cluster.controller() is not host:
        cluster.standby(host, "on")
        wait_until(lambda: cluster.where() is other(cluster, host), "the service on the other host")
        cluster.standby(host, "off")
        host = both_up(cluster)
    assert cluster.controller() is host
    with Client(cluster) as client:
        began = moves_the_service(cluster, client, host, host.cut)
        logged = other(cluster, host).run("cat /var/log/pacemaker/pacemaker.log")
        power_on(cluster, host)
        both_up(cluster)
    check(cluster, client, "power cut of the host that is primary and decides for the cluster", began)
    assert "did not send cancel result" not in logged
