"""Pods share a shape if and only if they are equal to the scheduler, also where they share most parts of their spec."""

import msgspec
import pytest

from builders import pod
from dovetail.core.scheduling.pod_shapes import PodShapes
from dovetail.model.storage import Storage

SPEC = {
    "initContainers": [{"name": "init", "resources": {"requests": {"cpu": "4"}}}],
    "tolerations": [{"operator": "Exists"}],
    "nodeSelector": {"disk": "ssd"},
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    "overhead": {"cpu": "1"},
    "resources": {"requests": {"cpu": "3"}},
    "priority": 5,
}
FIELDS = ("containers", "init_containers", "tolerations", "node_selector", "affinity", "topology_spread_constraints")
FIELDS += ("volumes", "overhead", "resources", "priority")


def shapes():
    return PodShapes({}, Storage(), ["app"])


def labeled(value, **changes):
    return msgspec.structs.replace(value, metadata=msgspec.structs.replace(value.metadata, **changes))


@pytest.mark.parametrize("field", FIELDS)
def test_pods_that_differ_in_one_field_do_not_share_a_shape(field):
    """Every other part of the spec is the same object, as decoded pods of a workload have it."""
    plain, other = pod("a", "1"), pod("a", "2", spec=SPEC)
    assert getattr(plain.spec, field) != getattr(other.spec, field)
    changed = msgspec.structs.replace(
        plain, spec=msgspec.structs.replace(plain.spec, **{field: getattr(other.spec, field)})
    )
    known = shapes()
    assert known.of(plain) is not known.of(changed)
    assert known.of(plain) is known.of(plain)


def test_namespace_and_labels_that_selectors_name_tell_pods_apart():
    plain, known = pod("a", "1"), shapes()
    assert known.of(plain) is not known.of(labeled(plain, namespace="other"))
    assert known.of(plain) is not known.of(labeled(plain, labels={"app": "web"}))
    assert known.of(labeled(plain, labels={"other": "a"})) is known.of(labeled(plain, labels={"other": "b"}))


def test_pods_of_one_name_with_other_volumes_do_not_share_a_shape():
    first, known = pod("a", "1", spec={"volumes": SPEC["volumes"]}), shapes()
    other = pod("a", "1", spec={"volumes": [{"name": "data", "emptyDir": {}}]}).spec.volumes
    changed = msgspec.structs.replace(first, spec=msgspec.structs.replace(first.spec, volumes=other))
    assert known.of(first) is not known.of(changed)


def test_an_ephemeral_volume_is_that_of_its_pod_alone():
    spec = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}
    first, known = pod("a", "1", spec=spec), shapes()
    assert known.of(first) is not known.of(labeled(first, name="b"))


def test_pods_that_differ_only_in_requests_or_priority_share_their_constraints():
    known = shapes()
    small = known.of(pod("a", "1"))
    for other in (pod("b", "2"), pod("c", "1", spec={"priority": 5}), pod("d", "1", spec={"overhead": {"cpu": "1"}})):
        assert known.of(other) is not small
        assert known.of(other).constraints is small.constraints


def test_host_ports_belong_to_the_constraints():
    known, ports = shapes(), [{"containerPort": 80, "hostPort": 80}]
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}, "ports": ports}
    with_port = known.of(pod("b", "1", spec={"containers": [container]}))
    assert with_port.ports
    assert with_port.constraints is not known.of(pod("a", "1")).constraints


def test_equal_requests_of_different_containers_are_one_shape():
    known = shapes()
    halves = [{"name": name, "resources": {"requests": {"cpu": "500m"}}} for name in ("main", "sidecar")]
    one = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    first, second = (pod(name, spec={"containers": each}) for name, each in (("a", halves), ("b", [one])))
    assert known.of(first) is known.of(second)


def test_equal_pods_share_a_shape_though_no_part_is_the_same_object():
    known = shapes()
    assert known.of(pod("a", "2", spec=SPEC)) is known.of(pod("b", "2", spec=SPEC))
