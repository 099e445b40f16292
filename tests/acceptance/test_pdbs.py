"""Budgets of pods: which block, for how long, and where they divert the choice."""

import pytest

from acceptance.fleet import BLOCKING, ON_DEMAND, candidate_names, cluster, free, pdb, running, taken, worker
from builders import LARGE, SMALL
from dovetail.core.pdbs import find_block, fully_blocks

POOLS = [free(template=ON_DEMAND)]
LENIENT = {"unhealthyPodEvictionPolicy": "AlwaysAllow"}


def with_ready(status):
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]}


@pytest.mark.parametrize(
    ("policy", "ready", "free_to_go"),
    [(LENIENT, "False", True), (LENIENT, "True", False), (LENIENT, "Unknown", False), ({}, "False", False)],
)
def test_always_allow_lets_only_a_pod_go_that_is_not_ready(policy, ready, free_to_go):
    pod = running("x", "a", status=with_ready(ready))
    assert (find_block(pod, [pdb(spec=policy)]) is None) is free_to_go


def test_always_allow_needs_the_condition_to_be_there():
    assert find_block(running("x", "a"), [pdb(spec=LENIENT)]) is not None


def test_always_allow_does_not_help_against_two_budgets():
    pod = running("x", "a", status=with_ready("False"))
    assert find_block(pod, [pdb("one", spec=LENIENT), pdb("two", spec=LENIENT)]) is not None


def test_a_budget_of_another_namespace_does_not_block():
    assert candidate_names(cluster(worker("a", running("x", "a")), pdbs=[pdb(namespace="other")])) == ["a"]


def test_a_budget_that_selects_other_pods_does_not_block():
    other = pdb(spec={"selector": {"matchLabels": {"app": "other"}}})
    assert candidate_names(cluster(worker("a", running("x", "a")), pdbs=[other])) == ["a"]


def test_a_budget_without_selector_selects_nothing():
    assert candidate_names(cluster(worker("a", running("x", "a")), pdbs=[pdb(spec={"selector": None})])) == ["a"]


def test_a_budget_with_something_left_does_not_block():
    pods = [running("x", "a"), running("y", "a")]
    assert candidate_names(cluster(worker("a", *pods), pdbs=[pdb(allowed=1)])) == ["a"], "asked pod by pod"


def test_a_budget_with_something_left_does_not_open_the_node_of_a_pod_whose_own_budget_is_used_up():
    pods = [running(name, "a", metadata={"labels": {"app": name}}) for name in ("free", "held")]
    pdbs = [
        pdb(name, allowed=allowed, spec={"selector": {"matchLabels": {"app": name}}})
        for name, allowed in (("free", 1), ("held", 0))
    ]
    assert candidate_names(cluster(worker("a", *pods), pdbs=pdbs)) == []


@pytest.mark.parametrize(
    ("spec", "blocking"),
    [
        ({"maxUnavailable": 0}, True),
        ({"maxUnavailable": "0%"}, True),
        ({"minAvailable": "100%"}, True),
        ({"maxUnavailable": 1}, False),
        ({"minAvailable": 3}, False),
        ({"minAvailable": "50%"}, False),
    ],
)
def test_what_is_written_so_that_it_never_allows_anything(spec, blocking):
    assert fully_blocks(pdb(spec=spec)) is blocking


@pytest.mark.parametrize(
    ("fields", "permanent"),
    [
        ({}, False),
        (BLOCKING, True),
        ({"spec": {"minAvailable": 1}, "expectedPods": 1, "desiredHealthy": 1, "currentHealthy": 1}, True),
    ],
    ids=["used up", "written so", "one replica of which one must stay"],
)
def test_a_pdb_that_never_allows_an_eviction_is_permanent(fields, permanent):
    block = find_block(running("x", "a"), [pdb(**fields)])
    assert block is not None
    assert block.permanent is permanent


@pytest.mark.parametrize("key", ["karpenter.sh/disrupted", "karpenter.sh/disruption"])
def test_a_pod_that_tolerates_either_spelling_of_the_taint_is_not_evicted_so_its_budget_does_not_matter(key):
    tolerant = running("x", "a", spec={"tolerations": [{"key": key, "operator": "Exists"}]})
    assert candidate_names(cluster(worker("a", tolerant), pdbs=[pdb()])) == ["a"]


@pytest.mark.parametrize("types", [(LARGE,), (SMALL, LARGE)], ids=["delete", "replace"])
def test_a_budget_pushes_the_choice_to_the_other_node(types):
    pods = running("x", "a", cpu="2", metadata={"labels": {"app": "held"}}), running("y", "b", cpu="2")
    pair = worker("a", pods[0]), worker("b", pods[1])
    held = pdb(spec={"selector": {"matchLabels": {"app": "held"}}})
    assert taken(cluster(*pair, pdbs=[held], pools=POOLS, types=types)) == ["b"]
