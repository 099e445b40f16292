"""Pod-seconds of a group are the sum of the pod-seconds of its pods."""

from hypothesis import given
from hypothesis import strategies as st

from dovetail.model.kube_object import Key, ObjectMeta, OwnerReference
from dovetail.model.pod import Container, Pod, PodSpec, ResourceRequirements
from dovetail.model.resources import Quantity
from dovetail.sim.scenario.occupancy import Occupancy

SMALL, LARGE = (
    (Container(resources=ResourceRequirements(requests={"cpu": Quantity.parse(cpu)})),) for cpu in ("1", "4")
)
STATIC = OwnerReference(api_version="v1", kind="Node", name="one", uid="one")


def pod(name, containers=SMALL, node="one", owners=()):
    metadata = ObjectMeta(name=name, owner_references=owners)
    return Pod(metadata=metadata, spec=PodSpec(node_name=node, containers=containers))


def seconds_by_containers(occupancy, now):
    return [(each.spec.containers, seconds) for each, seconds in occupancy.pod_seconds(now)]


def test_replicas_are_counted_together_and_others_apart():
    occupancy = Occupancy()
    for name, containers in (("a", SMALL), ("b", SMALL), ("c", LARGE)):
        occupancy.add(Key("", name), pod(name, containers), 10.0)
    assert seconds_by_containers(occupancy, 30.0) == [(SMALL, 40.0), (LARGE, 20.0)]


def test_a_static_pod_is_counted_apart_from_replicas_with_the_same_requests():
    """The cost floor leaves static pods out, so it must be able to tell them apart."""
    occupancy = Occupancy()
    occupancy.add(Key("", "a"), pod("a"), 0.0)
    occupancy.add(Key("", "b"), pod("b", owners=(STATIC,)), 0.0)
    assert [(each.mirror, seconds) for each, seconds in occupancy.pod_seconds(5.0)] == [(False, 5.0), (True, 5.0)]


def test_removing_a_node_removes_its_pods():
    occupancy = Occupancy()
    occupancy.add(Key("", "a"), pod("a", node="one"), 0.0)
    occupancy.add(Key("", "b"), pod("b", node="two"), 0.0)
    occupancy.remove_node("one", 4.0)
    assert (Key("", "a") in occupancy, occupancy.node_of(Key("", "a"))) == (False, "")
    assert (Key("", "b") in occupancy, occupancy.node_of(Key("", "b"))) == (True, "two")
    assert seconds_by_containers(occupancy, 10.0) == [(SMALL, 14.0)]


def test_a_removed_pod_is_reported_once():
    occupancy = Occupancy()
    occupancy.add(Key("", "a"), pod("a"), 1.0)
    occupancy.remove(Key("", "a"), 3.0)
    assert seconds_by_containers(occupancy, 10.0) == [(SMALL, 2.0)]
    assert seconds_by_containers(occupancy, 20.0) == []


@given(
    lives=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.booleans()), max_size=12),
    looks=st.lists(st.integers(0, 60), max_size=5),
)
def test_pod_seconds_between_two_readings_are_the_sum_over_the_pods(lives, looks):
    """A pod that is bound from `start` to `end` contributes the part of that span between the readings."""
    spans = [(min(start, end), max(start, end), LARGE if large else SMALL) for start, end, large in lives]
    instants = sorted({*looks, 60})
    occupancy, before = Occupancy(), 0
    moves = sorted(
        [(start, 0, n) for n, (start, _, _) in enumerate(spans)] + [(e, 1, n) for n, (_, e, _) in enumerate(spans)]
    )
    for look in instants:
        while moves and moves[0][0] <= look:
            at, ends, number = moves.pop(0)
            key = Key("", str(number))
            occupancy.remove(key, at) if ends else occupancy.add(key, pod(key.name, spans[number][2]), at)
        had = {id(kind): seconds for kind, seconds in seconds_by_containers(occupancy, look)}
        for kind in (SMALL, LARGE):
            alone = sum(max(0, min(end, look) - max(start, before)) for start, end, each in spans if each is kind)
            assert had.get(id(kind), 0) == alone
        before = look
