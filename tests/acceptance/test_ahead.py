"""What waits for its second look beside others is decided as if those before it had been carried out."""

from acceptance.fleet import ON_DEMAND, cluster, free, running, taken, worker
from builders import LARGE
from dovetail.core.disruption.ahead import as_if_leaving
from dovetail.core.disruption.context import Context
from dovetail.core.provisioning.eligibility import displaced_pods
from dovetail.model.reason import Reason

POOLS = [free(template=ON_DEMAND)]


def pair():
    """Each could go to the other, and not both."""
    return cluster(worker("a", running("x", "a")), worker("b", running("y", "b", cpu="2")), pools=POOLS, types=(LARGE,))


def test_nobody_counts_on_the_room_of_a_node_that_goes():
    assert taken(pair()) == ["a"]
    assert taken(as_if_leaving(pair(), {"a"})) == []


def test_its_pods_need_a_place_and_budgets_count_it():
    ahead = as_if_leaving(pair(), {"a"})
    assert [pod.name for pod in displaced_pods(ahead)] == ["x"]
    tight = cluster(*pair().nodes, pools=[free(template=ON_DEMAND, budgets=[{"nodes": "1"}])], types=(LARGE,))
    assert Context(tight).allowance("default", Reason.UNDERUTILIZED).permits()
    assert not Context(as_if_leaving(tight, {"a"})).allowance("default", Reason.UNDERUTILIZED).permits()


def test_without_anybody_before_it_nothing_changes():
    found = pair()
    assert as_if_leaving(found, ()) is found
