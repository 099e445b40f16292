"""Savings against a small cluster that is lived twice, with and without disruption, and adds up both bills."""

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.core.savings import (
    DecisionCost,
    reckon_savings,
    saved_dollars,
)
from dovetail.ports.ledger import LedgerNode

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)


def hours(number):
    return START + number * HOUR


# -- a cluster that is lived twice
#
# Capacity and demand are whole units, a unit costs one dollar an hour, and pods are divisible. Every hour nodes expire,
# missing capacity is launched, and then, only if there is disruption, nodes are removed or replaced. The cluster knows
# nothing of the code under test: its decisions are its diary, and both bills are added up hour by hour.
#
# If nodes of the disrupted cluster are interrupted, the other cluster loses the same nodes, or as much of others if it
# does not have them, and of what it has more the same share as the disrupted cluster of its nodes: what it would lose
# on average.


@dataclass
class ToyNode:
    name: str
    size: int
    expires: int
    used: float | None = None
    billed_until: int = 10**9  # a draining node runs no pods and is billed until then


@dataclass
class ToyCluster:
    name: str
    lifetime: int
    drain: int = 0
    smallest: int = 1  # if it launches large nodes, they have a multiple of this many units
    large: bool = False
    nodes: list = field(default_factory=list)
    diary: list = field(default_factory=list)
    bill: list = field(default_factory=list)
    made: int = 0
    demand: int = 0

    def launch(self, now, size):
        self.made += 1
        node = ToyNode(f"{self.name}{self.made}", size, now + self.lifetime)
        self.nodes.append(node)
        return node

    @property
    def usable(self):
        return [node for node in self.nodes if node.billed_until == 10**9]

    def interrupt(self, now, lost):
        for node in lost:
            gone = replace(seen(node), peers=len(self.usable))
            self.nodes.remove(node)
            removal = DecisionCost(id=f"i{node.name}", at=hours(now), act="remove", reason="Interrupted")
            self.diary.append(replace(removal, removed=(gone,)))

    def lose(self, lost, more, kept):
        """Lose these nodes, or as much of others, and more of those that are not kept."""
        sizes = {node.name: node.size for node in lost}
        more += sum(sizes.values())
        for node in self.nodes:
            same = min(node.size, sizes.get(node.name, 0))
            node.size -= same
            more -= same
        others = [node for node in self.nodes if node.name not in kept] or self.nodes
        total = sum(node.size for node in others)
        for node in others:
            node.size -= node.size * min(1, more / total) if total else 0

    def live(self, now, demand, disrupt=None):
        self.nodes = [node for node in self.nodes if node.billed_until > now]
        for node in [node for node in self.usable if node.expires <= now]:
            self.nodes.remove(node)
            self.diary.append(DecisionCost(id=f"e{node.name}", at=hours(now), act="remove", removed=(seen(node),)))
        for needed in (self.demand, demand):  # an expired node is replaced before the demand changes
            missing = needed - sum(node.size for node in self.usable)
            if missing > 0:
                unit = self.smallest if self.large else 1
                made = self.launch(now, -(-missing // unit) * unit if unit > 1 else missing)
                made.used = missing / made.size
                launch = DecisionCost(id=f"l{made.name}", at=hours(now), act="launch", outcome="done")
                self.diary.append(replace(launch, launched=(seen(made),)))
        self.demand = demand
        if disrupt is not None:
            disrupt(self, now, demand)
        self.nodes = [node for node in self.nodes if node.billed_until > now]
        self.bill.append(sum(node.size for node in self.nodes))

    def replace(self, now, node, size):
        """A command: the node drains, and a node of another size, or none, takes its place."""
        node.billed_until = now + self.drain
        made = (self.launch(now, size),) if size else ()
        gone = LedgerNode(
            nodeclaim=node.name, price=node.size, expires_at=hours(node.expires), gone_at=hours(node.billed_until)
        )
        self.diary.append(
            DecisionCost(
                id=f"c{self.made}-{node.name}",
                at=hours(now),
                act="disrupt",
                outcome="done",
                ended_at=hours(now),
                removed=(gone,),
                launched=tuple(map(seen, made)),
                planned=size,
            )
        )


def seen(node):
    return LedgerNode(nodeclaim=node.name, price=node.size, used=node.used)


def shrink(cluster, now, demand, order):
    """Remove all idle capacity: whole nodes, then part of one."""
    nodes = cluster.usable
    for node in nodes[order % max(1, len(nodes)) :] + nodes[: order % max(1, len(nodes))]:
        idle = sum(each.size for each in cluster.usable) - demand
        if idle > 0:
            cluster.replace(now, node, max(0, node.size - idle))


def lived_twice(demands, moves, *, old=(), hits=(), rate=0.0, chance=None, eager=False, **options):
    """The diary and the bill with disruption, and the bill without.

    `old` nodes, by size and expiration, are there. `hits` are the nodes that are interrupted, by hour. With a `rate`
    each node of either cluster is interrupted by chance.
    """
    disrupted, undisturbed = (ToyCluster(name, **options) for name in "ab")
    for cluster in (disrupted, undisturbed):
        cluster.nodes = [ToyNode(f"old{at}", size, expires) for at, (size, expires) in enumerate(old)]
        cluster.demand = sum(size for size, _ in old)
    for now, (demand, move) in enumerate(zip(demands, moves, strict=True)):

        def disrupt(cluster, now, demand, move=move):
            if move % 3 == 1 and cluster.usable:
                node = cluster.usable[move % len(cluster.usable)]
                cluster.replace(now, node, node.size)
            if eager or move % 3 == 2:
                shrink(cluster, now, demand, move)

        disrupted.large = any(each.act == "disrupt" for each in disrupted.diary)
        undisturbed.large = disrupted.large and bool(hits)
        for cluster in (disrupted, undisturbed):
            if rate:
                cluster.interrupt(now, [node for node in cluster.usable if chance.random() < rate])
        if now < len(hits):
            interrupt_both(disrupted, undisturbed, now, hits[now])
        disrupted.live(now, demand, disrupt)
        undisturbed.live(now, demand)
    return disrupted.diary, disrupted.bill, undisturbed.bill


def interrupt_both(disrupted, undisturbed, now, hits):
    nodes = disrupted.usable
    more = sum(node.size for node in undisturbed.usable) - sum(node.size for node in nodes)
    lost = [nodes.pop(hit % len(nodes)) for hit in hits[: len(nodes)]]
    disrupted.interrupt(now, lost)
    share = len(lost) / max(1, len(lost) + len(nodes))
    undisturbed.lose(lost, share * more, {node.name for node in nodes})


lives = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 8)), min_size=2, max_size=40)
windows = st.tuples(st.integers(0, 40), st.integers(0, 40))
FOREVER = 10_000  # hours


def check(life, window, *, exactly=False, **options):
    demands, moves = zip(*life, strict=True)
    diary, spent, undisturbed = lived_twice(demands, moves, **options)
    end = len(spent)
    first, last = sorted(min(each, end) for each in window)
    savings = reckon_savings(diary, hours(end))
    saved = saved_dollars(savings, hours(first), hours(last))
    would_have = sum(undisturbed[first:last])
    assert saved + sum(spent[first:last]) <= would_have + 1e-6
    if exactly:
        assert saved + sum(spent[first:last]) == pytest.approx(would_have)


@given(lives, windows, st.integers(0, 5))
def test_saved_and_spent_never_exceed_the_bill_without_disruption(life, window, drain):
    check(life, window, lifetime=FOREVER, drain=drain)


@settings(max_examples=500)
@given(lives, windows, st.integers(0, 3), st.integers(2, 5))
def test_saved_and_spent_never_exceed_the_bill_without_disruption_if_nodes_are_large(life, window, drain, smallest):
    check(life, window, lifetime=FOREVER, drain=drain, smallest=smallest)


@given(lives, windows)
def test_savings_are_the_whole_difference_if_idle_capacity_is_removed_at_once(life, window):
    check(life, window, lifetime=FOREVER, eager=True, exactly=True)


@settings(max_examples=300)
@given(lives, windows, st.lists(st.tuples(st.integers(1, 5), st.integers(1, 30)), max_size=5))
def test_saved_and_spent_never_exceed_the_bill_without_disruption_when_old_nodes_expire(life, window, old):
    check(life, window, old=old, lifetime=FOREVER, eager=True)


interruptions = st.lists(st.lists(st.integers(0, 8), max_size=2), max_size=40)


@settings(max_examples=500)
@given(lives, windows, interruptions, st.integers(0, 3), st.integers(1, 5))
def test_saved_and_spent_never_exceed_the_bill_without_disruption_when_nodes_are_interrupted(
    life, window, hits, drain, smallest
):
    check(life, window, hits=hits, lifetime=FOREVER, drain=drain, smallest=smallest)


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("lifetime", [12, FOREVER])
def test_on_average_it_almost_holds_when_each_cluster_has_interruptions_of_its_own(lifetime, eager):
    """Each hour each node of either cluster is interrupted with the same probability.

    Chance counts in such small clusters: the disrupted one can lose a node when it has no savings left to end.
    """
    saved = spent = would_have = 0
    for seed in range(150):
        chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
        demands = [chance.randint(1, 12) if chance.random() < 0.2 else None for _ in range(48)]
        demands = list(accumulate(demands, lambda before, now: now or before, initial=8))
        moves = [chance.randint(0, 8) for _ in demands]
        odds = {"lifetime": lifetime, "eager": eager, "chance": chance, "rate": 0.05}
        diary, bill, undisturbed = lived_twice(demands, moves, **odds)
        saved += saved_dollars(reckon_savings(diary, hours(len(bill))))
        spent, would_have = spent + sum(bill), would_have + sum(undisturbed)
    assert 0.2 * (would_have - spent) < saved <= 1.1 * (would_have - spent)
