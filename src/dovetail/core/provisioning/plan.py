"""What to launch for the pods that wait: the whole provisioning decision over one snapshot."""

from dataclasses import dataclass

from dovetail.core.provisioning.claims import claim_for
from dovetail.core.provisioning.eligibility import displaced_pods, provisionable_pods, usable_pools
from dovetail.core.scheduling.daemons import read_daemons
from dovetail.core.scheduling.solve import Solver
from dovetail.core.scheduling.template import Template, read_template
from dovetail.model.nodeclaim import NodeClaim
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


def plan_provisioning(snapshot: Snapshot) -> ProvisioningPlan:
    """Find homes for every pod that waits, and for those whose node is going."""
    waiting, invalid = provisionable_pods(snapshot)
    pods = [*waiting, *displaced_pods(snapshot)]
    if not pods:
        return ProvisioningPlan(refusals=tuple(invalid))
    templates, pool_refusals = _templates(snapshot)
    placement = Solver(snapshot, templates).solve(pods)
    return ProvisioningPlan(
        launches=tuple(Launch(claim_for(draft), tuple(draft.pods)) for draft in placement.drafts),
        node_by_pod=tuple(sorted(placement.node_by_pod.items())),
        refusals=(*invalid, *(placement.refusals[key] for key in sorted(placement.refusals))),
        pool_refusals=tuple(pool_refusals),
    )


def _templates(snapshot: Snapshot) -> tuple[list[Template], list[Refusal]]:
    daemons = read_daemons(snapshot.daemon_sets)
    templates: list[Template] = []
    refusals: list[Refusal] = []
    for pool in usable_pools(snapshot):
        template = read_template(pool, snapshot, daemons)
        if template.choices:
            templates.append(template)
        else:
            why = "NodePool requirements filtered out all compatible available instance types"
            refusals.append(Refusal("NoCompatibleInstanceTypes", pool.name, why))
    return templates, refusals
