"""Several commands in one pass: each is planned as if those before it were in flight."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptance.fleet import ON_DEMAND, SIZES, cluster, free, running, taken, worker
from builders import HUGE, LARGE, SMALL
from dovetail.core.disruption.in_flight import as_if_under_way
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import consider, plan_methods
from dovetail.core.provisioning.eligible_pods import displaced_pods
from dovetail.core.provisioning.nodeclaim_template import claim_for
from dovetail.core.provisioning.plan import plan_provisioning
from dovetail.model.command import REPLACES_ANNOTATION
from dovetail.model.reason import Reason
from dovetail.model.snapshot import ClusterNode

POOLS = [free(template=ON_DEMAND)]
SINGLE = [method for method in METHODS if method.name == "single-node"]


def chained(found):
    """All commands that would be validated together."""
    *_, last = plan_methods(PassContext(found), SINGLE)
    return list(last.commands)


def single(found):
    """What the next single node would be, if any."""
    return list(consider(SINGLE[0], PassContext(found)).commands)


def pair(pools=POOLS):
    """Each could go to the other, and not both."""
    return cluster(worker("a", running("x", "a")), worker("b", running("y", "b", cpu="2")), pools=pools, types=(LARGE,))


def oversized(*names, pools=POOLS):
    """Each is paid for as if it were large, is as full as a small one, and has no room for another pod."""
    nodes = [worker(name, running(f"p{name}", name, cpu="1900m"), size=("2", "8Gi")) for name in names]
    return cluster(*nodes, pools=pools, types=(SMALL, LARGE))


def test_no_command_relies_on_the_room_of_a_node_that_goes():
    assert taken(pair()) == ["a"]
    assert taken(as_if_under_way(pair(), single(pair()))) == []


def test_its_pods_need_a_place_and_budgets_count_it():
    assert [pod.name for pod in displaced_pods(as_if_under_way(pair(), single(pair())))] == ["x"]
    tight = pair([free(template=ON_DEMAND, budgets=[{"nodes": "1"}])])
    assert PassContext(tight).allowance("default", Reason.UNDERUTILIZED).permits()
    ahead = as_if_under_way(tight, single(tight))
    assert not PassContext(ahead).allowance("default", Reason.UNDERUTILIZED).permits()


def test_without_anybody_before_it_nothing_changes():
    found = pair()
    assert as_if_under_way(found, ()) is found


def test_one_is_replaced_after_the_other_and_each_has_a_replacement_of_its_own():
    found = oversized("a", "b", "c")
    commands = chained(found)
    assert [(command.candidates[0].name, len(command.replacements)) for command in commands] == [
        ("a", 1),
        ("b", 1),
        ("c", 1),
    ]
    ahead = as_if_under_way(found, commands)
    assert sorted(name for _, name in plan_provisioning(ahead).node_by_pod) == sorted(
        node.name for node in ahead.nodes if node.node is None
    )


def test_budgets_count_those_that_wait_for_a_replacement():
    pools = [free(template=ON_DEMAND, budgets=[{"nodes": "2"}])]
    assert len(chained(oversized("a", "b", "c", pools=pools))) == 2


@pytest.mark.parametrize(("cores", "number"), [("5", 0), ("6", 3), ("12", 3)])
def test_limits_count_a_node_and_what_replaces_it_once(cores, number):
    """Three nodes with two cores each, and so has what replaces them. A pool beyond its limit replaces nothing."""
    assert len(chained(oversized("a", "b", "c", pools=[free(template=ON_DEMAND, limits={"cpu": cores})]))) == number


def test_what_is_ordered_or_there_already_is_not_ordered_again():
    found = oversized("a", "b")
    (command,) = single(found)
    ahead = as_if_under_way(found, [command])
    (record,) = {node.record.id for node in ahead.nodes if node.record is not None}
    written = tuple(node for node in ahead.nodes if node.node is not None)
    assert names(as_if_under_way(replace(found, nodes=written), [command])) == names(ahead)
    there = _ordered(command, record)
    again = as_if_under_way(replace(found, nodes=(*written, there)), [command])
    assert names(again) == [*names(replace(found, nodes=written)), "real"]


def test_a_command_whose_nodes_are_gone_orders_nothing():
    found = oversized("a", "b")
    left = replace(found, nodes=found.nodes[1:])
    assert names(as_if_under_way(left, single(found))) == ["b"]


def _ordered(command, record):
    claim = claim_for(command.replacements[0])
    annotations = {**claim.metadata.annotations, REPLACES_ANNOTATION: record}
    metadata = msgspec.structs.replace(claim.metadata, name="real", annotations=annotations)
    return ClusterNode(None, msgspec.structs.replace(claim, metadata=metadata))


def names(found):
    return [node.name for node in found.nodes]


@given(st.data())
def test_commands_together_save_money_and_leave_no_pod_unschedulable(data):
    """Beside all that is under way nothing else has to be bought, nothing goes twice, and budgets hold."""
    nodes = [filled(f"n{number}", data) for number in range(data.draw(st.integers(2, 6), "nodes"))]
    found = cluster(*nodes, pools=[free(template=ON_DEMAND, budgets=[{"nodes": "3"}])], types=(SMALL, LARGE, HUGE))
    commands = chained(found)
    ahead = as_if_under_way(found, commands)
    gone = [each.name for command in commands for each in command.candidates]
    assert len(gone) == len({*gone}) <= 3
    assert all(command.saving > 0 for command in commands)
    plan = plan_provisioning(ahead)
    assert (plan.launches, plan.refusals) == ((), ())
    assert not {name for _, name in plan.node_by_pod} & {*gone}


def filled(name, data):
    """A node with some pods that fit on it."""
    type_ = data.draw(st.sampled_from(["m.large", "m.huge"]), "type")
    pods, left = [], int(SIZES[type_][0]) * 1000
    for number, cpu in enumerate(data.draw(st.lists(st.sampled_from([300, 700, 1500, 2500]), max_size=8), "cpu")):
        if cpu <= left:
            pods.append(running(f"{name}-{number}", name, cpu=f"{cpu}m", memory="100Mi"))
            left -= cpu
    return worker(name, *pods, type_=type_)
