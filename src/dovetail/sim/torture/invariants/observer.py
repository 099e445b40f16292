"""Records the history of a trial for the invariants: versions of objects, and since when facts about them hold.

The observer is filled from the changes of the simulated API server, never from what the controllers report.
`StateSince` maps objects to the second at which a fact became true; an object for which it is false is absent, and an
interrupted fact starts again. `Observer` keeps the current NodeClaims and Nodes, all versions of NodePools, and the
commands.

The controllers learn of changes with a delay. `max_staleness` is the longest possible delay, and most invariants check
a decision against every state the controllers may have seen. Invariants that need more apply only while no faults were
injected (`undisturbed_since`). All times are seconds since the start of the trial.
"""

import math
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dovetail.sim.kubernetes.kinds import CONFIG_MAPS, LEASE, NODE, NODE_CLAIM, NODE_POOL, PDB, POD
from dovetail.sim.kubernetes.store import ObjectVersion, StoreChange
from dovetail.sim.torture.controller_process import Offering
from dovetail.sim.torture.invariants.objects import ClaimView, NodeView, is_daemon
from dovetail.sim.torture.invariants.readers import DO_NOT_DISRUPT, Plain, annotations, parse_time, selector_matches
from dovetail.sim.torture.replica import Supervisor
from dovetail.sim.world import World

POD_ENDS_KEPT = 64


class StateSince:
    """Since when facts hold, in one table for each fact."""

    def __init__(self) -> None:
        self.bound: dict[str, float] = {}  # by uid: the pod is bound to a node
        self.deleting: dict[str, float] = {}  # by uid: the pod is being deleted
        self.protected: dict[str, float] = {}  # by uid: the pod is bound, active and annotated do-not-disrupt
        self.annotation_changed_at: dict[
            str, float
        ] = {}  # by uid: when do-not-disrupt of a pod or node was last changed
        self.protected_nodes: dict[str, float] = {}  # by uid: the node is annotated do-not-disrupt
        self.exhausted: dict[str, float] = {}  # by uid: the PodDisruptionBudget allows no disruption
        self.pod_ends: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=POD_ENDS_KEPT))
        """By node name: when pods other than those of DaemonSets ended there or began to be deleted."""

    def on_change(self, step: StoreChange) -> None:
        """Update the tables."""
        record, exists = step.after, step.type != "DELETED"
        if record.resource == POD:
            self._on_pod_change(step)
        elif record.resource == NODE:
            self._note_annotation(step)
            holds = annotations(record.plain).get(DO_NOT_DISRUPT) == "true"
            _set_since(self.protected_nodes, record, step.at, holds=exists and holds)
        elif record.resource == PDB:
            allowed = (record.plain.get("status") or {}).get("disruptionsAllowed")
            _set_since(self.exhausted, record, step.at, holds=exists and allowed is not None and allowed <= 0)

    def _on_pod_change(self, step: StoreChange) -> None:
        record, exists = step.after, step.type != "DELETED"
        bound = exists and bool(record.node)
        self._note_annotation(step)
        _set_since(self.bound, record, step.at, holds=bound)
        _set_since(self.deleting, record, step.at, holds=exists and record.deleting)
        _set_since(self.protected, record, step.at, holds=bound and record.active and _is_annotated(record))
        was_active = step.before is not None and step.before.active
        if was_active and record.node and not (exists and record.active) and not is_daemon(record):
            self.pod_ends[record.node].append(step.at)

    def _note_annotation(self, step: StoreChange) -> None:
        if step.type == "DELETED":
            self.annotation_changed_at.pop(step.after.uid, None)
            return
        before = annotations(step.before.plain).get(DO_NOT_DISRUPT) if step.before is not None else None
        after = annotations(step.after.plain).get(DO_NOT_DISRUPT)
        if step.before is not None and before != after:
            self.annotation_changed_at[step.after.uid] = step.at


def _set_since(table: dict[str, float], record: ObjectVersion, at: float, *, holds: bool) -> None:
    if holds:
        table.setdefault(record.uid, at)
    else:
        table.pop(record.uid, None)


def _is_annotated(pod: ObjectVersion) -> bool:
    """Whether do-not-disrupt is set; the invariants check for how long it protects."""
    return bool(annotations(pod.plain).get(DO_NOT_DISRUPT, "false") != "false")


MAX_STALENESS = 60.0
"""Seconds by which the controllers' view may be stale: late watches, slow calls, and the validation of a plan."""

SILENCE_DETECTED = 150.0
"""Seconds after which the controllers must have detected a silent watch and listed again."""

RECOVERY = 90.0
"""Seconds for which a fault has consequences: a new leader, a list, a retry with back-off."""

TOTALS_KEPT = 300.0  # seconds: budget percentages refer to the nodes at the time of the decision
LEASE_NAME = ("default", "dovetail")
PAUSE_CONFIG_MAP = LEASE_NAME
"""The ConfigMap whose annotation pauses every NodePool; it has the name of the Lease."""
_CAPACITY_TYPE, _INSTANCE_TYPE = "karpenter.sh/capacity-type", "node.kubernetes.io/instance-type"
_ABSENT: Plain = {"metadata": {}}
_ZONE, _INITIALIZED = "topology.kubernetes.io/zone", "karpenter.sh/initialized"


@dataclass(frozen=True)
class Violation:
    """A violation of an invariant."""

    invariant: str
    at: float
    message: str

    def __str__(self) -> str:
        return f"{self.at:7.0f} s  {self.invariant}: {self.message}"


@dataclass
class ClaimHistory:
    """An existing NodeClaim and when it changed."""

    value: ClaimView
    created_at: float
    deleting_since: float | None = None
    node_missing_since: float | None = None  # since its Node was removed
    deadline_since: float | None = None  # since when its drain has its present deadline
    command_since: float | None = None  # since when a command is recorded on it


@dataclass
class NodeHistory:
    """An existing Node and when it changed."""

    value: NodeView
    unready_since: float | None
    deleting_since: float | None = None
    last_unready: float = -math.inf  # the last time it was not ready


@dataclass
class CommandHistory:
    """A disruption command, read from NodeClaims: the hourly prices of candidates and replacements by name."""

    record: Plain
    candidates: dict[str, float] = field(default_factory=dict)
    replacements: dict[str, float] = field(default_factory=dict)
    committed_at: float | None = None


class Observer:
    """The history of a trial."""

    def __init__(self, world: World, supervisor: Supervisor) -> None:
        self.world = world
        self.supervisor = supervisor
        self.violations: list[Violation] = []
        self.claims: dict[str, ClaimHistory] = {}  # by name; only those that exist
        self.nodes: dict[str, NodeHistory] = {}  # by provider id; only those that exist
        self.provider_id_by_node: dict[str, str] = {}
        self.pools: dict[str, list[tuple[float, Plain]]] = {}  # by name: all versions, each with its time
        self.pause_config_maps: list[tuple[float, Plain]] = [(0.0, _ABSENT)]  # versions of PAUSE_CONFIG_MAP
        self.commands: dict[str, CommandHistory] = {}  # by id
        self.initialized: set[str] = set()  # names of claims that were initialized once
        self.totals: dict[str, list[tuple[float, int]]] = {}  # by pool: recent numbers of nodes, each with its time
        self.excused_nodes: set[str] = set()  # names of nodes whose instance the trial killed or removed
        self.lost_nodes: dict[str, float] = {}  # by node name: when the instance was lost, as the cloud knows
        self.warned: set[str] = set()  # provider ids of instances with a warning from the cloud
        self.deleted_by_users: set[str] = set()  # node names
        self.fault_ends: list[float] = []  # of faults other than those of calls, and of leader changes
        self.since = StateSince()
        self.created_claims = 0
        self.leaders: list[str] = []  # in order; no two successive are equal

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.world.store.loop.time()

    def report_violation(self, invariant: str, message: str) -> None:
        """Record a violation, once for each message."""
        if not any((each.invariant, each.message) == (invariant, message) for each in self.violations):
            self.violations.append(Violation(invariant, self.now, message))

    @property
    def handovers(self) -> int:
        """How often the leader changed."""
        return max(0, len(self.leaders) - 1)

    @property
    def max_staleness(self) -> float:
        """Seconds by which the controllers' view may be stale now; longer during and after a silent watch."""
        silent = self.now - self.supervisor.watches.last_silence < MAX_STALENESS + SILENCE_DETECTED
        return MAX_STALENESS + SILENCE_DETECTED if silent else MAX_STALENESS

    def note_fault(self, at: float, parameters: Mapping[str, Any]) -> None:
        """Record a fault that lasts as long as its parameters say."""
        seconds = max(float(parameters.get(name, 0)) for name in ("seconds", "lasts", "down"))
        self.fault_ends.append(at + seconds)

    def undisturbed_since(self, since: float) -> bool:
        """Whether no fault was injected since then, nor shortly before."""
        begin, fault_times = since - RECOVERY, self.supervisor.fault_injector.fault_times
        if bisect_left(fault_times, begin) < len(fault_times):
            return False
        return not any(end >= begin for end in self.fault_ends)

    def clock_readings(self) -> tuple[datetime, ...]:
        """All values that the controllers may have used for the current time in a decision: skewed or stale."""
        now = self.world.clock.now()
        readings = [now + offset for offset in self.supervisor.clock.recent_offsets(MAX_STALENESS)]
        return (*readings, *(each - timedelta(seconds=MAX_STALENESS) for each in readings))

    def seconds_at(self, instant: datetime) -> float:
        """Convert an instant to seconds since the start."""
        return self.now + (instant - self.world.clock.now()).total_seconds()

    def creation_time(self, record: ObjectVersion) -> float:
        """When an object was created."""
        return self.seconds_at(parse_time(record.meta["creationTimestamp"]))

    def on_change(self, step: StoreChange) -> None:
        """Record a change."""
        resource = step.after.resource
        self.since.on_change(step)
        if resource == NODE_CLAIM:
            self._on_claim_change(step)
        elif resource == NODE:
            self._on_node_change(step)
        elif resource == NODE_POOL:
            self.pools.setdefault(step.after.key.name, []).append((step.at, step.after.plain))
        elif resource == CONFIG_MAPS and step.after.key == PAUSE_CONFIG_MAP:
            self.pause_config_maps.append((step.at, step.after.plain if step.type != "DELETED" else _ABSENT))
        elif resource == LEASE and step.after.key == LEASE_NAME:
            holder = step.after.plain["spec"].get("holderIdentity", "")
            if holder and self.leaders[-1:] != [holder]:
                self.leaders.append(holder)
                self.fault_ends.append(step.at)

    def _on_claim_change(self, step: StoreChange) -> None:
        value = ClaimView(step.after)
        known = self.claims.get(value.name)
        old_deadline = known.value.deadline if known is not None and known.deadline_since is not None else None
        if step.type == "DELETED":
            self.claims.pop(value.name, None)
        elif known is None:
            self.created_claims += 1
            known = self.claims[value.name] = ClaimHistory(value, step.at, step.at if value.deleting else None)
        else:
            known.value = value
            if value.deleting and known.deleting_since is None:
                known.deleting_since = step.at
        if known is not None:
            known.command_since = (known.command_since or step.at) if value.command else None
        if known is not None and value.deleting and value.deadline not in (None, old_deadline):
            known.deadline_since = step.at  # repair and interruption move a deadline to an earlier time
        if value.has("Initialized"):
            self.initialized.add(value.name)
        self._note_command(value, step.at)
        self._record_total(value.pool, step.at)

    def _on_node_change(self, step: StoreChange) -> None:
        value = NodeView(step.after)
        if not value.provider_id:
            return
        if step.type == "DELETED":
            self.nodes.pop(value.provider_id, None)
            self.provider_id_by_node.pop(value.name, None)
            for each in self.claims.values():
                each.node_missing_since = (
                    step.at if each.value.provider_id == value.provider_id else each.node_missing_since
                )
            return
        known = self.nodes.get(value.provider_id)
        if known is None:
            self.provider_id_by_node[value.name] = value.provider_id
            known = self.nodes[value.provider_id] = NodeHistory(value, None if value.ready else step.at)
        if not value.ready or not known.value.ready:
            known.last_unready = step.at
        known.value = value
        if value.ready:
            known.unready_since = None
        elif known.unready_since is None:
            known.unready_since = step.at
        if value.deleting and known.deleting_since is None:
            known.deleting_since = step.at

    def _note_command(self, claim: ClaimView, at: float) -> None:
        if claim.command:
            command_history = self.commands.setdefault(claim.command["id"], CommandHistory(claim.command))
            command_history.candidates[claim.name] = self.price(claim)
            if claim.command.get("committed") and command_history.committed_at is None:
                command_history.committed_at = at
        if claim.replaces in self.commands:
            self.commands[claim.replaces].replacements[claim.name] = self.price(claim)

    def _record_total(self, pool: str, at: float) -> None:
        totals = self.totals.setdefault(pool, [])
        totals.append((at, self._total(pool)))
        while len(totals) > 1 and totals[1][0] < at - TOTALS_KEPT:
            totals.pop(0)

    def max_nodes(self, pool: str) -> int:
        """The most nodes that a pool had in the last `TOTALS_KEPT` seconds."""
        return max([self._total(pool), *(total for _, total in self.totals.get(pool, ()))])

    def _total(self, pool: str) -> int:
        """The nodes of a pool as budgets count them. The label of a node is set before the condition of its claim."""
        claims = [each.value for each in self.claims_of_pool(pool)]
        return sum(1 for claim in claims if claim.counts_toward_budgets or self._has_just_initialized(claim))

    def _has_just_initialized(self, claim: ClaimView) -> bool:
        return self.is_initialized(claim) and not claim.has("InstanceTerminating")

    def is_initialized(self, claim: ClaimView) -> bool:
        """Whether the node of the claim is initialized, by its label."""
        node = self.node_of(claim)
        return node is not None and node.value.labels.get(_INITIALIZED) == "true"

    def claims_of_pool(self, pool: str) -> Iterator[ClaimHistory]:
        """The existing claims of a pool."""
        return (each for each in self.claims.values() if each.value.pool == pool)

    def versions(self, pool: str, since: float) -> list[Plain]:
        """The versions of a pool that were current at any time since then."""
        return _versions_since(self.pools.get(pool, []), since)

    def pause_versions(self, since: float) -> list[Plain]:
        """The versions of the ConfigMap that pauses all NodePools, current at any time since then."""
        return _versions_since(self.pause_config_maps, since)

    def node_of(self, claim: ClaimView) -> NodeHistory | None:
        """The node of a claim."""
        return self.nodes.get(claim.provider_id) if claim.provider_id else None

    def find_node(self, name: str) -> NodeHistory | None:
        """The node of this name."""
        return self.nodes.get(self.provider_id_by_node.get(name, ""))

    def claim_on(self, node_name: str) -> ClaimHistory | None:
        """The claim of the node of this name."""
        provider_id = self.provider_id_by_node.get(node_name)
        return next((each for each in self.claims.values() if each.value.provider_id == provider_id), None)

    def pods_on(self, node_name: str) -> list[ObjectVersion]:
        """The pods that are bound to a node."""
        return self.world.store.pods_on(node_name)

    def pods(self) -> list[ObjectVersion]:
        """All pods."""
        return self.world.store.all(POD)

    def pdbs_of(self, pod: ObjectVersion) -> list[ObjectVersion]:
        """The PodDisruptionBudgets that select a pod."""
        labels = pod.meta.get("labels")
        return [
            budget
            for budget in self.world.store.all(PDB)
            if budget.key.namespace == pod.key.namespace
            and selector_matches(budget.plain["spec"].get("selector"), labels)
        ]

    def price(self, claim: ClaimView) -> float:
        """The hourly price of the instance of a claim; 0 before its launch."""
        labels = claim.labels
        offering: Offering = (labels.get(_INSTANCE_TYPE, ""), labels.get(_ZONE, ""), labels.get(_CAPACITY_TYPE, ""))
        return self.supervisor.prices.get(offering, 0.0)


def _versions_since(versions: list[tuple[float, Plain]], since: float) -> list[Plain]:
    """The version that was current at that second, and all later ones."""
    last_before = max((number for number, (at, _) in enumerate(versions) if at <= since), default=0)
    return [value for _, value in versions[last_before:]]
