"""What to launch for the pods that wait: the whole provisioning decision over one snapshot."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dovetail.core.failure import find_culprits, internal_error
from dovetail.core.provisioning.claims import claim_for
from dovetail.core.provisioning.eligibility import displaced_pods, provisionable_pods, usable_pools
from dovetail.core.provisioning.held import revise
from dovetail.core.scheduling.base import Base
from dovetail.core.scheduling.register import Register
from dovetail.core.scheduling.solve import place_all
from dovetail.core.scheduling.template import fitting_types
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.refusal import Refusal
from dovetail.model.snapshot import Snapshot
from dovetail.model.wire import Key


@dataclass(frozen=True)
class Launch:
    """A NodeClaim to create, and the pods it is for."""

    claim: NodeClaim
    pods: tuple[Pod, ...]


@dataclass(frozen=True)
class ProvisioningPlan:
    """What to launch, where pods will go, and why the others wait."""

    launches: tuple[Launch, ...] = ()
    node_by_pod: tuple[tuple[Key, str], ...] = ()
    refusals: tuple[Refusal, ...] = ()
    pool_refusals: tuple[Refusal, ...] = ()


def plan_provisioning(
    snapshot: Snapshot, *, respect_preferences: bool = True, register: Register | None = None
) -> ProvisioningPlan:
    """Find homes for every pod that waits, and for those whose node is going. A `register` of plans before helps."""
    waiting, invalid = provisionable_pods(snapshot)
    plan = partial(_plan, snapshot, respect_preferences=respect_preferences)
    try:
        planned = plan(waiting, register=register)
    except AssertionError:
        raise
    except Exception:  # noqa: BLE001 - one of the pods may be the cause: the others are planned for
        broken = find_culprits(waiting, plan)
        invalid += [internal_error(f"pod/{pod.key}", error) for pod, error in broken]
        keys = {pod.key for pod, _ in broken}
        planned = plan([pod for pod in waiting if pod.key not in keys])
    return replace(planned, refusals=(*invalid, *planned.refusals))


def _plan(
    snapshot: Snapshot, waiting: Sequence[Pod], *, respect_preferences: bool, register: Register | None = None
) -> ProvisioningPlan:
    """The plan for these of the pods that wait, and for those whose node is going."""
    pods = [*waiting, *displaced_pods(snapshot)]
    if not pods:
        return ProvisioningPlan()
    pools = usable_pools(snapshot)
    base = Base(snapshot, pods, pools, register=register)
    placement = place_all(base, respect_preferences=respect_preferences)
    placement = revise(placement, snapshot, waiting, pools, respect_preferences=respect_preferences)
    return ProvisioningPlan(
        launches=tuple(Launch(claim_for(draft), tuple(draft.pods)) for draft in placement.drafts),
        node_by_pod=tuple(sorted(placement.node_by_pod.items())),
        refusals=tuple(placement.refusals[key] for key in sorted(placement.refusals)),
        pool_refusals=tuple(_without_types(snapshot, pools)),
    )


def _without_types(snapshot: Snapshot, pools: Sequence[NodePool]) -> Iterator[Refusal]:
    """Pools whose requirements leave nothing to buy."""
    for pool in pools:
        if not any(True for _ in fitting_types(snapshot.catalogs[pool.name], pool.requirements, snapshot.well_known)):
            why = "NodePool requirements filtered out all compatible available instance types"
            yield Refusal("NoCompatibleInstanceTypes", pool.name, why)
