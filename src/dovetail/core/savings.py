"""Savings: the dollars that disruption commands saved, by command and over time. See docs/concepts/savings.md.

The model compares the cluster with the same cluster in which no command was ever executed:
- A removed node saves its price from the moment it is gone until it would have expired, `LONGEST_SAVING` at most.
- A replacement costs its price from the start of its command.
- A launch for pending pods would have used the removed capacity: it ends open savings up to its price, those of its
  NodePool first, the newest first. A launch without a known price ends all of them.
- If the launched node is larger than what was missing, the rest is a debt: the cluster without disruption had the
  capacity, or would have launched only the missing part. The next launch shows that it is used, and ends the debt.
- A node that was launched in place of removed capacity stands for it. Removing it again saves no longer than that
  capacity would have stayed. If it is still there when that capacity would have expired, it ends other savings in turn.
- A replacement that goes without a command (deleted, interrupted, unhealthy) ends the saving of its command.
- A lost node, one of n of its NodePool and capacity type, ends 1/n of the savings of removed nodes of that kind.

A command without all prices and expirations is not counted.
`reckon_savings` replays the decisions in time order on a heap. A `RemovedCapacity` is what one command removed with
one end; it records a `SavingPeriod` before each change of its rate.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import Protocol

from dovetail.core.removed_capacity import LEAST, RemovedCapacity, SavingPeriod, charge
from dovetail.model.instants import LAST_INSTANT, add
from dovetail.model.reason import Reason

LONGEST_SAVING = timedelta(days=30)
LOOKBACK = 2 * LONGEST_SAVING
"""How long before a window decisions are replayed: those that can still save in it, and what their nodes stood for."""
NEVER_EXPIRES = LAST_INSTANT
LAUNCH, DISRUPT, REMOVE = "launch", "disrupt", "remove"  # acts, as in the ledger
DONE, ROLLED_BACK, FAILED, DRY_RUN, UNDER_WAY = "done", "rolled back", "failed", "dry run", ""  # outcomes
LOST = frozenset({Reason.INTERRUPTED, Reason.UNHEALTHY, Reason.MANUAL, "GarbageCollected"})  # reasons of removals
BATCH = timedelta(seconds=10)  # launches this soon after each other are of one provisioning pass
_UNKNOWN_PRICE = float("inf")
_EXPIRED, _LOST, _BOUGHT, _START, _GONE, _ENDED = range(6)  # the order of events at one instant


class CostNode(Protocol):
    """A node of a decision."""

    @property
    def nodeclaim(self) -> str:
        """The name of its NodeClaim."""

    @property
    def nodepool(self) -> str:
        """The name of its NodePool."""

    @property
    def capacity_type(self) -> str:
        """Its capacity type."""

    @property
    def price(self) -> float | None:
        """Dollars an hour; None if unknown."""

    @property
    def expires_at(self) -> datetime | None:
        """When it would have expired, or `NEVER_EXPIRES`; None if unknown."""

    @property
    def used(self) -> float | None:
        """The share that the pods request for which it was launched; None if unknown."""

    @property
    def gone_at(self) -> datetime | None:
        """When it was gone, if a command removed it."""

    @property
    def peers(self) -> int | None:
        """The nodes of its NodePool and capacity type and itself, if it went without a command; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCost:
    """A decision, as far as it affects the cost."""

    id: str
    at: datetime
    act: str
    reason: str = ""
    outcome: str = UNDER_WAY
    ended_at: datetime | None = None
    removed: Sequence[CostNode] = ()
    launched: Sequence[CostNode] = ()
    planned: float = 0.0  # dollars an hour of the replacements, as planned


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSaving:
    """What one command saved."""

    id: str
    at: datetime
    reason: str
    nodepool: str
    nodes: int
    counted: bool = True  # False: a price or an expiration is not known
    periods: tuple[SavingPeriod, ...] = ()
    rate: float = 0.0  # dollars per hour at the end of the reckoning

    def dollars(self, since: datetime | None = None, until: datetime | None = None) -> float:
        """The dollars saved between the two instants."""
        return sum(each.dollars(since, until) for each in self.periods)


def saved_dollars(
    savings: Iterable[CommandSaving], since: datetime | None = None, until: datetime | None = None
) -> float:
    """The dollars that these commands saved together between the two instants."""
    return sum(each.dollars(since, until) for each in savings)


def reckon_savings(decisions: Iterable[DecisionCost], until: datetime) -> tuple[CommandSaving, ...]:
    """Return what each command saved until an instant, in the order of their start. All are of one cluster."""
    return _Reckoning(until).run(decisions)


class _Reckoning:
    """Replays the decisions of one cluster."""

    def __init__(self, until: datetime) -> None:
        self._until = until
        self._numbers = count()  # breaks ties: equal events happen in the order in which they were added
        self._events: list[tuple[datetime, int, int, Callable[[datetime], None]]] = []
        self._parts: dict[str, list[RemovedCapacity]] = {}  # by command
        self._open: dict[RemovedCapacity, None] = {}  # the oldest first
        self._free: dict[RemovedCapacity, None] = {}  # open parts that may have capacity left, the oldest first
        self._owing: dict[RemovedCapacity, None] = {}  # open parts that may have debts
        self._in_place: dict[str, dict[RemovedCapacity, None]] = {}  # parts in whose place a NodeClaim was launched
        self._launched_by: dict[str, str] = {}  # command by NodeClaim of a replacement
        self._unknown: set[str] = set()  # NodeClaims that stand for nodes with an unknown end

    def run(self, decisions: Iterable[DecisionCost]) -> tuple[CommandSaving, ...]:
        commands: list[DecisionCost] = []
        batch: list[CostNode] = []
        batch_at = self._until
        for each in sorted(decisions, key=lambda each: each.at):
            if each.outcome == DRY_RUN or each.at >= self._until:
                continue
            if each.act == DISRUPT:
                commands.append(each)
                self._push(each.at, _START, partial(self._start, each))
            elif each.act == LAUNCH and each.outcome != FAILED:
                if not batch or each.at - batch_at > BATCH:
                    batch, batch_at = [], each.at
                    self._push(each.at, _BOUGHT, partial(self._launch, batch))
                batch.extend(each.launched)
            elif each.act == REMOVE:
                self._push(each.at, _LOST, partial(self._lose, each))
        while self._events and self._events[0][0] < self._until:
            at, _, _, happen = heapq.heappop(self._events)
            happen(at)
        for part in self._open:
            part.record(self._until)
        return tuple(map(self._result, commands))

    def _push(self, at: datetime, order: int, happen: Callable[[datetime], None]) -> None:
        heapq.heappush(self._events, (at, order, next(self._numbers), happen))

    def _result(self, command: DecisionCost) -> CommandSaving:
        parts, nodes = self._parts.get(command.id), (*command.removed, *command.launched)
        return CommandSaving(
            id=command.id,
            at=command.at,
            reason=command.reason,
            nodepool=nodes[0].nodepool if nodes else "",
            nodes=len(command.removed),
            counted=parts is not None,
            periods=tuple(period for part in parts or () for period in part.periods),
            rate=sum(part.rate for part in parts or () if not part.closed),
        )

    def _start(self, command: DecisionCost, at: datetime) -> None:
        done = command.outcome == DONE
        gone = (node for node in command.removed if done and node.gone_at is not None)
        removed = sorted(gone, key=lambda node: node.nodeclaim)
        if not _has_known_cost(command) or any(node.nodeclaim in self._unknown for node in command.removed):
            self._forget((node.nodeclaim for node in removed), at)
            self._unknown.update(node.nodeclaim for node in command.launched)
            return
        parts = [part for node in removed for part in self._remove(node, at)]
        if not parts:
            pool = next((node.nodepool for node in (*command.removed, *command.launched)), "")
            parts = [self._open_part(RemovedCapacity((pool, ""), at, add(at, LONGEST_SAVING), expires=False))]
        self._parts[command.id] = parts
        if done:
            for node in command.launched:
                self._launched_by[node.nodeclaim] = command.id
                charge(parts, node.nodeclaim, node.price or 0.0, at)
                self._in_place[node.nodeclaim] = dict.fromkeys(parts)
            return
        if command.planned:
            charge(parts, "", command.planned, at)
        if command.ended_at is not None:
            self._push(command.ended_at, _ENDED, partial(self._abandon, command))

    def _remove(self, node: CostNode, at: datetime) -> list[RemovedCapacity]:
        """Open a part for each removed capacity that the node stands for, and one for the rest of its price."""
        expires_at, left, parts = node.expires_at or at, node.price or 0.0, []
        for part in self._parts_of(node.nodeclaim):
            debt = part.debts.get(node.nodeclaim, 0.0)
            share = min(left, part.in_place.pop(node.nodeclaim, 0.0))
            if share - debt > LEAST:
                parts.append(RemovedCapacity(part.kind, at, part.end, part.expires, share - debt))
            left -= share
        if left > LEAST:
            end, expires = min((expires_at, True), (add(at, LONGEST_SAVING), False))
            parts.append(RemovedCapacity(_kind(node), at, max(end, at), expires, left))
        for part in parts:
            self._open_part(part)
            self._push(node.gone_at or at, _GONE, partial(self._save, part))
        self._push(node.gone_at or at, _GONE, partial(self._forget, [node.nodeclaim]))
        return parts

    def _parts_of(self, claim: str) -> list[RemovedCapacity]:
        """The open parts in whose place a NodeClaim was launched, the oldest first."""
        parts = (part for part in self._in_place.get(claim, ()) if not part.closed)
        return sorted(parts, key=lambda part: part.number)

    def _open_part(self, part: RemovedCapacity) -> RemovedCapacity:
        part.number = next(self._numbers)
        self._open[part] = self._free[part] = None
        self._push(part.end, _EXPIRED, partial(self._expire, part))
        return part

    def _save(self, part: RemovedCapacity, at: datetime) -> None:
        if not part.closed:
            part.record(at)
            part.gone = part.capacity

    def _abandon(self, command: DecisionCost, at: datetime) -> None:
        """End a command that removed nothing. After a rollback, the replacements that were kept still cost money."""
        (part,) = self._parts[command.id]
        if part.closed:
            return
        part.record(at)
        part.taken, part.in_place = 0.0, {}
        if command.outcome == ROLLED_BACK:
            for node in command.launched:
                self._launched_by[node.nodeclaim] = command.id
                part.take(node.nodeclaim, node.price or 0.0, at)
                self._in_place[node.nodeclaim] = {part: None}
        else:
            self._buy(at, part.kind[0], {"": command.planned})  # pods may use its replacements, as after a launch

    def _launch(self, nodes: Sequence[CostNode], at: datetime) -> None:
        """Count launches of one provisioning pass."""
        if not self._open:
            return  # the cluster without disruption launches the same nodes
        free, debts = sum(max(0.0, part.left) for part in self._free), sum(part.owed for part in self._owing)
        prices = {node.nodeclaim: _UNKNOWN_PRICE if node.price is None else node.price for node in nodes}
        for node in nodes:
            self._buy(at, node.nodepool, {node.nodeclaim: prices[node.nodeclaim]})
        total = sum(prices.values())
        if total == _UNKNOWN_PRICE:
            return
        needed = sum(prices[node.nodeclaim] * (1.0 if node.used is None else min(1.0, node.used)) for node in nodes)
        rate, least = max(0.0, free - total) - debts, max(free - debts, needed) - total
        if least < rate:
            newest = next(reversed(self._open))
            self._owing[newest] = None
            for claim, price in prices.items():
                newest.owe(claim, (rate - least) * price / total, at)
                self._in_place.setdefault(claim, {})[newest] = None
        else:
            self._relieve(least - rate, at)

    def _lose(self, removal: DecisionCost, at: datetime) -> None:
        self._forget((node.nodeclaim for node in removal.removed), at)
        for node in removal.removed:
            for part in self._parts.get(self._launched_by.get(node.nodeclaim, ""), ()):
                if not part.closed:
                    part.lose(part.left, at)  # it stays open: what is launched next may be more than was missing
            if removal.reason in LOST:
                for part in [part for part in self._open if part.kind == _kind(node)]:
                    part.lose(max(0.0, part.left) / (node.peers or 1), at)

    def _forget(self, claims: Iterable[str], at: datetime) -> None:
        for claim in claims:
            for part in self._parts_of(claim):
                part.in_place.pop(claim, None)
                part.owe(claim, -part.debts.get(claim, 0.0), at)

    def _relieve(self, amount: float, at: datetime) -> None:
        """End debts up to an amount."""
        for part in [*self._owing]:
            for claim, debt in [*part.debts.items()]:
                relieved = min(debt, amount) if claim in part.in_place else 0.0  # else it drains
                part.owe(claim, -relieved, at)
                amount -= relieved

    def _expire(self, part: RemovedCapacity, at: datetime) -> None:
        if not part.closed:
            self._close(part, at)
            if part.expires:
                needed = {claim: price - part.debts.get(claim, 0.0) for claim, price in part.in_place.items()}
                self._buy(at, part.kind[0], needed)

    def _buy(self, at: datetime, pool: str, price_by_claim: Mapping[str, float]) -> None:
        """End open savings up to these prices: the removed nodes would have had this capacity."""
        for claim, bought in price_by_claim.items():
            price = bought
            with_capacity = [part for part in reversed(self._free) if part.left > LEAST]
            self._free = dict.fromkeys(reversed(with_capacity))
            for part in sorted(with_capacity, key=lambda part: part.kind[0] != pool):
                taken = min(price, part.left)
                if taken <= LEAST:
                    break
                part.take(claim, taken, at)
                self._in_place.setdefault(claim, {})[part] = None
                price -= taken

    def _close(self, part: RemovedCapacity, at: datetime) -> None:
        if not part.closed:
            part.record(at)
            part.closed = True
            for parts in (self._open, self._free, self._owing):
                parts.pop(part, None)


def _kind(node: CostNode) -> tuple[str, str]:
    return node.nodepool, node.capacity_type


def _has_known_cost(command: DecisionCost) -> bool:
    removed = all(node.price and node.expires_at is not None for node in command.removed)
    return removed and all(node.price is not None for node in command.launched)
