"""Wipes what tests left in a cluster, so that the next one finds it as a fresh control plane would be.

Nobody else may be acting: finalizers are taken off by force, since the controller they waited for ended with its test.
CRDs stay (a test may count on them), and so does what Kubernetes itself made.
"""

import re
import time
from collections.abc import Iterator
from typing import Any

from e2e.controlplane.api import Api, eventually

BUILT_IN_NAMESPACES = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})

# Owners before the owned, so that little is made anew while the wiping goes on.
_KINDS = (
    "/apis/karpenter.sh/v1/nodepools",
    "/apis/karpenter.sh/v1/nodeclaims",
    "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses",
    "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
    "/apis/karpenter.sh/v1alpha1/nodeoverlays",
    "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/api/v1/limitranges",
    "/api/v1/podtemplates",
    "/apis/batch/v1/cronjobs",
    "/apis/batch/v1/jobs",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/replicasets",
    "/apis/policy/v1/poddisruptionbudgets",
    "/api/v1/pods",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/volumeattachments",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/api/v1/nodes",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
)
_AT_ONCE = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}


def wipe(api: Api, within: float = 30.0) -> None:
    """Delete until nothing is left. Namespaces are waited for if another test may create one of that name."""
    deadline = time.monotonic() + within
    while leftovers := list(_delete_all(api)):
        assert time.monotonic() < deadline, f"still there after {within:g} s: {leftovers}"
        time.sleep(0.05)
    for namespace in api.items("/api/v1/namespaces"):
        name = namespace["metadata"]["name"]
        if name not in BUILT_IN_NAMESPACES and "deletionTimestamp" not in namespace["metadata"]:
            api.delete(f"/api/v1/namespaces/{name}")
    for namespace in ("default", "kube-system"):
        api.delete(f"/api/v1/namespaces/{namespace}/events")
    eventually(lambda: not _reused_namespaces(api), "namespaces are gone", within=within)


def _reused_namespaces(api: Api) -> list[str]:
    """Namespaces without a number of their own: in one that is terminating nothing can be created."""
    names = [each["metadata"]["name"] for each in api.items("/api/v1/namespaces")]
    return [name for name in names if name not in BUILT_IN_NAMESPACES and not re.fullmatch(r".*-\d+", name)]


def _delete_all(api: Api) -> Iterator[str]:
    """Ask for the deletion of everything once; yield the path of each thing that was still found."""
    for kind in _KINDS:
        for item in api.items(kind):
            meta = item["metadata"]
            if _is_ours(kind, meta):
                path = _path(kind, meta)
                if meta.get("finalizers"):
                    api.patch(path, {"metadata": {"finalizers": None}})
                api.delete(path, _AT_ONCE)
                yield path


def _is_ours(kind: str, meta: dict[str, Any]) -> bool:
    """Kubernetes keeps its roles, flow schemas, two priority classes and the API server's own lease."""
    if kind.endswith(("/clusterroles", "/clusterrolebindings", "/flowschemas")):
        return meta["name"].startswith("dovetail")  # of a kustomization or chart: they grant what a test must not have
    if kind.endswith("/priorityclasses"):
        return not meta["name"].startswith("system-")
    if kind.endswith("/leases"):
        return "apiserver.kubernetes.io/identity" not in meta.get("labels", {})
    return True


def _path(kind: str, meta: dict[str, Any]) -> str:
    namespace = meta.get("namespace")
    if namespace is None:
        return f"{kind}/{meta['name']}"
    group, _, plural = kind.rpartition("/")
    return f"{group}/namespaces/{namespace}/{plural}/{meta['name']}"
