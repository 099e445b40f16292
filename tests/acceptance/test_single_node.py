"""Single-node consolidation: every node is simulated, and the move that saves most is taken."""

from dataclasses import replace
from datetime import timedelta

from acceptance.fleet import ON_DEMAND, cluster, free, planned, running, said, worker
from builders import HUGE, LARGE, NOON, SMALL
from dovetail.core.disruption.planner import plan_disruption

FIXED = [free(template=ON_DEMAND)]


def test_the_best_move_is_taken_not_the_first():
    """Both are too large; the huge one saves more, although it comes last by name and weight."""
    pools = [free(template=ON_DEMAND, budgets=[{"nodes": "1"}])]
    nodes = (
        worker("a", running("x", "a", cpu="1900m")),
        worker("z", *[running(f"y{n}", "z", cpu="1200m") for n in range(3)], type_="m.huge"),
    )
    found = cluster(*nodes, pools=pools, types=(SMALL, LARGE, HUGE))
    assert planned(found) == [("single-node", ["z"])]
    assert said(found, "single-node", "a").code == "Expecting"


def test_every_pool_is_considered_in_every_pass():
    """A pool whose nodes cannot go does not hide another's that can, however many there are."""
    pools = [free(template=ON_DEMAND), free("late", template=ON_DEMAND)]
    crowd = [worker(f"n{n:03}", running(f"p{n}", f"n{n:03}", cpu="3500m")) for n in range(120)]
    last = worker("z", running("x", "z"), pool="late")
    assert planned(cluster(*crowd, last, pools=pools, types=(SMALL, LARGE))) == [("single-node", ["z"])]


def test_among_equals_the_one_that_hurts_least_goes():
    nodes = worker("a", running("x", "a"), running("w", "a")), worker("b", running("y", "b", cpu="2"))
    found = cluster(*nodes, pools=[free(template=ON_DEMAND, budgets=[{"nodes": "1"}])], types=(LARGE,))
    assert planned(found) == [("single-node", ["b"])]


def test_a_node_at_95_percent_is_never_replaced_by_its_twin():
    full = worker("a", running("x", "a", cpu="3800m", memory="15Gi"))
    found = cluster(full, pools=FIXED, types=(LARGE,))
    for hour in range(100):
        assert plan_disruption(replace(found, at=NOON + timedelta(hours=hour))).commands == ()


def test_decisions_are_reproducible_whatever_the_order_of_the_snapshot():
    nodes = [worker(name, running(f"p{name}", name)) for name in "abcdefg"]
    there, back = cluster(*nodes, pools=FIXED), cluster(*reversed(nodes), pools=FIXED)
    assert planned(there) == planned(back)
