"""The timeline, the table and the cycle of the design "consolidation grace period"."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from acceptance.fleet import ON_DEMAND, cluster, drifted, free, planned, running, said, taken, worker
from builders import LARGE, nodepool, pod, stamped
from dovetail.core import wording
from dovetail.core.disruption.delays import grace_wait
from dovetail.core.disruption.planner import plan_disruption
from dovetail.core.provisioning.eligible_pods import usable_pools
from dovetail.core.scheduling.solver import solve

T0 = datetime(2026, 1, 5, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
CONFIG = {"consolidateAfter": "30s", "consolidationGracePeriod": "30m"}


def pool(**disruption):
    return free(template=ON_DEMAND, **{**CONFIG, **disruption})


def touched(name, *pods, event=None, **fields):
    """A node whose last pod event was then; long ago unless told."""
    return worker(name, *pods, status={"lastPodEventTime": stamped(event or T0 - timedelta(days=1))}, **fields)


def timeline(minutes, event, *d_pods):
    """A, B and C are full and quiet; D takes part or does not."""
    full = [touched(name, running(f"p{name}", name, cpu="3500m")) for name in "abc"]
    return cluster(*full, touched("d", *d_pods, event=event), pools=[pool()], types=(LARGE,), at=T0 + minutes * MINUTE)


def test_timeline_at_1_minute_30_consolidation_sees_a_b_and_c_alone():
    found = timeline(1.5, T0 + MINUTE, running("pd", "d"))
    assert planned(found) == []
    assert (
        wording.message(said(found, "single-node", "d"))
        == "inside its consolidationGracePeriod until 2026-01-05T12:31:00Z"
    )
    assert {said(found, "single-node", name).code for name in "abc"} <= {"CantReplace", "Unschedulable"}


def test_timeline_node_d_does_not_exist_for_the_calculation():
    """A small pod of A would fit on D, and only there."""
    small = touched("a", running("pa", "a"))
    for event, names in ((T0 + MINUTE, []), (T0 - timedelta(days=1), ["a"])):
        d = touched("d", running("pd", "d", cpu="2"), event=event)
        found = cluster(small, d, pools=[pool()], types=(LARGE,), at=T0 + 1.5 * MINUTE)
        assert taken(found) == names


def test_timeline_at_5_minutes_the_removal_of_a_pod_resets_the_timer():
    """First event at 1 min, so 31 min; the second at 5 min moves it to 35 min."""
    for event, until in ((1, 31), (5, 35)):
        claim = touched("d", event=T0 + event * MINUTE).claim
        assert grace_wait(pool(), claim, T0 + 6 * MINUTE).until == T0 + until * MINUTE


@pytest.mark.parametrize(
    ("at", "goes"),
    [(31 * MINUTE, False), (35 * MINUTE - SECOND, False), (35 * MINUTE, True), (35 * MINUTE + 30 * SECOND, True)],
)
def test_timeline_at_35_minutes_node_d_is_visible_again(at, goes):
    """It is empty by then, and consolidateAfter has long passed."""
    found = replace(timeline(0, T0 + 5 * MINUTE), at=T0 + at)
    assert taken(found) == (["d"] if goes else [])


def test_timeline_at_35_minutes_30_normal_consolidation_applies_to_all_nodes():
    nodes = [touched(name, running(f"p{name}", name), event=T0 + 5 * MINUTE) for name in "abcd"]
    found = cluster(*nodes, pools=[pool()], types=(LARGE,), at=T0 + 35.5 * MINUTE)
    assert planned(found) == [("multi-node", ["a", "b", "c"])]


@pytest.mark.parametrize("field", ["consolidateAfter", "consolidationGracePeriod"])
def test_table_both_protect_a_node_as_source(field):
    found = cluster(touched("a", event=T0 - MINUTE), pools=[free(**{field: "30m"})], at=T0)
    assert taken(found) == []


def test_table_the_grace_period_protects_a_node_as_destination():
    """In a pool of its own, so that the source is free to go."""
    graceful = free("graceful", template=ON_DEMAND, consolidationGracePeriod="30m")
    pair = touched("a", running("x", "a", cpu="2")), touched("d", running("y", "d", cpu="2"), pool="graceful", event=T0)
    assert taken(cluster(*pair, pools=[free(template=ON_DEMAND), graceful], types=(LARGE,), at=T0)) == []


@pytest.mark.parametrize("method", ["emptiness", "multi-node", "single-node"])
def test_invisible_means_to_every_kind_of_consolidation(method):
    pods = () if method == "emptiness" else (running("x", "a"),)
    found = cluster(
        touched("a", *pods, event=T0), touched("b", running("y", "b"), event=T0), pools=[pool()], at=T0 + MINUTE
    )
    assert said(found, method, "a").code == "Waiting"


def test_drift_and_expiration_do_not_care():
    recent = {"status": {"lastPodEventTime": stamped(T0)}}
    full = running("x", "a", cpu="3500m")
    assert planned(cluster(drifted("a", full, **recent), pools=[pool()], at=T0)) == [("drift", ["a"])]
    expiring = pool(expireAfter="1h")
    assert planned(cluster(worker("a", full, **recent), pools=[expiring], at=T0)) == [("expiration", ["a"])]


def test_pending_pods_may_still_land_on_an_invisible_node():
    found = cluster(touched("d", event=T0), pools=[pool()], pods=[pod("new")], types=(LARGE,), at=T0)
    assert set(solve(found, found.unbound_pods, usable_pools(found)).node_by_pod.values()) == {"d"}


@pytest.mark.parametrize("value", ["Never", None])
def test_never_or_unset_means_no_grace_period(value):
    disruption = {"consolidationGracePeriod": value} if value else {}
    found = cluster(touched("a", event=T0), pools=[free(**disruption)], at=T0)
    assert taken(found) == ["a"]


def test_without_pod_events_the_clock_starts_at_initialisation():
    young = worker("a", age=29 * MINUTE)
    assert taken(cluster(young, pools=[pool()])) == []
    assert taken(cluster(worker("a", age=30 * MINUTE), pools=[pool()])) == ["a"]


@pytest.mark.parametrize(
    ("workload", "period"), [("high churn", "1h"), ("medium churn", "30m"), ("low churn", "5m"), ("don't use", "Never")]
)
def test_recommended_values_are_understood(workload, period):
    assert nodepool(disruption={"consolidationGracePeriod": period}).spec.disruption.consolidation_grace_period, (
        workload
    )


# -- the cycle


def moves(**disruption):
    """How often nodes are consolidated in three hours in which every few minutes pods come and go.

    Small pods live for a few minutes each: whenever two half-empty nodes could be one, consolidation packs them, and
    the next pods need room again, which is bought.
    """
    pools = [free(template=ON_DEMAND, **disruption)]
    nodes = {
        name: (touched(name, event=T0 - timedelta(days=1)), [running(f"base-{name}", name, cpu="2")]) for name in "ab"
    }
    total, bought = 0, 0
    for step in range(36):
        now = T0 + step * 5 * MINUTE
        wave = [f"job-{step}-{each}" for each in range(2)]
        for job in wave:
            room = [name for name, (_, pods) in sorted(nodes.items()) if len(pods) < 2]
            if not room:
                bought += 1
                room = [f"n{bought}"]
                nodes[room[0]] = (touched(room[0], event=now), [])
            name = room[0]
            nodes[name] = (_event(nodes[name][0], now), [*nodes[name][1], running(job, name, cpu="2")])
        later = now + 2 * MINUTE
        for name, (node, pods) in list(nodes.items()):
            kept = [each for each in pods if not each.name.startswith("job")]
            if len(kept) != len(pods):
                nodes[name] = (_event(node, later), kept)
        seen = cluster(
            *(replace(node, pods=tuple(pods)) for node, pods in nodes.values()),
            pools=pools,
            types=(LARGE,),
            at=later + MINUTE,
        )
        for command in plan_disruption(seen).commands:
            for candidate in command.candidates:
                total += 1
                _, moved = nodes.pop(candidate.name)
                target = (
                    next(name for name, (_, pods) in sorted(nodes.items()) if len(pods) + len(moved) <= 2)
                    if moved
                    else ""
                )
                if moved:
                    nodes[target] = (_event(nodes[target][0], later + MINUTE), [*nodes[target][1], *moved])
    return total


def _event(node, at):
    claim = msgspec.structs.replace(
        node.claim, status=msgspec.structs.replace(node.claim.status, last_pod_event_time=at)
    )
    return replace(node, claim=claim)


def test_the_cycle_happens_without_a_grace_period():
    """consolidateAfter alone: every wave of pods is followed by consolidation, and the next wave buys again."""
    assert moves(consolidateAfter="30s") > 20


def test_the_cycle_does_not_happen_with_a_grace_period():
    assert moves(consolidateAfter="30s", consolidationGracePeriod="30m") == 0
