"""What the laws remember of a world: each claim, node and pool as the event log told it, and since when.

Filled from the world's own changes, never from what the controllers say they did. The controllers learn of things a
little later than they happen; `STALE` is how much later at most, and laws judge decisions by what could be known.
"""

import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dovetail.model import kinds
from dovetail.model.command import Record as CommandRecord
from dovetail.model.command import read_record
from dovetail.model.conditions import find
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.labels import INITIALIZED as INITIALIZED_LABEL
from dovetail.model.node import Node
from dovetail.model.nodeclaim import DISRUPTION_REASON, INITIALIZED, INSTANCE_TERMINATING, NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.reason import VOLUNTARY, Reason
from dovetail.sim.faults.process import Offering
from dovetail.sim.faults.replica import OFFICE
from dovetail.sim.faults.since import Since
from dovetail.sim.faults.supervisor import Supervisor
from dovetail.sim.kinds import LEASE, NODE, NODE_CLAIM, NODE_POOL
from dovetail.sim.store import Step
from dovetail.sim.world import World

STALE = 60.0
"""Seconds by which the controllers' view may be behind: lagging watches, slow calls, and the second look at a plan."""

SILENCE_NOTICED = 150.0
"""Seconds after which the controllers must have noticed that a watch is silent, and have listed again."""

TOTALS_KEPT = 300.0  # a percentage is of the nodes there were when it was decided


@dataclass(frozen=True)
class Violation:
    """A law was broken."""

    law: str
    at: float
    message: str

    def __str__(self) -> str:
        return f"{self.at:7.0f} s  {self.law}: {self.message}"


@dataclass
class ClaimStory:
    """A NodeClaim so far."""

    value: NodeClaim
    born_at: float
    deleting_since: float | None = None
    missed_since: float | None = None  # its node is gone, behind everyone's back


@dataclass
class NodeStory:
    """A Node so far."""

    value: Node
    unready_since: float | None
    deleting_since: float | None = None
    last_unready: float = -math.inf  # the last instant at which it was not ready


@dataclass
class CommandStory:
    """A command as its marks told it: what its candidates and replacements cost."""

    record: CommandRecord
    candidates: dict[str, float] = field(default_factory=dict)
    replacements: dict[str, float] = field(default_factory=dict)


class History:
    """Everything the laws look back on."""

    def __init__(self, world: World, supervisor: Supervisor) -> None:
        self.world = world
        self.supervisor = supervisor
        self.violations: list[Violation] = []
        self.claims: dict[str, ClaimStory] = {}  # by name; only those that exist
        self.nodes: dict[str, NodeStory] = {}  # by provider id; only those that exist
        self.pools: dict[str, list[tuple[float, NodePool]]] = {}
        self.commands: dict[str, CommandStory] = {}
        self.initialized: set[str] = set()  # claims that were, once
        self.totals: dict[str, list[tuple[float, int]]] = {}
        self.excused_nodes: set[str] = set()  # names of nodes that somebody took away by force
        self.lost_nodes: dict[str, float] = {}  # by name: when their machine went, as its provider knows
        self.warned: set[str] = set()  # provider ids of instances the cloud warned of
        self.deleted_by_hand: set[str] = set()  # names of nodes that somebody deleted
        self.since = Since()
        self.created_claims = 0
        self.leaders: list[str] = []  # one after the other

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return asyncio.get_running_loop().time()

    def broken(self, law: str, message: str) -> None:
        """Note that a law was broken, once for each message."""
        if not any((each.law, each.message) == (law, message) for each in self.violations):
            self.violations.append(Violation(law, self.now, message))

    @property
    def handovers(self) -> int:
        """How often somebody else took the lead."""
        return max(0, len(self.leaders) - 1)

    @property
    def stale(self) -> float:
        """Seconds by which the controllers' view may be behind now; more around the silence of a watch."""
        silent = self.now - self.supervisor.watches.last_silence < STALE + SILENCE_NOTICED
        return STALE + SILENCE_NOTICED if silent else STALE

    def instants(self) -> tuple[datetime, ...]:
        """What the controllers may take for now."""
        true = self.world.clock.now()
        told = [true + off_by for off_by in self.supervisor.clock.recent(STALE)]
        return (*told, *(each - timedelta(seconds=STALE) for each in told))

    def hear(self, step: Step) -> None:
        """Take in a change of the world."""
        self.since.hear(step)
        if step.after.resource == NODE_CLAIM:
            self._hear_claim(step)
        elif step.after.resource == NODE:
            self._hear_node(step)
        elif step.after.resource == LEASE and step.after.key == OFFICE:
            holder = step.after.plain["spec"].get("holderIdentity", "")
            if holder and self.leaders[-1:] != [holder]:
                self.leaders.append(holder)
        elif step.after.resource == NODE_POOL:
            value = step.after.value(kinds.NODE_POOL)
            if isinstance(value, NodePool):
                self.pools.setdefault(value.name, []).append((step.at, value))

    def _hear_claim(self, step: Step) -> None:
        value = step.after.value(kinds.NODE_CLAIM)
        assert isinstance(value, NodeClaim), "the controllers wrote a claim that nobody can read"
        known = self.claims.get(value.name)
        if step.type == "DELETED":
            self.claims.pop(value.name, None)
        elif known is None:
            self.created_claims += 1
            self.claims[value.name] = ClaimStory(value, step.at, step.at if value.deleting else None)
        else:
            known.value = value
            if value.deleting and known.deleting_since is None:
                known.deleting_since = step.at
        if value.has(INITIALIZED):
            self.initialized.add(value.name)
        self._note_command(value)
        self._count(value.nodepool_name, step.at)

    def _hear_node(self, step: Step) -> None:
        value = step.after.value(kinds.NODE)
        if not isinstance(value, Node) or not value.provider_id:
            return
        if step.type == "DELETED":
            self.nodes.pop(value.provider_id, None)
            for each in self.claims.values():
                each.missed_since = step.at if each.value.provider_id == value.provider_id else each.missed_since
            return
        known = self.nodes.get(value.provider_id)
        if known is None:
            known = self.nodes[value.provider_id] = NodeStory(value, None if value.ready else step.at)
        if not value.ready or not known.value.ready:
            known.last_unready = step.at
        known.value = value
        if value.ready:
            known.unready_since = None
        elif known.unready_since is None:
            known.unready_since = step.at
        if value.deleting and known.deleting_since is None:
            known.deleting_since = step.at

    def _note_command(self, claim: NodeClaim) -> None:
        record = read_record(claim)
        if record is not None:
            story = self.commands.setdefault(record.id, CommandStory(record))
            story.candidates[claim.name] = self.price(claim)
        replaced = claim.metadata.annotations.get("dovetail.sh/replaces", "")
        if replaced in self.commands:
            self.commands[replaced].replacements[claim.name] = self.price(claim)

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
        return sum(1 for claim in claims if counted(claim) or self._has_just_initialized(claim))

    def _has_just_initialized(self, claim: NodeClaim) -> bool:
        node = self.node_of(claim)
        labels = node.value.metadata.labels if node is not None else {}
        return labels.get(INITIALIZED_LABEL) == "true" and not claim.has(INSTANCE_TERMINATING)

    def of_pool(self, pool: str) -> Iterator[ClaimStory]:
        """The claims of a pool that exist."""
        return (each for each in self.claims.values() if each.value.nodepool_name == pool)

    def versions(self, pool: str, since: float) -> list[NodePool]:
        """What the pool said at any time from then on."""
        written = self.pools.get(pool, [])
        last_before = max((number for number, (at, _) in enumerate(written) if at <= since), default=0)
        return [value for _, value in written[last_before:]]

    def node_of(self, claim: NodeClaim) -> NodeStory | None:
        """The node of a claim, if there is one."""
        return self.nodes.get(claim.provider_id) if claim.provider_id else None

    def price(self, claim: NodeClaim) -> float:
        """What the claim's instance costs an hour, 0 before it is launched."""
        labels = claim.metadata.labels
        offering: Offering = (labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, ""), labels.get(CAPACITY_TYPE, ""))
        return self.supervisor.prices.get(offering, 0.0)


def counted(claim: NodeClaim) -> bool:
    """Whether budgets count it among the nodes of its pool."""
    return claim.has(INITIALIZED) and not claim.has(INSTANCE_TERMINATING)


def marked_for(claim: NodeClaim) -> Reason | None:
    """The reason a claim is marked with, if it is."""
    record = read_record(claim)
    if record is not None:
        return record.reason
    condition = find(claim.status.conditions, DISRUPTION_REASON)
    if condition is None or condition.status != "True" or condition.reason not in set(Reason):
        return None
    return Reason(condition.reason)


def voluntarily(claim: NodeClaim) -> Reason | None:
    """The reason, if it is one that budgets govern."""
    reason = marked_for(claim)
    return reason if reason in VOLUNTARY else None
