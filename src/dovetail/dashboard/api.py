"""The API of the page: the same documents that the command line prints, for the published snapshot.

The functions that format documents are passed in (`Documents`), so that page and command line cannot differ. All
methods run in one executor thread. The pass context and the plan of a published view are computed once and serve all
requests for that view.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dovetail.core.disruption.budgets import count_nodes
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import PassPlan, Planner, plan_pass
from dovetail.core.explain.budget_calendar import Calendar, draw_calendar
from dovetail.core.explain.node import NodeExplanation, explain_node
from dovetail.core.explain.nodepool import PoolExplanation, explain_pool
from dovetail.core.explain.pod import PodExplanation, explain_pod, find_pod
from dovetail.core.lifecycle.repair import RepairTerms
from dovetail.dashboard.cost_history import sample_of
from dovetail.dashboard.nodes import node_details, price_of, stamp
from dovetail.dashboard.published_state import PublishedState, PublishedView
from dovetail.dashboard.savings import LedgerSavings, summarize
from dovetail.dashboard.waiting_for import waits_in
from dovetail.model.kube_object import Key
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.settings import DecisionOptions

Plain = dict[str, Any]
DAYS = 7
MOST_DAYS = 366


class PageApiError(Exception):
    """A request for an object that does not exist, or with wrong parameters; `status` is the HTTP status."""

    def __init__(self, message: str, status: int = 404) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Documents:
    """The functions that format documents and read decisions."""

    plan: Callable[[PassPlan, Snapshot], Plain]
    node: Callable[[NodeExplanation], Plain]
    nodepool: Callable[[PoolExplanation], Plain]
    pod: Callable[[PodExplanation], Plain]
    calendar: Callable[[str, Calendar], Plain]
    history: Callable[[Mapping[str, str], datetime], Plain]
    """The decisions for the filters of `dovetail history`, as of an instant; `missing` if there is no ledger."""
    decision: Callable[[str, datetime], Plain]
    """One decision with its plan and refusals, by its id, as of an instant; `PageApiError` if it does not exist."""
    window: Callable[[Mapping[str, str], datetime], tuple[datetime | None, datetime]]
    """The window of a query, as of an instant; without `since`, everything that is known."""
    savings: Callable[[datetime | None, datetime], LedgerSavings]
    """What commands saved in a window."""


class PageApi:
    """Builds the documents for the latest published view. Not thread-safe."""

    def __init__(self, published_state: PublishedState, documents: Documents, options: DecisionOptions) -> None:
        self._published_state = published_state
        self._documents = documents
        self._options = options
        self._planner = Planner(options)
        self._pass: tuple[int, PassContext] | None = None
        self._plan: tuple[int, PassPlan, Plain] | None = None

    def plan(self) -> Plain:
        """The plan of the next disruption pass, with the reasons for every other node."""
        return self._planned()[1]

    def _planned(self) -> tuple[PassPlan, Plain]:
        published_view, context = self._context()
        if self._plan is None or self._plan[0] != published_view.number:
            plan = plan_pass(context, thorough=True)
            self._plan = published_view.number, plan, self._documents.plan(plan, context.snapshot)
        return self._plan[1:]

    def waits(self) -> tuple[Plain, dict[str, Plain]]:
        """The plan, and what every node waits for."""
        plan, snapshot = self.plan(), self._context()[1].snapshot
        return plan, waits_in(plan, snapshot, RepairTerms(snapshot.repair_statements, self._options))

    def explain_node(self, name: str) -> Plain:
        """What prevents each disruption method from disrupting a node."""
        _, context = self._context()
        node = self._find(name, context.snapshot)
        return self._documents.node(explain_node(node, context, self._planned()[0]))

    def node(self, name: str) -> Plain:
        """The properties of a node, and its pods."""
        snapshot = self._context()[1].snapshot
        node = self._find(name, snapshot)
        return node_details(node, snapshot)

    def explain_nodepool(self, name: str) -> Plain:
        """What the budgets and limits of a NodePool allow now."""
        _, context = self._context()
        pool = context.snapshot.nodepools.get(name)
        if pool is None:
            raise PageApiError(f"there is no nodepool {name!r}")
        return self._documents.nodepool(explain_pool(pool, context, self._planned()[0]))

    def explain_pod(self, namespace: str, name: str) -> Plain:
        """Where a pod runs, and what prevents its disruption or scheduling."""
        _, context = self._context()
        found = find_pod(context.snapshot, Key(namespace, name))
        if found is None:
            raise PageApiError(f"there is no pod {namespace}/{name}")
        return self._documents.pod(explain_pod(*found, context))

    def budgets(self, name: str, query: Mapping[str, str]) -> Plain:
        """What the budgets of a NodePool allow in each hour."""
        snapshot = self._context()[1].snapshot
        pool = snapshot.nodepools.get(name)
        if pool is None:
            raise PageApiError(f"there is no nodepool {name!r}")
        days = query.get("days", str(DAYS))
        if not days.isascii() or not days.isdigit() or len(days) > 9 or not 1 <= int(days) <= MOST_DAYS:
            raise PageApiError(f"days must be a number from 1 to {MOST_DAYS}, got {days[:40]!r}", 400)
        try:
            start = datetime.fromisoformat(query["from"]) if "from" in query else snapshot.at
        except ValueError:
            raise PageApiError(f"from must be a date such as 2026-01-31, got {query['from']!r}", 400) from None
        first = start.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
        total = count_nodes(snapshot.nodes_by_pool.get(name, ())).total
        return self._documents.calendar(name, draw_calendar(pool, total, first, int(days) * 24, snapshot.at))

    def history(self, query: Mapping[str, str]) -> Plain:
        """Decisions, newest first."""
        return self._documents.history(query, self._now())

    def decision(self, identity: str) -> Plain:
        """One decision: its plan, the refusals of its pass, and its outcome."""
        return self._documents.decision(identity, self._now())

    def savings(self, query: Mapping[str, str]) -> Plain:
        """The cost of the cluster, and what commands saved."""
        snapshot = self._context()[1].snapshot
        managed = [node for node in snapshot.nodes if node.managed]
        return {
            "at": stamp(snapshot.at),
            "costPerHour": round(sum(price_of(node, snapshot) for node in managed), 6),
            **summarize(self._documents.savings(*self._documents.window(query, snapshot.at))),
        }

    def cost(self, query: Mapping[str, str]) -> Plain:
        """The cost over time, as far as this process recorded it, and the nodes that have no known price now."""
        snapshot = self._context()[1].snapshot
        return {
            "at": stamp(snapshot.at),
            "unpricedNow": sample_of(snapshot).unpriced,
            **self._published_state.cost_history.document(*self._documents.window(query, snapshot.at)),
        }

    def snapshot(self) -> Snapshot:
        """The published snapshot."""
        return self._context()[1].snapshot

    def _now(self) -> datetime:
        snapshot = self._published_state.latest.snapshot
        return snapshot.at if snapshot is not None else datetime.now(UTC)

    def _context(self) -> tuple[PublishedView, PassContext]:
        published_view = self._published_state.latest
        if published_view.snapshot is None:
            raise PageApiError("; ".join(published_view.missing), 503)
        if self._pass is None or self._pass[0] != published_view.number:
            self._pass = published_view.number, self._planner.context(published_view.snapshot)
        return published_view, self._pass[1]

    def _find(self, name: str, snapshot: Snapshot) -> ClusterNode:
        for node in snapshot.nodes:
            if name == node.name or (node.claim is not None and name == node.claim.name):
                return node
        raise PageApiError(f"there is no node {name!r}")
