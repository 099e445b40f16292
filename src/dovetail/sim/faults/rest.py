"""Whether a cluster has come to rest, and if not, what is left: homeless pods, leaks, marks, unfinished business."""

from collections.abc import Iterator

from dovetail.model import kinds
from dovetail.model.command import RECORD_ANNOTATION
from dovetail.model.conditions import find
from dovetail.model.nodeclaim import DISRUPTION_REASON
from dovetail.sim.faults.cloud_faults import leaked_instances
from dovetail.sim.faults.history import Violation
from dovetail.sim.kinds import DEPLOYMENTS, JOBS, POD
from dovetail.sim.world import World

PODS = "no pod is lost"
LEAKS = "no instance and no claim leaks"
MARKS = "no mark is left behind"
SETTLES = "the system settles"


def unrest(world: World) -> list[tuple[str, str]]:
    """What keeps the cluster from being at rest, as law and message."""
    return [*_waiting_pods(world), *_leaks(world), *leaked_instances(world), *_marks(world)]


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


def _leaks(world: World) -> Iterator[tuple[str, str]]:
    nodes = {node.provider_id: node for node in world.values(kinds.NODE)}
    claims = world.values(kinds.NODE_CLAIM)
    owned = {claim.provider_id for claim in claims}
    for node in nodes.values():
        if node.provider_id not in owned:
            yield LEAKS, f"node {node.name} belongs to no claim"
        elif node.deleting:
            yield SETTLES, f"node {node.name} is still on its way out"
    for claim in claims:
        if claim.deleting:
            yield SETTLES, f"{claim.name} is still on its way out"
        elif not claim.provider_id or claim.provider_id not in nodes:
            yield LEAKS, f"{claim.name} has no node"
        elif not claim.has("Ready") or not nodes[claim.provider_id].ready:
            yield SETTLES, f"{claim.name} is not ready"
    if len(owned) < len(claims):
        yield LEAKS, "two claims share an instance"


def _marks(world: World) -> Iterator[tuple[str, str]]:
    for claim in world.values(kinds.NODE_CLAIM):
        if RECORD_ANNOTATION in claim.metadata.annotations and not claim.deleting:
            yield MARKS, f"{claim.name} still carries the record of a command"
        if find(claim.status.conditions, DISRUPTION_REASON) is not None and not claim.deleting:
            yield MARKS, f"{claim.name} still has {DISRUPTION_REASON}"
    for node in world.values(kinds.NODE):
        keys = [taint.key for taint in node.spec.taints if taint.key.startswith("karpenter.sh/disrupt")]
        if keys and not node.deleting:
            yield MARKS, f"node {node.name} still has the taint {keys[0]}"


def verdicts(world: World, at: float) -> list[Violation]:
    """Whatever is left when the time for coming to rest is over."""
    left = unrest(world)
    by_law = {law: [message for each, message in left if each == law] for law, _ in left}
    return [Violation(law, at, "; ".join(messages[:6])) for law, messages in by_law.items()]
