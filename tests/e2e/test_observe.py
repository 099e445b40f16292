"""What a real controller process tells: probes, figures, and a ledger that ties to events and conditions."""

import json
import socket
import subprocess
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from e2e.controlplane.api import eventually
from e2e.running import DOVETAIL, NODE_CLASS, apply, claims, controller, deployment, nodes, running, settled
from e2e.test_disruption import pool


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fetch(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def scraped(port):
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(fetch(port, "/metrics")[1])
        for sample in family.samples
    }


def figure(samples, name, **labels):
    return sum(value for (each, row), value in samples.items() if each == name and set(labels.items()) <= set(row))


def history(path, *arguments):
    command = [DOVETAIL, "history", "--ledger", str(path), "-o", "json", *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["decisions"]


def test_a_node_that_came_and_went_is_told_everywhere_under_one_id(prepared, namespace, tmp_path):
    cluster, ledger = prepared, tmp_path / "ledger.db"
    metrics, probes = free_port(), free_port()
    ports = {"METRICS_PORT": str(metrics), "HEALTH_PROBE_PORT": str(probes)}
    with controller(cluster, DOVETAIL_DISRUPTION="on", DOVETAIL_LEDGER=str(ledger), **ports):
        eventually(lambda: fetch(probes, "/healthz")[0] == 200, "it is alive", within=30)
        eventually(lambda: fetch(probes, "/readyz") == (200, "ok\n"), "it is ready", within=30)
        for manifest in (NODE_CLASS, pool()):
            apply(cluster, manifest)
        apply(cluster, deployment(3), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 3 and settled(cluster), "pods run", within=60)
        (node,) = [each["metadata"]["name"] for each in nodes(cluster)]
        samples = scraped(metrics)
        assert figure(samples, "karpenter_nodes_created_total", nodepool="default") == 1
        assert figure(samples, "karpenter_pods_state", phase="Running", nodepool="default") == 3
        assert figure(samples, "leader_election_master_status") == 1
        cluster.kubectl("scale", "deployment", "web", "-n", namespace, "--replicas=0")
        eventually(lambda: not nodes(cluster) and not claims(cluster), "every node is gone", within=120)
        eventually(lambda: figure(scraped(metrics), "dovetail_commands_ended_total") >= 1, "it is counted", within=30)
        samples = scraped(metrics)
    gone, came = history(ledger, "--node", node)
    assert (came["act"], came["reason"], came["outcome"], came["podsMoved"]) == ("launch", "Provisioned", "done", 3)
    assert (gone["act"], gone["outcome"], gone["costPerHourAfter"]) == ("disrupt", "done", 0)
    assert gone["costPerHourBefore"] > 0
    events = cluster.api.items("/api/v1/events")
    told = [
        each for each in events if each["metadata"].get("annotations", {}).get("dovetail.sh/decision") == gone["id"]
    ]
    assert {each["involvedObject"]["kind"] for each in told} == {"Node", "NodeClaim"}
    assert figure(samples, "karpenter_nodeclaims_disrupted_total", nodepool="default") == 1
    assert figure(samples, "dovetail_metrics_rejected_total") == 0
    assert len(samples) < 3200


@pytest.mark.once("no object is read before the port is taken")
def test_a_port_that_is_taken_ends_the_process_with_the_flag(prepared):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        argv = [DOVETAIL, "run", "--kubeconfig", str(prepared.kubeconfig), "--ledger", "off"]
        argv += ["--metrics-port", port, "--health-probe-port", "0", "--dashboard-port", "0"]
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=180, check=False)
    assert ended.returncode == 2
    assert f"port {port} cannot be used" in ended.stderr
    assert "--metrics-port (METRICS_PORT)" in ended.stderr
