"""The charts on a real API server: rendered, installed, upgraded and uninstalled as the guides say.

Containers do not run here, so the controller is a process beside the cluster, with the environment of the rendered
Deployment and a token of the service account that the chart created.
"""

import itertools
import json
import os
from contextlib import contextmanager

import pytest
import yaml

from distribution.karpenter_values import KARPENTER_VALUES
from docs.pages import blocks
from e2e.components import build
from e2e.conftest import require_binaries
from e2e.controlplane.api import eventually
from e2e.helm_cli import NAMESPACE, ROOT, Helm
from e2e.running import ALONE, DOVETAIL, NODE_CLASS, apply, claims, deployment, nodes, running, settled
from e2e.test_deploy import asked
from e2e.test_disruption import pool

REMOVE_EVERYTHING, REMOVE_DEFINITIONS, KEEP_NODES, _ = (
    block.text for block in blocks(ROOT / "docs" / "guides" / "uninstall.md", "sh")
)
REMOVE_NODES, UNINSTALL = REMOVE_EVERYTHING.strip().rsplit("\n", 1)
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FINALIZER = "karpenter.sh/termination"
KINDS = (
    "nodes,services,serviceaccounts,deployments,poddisruptionbudgets,roles,rolebindings,clusterroles,"
    "clusterrolebindings,flowschemas,nodepools,nodeclaims,kwoknodeclasses,ec2nodeclasses"
)
ACCESS = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "FlowSchema"}


@pytest.fixture
def helm(cluster, tmp_path):
    """Helm, on a cluster with the namespace and without a release of an earlier test."""
    require_binaries(build.HELM)
    made = Helm(cluster, tmp_path)
    yield made
    for release in made("list", "--all", "--all-namespaces", "--short").split():
        made("uninstall", release, "--namespace", NAMESPACE)
    cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=true")


def namespace_of(each):
    """The namespace; kustomize also gives one to a FlowSchema, which has none."""
    return each["metadata"].get("namespace") if each["kind"] != "FlowSchema" else None


def access(objects):
    """What roles, bindings and flow schemas say, by kind, name and namespace."""
    return {
        (each["kind"], each["metadata"]["name"], namespace_of(each)): {
            key: value for key, value in each.items() if key in {"rules", "roleRef", "subjects", "spec"}
        }
        for each in objects
        if each["kind"] in ACCESS
    }


@pytest.mark.parametrize(
    ("kustomization", "values"),
    [("base", ["--set", "settings.dryRun=true"]), ("acting", []), ("acting", ["--set", "settings.disruption=on"])],
)
def test_the_chart_grants_exactly_what_deploy_grants(cluster, helm, kustomization, values):
    expected = access(yaml.safe_load_all(cluster.kustomize(ROOT / "deploy" / kustomization)))
    assert access(helm.render(*values)) == expected
    assert expected


def test_the_dashboard_gets_exactly_the_roles_of_its_overlay(helm):
    written = yaml.safe_load_all((ROOT / "deploy" / "overlays" / "page" / "reviewing.yaml").read_text())
    without, opened = access(helm.render()), access(helm.render("--set", "dashboard.service.enabled=true"))
    added = {key: value for key, value in opened.items() if key not in without}
    assert added == access(written)


def test_beside_karpenter_the_chart_grants_what_the_role_for_its_lease_grants(helm):
    written = access(yaml.safe_load_all((ROOT / "deploy" / "beside-karpenter" / "lease-role.yaml").read_text()))
    rendered = access(helm.render("--set", "settings.leaderElectionNamespace=kube-system"))
    roles = [each["rules"] for (kind, _, place), each in rendered.items() if (kind, place) == ("Role", "kube-system")]
    bound = [kind for kind, _, place in rendered if (kind, place) == ("RoleBinding", "kube-system")]
    expected = written["Role", "dovetail-leading", None]["rules"]
    assert sorted(map(str, itertools.chain(*roles))) == sorted(map(str, expected))
    assert len(bound) == len(roles) == 2


def test_the_pods_meet_the_restricted_standard(cluster, helm, namespace):
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    template = next(each for each in helm.render() if each["kind"] == "Deployment")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "controller"}, "spec": template["spec"]}
    pod["spec"]["serviceAccountName"] = "default"
    cluster.kubectl("apply", "--dry-run=server", "-n", namespace, "-f", "-", input=json.dumps(pod))
    del pod["spec"]["containers"][0]["securityContext"]["capabilities"]
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        cluster.kubectl("apply", "--dry-run=server", "-n", namespace, "-f", "-", input=json.dumps(pod))


def test_lint_finds_no_fault_and_wrong_values_are_refused_with_their_path(helm):
    helm("lint", "--strict", "charts/dovetail", "charts/dovetail-crds")
    for value, told in (
        ("settings.clusterNam=demo", "at '/settings': additional properties 'clusterNam' not allowed"),
        ("settings.disruption=maybe", "at '/settings/disruption'"),
        ("replicas=two", "at '/replicas': got string, want integer"),
        ("controller.image.repository=public.ecr.aws/karpenter/controller", "the image of Karpenter"),
    ):
        refused = helm.run("helm", "template", "charts/dovetail", "--set", value, check=False)
        assert refused.returncode == 1
        assert told in refused.stderr


def specs(definitions):
    return {each["metadata"]["name"]: each["spec"] for each in definitions if each}


def test_the_definitions_of_the_chart_are_those_of_the_command(helm):
    rendered = helm.render(chart="dovetail-crds")
    printed = yaml.safe_load_all(helm.run(DOVETAIL, "crds").stdout)
    assert specs(rendered) == specs(printed)
    assert all(each["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"} for each in rendered)


VARIANTS = {
    "defaults": {},
    "dry run": {"settings": {"dryRun": True}},
    "YAML's on": {"settings": {"disruption": True, "nodeMetrics": False}},
    "Karpenter's values": KARPENTER_VALUES,
    "everything else": {
        "fullnameOverride": "nodes",
        "additionalLabels": {"team": "platform"},
        "additionalAnnotations": {"note": "x"},
        "podAnnotations": {"a": "b"},
        "dashboard": {"service": {"enabled": True}},
        "serviceMonitor": {"enabled": True},
        "hostNetwork": True,
        "imagePullSecrets": [{"name": "pull"}],
        "settings": {"leaderElectionNamespace": "kube-system", "clusterName": "{{ .Release.Name }}"},
        "ledger": {"volume": {"persistentVolumeClaim": {"claimName": "ledger"}}},
        "extraVolumes": [{"name": "types", "configMap": {"name": "types"}}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}],
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {"topologyKey": "topology.kubernetes.io/zone"}}
                ],
            }
        },
        "controller": {
            "image": {"repository": "registry.example.com/dovetail", "digest": f"sha256:{'0' * 64}"},
            "env": [{"name": "LOG_LEVEL", "value": "debug"}],
            "extraVolumeMounts": [{"name": "types", "mountPath": "/types"}],
            "sidecarContainer": [{"name": "side", "image": "side"}],
            "sidecarVolumeMounts": [{"name": "types", "mountPath": "/types"}],
        },
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_api_server_accepts_every_rendered_object_with_no_unknown_field(cluster, helm, tmp_path, variant):
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(VARIANTS[variant]))
    objects = helm.render("--values", "values.yaml", namespace="default")
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    accepted = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-", input=text)
    assert len(accepted.split()) == len(objects)
    made = next(each for each in objects if each["kind"] == "Deployment")
    pod = made["spec"]["template"]["spec"]
    names = [each["name"] for each in pod["containers"][0]["env"]]
    assert len(names) == len(set(names))
    if variant == "everything else":
        selector = {"matchLabels": made["spec"]["selector"]["matchLabels"]}
        required, preferred = (
            pod["affinity"]["podAntiAffinity"][f"{kind}DuringSchedulingIgnoredDuringExecution"][0]
            for kind in ("required", "preferred")
        )
        assert required["labelSelector"] == preferred["podAffinityTerm"]["labelSelector"] == selector
        assert variables(objects)["LOG_LEVEL"] == "debug"
        assert variables(objects)["CLUSTER_NAME"] == "dovetail"
        leases = next(
            each for each in objects if each["kind"] == "Role" and each["metadata"]["name"] == "nodes-leading"
        )
        assert leases["metadata"]["namespace"] == "kube-system"


def variables(objects):
    """The environment of the controller's container."""
    made = next(each for each in objects if each["kind"] == "Deployment")
    return {each["name"]: each["value"] for each in made["spec"]["template"]["spec"]["containers"][0]["env"]}


@contextmanager
def deployed(cluster, objects):
    """The process that the Deployment of the release describes, with a token of the release's service account."""
    made = next(each for each in objects if each["kind"] == "Deployment")
    pod = made["spec"]["template"]["spec"]
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{pod['serviceAccountName']}"
    assert cluster.api.get(account).ok, "the chart created the account"
    token = cluster.service_account_token(NAMESPACE, pod["serviceAccountName"])
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "KUBECONFIG": str(cluster.token_kubeconfig("helm-release", token)),
        "LEADER_ELECTION_NAMESPACE": NAMESPACE,  # in a pod it is found
        **variables(objects),
        **ALONE,
    }
    process = cluster.launch("helm-release", DOVETAIL, *pod["containers"][0]["args"], env=environment)
    try:
        yield process
        assert process.exit_code is None, process.tail()
    finally:
        assert process.stop(30) == 0, process.tail()


def released(helm):
    """The objects of the release as it is installed."""
    return [each for each in yaml.safe_load_all(helm("get", "manifest", "dovetail", "--namespace", NAMESPACE)) if each]


def left_behind(cluster):
    """Every object in the cluster that the release made, or that has our finalizer."""
    found = json.loads(cluster.kubectl("get", KINDS, "-A", "-o", "json"))["items"]
    return sorted(
        f"{each['kind']}/{each['metadata']['name']}"
        for each in found
        if each["metadata"].get("labels", {}).get("app.kubernetes.io/instance") == "dovetail"
        or any("karpenter" in name for name in each["metadata"].get("finalizers", ()))
    )


def install(helm, *values):
    """Install or upgrade both charts; the notes of the second."""
    where = ["--namespace", NAMESPACE, "--create-namespace"]
    helm("upgrade", "--install", "dovetail-crds", "charts/dovetail-crds", *where)
    return helm("upgrade", "--install", "dovetail", "charts/dovetail", *where, *values)


def test_install_upgrade_and_uninstall_leave_no_node_object_or_finalizer(cluster, helm, namespace):
    cluster.kubectl("delete", "crd", "--all", "--wait=true")
    where = ["--namespace", NAMESPACE, "--create-namespace"]
    helm("install", "dovetail-crds", helm.previous("dovetail-crds"), *where)
    notes = helm("install", "dovetail", helm.previous("dovetail"), *where, "--set", "settings.dryRun=true")
    assert "Dry run: it only reads and reports" in notes
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    assert variables(released(helm))["DOVETAIL_DRY_RUN"] == "true"
    assert not cluster.api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/dovetail-acting").ok
    notes = install(
        helm, "--reset-then-reuse-values", "--set", "settings.dryRun=false", "--set", "settings.disruption=on"
    )
    assert "and disrupts expired, drifted, empty and underutilized nodes" in notes
    assert all(command in notes for command in [*REMOVE_NODES.splitlines()[:2], UNINSTALL])
    assert not cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/dovetail-removed").ok
    assert cluster.api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/dovetail-acting").ok
    for manifest in (NODE_CLASS, pool()):
        apply(cluster, manifest)
    cluster.audit_log.write_text("")
    with deployed(cluster, released(helm)):
        apply(cluster, deployment(3), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 3 and settled(cluster), "pods run", within=120)
        assert FINALIZER in nodes(cluster)[0]["metadata"]["finalizers"]
        helm.shell(REMOVE_NODES)
        assert (nodes(cluster), claims(cluster)) == ([], [])
        assert {action for action, refused in asked(cluster) if refused} == set()
        helm.shell(UNINSTALL)
    assert left_behind(cluster) == []
    helm.shell(REMOVE_DEFINITIONS)
    assert cluster.api.items(CRDS) == []


def test_uninstalling_first_deletes_nothing_and_the_guide_then_frees_every_object(cluster, helm, namespace):
    cluster.kubectl("delete", "crd", "--all", "--wait=true")
    install(helm)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    for manifest in (NODE_CLASS, pool()):
        apply(cluster, manifest)
    with deployed(cluster, released(helm)):
        apply(cluster, deployment(3), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 3 and settled(cluster), "pods run", within=120)
    before = {each["metadata"]["uid"] for each in (*nodes(cluster), *claims(cluster))}
    command, _, rest = KEEP_NODES.partition("\n")
    helm.shell(command)
    helm("uninstall", "dovetail-crds", "--namespace", NAMESPACE)
    assert {each["metadata"]["uid"] for each in (*nodes(cluster), *claims(cluster))} == before
    assert not [each for each in (*nodes(cluster), *claims(cluster)) if "deletionTimestamp" in each["metadata"]]
    helm.shell(rest)
    assert left_behind(cluster) == []
    assert {each["metadata"]["uid"] for each in nodes(cluster)} < before
    assert len(running(cluster, namespace)) == 3
    assert not any(each["metadata"].get("ownerReferences") for each in nodes(cluster))
    cluster.kubectl("delete", "nodes", "--all", "--timeout=30s")
    cluster.kubectl("delete", "crd", "--all", "--timeout=60s")
