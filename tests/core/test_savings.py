"""Savings against a cluster that is lived twice, with and without disruption, and the rules one by one."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.core.savings import (
    DISRUPT,
    DONE,
    DRY_RUN,
    FAILED,
    LAUNCH,
    LONGEST_SAVING,
    NEVER_EXPIRES,
    REMOVE,
    ROLLED_BACK,
    DecisionCost,
    reckon_savings,
    saved_dollars,
)
from dovetail.ports.ledger import DecisionOutcome, LedgerAction, LedgerNode

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)


def hours(number):
    return START + number * HOUR


# -- a cluster that is lived twice
#
# Capacity and demand are whole units, a unit costs one dollar an hour, and pods are divisible. Every hour nodes expire,
# missing capacity is launched, and then, only if there is disruption, nodes are removed or replaced. The cluster knows
# nothing of the code under test: its decisions are its diary, and both bills are added up hour by hour.


@dataclass
class ToyNode:
    name: str
    size: int
    expires: int
    used: float | None = None
    billed_until: int = 10**9  # a draining node runs no pods and is billed until then


@dataclass
class ToyCluster:
    lifetime: int
    drain: int = 0
    smallest: int = 1  # once nodes were disrupted, launched nodes have a multiple of this many units
    nodes: list = field(default_factory=list)
    diary: list = field(default_factory=list)
    bill: list = field(default_factory=list)
    made: int = 0
    demand: int = 0

    def launch(self, now, size):
        self.made += 1
        node = ToyNode(f"n{self.made}", size, now + self.lifetime)
        self.nodes.append(node)
        return node

    @property
    def usable(self):
        return [node for node in self.nodes if node.billed_until == 10**9]

    def live(self, now, demand, disrupt=None):
        self.nodes = [node for node in self.nodes if node.billed_until > now]
        for node in [node for node in self.usable if node.expires <= now]:
            self.nodes.remove(node)
            self.diary.append(DecisionCost(id=f"e{node.name}", at=hours(now), act="remove", removed=(seen(node),)))
        for needed in (self.demand, demand):  # an expired node is replaced before the demand changes
            missing = needed - sum(node.size for node in self.usable)
            if missing > 0:
                unit = self.smallest if any(each.act == "disrupt" for each in self.diary) else 1
                made = self.launch(now, -(-missing // unit) * unit)
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


def lived_twice(demands, moves, *, lifetime, drain=0, eager=False, old=(), smallest=1):
    """The diary and the bill with disruption, and the bill without. `old` nodes, by size and expiration, are there."""
    disrupted, undisturbed = ToyCluster(lifetime, drain, smallest), ToyCluster(lifetime)
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

        disrupted.live(now, demand, disrupt)
        undisturbed.live(now, demand)
    return disrupted.diary, disrupted.bill, undisturbed.bill


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


@settings(max_examples=1000)
@given(lives, windows, st.lists(st.tuples(st.integers(1, 5), st.integers(1, 30)), max_size=5))
def test_saved_and_spent_never_exceed_the_bill_without_disruption_when_old_nodes_expire(life, window, old):
    check(life, window, old=old, lifetime=FOREVER, eager=True)


# -- the rules one by one


def node(name, price=1.0, pool="web", expires=NEVER_EXPIRES, gone=None):
    return LedgerNode(nodeclaim=name, nodepool=pool, price=price, expires_at=expires, gone_at=gone)


def command(name, at, removed, launched=(), outcome="done", **more):
    return DecisionCost(
        id=name,
        at=hours(at),
        act="disrupt",
        outcome=outcome,
        reason="Empty",
        removed=removed,
        launched=launched,
        **{"planned": sum(each.price or 0 for each in launched), "ended_at": hours(at), **more},
    )


def empty(name, at, **more):
    return command(f"c-{name}", at, (node(name, gone=hours(at), **more),))


def launch(name, at, price=1.0, pool="web", outcome="done"):
    launched = (LedgerNode(nodeclaim=name, nodepool=pool, price=price),)
    return DecisionCost(id=f"l-{name}", at=hours(at), act="launch", outcome=outcome, launched=launched)


def saved_by(*decisions, until=10):
    return {each.id: round(each.dollars(), 6) for each in reckon_savings(decisions, hours(until))}


def test_the_example_of_the_documentation():
    replaced = command(
        "replace", 0, (node("a", 0.40, gone=hours(1)),), (LedgerNode(nodeclaim="r", nodepool="web", price=0.10),)
    )
    decisions = (replaced, launch("b", 11, price=0.20))
    assert saved_by(*decisions, until=1) == {"replace": -0.10}
    assert saved_by(*decisions, until=11) == {"replace": 2.90}
    assert saved_by(*decisions, until=21) == {"replace": 3.90}


def test_a_removed_node_saves_from_the_moment_it_is_gone():
    slow = command("slow", 0, (node("a", gone=hours(4)),))
    assert saved_by(slow) == {"slow": 6.0}
    assert saved_by(command("draining", 0, (node("a"),))) == {"draining": 0.0}


def test_a_launch_ends_the_savings_of_its_nodepool_first_and_the_newest_first():
    old, new, other = empty("a", 0), empty("b", 1), empty("x", 2, pool="batch")
    assert saved_by(old, new, other, launch("c", 5)) == {"c-a": 10, "c-b": 4, "c-x": 8}
    assert saved_by(old, new, other, launch("c", 5, price=2.5)) == {"c-a": 5, "c-b": 4, "c-x": 5.5}


@pytest.mark.parametrize(
    ("bought", "saved"),
    [
        (launch("c", 5, price=None), 5),
        (launch("c", 5, price=None, outcome=""), 5),
        (launch("c", 5, price=None, outcome="failed"), 10),
        (launch("c", 5, outcome="dry run"), 10),
    ],
)
def test_a_launch_without_a_price_ends_all_savings_unless_it_failed(bought, saved):
    assert saved_by(empty("a", 0), bought) == {"c-a": saved}


def test_a_saving_ends_when_the_node_would_have_expired_and_after_thirty_days():
    assert saved_by(empty("a", 0, expires=hours(3))) == {"c-a": 3}
    assert saved_by(empty("a", 0), until=10_000) == {"c-a": LONGEST_SAVING / HOUR}


def test_removing_a_replacement_saves_no_longer_than_the_node_that_it_replaced():
    first = command("first", 0, (node("a", 1.0, expires=hours(6), gone=hours(0)),), (node("r", 0.5),))
    assert saved_by(first, empty("r", 2, price=0.5)) == {"first": 3.0, "c-r": 2.0}


def test_a_replacement_that_goes_without_a_command_ends_the_saving():
    first = command("first", 0, (node("a", gone=hours(0)),), (node("r", 0.5),))
    reclaimed = DecisionCost(id="gone", at=hours(4), act="remove", removed=(node("r"),))
    assert saved_by(first, reclaimed) == {"first": 2.0}


def test_a_more_expensive_replacement_costs_money():
    assert saved_by(command("drift", 0, (node("a", 1.0, gone=hours(0)),), (node("r", 1.2),))) == {"drift": -2.0}


def test_a_rolled_back_command_costs_what_it_launched_for_as_long_as_that_stays():
    kept = command("tried", 0, (node("a"),), (node("r", 0.5),), outcome="rolled back", planned=0.5)
    assert saved_by(replace(kept, launched=(), ended_at=hours(2))) == {"tried": -1.0}
    assert saved_by(kept, empty("r", 4, price=0.5)) == {"tried": -5.0, "c-r": 3.0}


def test_the_replacements_of_a_failed_command_count_as_a_launch():
    failed = command("failed", 4, (node("x"),), outcome="failed", planned=0.5)
    assert saved_by(empty("a", 0), failed) == {"c-a": 7.0, "failed": 0.0}


def test_what_a_launch_has_too_much_is_a_loss_until_the_next_launch_or_its_removal():
    """Half of $1.00 is needed, and the removed node would have had room worth $0.40."""
    removed = command("c", 0, (node("a", 0.4, gone=hours(0)),))
    large = replace(launch("b", 2), launched=(replace(node("b"), used=0.5),))
    assert saved_by(removed, large, until=4) == {"c": pytest.approx(2 * 0.4 - 2 * 0.5)}
    assert saved_by(removed, large, launch("d", 3), until=4) == {"c": pytest.approx(2 * 0.4 - 1 * 0.5)}
    assert sum(saved_by(removed, large, empty("b", 3), until=4).values()) == pytest.approx(2 * 0.4 - 0.5 + 0.5)


def test_launches_of_one_pass_count_together():
    """Two half-used nodes need what the removed node had; the cluster without disruption launches nothing."""
    removed = command("c", 0, (node("a", 1.0, gone=hours(0)),))
    half = [replace(launch(name, 2), launched=(replace(node(name), used=0.5),)) for name in ("x", "y")]
    assert saved_by(removed, *half, until=3) == {"c": pytest.approx(2 * 1.0 - 1 * 1.0)}


def test_a_running_command_costs_what_it_launches():
    assert saved_by(command("now", 0, (node("a"),), outcome="", planned=0.5, ended_at=None), until=2) == {"now": -1.0}


@pytest.mark.parametrize(
    "unknown",
    [
        command("c", 0, (node("a", gone=hours(0), price=None),)),
        command("c", 0, (node("a", gone=hours(0), expires=None),)),
        command("c", 0, (node("a", gone=hours(0)),), (node("r", None),)),
    ],
    ids=["price", "expiration", "price of the replacement"],
)
def test_a_command_with_an_unknown_cost_is_not_counted(unknown):
    (saving,) = reckon_savings([unknown], hours(10))
    assert (saving.counted, saving.dollars(), saving.rate) == (False, 0.0, 0.0)


def test_what_stands_for_an_unknown_cost_is_not_counted_either():
    unknown = command("c", 0, (node("a", gone=hours(0), price=None),), (node("r"),))
    assert saved_by(unknown, empty("r", 2)) == {"c": 0.0, "c-r": 0.0}


def test_a_window_and_the_current_rate():
    (saving,) = reckon_savings([empty("a", 2), launch("c", 6, price=0.75)], hours(10))
    assert saving.dollars(hours(0), hours(4)) == 2.0
    assert saving.dollars(hours(4), hours(8)) == 2.5
    assert saving.rate == 0.25


def test_acts_and_outcomes_are_those_of_the_ledger():
    assert {LAUNCH, DISRUPT, REMOVE} == set(LedgerAction)
    assert {DONE, ROLLED_BACK, FAILED, DRY_RUN, "unknown"} == set(DecisionOutcome)
