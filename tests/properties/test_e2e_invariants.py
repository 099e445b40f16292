"""The laws by which real clusters are judged catch what they should: a small history, and one broken law each."""

import json
from datetime import datetime

import pytest

from e2e.invariants import POOL, PROTECTION, judged
from e2e.watching import Change

LABELS = {
    POOL: "default",
    "topology.kubernetes.io/zone": "test-zone-a",
    "karpenter.sh/capacity-type": "on-demand",
}
SMALL, LARGE = "s-4x-amd64-linux", "s-16x-amd64-linux"
DELETED = {"deletionTimestamp": "2026-01-05T12:00:30Z", "deletionGracePeriodSeconds": 30}
EVICTED = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]


def record(reason="Drifted", replacements=0):
    return json.dumps({"id": "one", "reason": reason, "candidates": 1, "replacements": replacements})


def pool(**limits):
    return {"metadata": {"uid": "pool", "name": "default"}, "spec": {"limits": limits} if limits else {}}


def launched(name, cpu="4", *, deleted=False):
    made = claim(name, deleted=deleted)
    return {**made, "status": {**made["status"], "capacity": {"cpu": cpu, "memory": "8Gi"}}}


def claim(name, *conditions, size=SMALL, deleted=False, **annotations):
    labels = {**LABELS, "node.kubernetes.io/instance-type": size}
    written = {f"dovetail.sh/{key}": value for key, value in annotations.items()}
    metadata = {"uid": name, "name": name, "labels": labels, "annotations": written, **(DELETED if deleted else {})}
    status = {"nodeName": f"node-{name}", "conditions": [{"type": each, "status": "True"} for each in conditions]}
    return {"metadata": metadata, "spec": {}, "status": status}


def node(name, *, deleted=False):
    return {"metadata": {"uid": f"node-{name}", "name": f"node-{name}", **(DELETED if deleted else {})}, "spec": {}}


def pod(name, *, deleted=False, **annotations):
    metadata = {"uid": name, "name": name, "creationTimestamp": "2026-01-05T11:59:00Z", "annotations": annotations}
    status = {"phase": "Running", "conditions": EVICTED if deleted else []}
    return {"metadata": {**metadata, **(DELETED if deleted else {})}, "spec": {"nodeName": "node-a"}, "status": status}


def budget(healthy, wanted):
    return {"metadata": {"uid": "web", "name": "web"}, "status": {"currentHealthy": healthy, "desiredHealthy": wanted}}


def told(*steps):
    """A history of (kind, what is there now), or (kind, None, what was there); a number lets that many seconds pass."""
    known, history, now = {}, [], 0.0
    for number, step in enumerate(steps):
        if isinstance(step, int):
            now += step
            continue
        kind, after, *gone = step
        uid = (after or gone[0])["metadata"]["uid"]
        history.append(Change(number, kind, known.get((kind, uid)), after, now))
        known[kind, uid] = after
    return history


def broken(*steps):
    return " ".join(judged(told(*steps), {"default": 1}).broken)


READY = ("Registered", "Initialized")
A, B = ("NodeClaim", claim("a", *READY)), ("NodeClaim", claim("b", *READY))
LEAVING = ("NodeClaim", claim("a", *READY, deleted=True, command=record()))


def test_what_goes_as_it_should_breaks_nothing():
    assert not broken(
        A,
        ("Node", node("a")),
        ("Pod", pod("p", **{PROTECTION: "10s"})),
        ("NodeClaim", claim("a", *READY, command=record(replacements=1))),
        ("NodeClaim", claim("c", *READY, replaces="one")),
        ("NodeClaim", claim("a", *READY, deleted=True, command=record(replacements=1))),
        ("Node", node("a", deleted=True)),
        ("PodDisruptionBudget", budget(3, 2)),
        ("Pod", pod("p", deleted=True, **{PROTECTION: "10s"})),
        ("PodDisruptionBudget", budget(2, 2)),
        ("Pod", None, pod("p")),
        ("Node", None, node("a")),
    )


def test_a_claim_that_nobody_has_looked_at_yet_is_no_fault():
    just_made = {"metadata": {"uid": "n", "name": "n", "labels": LABELS}, "spec": {}}
    eviction = (("Pod", pod("p")), ("Pod", pod("p", deleted=True)))
    assert not broken(A, ("NodeClaim", just_made), LEAVING, ("Node", node("a", deleted=True)), *eviction)


def test_limits_hold_for_what_stays_and_as_far_as_they_could_be_known():
    two = (("NodeClaim", launched("a")), ("NodeClaim", launched("b")))
    assert not broken(("NodePool", pool(cpu="8", nodes="2")), *two)
    assert not broken(("NodePool", pool()), *two)
    going = ("NodeClaim", launched("a", deleted=True))
    assert not broken(("NodePool", pool(cpu="4")), two[0], going, ("NodeClaim", claim("b")), two[1])
    just_made = (("NodePool", pool(cpu="8")), two[0], 60, ("NodePool", pool(cpu="4")), 5, ("NodeClaim", claim("b")))
    assert not broken(*just_made, 30, two[1]), "nobody could know of the change yet"
    assert "is the limit" in broken(*just_made[:-2], 60, ("NodeClaim", claim("b")), two[1])


def test_a_drain_waits_for_a_pod_that_is_told_to_stop_until_a_minute_after_its_time():
    stopping = ("Pod", {**pod("p", deleted=True), "status": {"phase": "Running"}})
    ends_at = int(datetime.fromisoformat(DELETED["deletionTimestamp"]).timestamp())
    story = (("Node", node("a")), ("Pod", pod("p")), stopping)
    assert "when it ended" in broken(*story, ends_at + 59, ("Node", None, node("a")))
    assert not broken(*story, ends_at + 61, ("Node", None, node("a")))


CASES = {
    "of cpu, and 7 is the limit": (("NodePool", pool(cpu="7")), *(("NodeClaim", launched(each)) for each in "ab")),
    "of nodes, and 1 is the limit": (("NodePool", pool(nodes="1")), *(("NodeClaim", launched(each)) for each in "ab")),
    "may be": (A, B, *(("NodeClaim", claim(each, *READY, command=record())) for each in "ab")),
    "nothing says why": (A, ("NodeClaim", claim("a", *READY, deleted=True))),
    "replacements are ready": (
        ("NodeClaim", claim("a", *READY, command=record(replacements=1))),
        ("NodeClaim", claim("c", "Registered", replaces="one")),
        ("NodeClaim", claim("a", *READY, deleted=True, command=record(replacements=1))),
    ),
    "an hour became": (
        ("NodeClaim", claim("a", *READY, command=record("Underutilized", 1))),
        ("NodeClaim", claim("c", *READY, size=LARGE, replaces="one")),
        ("NodeClaim", claim("a", *READY, deleted=True, command=record("Underutilized", 1))),
    ),
    "when it ended": (("Node", node("a")), ("Pod", pod("p")), ("Node", None, node("a"))),
    "which stays": (A, ("Node", node("a")), ("Pod", pod("p")), ("Pod", pod("p", deleted=True))),
    "is protected": (
        ("NodeClaim", claim("a", *READY, command=record())),
        LEAVING,
        ("Pod", pod("p", **{PROTECTION: "5m"})),
        ("Pod", pod("p", deleted=True, **{PROTECTION: "5m"})),
    ),
    "healthy": (("PodDisruptionBudget", budget(2, 2)), ("PodDisruptionBudget", budget(1, 2))),
}


def test_a_budget_is_held_to_what_it_wants_once_it_had_it():
    """While pods come up for the first time some may falter, without anybody's doing."""
    assert not broken(("PodDisruptionBudget", budget(1, 2)), ("PodDisruptionBudget", budget(0, 2)))
    met = (("PodDisruptionBudget", budget(each, 2)) for each in (1, 2, 1))
    assert "healthy" in broken(*met)


@pytest.mark.parametrize("words", CASES)
def test_a_broken_law_is_told(words):
    assert words in broken(*CASES[words])
