"""Judges the facts: what must be fixed before the switch, what is different with Dovetail, and what was not checked.

Only a `FIX` makes a cluster not ready. Each is something that would break or be lost with Dovetail, or that would make
the steps fail. What Karpenter itself ignores (a NodeOverlay while its gate is off) is no reason to wait.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from dovetail.core.adoption.facts import (
    KARPENTER_LABEL,
    LEASE_NAME,
    AdoptionFacts,
    KarpenterDeployment,
    PermissionChecks,
)
from dovetail.core.adoption.permissions import NAMESPACE, SERVICE_ACCOUNT
from dovetail.core.disruption.drift import deviation
from dovetail.core.lifecycle.nodepool_hash import HASH_VERSION, template_hash
from dovetail.karpenter_settings import KARPENTER_GATES, go_boolean, parse_gates, parses_in_go
from dovetail.model.conditions import find
from dovetail.model.labels import NODEPOOL_HASH, NODEPOOL_HASH_VERSION
from dovetail.model.nodeclaim import DRIFTED, LAUNCHED
from dovetail.model.snapshot import ClusterNode, Snapshot

_ON_BY_DEFAULT = frozenset(gate.name for gate in KARPENTER_GATES if gate.default == "true")
_MOST_NAMES = 5


class FindingLevel(StrEnum):
    """How a finding counts."""

    FIX = "fix"
    NOTE = "note"
    OK = "ok"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `remedy` says what to do."""

    level: FindingLevel
    area: str
    message: str
    remedy: str = ""


def find_all(facts: AdoptionFacts) -> tuple[Finding, ...]:
    """Every finding, those to fix first."""
    found = [
        *_karpenter(facts),
        *_objects(facts),
        *_settings(facts),
        *_crds(facts),
        *_hashes(facts),
        *_lease(facts),
        *_permissions(facts),
        *_iam(facts),
        *_unchecked(facts),
    ]
    return tuple(sorted(found, key=lambda each: list(FindingLevel).index(each.level)))


def gate_is_on(karpenter: KarpenterDeployment | None, name: str) -> bool | None:
    """Whether a feature gate of Karpenter is on; None if its settings are not known."""
    if karpenter is None or "FEATURE_GATES" in karpenter.unread:
        return None
    try:
        gates = parse_gates(karpenter.environment.get("FEATURE_GATES", ""))
    except ValueError:
        return None
    return gates.get(name, name in _ON_BY_DEFAULT)


def _karpenter(facts: AdoptionFacts) -> Iterator[Finding]:
    karpenter = facts.karpenter
    if facts.karpenter_missing:
        message = (
            f"it was not found: no Deployment has the label {KARPENTER_LABEL}, and none is the holder of the Lease"
            f" {LEASE_NAME}, so there is nothing to switch from"
        )
        remedy = (
            "where Karpenter runs under other names, label its Deployment; without Karpenter, see docs/guides/deploy.md"
        )
        yield Finding(FindingLevel.FIX, "Karpenter", message, remedy)
    if karpenter is None:
        return
    size = f"{karpenter.replicas} {_plural('replica', karpenter.replicas)}"
    running = f"{karpenter.namespace}/{karpenter.name}, {size}, image {karpenter.image or '?'}"
    yield Finding(FindingLevel.OK, "Karpenter", f"runs as Deployment {running}")
    if karpenter.version.lstrip("v").startswith("0."):
        remedy = "upgrade to Karpenter v1 first"
        yield Finding(FindingLevel.FIX, "Karpenter", f"version {karpenter.version} is older than v1", remedy)


def _objects(facts: AdoptionFacts) -> Iterator[Finding]:
    for each in facts.objects:
        about = f"{each.kind} {each.name}"
        for fault in each.faults:
            yield Finding(FindingLevel.FIX, "Objects", f"{about}: {fault.path}: {fault.problem}", fault.remedy)
        for fault in each.warnings:
            yield Finding(FindingLevel.NOTE, "Objects", f"{about}: {fault.path}: {fault.problem}", fault.remedy)
    for unread in facts.snapshot.unreadable:
        message = f"{unread.kind} {unread.key} cannot be read: {unread.problem}"
        yield Finding(FindingLevel.FIX, "Objects", message, "correct it; until then its node is never disrupted")
    yield from _unsupported(facts)
    if facts.objects and not any(each.faults for each in facts.objects):
        counts = _counted(each.kind for each in facts.objects)
        yield Finding(FindingLevel.OK, "Objects", f"{counts}: every field is supported")


def _unsupported(facts: AdoptionFacts) -> Iterator[Finding]:
    """Objects of features that Dovetail does not have; they count where Karpenter uses them."""
    static = tuple(name for name, pool in sorted(facts.snapshot.nodepools.items()) if pool.static)
    for gate, kind, names, effect, remedy in (
        (
            "StaticCapacity",
            "static NodePool (spec.replicas)",
            static,
            "their nodes stay, but lost nodes are not replaced",
            "write a NodePool without replicas",
        ),
        (
            "NodeOverlay",
            "NodeOverlay",
            facts.overlays,
            "prices and capacities are those of the cloud",
            "check that decisions hold without the overlays, then delete them",
        ),
        (
            "CapacityBuffer",
            "CapacityBuffer",
            facts.buffers,
            "no spare capacity is kept",
            "use low-priority placeholder pods, then delete them",
        ),
    ):
        if not names:
            continue
        is_on = gate_is_on(facts.karpenter, gate)
        message = f"{kind} {_listed(names)}: not supported: {effect}"
        if is_on is False:
            why = f"{message}. Karpenter ignores it too: its gate {gate} is off"
            yield Finding(FindingLevel.NOTE, "Objects", why)
        else:
            yield Finding(FindingLevel.FIX, "Objects", message, remedy)


def _settings(facts: AdoptionFacts) -> Iterator[Finding]:
    for each in facts.variables:
        if each.refused:
            message = f"{each.name}={each.value}: Dovetail does not start with it: {each.effect}"
            yield Finding(FindingLevel.FIX, "Settings", message, "change it, or leave it out of Dovetail's Deployment")
        elif each.effect:
            yield Finding(FindingLevel.NOTE, "Settings", f"{each.name}={each.value}: {each.effect}")
    if facts.karpenter is not None and facts.karpenter.unread:
        names = _listed(facts.karpenter.unread)
        yield Finding(FindingLevel.UNCHECKED, "Settings", f"{names}: the Deployment only refers to their values")
    same = sum(not each.effect and not each.refused for each in facts.variables)
    if same:
        yield Finding(FindingLevel.OK, "Settings", f"{same} of Karpenter's variables have the same effect in Dovetail")


def _crds(facts: AdoptionFacts) -> Iterator[Finding]:
    for each in facts.crds:
        if each.name in {"nodepools.karpenter.sh", "nodeclaims.karpenter.sh"} and "v1" not in each.served:
            message = f"{each.name} does not serve v1, only {_listed(each.served)}"
            yield Finding(FindingLevel.FIX, "CRDs", message, "upgrade to Karpenter v1 first")
            continue
        origin = f", of Helm release {each.helm_release}" if each.helm_release else ""
        served = ", ".join(each.served)
        dropped = f"; drops Dovetail's fields {_listed(each.dropped)}" if each.dropped else ""
        level = FindingLevel.NOTE if each.dropped else FindingLevel.OK
        remedy = "nothing to do: Dovetail runs on it; most of these fields have an annotation" if each.dropped else ""
        yield Finding(level, "CRDs", f"{each.name} ({served}) is {each.owner}{origin}{dropped}", remedy)


def _hashes(facts: AdoptionFacts) -> Iterator[Finding]:
    snapshot = facts.snapshot
    stamped = {
        name: (pool, pool.metadata.annotations)
        for name, pool in sorted(snapshot.nodepools.items())
        if NODEPOOL_HASH in pool.metadata.annotations
    }
    comparable = [name for name, (_, notes) in stamped.items() if notes.get(NODEPOOL_HASH_VERSION) == HASH_VERSION]
    wrong = [name for name in comparable if stamped[name][1][NODEPOOL_HASH] != template_hash(stamped[name][0])]
    for name in wrong:
        nodes = len(snapshot.nodes_by_pool.get(name, ()))
        message = f"NodePool {name}: Dovetail computes another hash than Karpenter: {nodes} nodes would drift"
        remedy = (
            "run adopt again in a minute, if the NodePool changed just now; else start with FEATURE_GATES=Drift=false"
        )
        yield Finding(FindingLevel.FIX, "Drift", message, remedy)
    if len(comparable) > len(wrong):
        same = len(comparable) - len(wrong)
        yield Finding(
            FindingLevel.OK,
            "Drift",
            f"the hashes of {same} {_plural('NodePool', same)} are equal: the switch makes no node drift",
        )
    if old := sorted(stamped.keys() - set(comparable)):
        message = f"NodePool {_listed(old)}: the hash is of another version, so Dovetail writes it again, without drift"
        yield Finding(FindingLevel.NOTE, "Drift", message)
    yield from _class_hashes(facts)
    yield from _drifted_nodes(facts.snapshot)


def _class_hashes(facts: AdoptionFacts) -> Iterator[Finding]:
    for each in facts.class_hashes:
        about = f"EC2NodeClass {each.name}"
        if each.version != each.own_version:
            message = f"{about}: the hash is of version {each.version or 'none'}, so Dovetail writes it again"
            yield Finding(FindingLevel.NOTE, "Drift", f"{message}, without drift")
        elif each.written == each.computed:
            yield Finding(FindingLevel.OK, "Drift", f"{about}: the hashes are equal: the switch makes no node drift")
        elif each.certain:
            message = f"{about}: Dovetail computes another hash than Karpenter: its nodes would drift"
            yield Finding(FindingLevel.FIX, "Drift", message, "start with FEATURE_GATES=Drift=false, and report this")
        else:
            message = (
                f"{about}: its hash cannot be confirmed: it covers the CA bundle of Karpenter's pod, and with that of"
            )
            remedy = "set CLUSTER_CA_BUNDLE to the same value for Karpenter and Dovetail, or compare the two bundles"
            yield Finding(FindingLevel.NOTE, "Drift", f"{message} the kubeconfig it is another one", remedy)


def _drifted_nodes(snapshot: Snapshot) -> Iterator[Finding]:
    managed = [node for node in snapshot.nodes if node.claim is not None]
    marked = {node.name for node in managed if marked_drifted(node)}
    own = {node.name for node in managed if own_drift(node, snapshot)}
    if marked or own:
        message = (
            f"Karpenter marks {len(marked)} of {len(managed)} nodes as drifted; Dovetail finds {len(own)} drifted"
            f" without asking the cloud, {len(own - marked)} of them not marked by Karpenter"
        )
        level = FindingLevel.NOTE if own - marked else FindingLevel.OK
        yield Finding(level, "Drift", message)


def marked_drifted(node: ClusterNode) -> str:
    """The reason of Karpenter's `Drifted` condition; empty if there is none."""
    found = find(node.claim.status.conditions, DRIFTED) if node.claim is not None else None
    return (found.reason or DRIFTED) if found is not None and found.status == "True" else ""


def own_drift(node: ClusterNode, snapshot: Snapshot) -> str:
    """Why Dovetail finds the node drifted without asking the cloud; empty if it does not."""
    pool = snapshot.nodepools.get(node.nodepool_name)
    if pool is None or node.claim is None or not node.claim.has(LAUNCHED):
        return ""
    return deviation(node.claim, pool, snapshot.types_by_pool.get(pool.name), snapshot.at)


def _lease(facts: AdoptionFacts) -> Iterator[Finding]:
    lease = facts.lease
    alone = facts.karpenter.environment.get("DISABLE_LEADER_ELECTION", "") if facts.karpenter is not None else ""
    if parses_in_go(bool, alone) and go_boolean(alone):
        message = "Karpenter runs without leader election, so Dovetail would not wait until it has stopped"
        yield Finding(FindingLevel.FIX, "Lease", message, "remove DISABLE_LEADER_ELECTION from Karpenter's Deployment")
    if lease is None:
        return
    name = f"{lease.namespace}/{lease.name}"
    if lease.held(facts.snapshot.at):
        yield Finding(FindingLevel.OK, "Lease", f"{name} is held by {lease.holder}")
    else:
        yield Finding(FindingLevel.NOTE, "Lease", f"{name} is held by no process: Karpenter does not run")


def _permissions(facts: AdoptionFacts) -> Iterator[Finding]:
    """Only what `dovetail run` lacks is a fault: another account than the one that runs this can take the steps."""
    steps, run = facts.steps_rbac, facts.run_rbac
    if steps is not None and steps.lacking:
        message = f"this account lacks {_lacking(steps)}: it can run adopt, but not take the steps"
        yield Finding(FindingLevel.NOTE, "RBAC", message, "take the steps with an account that has them")
    elif steps is not None:
        message = f"this account has all {len(steps.asked)} permissions that the steps need"
        yield Finding(FindingLevel.OK, "RBAC", message)
    account = f"service account {NAMESPACE}/{SERVICE_ACCOUNT}"
    if run is not None and run.lacking:
        message = f"{account} is bound to its roles, but lacks {_lacking(run)}"
        yield Finding(FindingLevel.FIX, "RBAC", message, "apply the manifests of step 2 again")
    elif run is not None:
        message = f"{account} has all {len(run.asked)} permissions that dovetail run needs"
        yield Finding(FindingLevel.OK, "RBAC", message)


def _lacking(checks: PermissionChecks) -> str:
    names = [str(each) for each in sorted(checks.lacking)]
    return f"{len(names)} of {len(checks.asked)} permissions ({_listed(names)})"


def _iam(facts: AdoptionFacts) -> Iterator[Finding]:
    checks = facts.iam
    if checks is None:
        return
    role = facts.karpenter.role_arn if facts.karpenter is not None else ""
    own = checks.of_role(role)
    whose = "of Karpenter's role" if own else f"of {checks.caller}, not of Karpenter's role {role}".rstrip()
    unknown: dict[str, list[str]] = {}
    for each in checks.actions:
        if each.allowed is None:
            unknown.setdefault(each.detail, []).append(each.action)
        elif not each.allowed:
            level = FindingLevel.FIX if own else FindingLevel.NOTE
            message = f"{each.action} is denied with the credentials {whose}: {each.detail}"
            yield Finding(level, "IAM", message, "allow it in the policy of the role that Dovetail uses")
    for detail, actions in unknown.items():
        yield Finding(FindingLevel.UNCHECKED, "IAM", f"{', '.join(actions)}, because {detail}")
    if allowed := [each.action for each in checks.actions if each.allowed]:
        yield Finding(FindingLevel.OK, "IAM", f"dry runs allow {', '.join(allowed)}, with the credentials {whose}")


def _unchecked(facts: AdoptionFacts) -> Iterator[Finding]:
    for each in facts.unchecked:
        yield Finding(FindingLevel.UNCHECKED, each.what, f"because {each.why}")
    for pool, why in sorted(facts.snapshot.missing_catalogs.items()):
        message = f"because its instance types and prices cannot be read: {why}"
        yield Finding(FindingLevel.UNCHECKED, f"NodePool {pool}", message)


def _counted(kinds: Iterator[str]) -> str:
    counts: dict[str, int] = {}
    for kind in kinds:
        counts[kind] = counts.get(kind, 0) + 1
    return ", ".join(f"{number} {_plural(kind, number)}" for kind, number in counts.items())


def _plural(kind: str, number: int) -> str:
    return kind if number == 1 else f"{kind}es" if kind.endswith("s") else f"{kind}s"


def _listed(names: tuple[str, ...] | list[str] | Mapping[str, object]) -> str:
    shown = list(names)
    more = f" and {len(shown) - _MOST_NAMES} more" if len(shown) > _MOST_NAMES else ""
    return ", ".join(shown[:_MOST_NAMES]) + more
