"""Since when facts about pods, nodes and PodDisruptionBudgets hold, as the changes of the world say.

Each table maps an object to the second at which the fact became true; an object for which it is not true is absent. A
fact that was interrupted starts again. Invariants compare these instants with the instant of a decision.

What the invariants remember of a world: each claim, node and pool as the API server had it, and since when.

Filled from the world's own changes, never from what the controllers say they did. The controllers learn of things a
little later than they happen; `STALE` is how much later at most, and decisions are judged by what could be known. Some
invariants ask for more than that, and judge only while nothing was made to fail (`calm`).
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
from dovetail.sim.torture.invariants.readers import DO_NOT_DISRUPT, Plain, annotations, instant
from dovetail.sim.torture.replica import Supervisor
from dovetail.sim.world import World

EVENTS_KEPT = 64


class StateSince:
    """The tables, updated with every change of the world."""

    def __init__(self) -> None:
        self.bound: dict[str, float] = {}  # by uid: the pod is bound to a node
        self.stopped: dict[str, float] = {}  # by uid: the pod was told to stop
        self.guarded: dict[str, float] = {}  # by uid: the pod is bound, active and annotated do-not-disrupt
        self.annotated: dict[str, float] = {}  # by uid: when do-not-disrupt of a pod or node was last changed
        self.guarded_nodes: dict[str, float] = {}  # by uid: the node is annotated do-not-disrupt
        self.exhausted: dict[str, float] = {}  # by uid: the PodDisruptionBudget allows no disruption
        self.pod_ends: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=EVENTS_KEPT))
        """By name of the node: when pods of no DaemonSet ended there, or were told to."""

    def hear(self, step: StoreChange) -> None:
        """Take in a change."""
        record, there = step.after, step.type != "DELETED"
        if record.resource == POD:
            self._hear_pod(step)
        elif record.resource == NODE:
            self._note_annotation(step)
            holds = annotations(record.plain).get(DO_NOT_DISRUPT) == "true"
            _note(self.guarded_nodes, record, step.at, holds=there and holds)
        elif record.resource == PDB:
            allowed = (record.plain.get("status") or {}).get("disruptionsAllowed")
            _note(self.exhausted, record, step.at, holds=there and allowed is not None and allowed <= 0)

    def _hear_pod(self, step: StoreChange) -> None:
        record, there = step.after, step.type != "DELETED"
        bound = there and bool(record.node)
        self._note_annotation(step)
        _note(self.bound, record, step.at, holds=bound)
        _note(self.stopped, record, step.at, holds=there and record.deleting)
        _note(self.guarded, record, step.at, holds=bound and record.active and _annotated(record))
        was_active = step.before is not None and step.before.active
        if was_active and record.node and not (there and record.active) and not is_daemon(record):
            self.pod_ends[record.node].append(step.at)

    def _note_annotation(self, step: StoreChange) -> None:
        if step.type == "DELETED":
            self.annotated.pop(step.after.uid, None)
            return
        before = annotations(step.before.plain).get(DO_NOT_DISRUPT) if step.before is not None else None
        after = annotations(step.after.plain).get(DO_NOT_DISRUPT)
        if step.before is not None and before != after:
            self.annotated[step.after.uid] = step.at


def _note(table: dict[str, float], record: ObjectVersion, at: float, *, holds: bool) -> None:
    if holds:
        table.setdefault(record.uid, at)
    else:
        table.pop(record.uid, None)


def _annotated(pod: ObjectVersion) -> bool:
    """Whether the annotation protects at all; for how long is for the invariant to judge."""
    return bool(annotations(pod.plain).get(DO_NOT_DISRUPT, "false") != "false")


STALE = 60.0
"""Seconds by which the controllers' view may be behind: lagging watches, slow calls, and the second look at a plan."""

SILENCE_NOTICED = 150.0
"""Seconds after which the controllers must have noticed that a watch is silent, and have listed again."""

RECOVERY = 90.0
"""Seconds after a fault in which it still counts: a new leader, a list, a retry after a back-off."""

TOTALS_KEPT = 300.0  # a percentage is of the nodes there were when it was decided
LEASE_NAME = ("default", "dovetail")
PAUSE_CONFIG_MAP = LEASE_NAME
"""The ConfigMap whose annotation pauses every NodePool; it has the name of the Lease."""
_CAPACITY_TYPE, _INSTANCE_TYPE = "karpenter.sh/capacity-type", "node.kubernetes.io/instance-type"
_ABSENT: Plain = {"metadata": {}}
_ZONE, _INITIALIZED = "topology.kubernetes.io/zone", "karpenter.sh/initialized"


@dataclass(frozen=True)
class Violation:
    """An invariant did not hold."""

    invariant: str
    at: float
    message: str

    def __str__(self) -> str:
        return f"{self.at:7.0f} s  {self.invariant}: {self.message}"


@dataclass
class ClaimHistory:
    """A NodeClaim so far."""

    value: ClaimView
    born_at: float
    deleting_since: float | None = None
    missed_since: float | None = None  # its node is gone, and nobody deleted it
    deadline_since: float | None = None  # when the deadline of its drain was first known


@dataclass
class NodeHistory:
    """A Node so far."""

    value: NodeView
    unready_since: float | None
    deleting_since: float | None = None
    last_unready: float = -math.inf  # the last instant at which it was not ready


@dataclass
class CommandHistory:
    """A command as its marks told it: what its candidates and replacements cost."""

    record: Plain
    candidates: dict[str, float] = field(default_factory=dict)
    replacements: dict[str, float] = field(default_factory=dict)
    committed_at: float | None = None


class Observer:
    """Everything the invariants look back on."""

    def __init__(self, world: World, supervisor: Supervisor) -> None:
        self.world = world
        self.supervisor = supervisor
        self.violations: list[Violation] = []
        self.claims: dict[str, ClaimHistory] = {}  # by name; only those that exist
        self.nodes: dict[str, NodeHistory] = {}  # by provider id; only those that exist
        self.node_names: dict[str, str] = {}  # provider ids by name of the node
        self.pools: dict[str, list[tuple[float, Plain]]] = {}
        self.pause_config_maps: list[tuple[float, Plain]] = [(0.0, _ABSENT)]  # every version of the one that pauses
        self.commands: dict[str, CommandHistory] = {}
        self.initialized: set[str] = set()  # claims that were, once
        self.totals: dict[str, list[tuple[float, int]]] = {}
        self.excused_nodes: set[str] = set()  # names of nodes that somebody took away by force
        self.lost_nodes: dict[str, float] = {}  # by name: when their instance was lost, as its provider knows
        self.warned: set[str] = set()  # provider ids of instances the cloud warned of
        self.deleted_by_hand: set[str] = set()  # names of nodes that somebody deleted
        self.faults: list[tuple[float, float]] = []  # when faults of the story began and ended, calls apart
        self.since = StateSince()
        self.created_claims = 0
        self.leaders: list[str] = []  # one after the other

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.world.store.loop.time()

    def broken(self, invariant: str, message: str) -> None:
        """Note that an invariant does not hold, once for each message."""
        if not any((each.invariant, each.message) == (invariant, message) for each in self.violations):
            self.violations.append(Violation(invariant, self.now, message))

    @property
    def handovers(self) -> int:
        """How often the leader changed."""
        return max(0, len(self.leaders) - 1)

    @property
    def stale(self) -> float:
        """Seconds by which the controllers' view may be behind now; more around the silence of a watch."""
        silent = self.now - self.supervisor.watches.last_silence < STALE + SILENCE_NOTICED
        return STALE + SILENCE_NOTICED if silent else STALE

    def note_fault(self, at: float, terms: Mapping[str, Any]) -> None:
        """Something of the story fails from now on, for as long as its terms say."""
        lasting = max(float(terms.get(name, 0)) for name in ("seconds", "lasts", "down"))
        self.faults.append((at, at + lasting))

    def calm(self, since: float) -> bool:
        """Whether nothing was made to fail from then until now, nor shortly before."""
        begin, strikes = since - RECOVERY, self.supervisor.trouble.strikes
        if bisect_left(strikes, begin) < len(strikes):
            return False
        return not any(ended >= begin for _, ended in self.faults)

    def instants(self) -> tuple[datetime, ...]:
        """What the controllers may take for now."""
        true = self.world.clock.now()
        told = [true + off_by for off_by in self.supervisor.clock.recent(STALE)]
        return (*told, *(each - timedelta(seconds=STALE) for each in told))

    def at(self, instant: datetime) -> float:
        """An instant as seconds since the start."""
        return self.now + (instant - self.world.clock.now()).total_seconds()

    def at_creation(self, record: ObjectVersion) -> float:
        """When an object was created, in seconds since the start."""
        return self.at(instant(record.meta["creationTimestamp"]))

    def hear(self, step: StoreChange) -> None:
        """Take in a change of the world."""
        resource = step.after.resource
        self.since.hear(step)
        if resource == NODE_CLAIM:
            self._hear_claim(step)
        elif resource == NODE:
            self._hear_node(step)
        elif resource == NODE_POOL:
            self.pools.setdefault(step.after.key.name, []).append((step.at, step.after.plain))
        elif resource == CONFIG_MAPS and step.after.key == PAUSE_CONFIG_MAP:
            self.pause_config_maps.append((step.at, step.after.plain if step.type != "DELETED" else _ABSENT))
        elif resource == LEASE and step.after.key == LEASE_NAME:
            holder = step.after.plain["spec"].get("holderIdentity", "")
            if holder and self.leaders[-1:] != [holder]:
                self.leaders.append(holder)
                self.faults.append((step.at, step.at))

    def _hear_claim(self, step: StoreChange) -> None:
        value = ClaimView(step.after)
        known = self.claims.get(value.name)
        if step.type == "DELETED":
            self.claims.pop(value.name, None)
        elif known is None:
            self.created_claims += 1
            known = self.claims[value.name] = ClaimHistory(value, step.at, step.at if value.deleting else None)
        else:
            known.value = value
            if value.deleting and known.deleting_since is None:
                known.deleting_since = step.at
        if known is not None and known.deadline_since is None and value.deleting and value.deadline is not None:
            known.deadline_since = step.at
        if value.has("Initialized"):
            self.initialized.add(value.name)
        self._note_command(value, step.at)
        self._count(value.pool, step.at)

    def _hear_node(self, step: StoreChange) -> None:
        value = NodeView(step.after)
        if not value.provider_id:
            return
        if step.type == "DELETED":
            self.nodes.pop(value.provider_id, None)
            self.node_names.pop(value.name, None)
            for each in self.claims.values():
                each.missed_since = step.at if each.value.provider_id == value.provider_id else each.missed_since
            return
        known = self.nodes.get(value.provider_id)
        if known is None:
            self.node_names[value.name] = value.provider_id
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
            story = self.commands.setdefault(claim.command["id"], CommandHistory(claim.command))
            story.candidates[claim.name] = self.price(claim)
            if claim.command.get("committed") and story.committed_at is None:
                story.committed_at = at
        if claim.replaces in self.commands:
            self.commands[claim.replaces].replacements[claim.name] = self.price(claim)

    def _count(self, pool: str, at: float) -> None:
        totals = self.totals.setdefault(pool, [])
        totals.append((at, self._total(pool)))
        while len(totals) > 1 and totals[1][0] < at - TOTALS_KEPT:
            totals.pop(0)

    def most_nodes(self, pool: str) -> int:
        """The most nodes a pool had in the last minutes."""
        return max([self._total(pool), *(total for _, total in self.totals.get(pool, ()))])

    def _total(self, pool: str) -> int:
        """The nodes of a pool as budgets count them: the node's label says first that it is initialized."""
        claims = [each.value for each in self.of_pool(pool)]
        return sum(1 for claim in claims if claim.counted or self._has_just_initialized(claim))

    def _has_just_initialized(self, claim: ClaimView) -> bool:
        node = self.node_of(claim)
        labels = node.value.labels if node is not None else {}
        return labels.get(_INITIALIZED) == "true" and not claim.has("InstanceTerminating")

    def of_pool(self, pool: str) -> Iterator[ClaimHistory]:
        """The claims of a pool that exist."""
        return (each for each in self.claims.values() if each.value.pool == pool)

    def versions(self, pool: str, since: float) -> list[Plain]:
        """What the pool said at any time from then on."""
        return _from(self.pools.get(pool, []), since)

    def pause_versions(self, since: float) -> list[Plain]:
        """What the ConfigMap that pauses every NodePool said at any time from then on."""
        return _from(self.pause_config_maps, since)

    def node_of(self, claim: ClaimView) -> NodeHistory | None:
        """The node of a claim, if there is one."""
        return self.nodes.get(claim.provider_id) if claim.provider_id else None

    def node_named(self, name: str) -> NodeHistory | None:
        """A node by its name, if it is there."""
        return self.nodes.get(self.node_names.get(name, ""))

    def claim_on(self, node_name: str) -> ClaimHistory | None:
        """The claim of a node, by the node's name."""
        provider_id = self.node_names.get(node_name)
        return next((each for each in self.claims.values() if each.value.provider_id == provider_id), None)

    def pods_on(self, node_name: str) -> list[ObjectVersion]:
        """The pods bound to a node now."""
        return self.world.store.pods_on(node_name)

    def pods(self) -> list[ObjectVersion]:
        """Every pod there is now."""
        return self.world.store.all(POD)

    def price(self, claim: ClaimView) -> float:
        """What the claim's instance costs an hour, 0 before it is launched."""
        labels = claim.labels
        offering: Offering = (labels.get(_INSTANCE_TYPE, ""), labels.get(_ZONE, ""), labels.get(_CAPACITY_TYPE, ""))
        return self.supervisor.prices.get(offering, 0.0)


def _from(written: list[tuple[float, Plain]], since: float) -> list[Plain]:
    """The version in force at that second, and every later one."""
    last_before = max((number for number, (at, _) in enumerate(written) if at <= since), default=0)
    return [value for _, value in written[last_before:]]
