"""No taint, condition or record of a disruption stays on a node that nothing is taking away.

A mark belongs to a command that is written on the claim, or to a deletion. One that belongs to neither is left over;
crashes leave some, and the next leader has to remove them.

Whether a cluster has come to rest, and if not, what is left: pods that do not run, leaks, marks, unfinished work.
"""

from collections.abc import Iterator

from dovetail.sim.kubernetes.kinds import DEPLOYMENTS, JOBS, NODE, NODE_CLAIM, POD
from dovetail.sim.torture.fault_injector import leaked_instances
from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.objects import ClaimView, NodeView
from dovetail.sim.torture.invariants.observer import Observer, Violation
from dovetail.sim.torture.invariants.readers import COMMAND
from dovetail.sim.world import World

PATIENCE = 300.0  # seconds in which a leader, or the next one, must have noticed


class NoLeftoverTaints(Invariant):
    """What a command that was taken back has marked is unmarked."""

    name = "no mark is left behind"

    def __init__(self, history: Observer) -> None:
        super().__init__(history)
        self._left_since: dict[str, float] = {}

    def look(self) -> None:
        """Time has passed."""
        left = {each.value.name for each in self.history.claims.values() if self._is_left(each.value)}
        self._left_since = {name: self._left_since.get(name, self.history.now) for name in left}
        for name, since in self._left_since.items():
            if self.history.now - since > PATIENCE:
                self.broken(f"{name} or its node carries a mark of no command for {PATIENCE:.0f} s")

    def _is_left(self, claim: ClaimView) -> bool:
        node = self.history.node_of(claim)
        if claim.deleting or node is None or node.value.deleting or COMMAND in claim.annotations:
            return False
        return node.value.marked or "DisruptionReason" in claim.conditions


PODS = "every pod runs in the end"
LEAKS = "no instance and no claim leaks"
MARKS = "no mark is left behind"
SETTLES = "the cluster comes to rest"


def unrest(world: World) -> list[tuple[str, str]]:
    """What keeps the cluster from being at rest, as invariant and message."""
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
        wanted = int(deployment.plain["spec"].get("replicas", 1))
        running = sum(ready.get(each.uid, 0) for each in world.store.owned_by(deployment.uid))
        if running < wanted:
            yield PODS, f"{running} of {wanted} pods of {deployment.key} run"
    for job in world.store.all(JOBS):  # one that runs is well: a simulated Job forgets pods that ended on lost nodes
        if not (job.plain.get("status") or {}).get("completionTime") and not ready.get(job.uid):
            yield PODS, f"{job.key} is not complete, and no pod of it runs"


def _leaks(claims: list[ClaimView], nodes: list[NodeView]) -> Iterator[tuple[str, str]]:
    node_by_id = {node.provider_id: node for node in nodes}
    owned = {claim.provider_id for claim in claims}
    for node in nodes:
        if node.provider_id not in owned:
            yield LEAKS, f"node {node.name} belongs to no claim"
        elif node.deleting:
            yield SETTLES, f"node {node.name} is still on its way out"
    for claim in claims:
        if claim.deleting:
            yield SETTLES, f"{claim.name} is still on its way out"
        elif not claim.provider_id or claim.provider_id not in node_by_id:
            yield LEAKS, f"{claim.name} has no node"
        elif not claim.has("Ready") or not node_by_id[claim.provider_id].ready:
            yield SETTLES, f"{claim.name} is not ready"
    if len(owned) < len(claims):
        yield LEAKS, "two claims share an instance"


def _marks(claims: list[ClaimView], nodes: list[NodeView]) -> Iterator[tuple[str, str]]:
    for claim in claims:
        if COMMAND in claim.annotations and not claim.deleting:
            yield MARKS, f"{claim.name} still carries the record of a command"
        if "DisruptionReason" in claim.conditions and not claim.deleting:
            yield MARKS, f"{claim.name} still has DisruptionReason"
    for node in nodes:
        if node.marked and not node.deleting:
            yield MARKS, f"node {node.name} still has a taint of disruption"


def verdicts(world: World, at: float) -> list[Violation]:
    """Whatever is left when the time for coming to rest is over."""
    left = unrest(world)
    by_name = {name: [message for each, message in left if each == name] for name, _ in left}
    return [Violation(name, at, "; ".join(messages[:6])) for name, messages in by_name.items()]
