"""Whether a cluster has come to rest, and if not, what is left: pods that do not run, leaks, marks, unfinished work."""

from collections.abc import Iterator

from dovetail.sim.kubernetes.kinds import DEPLOYMENTS, JOBS, NODE, NODE_CLAIM, POD
from dovetail.sim.torture.cloud_faults import leaked_instances
from dovetail.sim.torture.invariants.objects import ClaimView, NodeView
from dovetail.sim.torture.invariants.observer import Violation
from dovetail.sim.torture.invariants.readers import COMMAND
from dovetail.sim.world import World

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
