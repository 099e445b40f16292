"""The provisioning plan: which NodeClaims to create for the pods of one snapshot that need nodes.

`plan_provisioning` places all pods with the solver, except those that keep their place in an earlier plan
(`planned_pods`). It places deadlocked pods again (`drain_deadlock`), and repeats that without pods whose launches back
off (`launch_backoff`) until no draft is for them. Each draft becomes a NodeClaim. A pod that makes the solver raise is
refused, and the others are planned without it.

`beyond_limits` checks a claim against the limits of its NodePool again right before it is created, since other claims
may have been created after the plan was made.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from dovetail.core.failure import find_culprits, internal_error
from dovetail.core.provisioning.drain_deadlock import revise
from dovetail.core.provisioning.eligible_pods import displaced_pods, provisionable_pods, usable_pools
from dovetail.core.provisioning.launch_backoff import (
    Backoffs,
    FailedLaunch,
    after_failure,
    backoff_refusal,
    find_failures,
    pods_with_kinds,
    recorded_backoffs,
)
from dovetail.core.provisioning.node_sizing import place_by_price
from dovetail.core.provisioning.nodeclaim_template import claim_for
from dovetail.core.provisioning.planned_pods import find_planned_nodes, with_pods_on_planned_nodes
from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.instance_type_table import fitting_types
from dovetail.core.scheduling.nodepool_limits import describe_limit, limit_usage
from dovetail.core.scheduling.pod_shapes import PodIndex
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.solver import Placement, place_all
from dovetail.model.kube_object import Key
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.refusal import Refusal, RefusalCode, nodepool_ref, pod_ref
from dovetail.model.resources import ZERO
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.settings import DecisionOptions

DEFAULT_OPTIONS = DecisionOptions()


@dataclass(frozen=True)
class PlannedLaunch:
    """A NodeClaim to create, and the pods it is for."""

    claim: NodeClaim
    pods: tuple[Pod, ...]


@dataclass(frozen=True)
class ProvisioningPlan:
    """What to launch, the existing nodes that pods will run on, and why other pods wait."""

    launches: tuple[PlannedLaunch, ...] = ()
    node_by_pod: tuple[tuple[Key, str], ...] = ()
    refusals: tuple[Refusal, ...] = ()
    pool_refusals: tuple[Refusal, ...] = ()
    failures: tuple[FailedLaunch, ...] = ()
    """Failed launches that are not recorded yet."""
    backoffs: Backoffs = field(default_factory=dict)
    """Kinds of pods for which a NodePool launches nothing now."""


def plan_provisioning(
    snapshot: Snapshot, options: DecisionOptions = DEFAULT_OPTIONS, *, register: PodIndex | None = None
) -> ProvisioningPlan:
    """Plan for every pending pod, and for the pods of nodes that are being deleted.

    `register` is the pod index of earlier plans, which saves reading unchanged nodes.
    """
    waiting, invalid = provisionable_pods(snapshot)
    plan = partial(_plan, snapshot, options)
    try:
        planned = plan(waiting, register=register)
    except AssertionError:
        raise
    except Exception:  # noqa: BLE001 - if some pods cause it, the others are planned without them
        broken = find_culprits(waiting, plan)
        invalid += [internal_error(pod_ref(pod.key), error) for pod, error in broken]
        keys = {pod.key for pod, _ in broken}
        planned = plan([pod for pod in waiting if pod.key not in keys])
    return replace(planned, refusals=(*invalid, *planned.refusals))


def _plan(
    snapshot: Snapshot, options: DecisionOptions, waiting: Sequence[Pod], *, register: PodIndex | None = None
) -> ProvisioningPlan:
    """The plan for these pending pods, and for the pods of nodes that are being deleted."""
    planned = find_planned_nodes(snapshot) if waiting else {}
    settled = [pod for pod in waiting if pod.metadata.uid in planned]
    node_by_pod = {pod.key: planned[pod.metadata.uid] for pod in settled}
    waiting = [pod for pod in waiting if pod.metadata.uid not in planned]
    pods = [*waiting, *displaced_pods(snapshot)]
    if not pods:
        return ProvisioningPlan(node_by_pod=tuple(sorted(node_by_pod.items())))
    pools = usable_pools(snapshot)
    solver = _Solver(with_pods_on_planned_nodes(snapshot, settled, planned), pools, options, register)
    placement, backing_off = solver.place(waiting, pods), _BackingOff(snapshot)
    while held := backing_off.held(placement.drafts):
        waiting = [pod for pod in waiting if pod.key not in held]
        pods = [pod for pod in pods if pod.key not in held]
        placement = solver.place(waiting, pods)
    refusals = {**placement.refusals, **backing_off.refusals}
    return ProvisioningPlan(
        launches=tuple(
            PlannedLaunch(claim_for(draft, backing_off.recorded_backoffs), tuple(draft.pods))
            for draft in placement.drafts
        ),
        node_by_pod=tuple(sorted({**node_by_pod, **placement.node_by_pod}.items())),
        refusals=tuple(refusals[key] for key in sorted(refusals)),
        pool_refusals=tuple(_without_types(snapshot, pools)),
        failures=tuple(backing_off.failures),
        backoffs={slot: each for slot, each in backing_off.recorded_backoffs.items() if each.until > snapshot.at},
    )


@dataclass(frozen=True)
class _Solver:
    """The solver with all its inputs except the pods."""

    snapshot: Snapshot
    pools: Sequence[NodePool]
    options: DecisionOptions
    register: PodIndex | None

    def place(self, waiting: Sequence[Pod], pods: Sequence[Pod]) -> Placement:
        """Place pods, and place deadlocked pods among `waiting` again."""
        problem = Problem(self.snapshot, pods, self.pools, register=self.register)
        respected = self.options.respect_preferences
        place = place_by_price if self.options.sizes_by_price else place_all
        placement = place(problem, respect_preferences=respected)
        return revise(placement, self.snapshot, waiting, self.pools, respect_preferences=respected)


class _BackingOff:
    """Finds pods whose launches back off, and failed launches that are not recorded yet."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._seen: set[tuple[str, str]] = set()
        self.recorded_backoffs = dict(recorded_backoffs(snapshot))
        self.failures: list[FailedLaunch] = []
        self.refusals: dict[Key, Refusal] = {}

    def held(self, drafts: Sequence[Draft]) -> set[Key]:
        """The pods of these drafts that have to wait; `refusals` says why."""
        for failure in find_failures(self._snapshot, drafts):
            self._count(failure)
        held: set[Key] = set()
        for draft in drafts if self.recorded_backoffs else ():
            for pod, kind in pods_with_kinds(draft):
                backoff = self.recorded_backoffs.get((draft.pool_name, kind))
                if backoff is not None and backoff.until > self._snapshot.at:
                    held.add(pod.key)
                    self.refusals[pod.key] = backoff_refusal(pod_ref(pod.key), draft.pool_name, backoff)
        return held

    def _count(self, failure: FailedLaunch) -> None:
        slot = failure.claim.nodepool_name, failure.kind
        if slot in self._seen:
            return
        self._seen.add(slot)
        pool = self._snapshot.nodepools[slot[0]]
        record = {kind: each for (name, kind), each in self.recorded_backoffs.items() if name == pool.name}
        after = after_failure(pool, failure, record, self._snapshot.at)
        if after != self.recorded_backoffs.get(slot):
            self.failures.append(failure)
            self.recorded_backoffs[slot] = after


def _without_types(snapshot: Snapshot, pools: Sequence[NodePool]) -> Iterator[Refusal]:
    """Refusals of the NodePools that no instance type is compatible with."""
    for pool in pools:
        if not any(True for _ in fitting_types(snapshot.catalogs[pool.name], pool.requirements, snapshot.well_known)):
            yield Refusal(RefusalCode.NO_COMPATIBLE_INSTANCE_TYPES, nodepool_ref(pool.name))


def beyond_limits(snapshot: Snapshot, claim: NodeClaim, leaving: Collection[str] = ()) -> str:
    """Which limits of its NodePool the claim would exceed with its largest instance type; empty if none.

    `leaving` names the NodeClaims that the same command removes; they do not count.
    """
    pool = snapshot.nodepools.get(claim.nodepool_name)
    if pool is None or not pool.spec.limits:
        return ""
    used, size = limit_usage(snapshot, pool.name, leaving), snapshot.size(ClusterNode(None, claim))
    over = [
        describe_limit(name, limit, used.get(name, ZERO), f"up to {size.get(name, ZERO)}")
        for name, limit in sorted(pool.spec.limits.items())
        if used.get(name, ZERO) + size.get(name, ZERO) > limit
    ]
    return f"a new node would exceed the limits of NodePool {pool.name}: {'; '.join(over)}" if over else ""
