"""Restraint: in NodePools with `spec.disruption.minSavings`, consolidation must be worth the evictions it causes.

What the pods of a NodePool cost is the price of the capacity that they request, divided among them by eviction cost: an
ordinary pod counts 1, and pod-deletion-cost and priority change that. Unused capacity is not part of it, so that the
first moves of a cluster with much of it are cheap. A command must save at least `minSavings` percent of what the pods
that it evicts cost, times the turnover of the NodePool.

Turnover is the share of the pods that were bound within the last hour, at least `LEAST_TURNOVER`. It says how long a
placement lasts: where half of the pods of an hour ago are gone, so is half of what a move has saved. Pods that were
evicted count as well, so consolidation restrains itself the more it has moved. All of it is read from the pods, so
restarts change nothing.

This limits multi-node and single-node consolidation only: empty nodes, expiration, drift and repair evict as before.
Two more parts of restraint are the cool-down after a pod was bound (`delays.cool_down`), and the taint that keeps
evicted pods away from nodes that are deleted next (`next_removals`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dovetail.core.disruption.candidates import Candidate, node_price
from dovetail.core.disruption.delays import TURNOVER_WINDOW
from dovetail.core.disruption.disruption_cost import BASE_COST, eviction_cost
from dovetail.core.disruption.pass_context import EvictionPrice, PassContext
from dovetail.core.lifecycle.pod_events import bound_at
from dovetail.model.instants import subtract
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.model.nodepool import NodePool
from dovetail.model.percentage import Percentage
from dovetail.model.refusal import Refusal, RefusalCode, SmallSaving
from dovetail.model.resources import CPU, MEMORY
from dovetail.model.snapshot import ClusterNode

LEAST_TURNOVER = 0.25
"""Of a NodePool in which no pod was bound within the window."""


def required_saving(candidates: Sequence[Candidate], context: PassContext) -> float:
    """What a command with these candidates has to save, in dollars an hour; 0 where nothing is required."""
    return sum(_required(each, context) for each in candidates if each.pool.min_savings is not None)


@dataclass(frozen=True, slots=True)
class PoolRestraint:
    """minSavings of a NodePool: what a command must save for each ordinary pod that it evicts, in dollars an hour."""

    min_savings: Percentage
    turnover: float
    per_eviction: float


def pool_restraint(pool: NodePool, context: PassContext) -> PoolRestraint | None:
    """What consolidation of this NodePool must save; None if any saving is enough, or it moves no pods."""
    written = pool.min_savings
    if written is None or pool.static or pool.consolidation_policy == "WhenEmpty":
        return None
    price = _eviction_price(pool.name, context)
    return PoolRestraint(written, price.turnover, written.share * price.dollars * price.turnover)


def savings_refusal(candidates: Sequence[Candidate], saving: float, context: PassContext) -> Refusal | None:
    """Why a saving, in dollars an hour, is not worth the evictions of these candidates; None if it is."""
    required = required_saving(candidates, context)
    if saving >= required:
        return None
    strictest = max((each for each in candidates if each.pool.min_savings is not None), key=_strictness)
    small = SmallSaving(
        saving=saving,
        required=required,
        evictions=sum(len(each.pods_to_reschedule) for each in candidates),
        min_savings=str(strictest.pool.min_savings),
        turnover=_eviction_price(strictest.pool.name, context).turnover,
    )
    code, pool = RefusalCode.SAVES_TOO_LITTLE, strictest.pool.name
    return Refusal(code, candidates[0].ref, nodepool=pool, small_saving=small, count=len(candidates))


def _strictness(candidate: Candidate) -> tuple[float, str]:
    written = candidate.pool.min_savings
    return (written.share if written is not None else 0.0, candidate.pool.name)


def _required(candidate: Candidate, context: PassContext) -> float:
    written = candidate.pool.min_savings
    assert written is not None, "only called for NodePools with minSavings"
    price = _eviction_price(candidate.pool.name, context)
    return written.share * (candidate.cost - BASE_COST) * price.dollars * price.turnover


def _eviction_price(pool: str, context: PassContext) -> EvictionPrice:
    """What a unit of eviction cost costs in a NodePool, and its turnover; computed once in a pass."""
    known = context.eviction_prices
    if pool not in known:
        facts = context.candidate_cache.facts
        nodes = context.snapshot.nodes_by_pool.get(pool, ())
        types = context.snapshot.types_by_pool.get(pool, {})
        total = sum(facts(node).disruption_cost - BASE_COST for node in nodes)
        requested = sum(
            _requested_share(node) * node_price(node, types.get(node.labels.get(INSTANCE_TYPE, ""))) for node in nodes
        )
        since = subtract(context.snapshot.at, TURNOVER_WINDOW)
        recent = sum(_recently_bound(node, since) for node in nodes)
        known[pool] = EvictionPrice(
            dollars=requested / total if total > 0 else 0.0,
            turnover=max(LEAST_TURNOVER, recent / total if total > 0 else 0.0),
        )
    return known[pool]


def _requested_share(node: ClusterNode) -> float:
    """The share of a node's CPU or memory that its pods request, whichever is more."""
    shares = (
        node.requested[name].nano / node.allocatable[name].nano
        for name in (CPU, MEMORY)
        if name in node.requested and name in node.allocatable and node.allocatable[name].nano
    )
    return min(1.0, max(shares, default=0.0))


def _recently_bound(node: ClusterNode, since: datetime) -> float:
    """The eviction cost of the node's pods that were bound after this instant."""
    pods = (pod for pod in node.pods if pod.reschedulable)
    return sum(max(0.0, eviction_cost(pod)) for pod in pods if (bound_at(pod) or since) > since)
