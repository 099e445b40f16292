"""Explains a NodePool: what its nodes wait for, its budgets now and their next change, and its limits."""

from dataclasses import dataclass
from datetime import datetime

from dovetail.core.disruption.budgets import BudgetAllowance, NodeCounts, count_nodes
from dovetail.core.disruption.delays import expiration_without_budgets
from dovetail.core.disruption.events import unreadable_objects
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import PassPlan
from dovetail.core.disruption.restraint import PoolRestraint, pool_restraint
from dovetail.core.explain.budget_calendar import ACTION_BY_REASON
from dovetail.core.explain.missing_catalogs import ignored_because, ignored_nodepools, missing_catalogs
from dovetail.core.explain.node import explain_nodes
from dovetail.core.explain.shared_causes import pool_verdict
from dovetail.model.annotated_fields import dropped_fields
from dovetail.model.budget import Budget
from dovetail.model.kube_object import Fault
from dovetail.model.nodepool import NodePool
from dovetail.model.reason import Reason
from dovetail.model.resources import Quantity
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.verdict import PoolVerdict


@dataclass(frozen=True, slots=True)
class BudgetView:
    """One budget now. `closes_at` is when its present window ends, `opens_at` when its next one begins."""

    number: int
    budget: Budget
    limit: int
    in_force: bool
    closes_at: datetime | None
    opens_at: datetime | None


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of a resource, and how much the nodes of the NodePool use."""

    resource: str
    limit: Quantity
    used: Quantity


@dataclass(frozen=True)
class PoolExplanation:
    """What decides how many nodes of a NodePool may be disrupted now."""

    pool: NodePool
    at: datetime
    counts: NodeCounts
    budgets: tuple[BudgetView, ...]
    allowances: dict[Reason, BudgetAllowance]
    changes_at: dict[Reason, datetime | None]
    limits: tuple[Limit, ...]
    nodes: tuple[ClusterNode, ...]
    verdict: PoolVerdict
    restraint: PoolRestraint | None = None
    expires: str = ""  # how nodes expire, if no budget applies to that
    fault: str = ""
    no_catalog: str = ""  # why its instance types are not known, or that no provider manages it
    dropped: tuple[Fault, ...] = ()  # requested fields that the installed CRD dropped
    unreadable: str = ""  # objects that cannot be read, because of which nodes of the pool are not disrupted


def explain_pool(pool: NodePool, context: PassContext, plan: PassPlan | None = None) -> PoolExplanation:
    """Explain one NodePool. `plan`: a thorough one, if known."""
    snapshot = context.snapshot
    nodes = snapshot.nodes_by_pool.get(pool.name, ())
    counts = count_nodes(nodes)
    allowances = {reason: context.allowance(pool.name, reason) for reason in ACTION_BY_REASON}
    fault = next((each.fault for each in allowances.values() if each.fault), "")
    budgets = () if fault else tuple(_views(pool, counts.total, snapshot.at))
    used = snapshot.usage(pool.name)
    return PoolExplanation(
        pool=pool,
        at=snapshot.at,
        counts=counts,
        budgets=budgets,
        allowances=allowances,
        changes_at={reason: _next_change(budgets, reason) for reason in ACTION_BY_REASON},
        limits=tuple(
            Limit(name, limit, used.get(name, Quantity.of(0))) for name, limit in sorted(pool.spec.limits.items())
        ),
        nodes=nodes,
        verdict=pool_verdict(explain_nodes(nodes, context, plan), context),
        restraint=pool_restraint(pool, context),
        expires=expiration_without_budgets(pool),
        fault=fault,
        no_catalog=_no_catalog(pool, snapshot),
        dropped=dropped_fields(pool),
        unreadable=_unreadable(nodes, snapshot),
    )


def _no_catalog(pool: NodePool, snapshot: Snapshot) -> str:
    ignored = ignored_nodepools(snapshot)
    if pool.name in ignored:
        return f"{ignored_because(ignored[pool.name])}: the NodePool is ignored"
    return next((str(each) for each in missing_catalogs(snapshot, (pool.name,))), "")


def _unreadable(nodes: tuple[ClusterNode, ...], snapshot: Snapshot) -> str:
    found = (snapshot.unread_on(node) or snapshot.unread.everywhere for node in nodes)
    return unreadable_objects([str(each) for each in dict.fromkeys(found) if each is not None])


def _views(pool: NodePool, total: int, now: datetime) -> list[BudgetView]:
    return [
        BudgetView(
            number=number,
            budget=budget,
            limit=budget.limit(total),
            in_force=budget.in_force(now),
            closes_at=budget.closes_at(now),
            opens_at=budget.opens_at(now),
        )
        for number, budget in enumerate(pool.budgets, start=1)
    ]


def _next_change(budgets: tuple[BudgetView, ...], reason: Reason) -> datetime | None:
    """When the first budget for a reason opens or closes."""
    edges = (each.closes_at or each.opens_at for each in budgets if reason in each.budget.reasons)
    return min((edge for edge in edges if edge is not None), default=None)
