"""Two controller processes on a real cluster: one acts, the other takes over."""

import os
import signal
import socket
import sys
import time
import urllib.request

import pytest

from e2e.controlplane.api import eventually
from e2e.running import DOVETAIL, NODE_CLASS, NODE_POOL, apply, claims, deployment, running, settled

pytestmark = pytest.mark.once("who leads is decided by a Lease")

LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/karpenter-leader-election"


def replica(cluster, name, **variables):
    environment = {
        **os.environ,
        "DOVETAIL_LOG_FORMAT": "text",
        "METRICS_PORT": "0",
        "DOVETAIL_DASHBOARD_PORT": "0",
        "HEALTH_PROBE_PORT": "0",
        **variables,
    }
    return cluster.launch(name, DOVETAIL, "run", "--kubeconfig", str(cluster.kubeconfig), env=environment)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def say(figure):
    """For those who run it with -s."""
    sys.stdout.write(f"\n{figure}\n")


def leads(process):
    return " leading" in process.log.read_text()


def two(cluster, test):
    """The leader, and the one that stands by."""
    first = replica(cluster, f"first-{test}")
    eventually(lambda: leads(first), "the first leads", within=30)
    port = free_port()
    second = replica(cluster, f"second-{test}", HEALTH_PROBE_PORT=str(port))
    eventually(lambda: "waiting to lead" in second.log.read_text(), "the second stands by", within=30)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as reply:
        assert reply.status == 200, "one that stands by is ready, or no rollout would ever end"
    for manifest in (NODE_CLASS, NODE_POOL):
        apply(cluster, manifest)
    return first, second


def test_a_killed_leader_is_followed_by_the_other_replica(prepared, namespace):
    cluster = prepared
    first, second = two(cluster, namespace)
    try:
        apply(cluster, deployment(4), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 4 and settled(cluster), "pods run", within=60)
        assert not leads(second)
        first.kill()
        killed_at = time.monotonic()
        cluster.kubectl("scale", "deployment", "web", "-n", namespace, "--replicas=60")
        eventually(lambda: leads(second), "the second leads", within=30)
        led = time.monotonic() - killed_at
        eventually(lambda: len(running(cluster, namespace)) == 60 and settled(cluster), "pods run", within=60)
        ran = time.monotonic() - killed_at
        say(f"leader killed: the next one led after {led:.1f} s, and 60 pods ran after {ran:.1f} s")
        assert 10 < led < 30
        lease = cluster.api.get(LEASE).expect()["spec"]
        assert lease["leaseTransitions"] == 1
    finally:
        second.stop(15)
    assert second.exit_code == 0, second.tail()


def test_a_leader_that_is_asked_to_end_hands_over_at_once(prepared, namespace):
    cluster = prepared
    first, second = two(cluster, namespace)
    try:
        asked_at = time.monotonic()
        assert first.stop(15) == 0, first.tail()
        ended = time.monotonic() - asked_at
        eventually(lambda: leads(second), "the second leads", within=10)
        led = time.monotonic() - asked_at
        say(f"leader asked to end: gone after {ended:.1f} s, the next one led after {led:.1f} s")
        apply(cluster, deployment(3), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 3 and settled(cluster), "pods run", within=60)
        assert len(claims(cluster)) == 1
    finally:
        second.stop(15)
    assert cluster.api.get(LEASE).expect()["spec"].get("holderIdentity", "") == ""


def test_a_leader_cut_off_from_the_api_server_stops_by_itself(prepared, namespace):
    cluster = prepared
    first, second = two(cluster, namespace)
    try:
        os.kill(first.pid, signal.SIGSTOP)  # it does not even notice
        eventually(lambda: leads(second), "the second leads", within=30)
        os.kill(first.pid, signal.SIGCONT)  # and must not act as if nothing had happened
        eventually(lambda: first.exit_code is not None, "the first ends", within=15)
        assert first.exit_code == 1
        assert "leadership lost" in first.log.read_text()
        assert second.exit_code is None
    finally:
        first.kill()
        second.stop(15)
