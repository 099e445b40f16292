"""The Kubernetes permissions of the switch: of the service account of `dovetail run`, and of who takes the steps.

The user who creates a role must have every permission in it (RBAC prevents escalation), so the steps need those of
`dovetail run` too. A test compares that list with the manifests under `deploy/`.
"""

from collections.abc import Iterable

from dovetail.core.adoption.facts import KarpenterDeployment, LeaseState, Permission

_RUN: tuple[tuple[str, str, str], ...] = (
    ("karpenter.sh", "nodepools", "get list watch patch"),
    ("karpenter.sh", "nodeclaims", "get list watch create patch delete"),
    ("karpenter.sh", "nodepools/status nodeclaims/status", "patch"),
    ("karpenter.sh", "nodepools/finalizers nodeclaims/finalizers", "update"),
    ("karpenter.kwok.sh", "kwoknodeclasses", "get list watch"),
    ("karpenter.k8s.aws", "ec2nodeclasses", "get list watch patch"),
    ("karpenter.k8s.aws", "ec2nodeclasses/status", "patch"),
    ("", "pods", "list watch delete"),
    ("", "pods/eviction", "create"),
    ("", "pods/status", "patch"),
    ("", "nodes", "get list watch create patch delete"),
    ("", "namespaces persistentvolumeclaims persistentvolumes", "list watch"),
    ("", "events", "create patch"),
    ("apps", "daemonsets", "list watch"),
    ("policy", "poddisruptionbudgets", "list watch"),
    ("storage.k8s.io", "storageclasses csinodes volumeattachments", "list watch"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "get"),
)
"""Group, resources and verbs, in all namespaces, of the ClusterRoles of `dovetail run`."""

_APPLIED: tuple[tuple[str, str], ...] = (
    ("", "namespaces"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
)
_APPLIED_IN_NAMESPACE: tuple[tuple[str, str], ...] = (
    ("", "serviceaccounts"),
    ("apps", "deployments"),
    ("policy", "poddisruptionbudgets"),
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
)
NAMESPACE = "dovetail"
SERVICE_ACCOUNT = "dovetail"
BINDING = "dovetail-acting"
"""The ClusterRoleBinding that lets `dovetail run` write."""


def permissions_of_run() -> frozenset[Permission]:
    """The permissions of the ClusterRoles of `dovetail run`."""
    return frozenset(
        Permission(verb, resource, group)
        for group, resources, verbs in _RUN
        for resource in resources.split()
        for verb in verbs.split()
    )


def run_permissions(lease: LeaseState | None) -> tuple[Permission, ...]:
    """The permissions of the service account of `dovetail run`, those for Karpenter's Lease included."""
    return tuple(sorted({*permissions_of_run(), *_on_lease(lease)}))


def step_permissions(karpenter: KarpenterDeployment | None, lease: LeaseState | None) -> tuple[Permission, ...]:
    """The permissions of the account that takes the printed steps."""
    found = {*run_permissions(lease), *_applied()}
    if karpenter is not None:
        found.add(Permission("patch", "deployments/scale", "apps", karpenter.namespace))
    return tuple(sorted(found))


def _on_lease(lease: LeaseState | None) -> Iterable[Permission]:
    if lease is None:
        return ()
    return (Permission(verb, "leases", "coordination.k8s.io", lease.namespace, lease.name) for verb in ("get", "patch"))


def _applied() -> Iterable[Permission]:
    """Server-side apply needs patch, and create for what does not exist yet."""
    for verb in ("create", "patch"):
        yield from (Permission(verb, resource, group) for group, resource in _APPLIED)
        yield from (Permission(verb, resource, group, NAMESPACE) for group, resource in _APPLIED_IN_NAMESPACE)
