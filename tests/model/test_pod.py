"""The words for the state a pod is in."""

import pytest

from dovetail.model.kube_object import Condition, ObjectMeta, OwnerReference
from dovetail.model.pod import Pod, PodStatus


def pod(*owners, **status):
    references = tuple(
        OwnerReference(api_version=version, kind=kind, name="owner", uid=f"{kind}-{version}")
        for kind, version in owners
    )
    return Pod(metadata=ObjectMeta(name="a", owner_references=references), status=PodStatus(**status))


WAITS = (Condition(type="PodScheduled", status="False", reason="Unschedulable"),)


@pytest.mark.parametrize(
    ("owners", "stays"),
    [
        ((), False),
        ((("ReplicaSet", "apps/v1"),), False),
        ((("DaemonSet", "apps/v1"),), True),
        ((("DaemonSet", "acme.example/v1"),), False),
        ((("Node", "v1"),), True),
        ((("Node", "acme.example/v1"),), False),
        ((("ReplicaSet", "apps/v1"), ("DaemonSet", "apps/v1")), True),
    ],
)
def test_daemons_and_static_pods_stay_with_their_node(owners, stays):
    found = pod(*owners, conditions=WAITS)
    assert found.stays_with_node == (found.daemon or found.mirror) == stays
    assert found.reschedulable != stays
    assert found.provisionable != stays


@pytest.mark.parametrize(
    ("conditions", "ready", "waits"),
    [
        ((), False, False),
        (WAITS, False, True),
        ((Condition(type="PodScheduled", status="True"),), False, False),
        ((Condition(type="Ready", status="True"),), True, False),
        ((Condition(type="Ready", status="False"),), False, False),
        ((Condition(type="Ready", status="True"), *WAITS), True, True),
    ],
)
def test_conditions_say_whether_a_pod_is_ready_and_whether_it_found_no_node(conditions, ready, waits):
    found = pod(conditions=conditions)
    assert (found.ready, found.failed_to_schedule, found.provisionable) == (ready, waits, waits)
