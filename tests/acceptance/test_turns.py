"""A method whose command did not hold leaves the turn to those after it, in the same pass."""

from datetime import timedelta

from acceptance.fleet import LEAVING, ON_DEMAND, cluster, drifted, free, owned, planned, running, worker
from builders import LARGE, NOON
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import plan_disruption, plan_pass
from dovetail.model.reason import Reason

FIXED = [free(template=ON_DEMAND)]


def mixed():
    return cluster(*(worker(name, running(f"p{name}", name)) for name in "abc"), pools=FIXED, types=(LARGE,))


def test_single_node_acts_when_multi_node_has_had_its_turn():
    assert planned(mixed()) == [("multi-node", ["a", "b"])]
    left = plan_pass(PassContext(mixed()), methods=METHODS[4:])
    assert [command.method for command in left.commands] == ["single-node"]


def test_a_pass_says_which_methods_it_asked():
    assert list(plan_disruption(mixed()).refusals_by_method) == [method.name for method in METHODS[:4]]
    assert list(plan_disruption(mixed(), thorough=True).refusals_by_method) == [method.name for method in METHODS]


def test_reasons_back_off_one_by_one():
    """A pool that backs off from drift may still be consolidated."""
    found = cluster(drifted("a", owned("x", "a", "ReplicaSet", metadata=LEAVING)), pools=FIXED, types=(LARGE,))
    assert planned(found) == [("drift", ["a"])]
    waiting = PassContext(found, backing_off={("default", Reason.DRIFTED): NOON + timedelta(minutes=1)})
    assert [command.method for command in plan_pass(waiting).commands] == ["emptiness"]
