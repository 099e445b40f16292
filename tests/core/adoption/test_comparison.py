"""Karpenter's marks beside Dovetail's decisions, node by node."""

from acceptance.fleet import drifted, free, running, shielded, worker
from core.adoption.known import facts
from dovetail.core.adoption.comparison import KarpenterMark, compare_nodes, totals
from dovetail.core.adoption.facts import FirstHour, NodeMoment, ReportedEvent
from dovetail.core.disruption.planner import plan_disruption


def compared(known):
    return {each.node: each for each in compare_nodes(known, plan_disruption(known.snapshot, thorough=True))}


def hour(*moments, disruption="on"):
    figures = {"cost_before": 1.0, "cost_after": 1.0, "launched": 0, "removed": 1, "evictions": 0}
    return FirstHour(disruption=disruption, moments=moments, pending_before=0, pending=0, **figures)


def test_marks_are_read_from_the_live_objects():
    consolidatable = worker("c", running("x", "c"), conditions={"Consolidatable": "True"})
    removing = worker("r", running("y", "r"), conditions={"DisruptionReason": "True"})
    tainted = worker("t", taints=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}])
    found = compared(facts(drifted("d"), consolidatable, removing, worker("n"), tainted))
    assert {name: each.mark for name, each in found.items()} == {
        "d": KarpenterMark.DRIFTED,
        "c": KarpenterMark.CONSOLIDATABLE,
        "r": KarpenterMark.REMOVING,
        "n": KarpenterMark.NONE,
        "t": KarpenterMark.REMOVING,
    }
    assert found["d"].detail == "ImageDrift"


def test_dovetail_acts_in_its_first_pass_or_within_the_hour():
    kept = free(consolidationPolicy="WhenEmpty")
    known = facts(
        worker("empty"),
        worker("later", running("x", "later")),
        worker("stays", running("y", "stays")),
        pools=[kept],
        first_hours=(
            hour(NodeMoment(at=1.0, what="disrupted", node="stays", nodepool="default"), disruption="off"),
            hour(NodeMoment(at=600.0, what="disrupted", node="later", nodepool="default", reason="Expired")),
        ),
    )
    found = compared(known)
    assert {name: each.acts for name, each in found.items()} == {"empty": True, "later": True, "stays": False}
    assert found["empty"].dovetail == "delete at once: Empty"
    assert found["later"].dovetail == "removed after 10 min: Expired"
    assert "WhenEmpty" in found["stays"].dovetail


def test_a_difference_is_drift_that_stays_or_a_removal_without_a_mark():
    shown = compared(
        facts(
            drifted("d", shielded("x", "d")),
            worker("empty"),
            worker("marked", conditions={"Consolidatable": "True"}),
        )
    )
    assert {name: each.differs for name, each in shown.items()} == {"d": True, "empty": True, "marked": False}


def test_the_last_event_of_karpenter_is_the_detail():
    event = ReportedEvent(kind="Node", name="a", reason="DisruptionBlocked", message="pdb prevents pod evictions")
    assert compared(facts(events=(event,)))["a"].detail == "DisruptionBlocked: pdb prevents pod evictions"


def test_totals_have_the_money_of_each_mark_and_say_what_has_no_price():
    known = facts(drifted("d"), worker("a"), worker("b", type_="m.unknown"))
    by_mark = {each.mark: each for each in totals(compare_nodes(known, plan_disruption(known.snapshot)))}
    drift, none = by_mark[KarpenterMark.DRIFTED], by_mark[KarpenterMark.NONE]
    assert (drift.nodes, drift.price, drift.unpriced) == (1, 1.0, 0)
    assert (none.nodes, none.price, none.unpriced) == (2, 1.0, 1)
