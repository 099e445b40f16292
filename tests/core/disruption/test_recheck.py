"""What keeps a node of a command when it is asked right before the node is deleted."""

from datetime import timedelta

import msgspec
import pytest

from acceptance.fleet import (
    BLOCKING,
    DO_NOT_DISRUPT,
    TERMINATION,
    cluster,
    drifted,
    free,
    owned,
    pdb,
    running,
    shielded,
    worker,
)
from builders import NOON
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.validation import find_obstacles, worth_waiting
from dovetail.model.command import RECORD_ANNOTATION, CommandRecord, CommandState, write_record
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode, node_ref
from dovetail.model.snapshot import ClusterNode

TOLERANT = {"tolerations": [{"operator": "Exists"}]}


def record(method="drift", reason=Reason.DRIFTED, number=1, replacements=1, **fields):
    started_at = fields.pop("started_at", NOON - timedelta(minutes=2))
    return CommandRecord(
        id=fields.pop("id", "c"),
        reason=reason,
        started_at=started_at,
        candidates=number,
        replacements=replacements,
        method=method,
        **fields,
    )


def marked(joined, by):
    """A node with the record of a command on its claim."""
    metadata = joined.claim.metadata
    annotations = {**metadata.annotations, RECORD_ANNOTATION: write_record(by)}
    changed = msgspec.structs.replace(metadata, annotations=annotations)
    return ClusterNode(joined.node, msgspec.structs.replace(joined.claim, metadata=changed), joined.pods)


def obstacles(by, *nodes, planned=None, others=(), **fields):
    going = [marked(each, by) for each in nodes]
    found = cluster(*going, *others, **fields)
    return find_obstacles(CommandState(by, tuple(each.claim for each in going), ()), PassContext(found), planned)


def codes(found):
    return {name: refusal.code for name, refusal in found.items()}


def test_a_command_that_still_holds_has_no_obstacle():
    assert obstacles(record(), drifted("a", running("web", "a"))) == {}


@pytest.mark.parametrize(
    ("node", "fields", "code"),
    [
        (drifted("a", shielded("web", "a")), {}, "DoNotDisruptPod"),
        (drifted("a", shielded("web", "a"), claim=TERMINATION), {}, "DoNotDisruptPod"),
        (drifted("a", running("web", "a"), metadata={"annotations": {DO_NOT_DISRUPT: "true"}}), {}, "DoNotDisruptNode"),
        (drifted("a", running("web", "a")), {"pdbs": [pdb(**BLOCKING)]}, "PodDisruptionBudget"),
        (drifted("a", running("web", "a")), {"pools": [free(budgets=[{"nodes": "0"}])]}, "Budget"),
        (worker("a", running("web", "a")), {}, "NotDrifted"),
    ],
    ids=["pod", "pod of a bounded drain", "node", "PDB", "budget", "drift reverted"],
)
def test_what_came_since_keeps_the_node(node, fields, code):
    assert codes(obstacles(record(), node, **fields)) == {"a": code}


def test_a_pdb_does_not_keep_a_drifted_node_whose_drain_has_a_deadline():
    node = drifted("a", running("web", "a"), claim=TERMINATION)
    assert obstacles(record(), node, pdbs=[pdb(**BLOCKING)]) == {}


def test_an_empty_node_that_got_a_pod_is_kept_and_another_is_not():
    emptiness = record("emptiness", Reason.EMPTY, number=2, replacements=0)
    found = obstacles(emptiness, worker("a", running("web", "a")), worker("b"), planned=frozenset())
    assert codes(found) == {"a": "NotEmpty"}


@pytest.mark.parametrize("tolerant", [False, True])
def test_a_pod_the_command_was_not_planned_with_keeps_the_node_unless_the_drain_leaves_it_alone(tolerant):
    late = running("late", "a", spec=TOLERANT if tolerant else {})
    known = running("web", "a")
    found = obstacles(record(), drifted("a", known, late), planned=frozenset({known.metadata.uid}))
    assert codes(found) == ({} if tolerant else {"a": "UnplannedPod"})


def test_daemons_are_never_unplanned():
    assert obstacles(record(), drifted("a", owned("agent", "a", "DaemonSet")), planned=frozenset()) == {}


def test_consolidation_whose_nodes_became_empty_needs_no_replacement():
    single = record("single-node", Reason.UNDERUTILIZED)
    assert codes(obstacles(single, worker("a"))) == {"a": "Empty"}


def test_consolidate_after_restarts_only_for_a_command_without_replacement():
    busy = worker("a", running("web", "a"), status={"lastPodEventTime": "2026-01-05T11:59:50Z"})
    pools = [free(consolidateAfter="5m")]
    for replacements, code in ((0, {"a": "Waiting"}), (1, {})):
        single = record("single-node", Reason.UNDERUTILIZED, replacements=replacements)
        assert codes(obstacles(single, busy, pools=pools)) == code


@pytest.mark.parametrize(("seconds", "kept"), [(-10, {"a": "Budget"}), (10, {})], ids=["earlier", "later"])
def test_a_lowered_budget_lets_the_command_go_that_started_first(seconds, kept):
    ours = record()
    other = record(id="d", started_at=ours.started_at + timedelta(seconds=seconds))
    others = [marked(drifted("b", running("api", "b")), other)]
    pools = [free(budgets=[{"nodes": "1"}])]
    assert codes(obstacles(ours, drifted("a", running("web", "a")), others=others, pools=pools)) == kept


def test_the_nodes_of_one_command_count_together_against_a_lowered_budget():
    by = record("emptiness", Reason.EMPTY, number=2, replacements=0)
    found = obstacles(by, worker("a"), worker("b"), planned=frozenset(), pools=[free(budgets=[{"nodes": "1"}])])
    assert list(codes(found).values()) == ["Budget"]


def test_a_committed_command_counts_whenever_it_started():
    other = record(id="d", started_at=NOON, committed=True)
    others = [marked(drifted("b", running("api", "b")), other)]
    found = obstacles(
        record(), drifted("a", running("web", "a")), others=others, pools=[free(budgets=[{"nodes": "1"}])]
    )
    assert codes(found) == {"a": "Budget"}


@pytest.mark.parametrize(
    ("code", "permanent", "replacements", "minutes", "waits"),
    [
        ("PodDisruptionBudget", False, 1, 2, True),
        ("Budget", False, 1, 2, True),
        ("PodDisruptionBudget", True, 1, 2, False),
        ("DoNotDisruptPod", False, 1, 2, False),
        ("PodDisruptionBudget", False, 0, 2, False),
        ("PodDisruptionBudget", False, 1, 11, False),
    ],
)
def test_a_command_waits_only_for_what_others_use_up_and_not_for_ever(code, permanent, replacements, minutes, waits):
    state = CommandState(record(replacements=replacements, started_at=NOON - timedelta(minutes=minutes)), (), ())
    found = {"a": Refusal(RefusalCode(code), node_ref("a"), permanent=permanent)}
    assert worth_waiting(state, found, NOON) is waits
