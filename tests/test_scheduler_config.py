"""SCHEDULER_CONFIG is decoded strictly, and spreads the pods of a controller by the labels of its template."""

from dataclasses import replace

import pytest

from builders import pod
from dovetail.model.kube_object import LabelSelector
from dovetail.scheduler_config import parse_scheduler_config, with_default_spread
from dovetail.settings import read_environment
from stories import GENERIC, deployment, live, node_class, pool

HOSTS = """
podTopologySpread:
  defaultConstraints:
  - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}
"""


def owned(kind, **labels):
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "u", "controller": True}
    return pod(metadata={"name": "web-0", "labels": labels, "ownerReferences": [owner]})


@pytest.mark.parametrize(
    "text", ["", "{}", "podTopologySpread: {}", '{"podTopologySpread": {"defaultConstraints": []}}']
)
def test_a_configuration_without_constraints_spreads_nothing(text):
    assert parse_scheduler_config(text) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("profiles: []", "profiles is not a known field; the only one is podTopologySpread"),
        ("podTopologySpread: {defaultingType: List}", "podTopologySpread.defaultingType is not a known field"),
        ("[]: [", "is not YAML or JSON"),
        ("- a", "the document must be a mapping"),
        (HOSTS.replace("maxSkew: 1", "maxSkew: 0"), "defaultConstraints[0].maxSkew must be a whole number"),
        (HOSTS.replace("DoNotSchedule", "Never"), "whenUnsatisfiable must be one of DoNotSchedule, ScheduleAnyway"),
        (HOSTS.replace("maxSkew: 1", "maxSkew: 1, labelSelector: {}"), "labelSelector is not allowed"),
        (HOSTS.replace("maxSkew: 1", "maxSkew: 1, matchLabelKeys: [a]"), "matchLabelKeys is not allowed"),
        (HOSTS + HOSTS.splitlines()[-1], "two entries with the same topologyKey and whenUnsatisfiable"),
    ],
)
def test_what_cannot_be_read_stops_the_process_with_the_field(text, words):
    with pytest.raises(ValueError, match=r"--scheduler-config \(SCHEDULER_CONFIG\)") as refused:
        read_environment({}, {"SCHEDULER_CONFIG": text})
    assert words in str(refused.value)


def test_pods_of_a_controller_are_selected_by_the_labels_that_they_share():
    labels = {"app": "web", "statefulset.kubernetes.io/pod-name": "web-0", "apps.kubernetes.io/pod-index": "0"}
    (added,) = with_default_spread(
        owned("StatefulSet", **labels), parse_scheduler_config(HOSTS)
    ).spec.topology_spread_constraints
    assert (added.topology_key, added.max_skew) == ("kubernetes.io/hostname", 1)
    assert added.label_selector == LabelSelector(match_labels={"app": "web"})


def test_other_pods_and_pods_with_constraints_stay_as_they_are():
    constraints = parse_scheduler_config(HOSTS)
    zone = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    spread = with_default_spread(owned("ReplicaSet", app="web"), constraints)
    for each in (
        pod(),
        owned("Job", app="web"),
        owned("ReplicaSet"),
        pod(spec={"topologySpreadConstraints": [zone]}),
        spread,
    ):
        assert with_default_spread(each, constraints) is each


@pytest.mark.parametrize(("text", "nodes"), [("", 1), (HOSTS, 3)])
def test_nodes_are_launched_for_the_spread_that_kube_scheduler_would_add(text, nodes):
    async def story(life):
        life.world.apply(deployment(replicas=3, cpu="100m", memory="100Mi"))
        await life.until(lambda: (life.nodes and not life.parts.manager.state.unbound_pods) or len(life.nodes) == 3)
        return len(life.nodes)

    assert live(story, node_class(), pool(), settings=replace(GENERIC, scheduler_config=text)) == nodes
