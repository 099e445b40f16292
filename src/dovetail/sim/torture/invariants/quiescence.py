"""Invariants on what remains: no leftover disruption marks, and a settled cluster once faults have ended.

A mark is a disruption taint, the condition DisruptionReason or a command record. It belongs to the command recorded on
the NodeClaim, or to a deletion. A crash can leave other marks, and the next leader has to remove them. The taint of
nodes that consolidation deletes next is a mark as well; it belongs to a NodePool with minSavings.

After the end of all faults the runner waits until the cluster is settled: every pod runs, every NodeClaim has a ready
node, no instance, NodeClaim or mark is left over, and no deletion is in progress.
"""

from collections.abc import Iterator

from dovetail.sim.kubernetes.kinds import DEPLOYMENTS, JOBS, NODE, NODE_CLAIM, POD
from dovetail.sim.torture.fault_injector import leaked_instances
from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.disruption_settings import is_restrained
from dovetail.sim.torture.invariants.objects import ClaimView, NodeView
from dovetail.sim.torture.invariants.observer import Observer, Violation
from dovetail.sim.torture.invariants.readers import COMMAND
from dovetail.sim.world import World

CLEANUP_SECONDS = 300.0  # in which a leader, or the next one, must remove leftover marks


class NoLeftoverTaints(Invariant):
    """Marks of rolled-back commands are removed."""

    name = "no mark is left behind"

    def __init__(self, observer: Observer) -> None:
        super().__init__(observer)
        self._left_over_since: dict[str, float] = {}

    def on_tick(self) -> None:
        """Report marks that have belonged to no command for too long."""
        leftover = {each.value.name for each in self.observer.claims.values() if self._is_left_over(each.value)}
        self._left_over_since = {name: self._left_over_since.get(name, self.observer.now) for name in leftover}
        for name, since in self._left_over_since.items():
            if self.observer.now - since > CLEANUP_SECONDS:
                self.report(
                    f"{name} or its node has had a disruption mark without a command for {CLEANUP_SECONDS:.0f} s"
                )

    def _is_left_over(self, claim: ClaimView) -> bool:
        node = self.observer.node_of(claim)
        if claim.deleting or node is None or node.value.deleting or COMMAND in claim.annotations:
            return False
        if node.value.has_disruption_taint or "DisruptionReason" in claim.conditions:
            return True
        restrained = any(map(is_restrained, self.observer.versions(claim.pool, self.observer.now)))
        return node.value.is_removed_next and not restrained


PODS = "every pod runs in the end"
LEAKS = "no instance and no NodeClaim leaks"
MARKS = "no mark is left behind"
SETTLES = "the cluster settles"


def unsettled(world: World) -> list[tuple[str, str]]:
    """Why the cluster is not settled, as pairs of invariant and message; empty if it is settled."""
    claims = [ClaimView(record) for record in world.store.all(NODE_CLAIM)]
    nodes = [NodeView(record) for record in world.store.all(NODE)]
    return [*_waiting_pods(world), *_leaks(claims, nodes), *leaked_instances(world), *_marks(claims, nodes)]


def _waiting_pods(world: World) -> Iterator[tuple[str, str]]:
    ready: dict[str, int] = {}
    for pod in world.store.all(POD):
        owner = pod.controller
        if owner is not None and not pod.deleting and pod.ready:
            ready[owner["uid"]] = ready.get(owner["uid"], 0) + 1
    for deployment in world.store.all(DEPLOYMENTS):
        replicas = int(deployment.plain["spec"].get("replicas", 1))
        running = sum(ready.get(each.uid, 0) for each in world.store.owned_by(deployment.uid))
        if running < replicas:
            yield PODS, f"{running} of {replicas} pods of {deployment.key} run"
    for job in world.store.all(JOBS):  # a running one is fine: a simulated Job does not count pods on lost nodes
        if not (job.plain.get("status") or {}).get("completionTime") and not ready.get(job.uid):
            yield PODS, f"{job.key} is not complete, and none of its pods runs"


def _leaks(claims: list[ClaimView], nodes: list[NodeView]) -> Iterator[tuple[str, str]]:
    node_by_id = {node.provider_id: node for node in nodes}
    owned = {claim.provider_id for claim in claims}
    for node in nodes:
        if node.provider_id not in owned:
            yield LEAKS, f"node {node.name} has no NodeClaim"
        elif node.deleting:
            yield SETTLES, f"node {node.name} is still being deleted"
    for claim in claims:
        if claim.deleting:
            yield SETTLES, f"{claim.name} is still being deleted"
        elif not claim.provider_id or claim.provider_id not in node_by_id:
            yield LEAKS, f"{claim.name} has no node"
        elif not claim.has("Ready") or not node_by_id[claim.provider_id].ready:
            yield SETTLES, f"{claim.name} is not ready"
    if len(owned) < len(claims):
        yield LEAKS, "two NodeClaims have the same instance"


def _marks(claims: list[ClaimView], nodes: list[NodeView]) -> Iterator[tuple[str, str]]:
    for claim in claims:
        if COMMAND in claim.annotations and not claim.deleting:
            yield MARKS, f"{claim.name} still has a command record"
        if "DisruptionReason" in claim.conditions and not claim.deleting:
            yield MARKS, f"{claim.name} still has DisruptionReason"
    for node in nodes:
        if node.has_disruption_taint and not node.deleting:
            yield MARKS, f"node {node.name} still has a disruption taint"
        if node.is_closed and not node.deleting:
            yield MARKS, f"node {node.name} is still closed"


def unsettled_violations(world: World, at: float) -> list[Violation]:
    """The violations of a cluster that did not settle in time, one for each invariant."""
    reasons = unsettled(world)
    by_name = {name: [message for each, message in reasons if each == name] for name, _ in reasons}
    return [Violation(name, at, "; ".join(messages[:6])) for name, messages in by_name.items()]
