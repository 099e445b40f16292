"""Metrics about one provisioning pass: its duration, its pods, and the zones that they need."""

from collections import Counter
from collections.abc import Iterable

from dovetail.controllers.context import ControllerContext
from dovetail.core.provisioning.plan import ProvisioningPlan
from dovetail.core.scheduling.node_affinity import Alternative, node_alternatives
from dovetail.core.scheduling.volumes import volume_needs
from dovetail.model.labels import ZONE
from dovetail.model.pod import Pod
from dovetail.model.refusal import RefusalCode
from dovetail.model.snapshot import Snapshot
from dovetail.runtime.concurrency import in_turns

PROVISIONER = "provisioner"


async def measure_provisioning(
    context: ControllerContext, snapshot: Snapshot, plan: ProvisioningPlan, seconds: float
) -> None:
    """Record a plan and how long it took."""
    if not context.seen:
        return
    metrics, pods = context.metrics, context.state.pods.items
    decided = [refusal for refusal in plan.refusals if refusal.code is not RefusalCode.CONFIGURED_ELSEWHERE]
    found = [pods.get(key) for key, _ in plan.node_by_pod] + [pod for each in plan.launches for pod in each.pods]
    placed = [pod for pod in found if pod is not None]
    unplaced = [pod for pod in (pods.get(refusal.object.key) for refusal in decided) if pod is not None]
    metrics.observe("karpenter_scheduler_scheduling_duration_seconds", seconds, controller=PROVISIONER)
    metrics.show("karpenter_scheduler_queue_depth", {(PROVISIONER, ""): float(len(found) + len(decided))})
    metrics.show("karpenter_scheduler_unschedulable_pods_count", {(PROVISIONER,): float(len(decided))})
    metrics.show("karpenter_scheduler_ignored_pods_count", {(): float(len(plan.refusals) - len(decided))})
    zones: Counter[str] = Counter()
    async for zone in in_turns(_effective_zones(snapshot, [*placed, *unplaced])):
        zones[zone] += 1
    rows: dict[tuple[str, ...], float] = {(PROVISIONER, zone): float(number) for zone, number in zones.items()}
    metrics.show("karpenter_scheduler_pending_pods_by_effective_zone_count", rows)
    backing_off = Counter(pool for pool, _ in plan.backoffs)
    metrics.show("dovetail_nodepools_launch_backoffs", {(pool,): float(n) for pool, n in backing_off.items()})
    async for pod, schedulable in in_turns((*((pod, True) for pod in placed), *((pod, False) for pod in unplaced))):
        waited = context.pod_clocks.decide(pod.metadata.uid, context.clock.now(), schedulable=schedulable)
        if waited is not None:
            metrics.observe("karpenter_pods_scheduling_decision_duration_seconds", waited)


def _effective_zones(snapshot: Snapshot, pods: Iterable[Pod]) -> Iterable[str]:
    """Yield for each pod the zone it needs, `flexible` for several, or `none` if its requirements exclude all zones.

    Node selector, required node affinity and volumes count; topology spread and pod affinity do not.
    """
    catalogs = {id(types): types for types in snapshot.types_by_pool.values()}.values()
    offerings = (offering for types in catalogs for each in types.values() for offering in each.offerings)
    zones = frozenset(offering.zone for offering in offerings)
    for pod in pods:
        if not (pod.spec.node_selector or pod.spec.affinity or pod.spec.volumes):
            possible = zones
        else:
            volumes = volume_needs(pod.key, pod.spec, snapshot.storage)
            possible = _allowed(zones, node_alternatives(pod.spec)) & _allowed(zones, volumes.on_drafts)
        yield "flexible" if len(possible) > 1 else next(iter(possible), "none")


def _allowed(zones: frozenset[str], alternatives: Iterable[Alternative]) -> frozenset[str]:
    return frozenset(
        zone
        for alternative in alternatives
        for zone in zones
        if all(each.key != ZONE or each.has(zone) for each in alternative.expressions)
    )
