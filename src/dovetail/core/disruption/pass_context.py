"""The context of one disruption pass, shared by all methods.

`PassContext` holds the snapshot and computes each derived value once: candidates, budget allowances, removal
simulations, pods that need a node. `BudgetTracker` counts what a method takes from the budgets while it chooses nodes.

`next_wakeup` is the next instant at which a pass over an unchanged cluster could decide differently, because a delay of
a node, the protection of a pod, a budget window or a back-off ends. Values that change continuously (disruption costs
shrink with the lifetime left) have no such instant, so the controller also runs a pass from time to time.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import msgspec

from dovetail.core.disruption.budgets import BudgetAllowance, NodeCounts, allowance, budget_refusal, count_nodes
from dovetail.core.disruption.candidates import Candidate, CandidateCache, find_candidates, node_price
from dovetail.core.disruption.delays import (
    COOL_DOWN,
    TURNOVER_WINDOW,
    consolidation_wait,
    consolidation_window,
    drift_wait,
    elapsed,
    emptiness_wait,
    expiration_wait,
    grace_wait,
    has_grace,
    last_bound_at,
)
from dovetail.core.disruption.drift import Loops, find_loops
from dovetail.core.disruption.simulation_cache import SimulationCache, SimulationInputs
from dovetail.core.failure import attempt
from dovetail.core.provisioning.eligible_pods import displaced_pods, provisionable_pods
from dovetail.core.provisioning.launch_backoff import Backoffs, in_force
from dovetail.core.scheduling.existing_nodes import is_deleting_and_present
from dovetail.core.scheduling.removal_simulation import RemovalSimulation
from dovetail.core.wording import message
from dovetail.model.budget import unreadable_budget
from dovetail.model.cached import lazy
from dovetail.model.cluster_objects import PodDisruptionBudget
from dovetail.model.do_not_disrupt import protection
from dovetail.model.instants import subtract
from dovetail.model.kube_object import Key
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode, nodepool_ref
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.settings import DecisionOptions

WAITS = (consolidation_wait, emptiness_wait, grace_wait, expiration_wait, drift_wait)


def next_wakeup(snapshot: Snapshot, backing_off: Mapping[tuple[str, Reason], datetime]) -> datetime | None:
    """The first instant after the snapshot's at which an obstacle ends or begins by itself; None if none does."""
    now = snapshot.at
    instants: list[datetime] = [until for until in backing_off.values() if until > now]
    instants.extend(backoff.until for backoff in in_force(snapshot).values())
    for pool in snapshot.nodepools.values():
        instants.extend(_budget_edges(pool, now))
        paused = snapshot.pause_of(pool.name)
        if paused is not None and paused.until is not None:
            instants.append(paused.until)
    for node in snapshot.nodes:
        own = snapshot.nodepools.get(node.nodepool_name)
        if own is not None and node.claim is not None:
            instants.extend(_node_edges(node, node.claim, own, now))
    return min(instants, default=None)


def _budget_edges(pool: NodePool, now: datetime) -> Iterator[datetime]:
    """When the window of a budget opens or closes next."""
    for budget in pool.budgets:
        edge = budget.closes_at(now) or budget.opens_at(now)
        if edge is not None:
            yield edge


def _node_edges(node: ClusterNode, claim: NodeClaim, pool: NodePool, now: datetime) -> Iterator[datetime]:
    """When a delay of the node passes, or the do-not-disrupt period of one of its pods ends."""
    for wait in WAITS:
        until = wait(pool, claim, now).until
        if until is not None:
            yield until
    bound_at = last_bound_at(pool, node.pods)
    for span in (COOL_DOWN, TURNOVER_WINDOW) if bound_at is not None else ():
        until = elapsed(bound_at, span, now).until
        if until is not None:
            yield until
    for pod in node.pods:
        if pod.metadata.annotations:
            protected = protection(pod, now)
            if protected.active and protected.until is not None:
                yield protected.until


@dataclass(frozen=True, slots=True)
class EvictionPrice:
    """What minSavings is a percentage of; see `core.disruption.restraint`."""

    dollars: float  # an hour, for each unit of eviction cost
    turnover: float


@dataclass
class PassContext:
    """One pass over one snapshot."""

    snapshot: Snapshot
    options: DecisionOptions = field(default_factory=DecisionOptions)
    backing_off: Mapping[tuple[str, Reason], datetime] = field(default_factory=dict)
    """Until when each NodePool is not disrupted for a reason, because its last commands failed."""
    simulations: SimulationCache = field(default_factory=SimulationCache)
    """Shared with earlier passes, which it is updated from."""
    consolidation_refusals: dict[str, Refusal | None] = field(default_factory=dict)
    """By node: why consolidation refuses it. Multi-node and single-node consolidation share the answer."""
    eviction_prices: dict[str, EvictionPrice] = field(default_factory=dict)
    """By NodePool: see `core.disruption.restraint`."""
    _counts: dict[str, NodeCounts] = field(default_factory=dict)
    _allowances: dict[tuple[str, Reason], BudgetAllowance] = field(default_factory=dict)
    _removal_simulations: dict[bool, RemovalSimulation] = field(default_factory=dict)
    _candidates: dict[bool, tuple[list[Candidate], list[Refusal]]] = field(default_factory=dict)

    @property
    def candidate_cache(self) -> CandidateCache:
        """The facts of the nodes of this snapshot."""
        self.simulations.candidate_cache.use_snapshot(self.snapshot)
        return self.simulations.candidate_cache

    def with_snapshot(self, snapshot: Snapshot) -> "PassContext":
        """The same pass over another snapshot."""
        return PassContext(snapshot, self.options, self.backing_off, self.simulations)

    @lazy
    def wakeup_at(self) -> datetime | None:
        """When a pass over the same cluster could decide differently; None if no time is known."""
        return next_wakeup(self.snapshot, self.backing_off)

    def allowance(self, pool: str, reason: Reason) -> BudgetAllowance:
        """What the budgets of a NodePool allow for a reason before this pass takes any node."""
        if (pool, reason) not in self._allowances:
            self._allowances[pool, reason] = self._allow(pool, reason)
        return self._allowances[pool, reason]

    def _allow(self, pool: str, reason: Reason) -> BudgetAllowance:
        found, counts = self.snapshot.nodepools[pool], self.counts(pool)
        allowed = attempt(nodepool_ref(pool), partial(allowance, found, reason, counts, self.snapshot.at))
        if isinstance(allowed, Refusal):
            return BudgetAllowance(limit=0, disrupting=counts.disrupting, bound_by=unreadable_budget(message(allowed)))
        return allowed

    def back_off_refusal(self, pool: str, reason: Reason) -> Refusal | None:
        """Why a NodePool backs off after failed commands, or None."""
        until = self.backing_off.get((pool, reason))
        if until is None or self.snapshot.at >= until:
            return None
        return Refusal(RefusalCode.BACKING_OFF, nodepool_ref(pool), until, nodepool=pool)

    def counts(self, pool: str) -> NodeCounts:
        """The nodes of a NodePool as its budgets count them."""
        if pool not in self._counts:
            self._counts[pool] = count_nodes(self.snapshot.nodes_by_pool.get(pool, ()))
        return self._counts[pool]

    def candidates(self, *, eventual: bool) -> tuple[list[Candidate], list[Refusal]]:
        """Every managed node as a candidate or a refusal; computed once for each disruption class."""
        eventual = eventual and self._bounded_drains
        if eventual not in self._candidates:
            self._candidates[eventual] = find_candidates(
                self.snapshot, self.snapshot.nodes, eventual=eventual, cache=self.candidate_cache
            )
        return self._candidates[eventual]

    def candidates_among(self, names: Collection[str], *, eventual: bool) -> list[Candidate]:
        """The candidates among the nodes with these names."""
        nodes = [node for node in self.snapshot.nodes if node.name in names]
        return find_candidates(self.snapshot, nodes, eventual=eventual, cache=self.candidate_cache)[0]

    def budgets_of(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The PodDisruptionBudgets that select a pod."""
        return [self.snapshot.pdbs[position] for position in self.candidate_cache.pdb_positions(pod)]

    @lazy
    def pending_evictions_by_pdb(self) -> Mapping[int, int]:
        """By PDB position: how many of its pods are still to be evicted from nodes that drain or soon will."""
        cache = self.candidate_cache
        draining = (node for node in self.snapshot.nodes if is_deleting_and_present(node) or node.record is not None)
        return Counter(pdb for node in draining for _, pdbs in cache.facts(node).pods_with_pdbs for pdb in pdbs)

    @lazy
    def _bounded_drains(self) -> bool:
        """Whether any NodeClaim has a terminationGracePeriod; if none has, both disruption classes are the same."""
        for node in self.snapshot.nodes:
            claim = node.claim
            if claim is not None and claim.spec.termination_grace_period is not None:
                return True
        return False

    def pool_cost(self, pool: str) -> float:
        """The hourly price of all nodes of a NodePool."""
        types = self.snapshot.types_by_pool.get(pool, {})
        nodes = self.snapshot.nodes_by_pool.get(pool, ())
        return sum(node_price(node, types.get(node.labels.get(INSTANCE_TYPE, ""))) for node in nodes)

    def budget_tracker(self, reason: Reason) -> "BudgetTracker":
        """A new count of what one method takes from the budgets."""
        return BudgetTracker(self, reason)

    def removal_simulation(self, *, consolidating: bool) -> RemovalSimulation:
        """The simulation of node removals. For consolidation, recently active nodes accept no pods."""
        known = self._removal_simulations
        if consolidating not in known:
            closed = self._uninitialized | (self._recently_active_nodes if consolidating else frozenset())
            inputs = SimulationInputs(self.snapshot, closed, self.waiting, self.options.respect_preferences)
            known[consolidating] = self.simulations.removal_simulation(inputs, consolidating=consolidating)
        return known[consolidating]

    @lazy
    def waiting(self) -> list[Pod]:
        """Pods that need a node whatever this pass disrupts: pending ones, and those on nodes being removed."""
        waiting, _ = provisionable_pods(self.snapshot)
        return [*waiting, *displaced_pods(self.snapshot)]

    def expects_pods(self, name: str) -> bool:
        """Whether a pod in `waiting` would be scheduled to this node."""
        return bool(self.waiting) and name in self.removal_simulation(consolidating=True).expecting

    @property
    def unplaced_pods(self) -> frozenset[Key]:
        """The pods in `waiting` that fit no existing node: a node is launched for them."""
        return self.removal_simulation(consolidating=True).quick_reject if self.waiting else frozenset()

    @lazy
    def launch_backoffs(self) -> Backoffs:
        """The launch back-offs in force, by NodePool and kind of pod."""
        return in_force(self.snapshot)

    @lazy
    def drift_loops(self) -> Loops:
        """Drift that replacing nodes does not end."""
        return find_loops(self.snapshot)

    @lazy
    def unfinished_replacements(self) -> tuple[ClusterNode, ...]:
        """Replacements of commands that have ended, which have still not initialized."""
        return tuple(
            node
            for node in self.snapshot.nodes
            if node.replaces
            and not node.initialized
            and not node.deleting
            and node.replaces not in self.snapshot.running_commands
        )

    @lazy
    def _uninitialized(self) -> frozenset[str]:
        """Nodes that have not initialized: the simulation does not rely on them. Unmanaged nodes always count."""
        return frozenset([node.name for node in self.snapshot.nodes if not node.initialized])

    @lazy
    def _recently_active_nodes(self) -> frozenset[str]:
        """Nodes with a pod event inside their consolidation window."""
        active: list[str] = []
        for pool in self.snapshot.nodepools.values():
            window, graced = consolidation_window(pool), has_grace(pool)
            window_start = subtract(self.snapshot.at, window)
            for node in self.snapshot.nodes_by_pool.get(pool.name, ()) if window or graced else ():
                since = node.pods_unchanged_since
                if graced if since is None else since > window_start:  # without a start the grace period cannot end
                    active.append(node.name)
        return frozenset(active)


class BudgetTracker:
    """What is left of each NodePool's budgets while a method takes nodes one by one, for one reason."""

    def __init__(self, context: PassContext, reason: Reason) -> None:
        self._context = context
        self._reason = reason
        self._spent: dict[str, int] = {}
        self._refusals: dict[str, Refusal | None] = {}  # by NodePool, dropped when a node of it is taken

    def refusal(self, candidate: Candidate) -> Refusal | None:
        """Why one more node of the candidate's NodePool may not be disrupted, or None."""
        pool = candidate.pool.name
        if pool not in self._refusals:
            self._refusals[pool] = self._pool_refusal(pool)
        found = self._refusals[pool]
        return msgspec.structs.replace(found, object=candidate.ref) if found is not None else None

    def _pool_refusal(self, pool: str) -> Refusal | None:
        backing_off = self._context.back_off_refusal(pool, self._reason)
        allowed, ahead = self._context.allowance(pool, self._reason), self._spent.get(pool, 0)
        if backing_off is not None or allowed.permits(ahead + 1):
            return backing_off
        return budget_refusal(nodepool_ref(pool), self._reason, allowed, self._context.snapshot.at, ahead)

    def spend(self, candidate: Candidate) -> None:
        """Count the candidate against the budgets of its NodePool."""
        pool = candidate.pool.name
        self._spent[pool] = self._spent.get(pool, 0) + 1
        self._refusals.pop(pool, None)

    def take(self, candidate: Candidate) -> Refusal | None:
        """Count the candidate if the budgets allow it; otherwise return why they do not."""
        refusal = self.refusal(candidate)
        if refusal is None:
            self.spend(candidate)
        return refusal
