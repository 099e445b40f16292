"""`dovetail run` in the place of Karpenter: the CRDs, the environment and the roles of its Helm chart, unchanged.

Nodes are launched for pending pods and removed again, with the Lease, the namespace and the outputs of Karpenter: once
on EC2, with what the AWS chart installs and nothing else, and once with the kwok provider, where the service account
also gets what Karpenter's kwok chart adds for it.
"""

import asyncio
import json
import os
import urllib.request
from contextlib import contextmanager

import yaml

from e2e.components import build
from e2e.conftest import require_binaries
from e2e.controlplane.api import eventually
from e2e.running import (
    DOVETAIL,
    KARPENTER,
    KARPENTER_AWS,
    NODE_CLASS,
    apply,
    claims,
    deployment,
    install_crds,
    nodes,
    running,
    settled,
)
from e2e.test_aws import node_class
from e2e.test_aws_life import REF, REQUIREMENTS, ec2, instances, own_terms
from e2e.test_disruption import pool
from e2e.test_observe import free_port
from test_karpenter_settings import CHART

NAMESPACE = "kube-system"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/karpenter-leader-election"
CONDITION = {"type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"}
READ, CHANGE = ["get", "list", "watch"], ["update", "patch"]
STATUS = ["nodepools/status", "nodeclaims/status", "nodeoverlays/status"]
CORE_RULES = [
    ("karpenter.sh", ["nodepools", "nodeclaims", "nodeoverlays", *STATUS], READ),
    ("autoscaling.x-k8s.io", ["capacitybuffers", "capacitybuffers/status"], READ),
    (
        "",
        ["pods", "nodes", "persistentvolumes", "persistentvolumeclaims", "replicationcontrollers", "namespaces"],
        READ,
    ),
    ("", ["podtemplates", "events"], READ),
    ("storage.k8s.io", ["storageclasses", "csinodes", "volumeattachments"], READ),
    ("apps", ["daemonsets", "deployments", "replicasets", "statefulsets"], READ),
    ("policy", ["poddisruptionbudgets"], READ),
    ("karpenter.sh", ["nodeclaims", "nodeclaims/status"], ["create", "delete", *CHANGE]),
    ("karpenter.sh", ["nodepools", "nodepools/status", "nodeoverlays/status"], CHANGE),
    ("autoscaling.x-k8s.io", ["capacitybuffers/status"], CHANGE),
    ("", ["events"], ["create", "patch"]),
    ("", ["nodes"], ["patch", "delete", "update"]),
    ("", ["pods/eviction"], ["create"]),
    ("", ["pods"], ["delete"]),
    ("karpenter.k8s.aws", ["ec2nodeclasses"], READ),
    ("karpenter.k8s.aws", ["ec2nodeclasses", "ec2nodeclasses/status"], CHANGE),
]
"""The ClusterRoles of the AWS chart."""
KWOK_RULES = [("karpenter.kwok.sh", ["kwoknodeclasses"], READ), ("", ["nodes"], ["create"])]
"""What the kwok chart adds, as far as the kwok provider needs it."""


def rules(wanted):
    return [{"apiGroups": [group], "resources": resources, "verbs": verbs} for group, resources, verbs in wanted]


def roles(account, granted):
    """The roles and bindings of the chart, as a list of manifests."""
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    leading = [
        {**lease, "verbs": ["get", "watch"]},
        {**lease, "verbs": CHANGE, "resourceNames": ["karpenter-leader-election"]},
        {**lease, "verbs": ["create"]},
    ]
    for kind, where, allowed in (
        ("ClusterRole", {}, rules(granted)),
        ("Role", {"namespace": NAMESPACE}, leading),
    ):
        metadata = {"name": account, **where}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": account}
        version = {"apiVersion": "rbac.authorization.k8s.io/v1"}
        yield {**version, "kind": kind, "metadata": metadata, "rules": allowed}
        yield {**version, "kind": f"{kind}Binding", "metadata": metadata, "roleRef": reference, "subjects": subjects}


@contextmanager
def installed(cluster, recipe, whose, granted):
    """A kubeconfig with a token of the chart's service account, with its CRDs; the roles are gone afterwards."""
    require_binaries(recipe)
    install_crds(cluster, whose)
    manifests = yaml.safe_dump_all(roles("karpenter", granted))
    cluster.kubectl("apply", "-f", "-", input=manifests)
    try:
        yield cluster.token_kubeconfig("chart", cluster.service_account_token(NAMESPACE, "karpenter"))
    finally:
        cluster.kubectl("delete", "-f", "-", input=manifests)


@contextmanager
def deployed(cluster, access, chart, **variables):
    """The process with the environment of the chart, and nothing else but what finds the cluster and free ports."""
    ports = {"METRICS_PORT": str(free_port()), "HEALTH_PROBE_PORT": str(free_port()), "DOVETAIL_DASHBOARD_PORT": "0"}
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "KUBECONFIG": str(access),
        "LEADER_ELECTION_NAMESPACE": NAMESPACE,  # in a pod it is found
        **CHART,
        **ports,
        **variables,
    }
    process = cluster.launch(chart, DOVETAIL, "run", env=environment)
    try:
        yield process, ports
        assert process.exit_code is None, process.tail()
    finally:
        assert process.stop(30) == 0, process.tail()


def answers(port, path):
    """Whether an endpoint answers with 200."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def logged(process):
    """The lines of the log that are JSON, which is all of them."""
    return [json.loads(line) for line in process.log.read_text().splitlines()]


def written_conditions(cluster):
    """The conditions of every object that has a status of ours; each kind has some."""
    kinds = ["karpenter.sh/v1/nodepools", "karpenter.sh/v1/nodeclaims", "karpenter.k8s.aws/v1/ec2nodeclasses"]
    statuses = [each["status"]["conditions"] for kind in kinds for each in cluster.api.items(f"/apis/{kind}")]
    assert len(statuses) >= 2
    return [condition for conditions in statuses for condition in conditions]


def live(cluster, namespace, process, ports):
    """Pods get nodes, and lose them again; every endpoint of Karpenter answers, and nothing goes wrong."""
    apply(cluster, deployment(3), namespace)
    eventually(lambda: len(running(cluster, namespace)) == 3 and settled(cluster), "pods run", within=180)
    assert answers(ports["HEALTH_PROBE_PORT"], "/healthz")
    eventually(lambda: answers(ports["HEALTH_PROBE_PORT"], "/readyz"), "it is ready", within=60)
    assert answers(ports["METRICS_PORT"], "/metrics")
    assert cluster.api.get(LEASE).expect()["spec"]["holderIdentity"]
    assert all(each.keys() >= CONDITION for each in written_conditions(cluster))
    cluster.kubectl("scale", "deployment", "web", "-n", namespace, "--replicas=0")
    eventually(lambda: not nodes(cluster) and not claims(cluster), "empty nodes are removed", within=180)
    lines = logged(process)
    assert [line for line in lines if line["level"] == "error"] == []
    told = {line["setting"] for line in lines if line["message"] == "setting is not followed"}
    assert told == {"KUBERNETES_MIN_VERSION", "KARPENTER_SERVICE", "SYSTEM_NAMESPACE", "CPU_REQUESTS", "MEMORY_LIMIT"}
    assert [line["level"] for line in lines if "paused by a ConfigMap" in line["message"]] == ["warning"]


def test_with_the_environment_and_the_roles_of_karpenters_kwok_chart_nodes_come_and_go(cluster, namespace):
    with installed(cluster, build.KARPENTER, KARPENTER, [*CORE_RULES, *KWOK_RULES]) as access:
        for manifest in (NODE_CLASS, pool()):
            apply(cluster, manifest)
        with deployed(cluster, access, "kwok-chart", DOVETAIL_DISRUPTION="on") as (process, ports):
            live(cluster, namespace, process, ports)


def test_with_all_that_karpenters_aws_chart_installs_instances_come_and_go(cluster, namespace):
    on_ec2 = pool()
    on_ec2["spec"]["template"] = {"spec": {"nodeClassRef": REF, "requirements": REQUIREMENTS}}
    with installed(cluster, build.DECODER, KARPENTER_AWS, CORE_RULES) as access, ec2(cluster) as (_, account, images):
        apply(cluster, node_class(images, subnetSelectorTerms=asyncio.run(own_terms())))
        apply(cluster, on_ec2)
        with deployed(cluster, access, "aws-chart", DOVETAIL_DISRUPTION="on", **account) as (process, ports):
            live(cluster, namespace, process, ports)
            assert asyncio.run(instances()) == []
            cluster.kubectl("delete", "nodepool", "default")
            cluster.kubectl("delete", "ec2nodeclass", "default", "--timeout=180s")
