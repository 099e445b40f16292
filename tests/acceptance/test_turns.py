"""A method whose command did not hold leaves the turn to those after it, in the same pass."""

from dataclasses import replace
from datetime import timedelta

from acceptance.fleet import LEAVING, ON_DEMAND, cluster, drifted, free, owned, planned, running, worker
from builders import LARGE, NOON, SMALL
from dovetail.core import wording
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import MOST_SINGLE_NODES, plan_disruption, plan_pass
from dovetail.core.explain.node import explain_node
from dovetail.model.reason import Reason

FIXED = [free(template=ON_DEMAND)]


def mixed():
    return cluster(*(worker(name, running(f"p{name}", name)) for name in "abc"), pools=FIXED, types=(LARGE,))


def test_single_node_acts_when_multi_node_has_had_its_turn():
    assert planned(mixed()) == [("multi-node", ["a", "b"])]
    left = plan_pass(PassContext(mixed()), methods=METHODS[4:])
    assert {command.method for command in left.commands} == {"single-node"}


def test_a_pass_says_which_methods_it_asked():
    assert list(plan_disruption(mixed()).refusals_by_method) == [method.name for method in METHODS[:4]]
    assert list(plan_disruption(mixed(), thorough=True).refusals_by_method) == [method.name for method in METHODS]


def test_reasons_back_off_one_by_one():
    """A pool that backs off from drift may still be consolidated."""
    found = cluster(drifted("a", owned("x", "a", "ReplicaSet", metadata=LEAVING)), pools=FIXED, types=(LARGE,))
    assert planned(found) == [("drift", ["a"])]
    waiting = PassContext(found, backing_off={("default", Reason.DRIFTED): NOON + timedelta(minutes=1)})
    assert [command.method for command in plan_pass(waiting).commands] == ["emptiness"]


def oversized(*names, **disruption):
    """Each is paid for as a large node, holds what fits a small one, and has no room for another pod."""
    nodes = [worker(name, running(f"p{name}", name, cpu="1900m"), size=("2", "8Gi")) for name in names]
    return cluster(*nodes, pools=[free(template=ON_DEMAND, **disruption)], types=(SMALL, LARGE))


def test_a_plan_has_every_command_that_starts_together():
    found = oversized(*"abcdef")
    plan = plan_disruption(found, thorough=True)
    assert [[each.name for each in command.candidates] for command in plan.commands] == [[name] for name in "abcdef"]
    assert plan.refusals_by_method["single-node"] == ()
    for node in found.nodes:
        view = explain_node(node, PassContext(found), plan).methods[-1]
        assert (view.command, view.after) == (plan.commands["abcdef".index(node.name)], "")


def test_a_node_beyond_those_that_start_together_could_go_later():
    plan = plan_disruption(oversized(*"abcdefghijk"))
    assert len(plan.commands) == MOST_SINGLE_NODES == 10
    (refusal,) = plan.refusals_by_method["single-node"]
    assert (str(refusal.object), refusal.code) == ("node/k", "NotTheBest")


def test_commands_that_start_together_share_the_budget():
    plan = plan_disruption(oversized(*"abc", budgets=[{"nodes": "2"}]))
    assert [command.candidates[0].name for command in plan.commands] == ["a", "b"]
    (refusal,) = plan.refusals_by_method["single-node"]
    assert refusal.object.name == "c"
    assert wording.message(refusal) == "budget '2' of NodePool default allows 2 for Underutilized: 2 in use"


def test_a_proposal_that_would_fail_its_validation_is_no_command():
    """The budget closes ten seconds after the plan, and consolidation is validated after fifteen."""
    closing = {"nodes": "0", "schedule": "0 12 * * *", "duration": "1h"}
    found = replace(oversized("a", budgets=[closing]), at=NOON - timedelta(seconds=10))
    plan = plan_disruption(found, thorough=True)
    assert plan.commands == plan.commands_by_method["single-node"] == ()
    (refusal,) = plan.refusals_by_method["single-node"]
    assert (str(refusal.object), refusal.code) == ("node/a", "BudgetsChanged")
    assert plan.wakeup_at == NOON


def test_a_node_that_drops_out_at_the_validation_is_refused():
    """The budget tightens from two to one before the validation."""
    tight = {"nodes": "1", "schedule": "0 12 * * *", "duration": "1h"}
    empty = cluster(worker("a"), worker("b"), pools=[free(budgets=[{"nodes": "2"}, tight])])
    plan = plan_disruption(replace(empty, at=NOON - timedelta(seconds=10)))
    assert [[each.name for each in command.candidates] for command in plan.commands] == [["a"]]
    (refusal,) = plan.refusals_by_method["emptiness"]
    assert (str(refusal.object), refusal.code) == ("node/b", "CandidatesChanged")
    assert wording.message(refusal) == "churn: not eligible any more when its command was validated"
