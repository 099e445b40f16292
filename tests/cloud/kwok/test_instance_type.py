import pytest

from cloud.kwok.claims import claim, instance_type, requirement
from dovetail.cloud.kwok.node import build_node, instance_of, node_name
from dovetail.cloud.kwok.offering_selection import SelectedOffering
from dovetail.model.labels import HOSTNAME, NODEPOOL, OS, REGION, WELL_KNOWN, ZONE


@pytest.mark.parametrize(
    ("name", "size", "family"),
    [
        ("m5.large", "large", "m5"),
        ("m5.24xlarge", "24xlarge", "m5"),
        ("c-16x-amd64-linux", "4", "c"),
        ("n2-standard-4", "4", "n2"),
        ("Standard_D4s_v5", "4", "S"),
        ("m7i.metal-24xl", "4", "m7i"),
    ],
)
def test_size_and_family_are_read_off_the_name(name, size, family):
    labels = instance_type(name, ("a", "spot", 1.0)).requirements.labels()
    assert labels["karpenter.kwok.sh/instance-size"] == size
    assert labels["karpenter.kwok.sh/instance-family"] == family
    assert labels["karpenter.kwok.sh/instance-cpu"] == "4"
    assert labels["karpenter.kwok.sh/instance-memory"] == "8Gi"


def test_every_well_known_label_but_the_nodepool_is_spoken_of():
    requirements = instance_type("m5.large", ("a", "spot", 1.0)).requirements
    assert set(requirements) >= WELL_KNOWN - {NODEPOOL}
    assert NODEPOOL not in requirements
    assert requirements.get(REGION).is_empty


def test_the_system_keeps_its_share_and_pods_default_to_110():
    built = instance_type("m5.large", ("a", "spot", 1.0))
    assert {name: str(amount) for name, amount in built.allocatable.items()} == {
        "pods": "110",
        "cpu": "3900m",
        "memory": "8182Mi",
    }


def node_of(of, systems=("linux",)):
    chosen = instance_type("m5.large", ("a", "spot", 0.1), ("b", "on-demand", 1.0), systems=systems)
    return build_node(of, SelectedOffering(chosen, chosen.offerings[0]))


def test_a_node_carries_the_labels_karpenters_kwok_gives():
    node = node_of(claim("pool-a1", requirement("team", "blue"), requirement(ZONE, "a", "b")))
    assert node.metadata.labels == {
        "karpenter.sh/nodepool": "pool",
        "karpenter.sh/capacity-type": "spot",
        "topology.kubernetes.io/zone": "a",
        "node.kubernetes.io/instance-type": "m5.large",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": "pool-a1",
        "karpenter.kwok.sh/instance-size": "large",
        "karpenter.kwok.sh/instance-family": "m5",
        "karpenter.kwok.sh/instance-cpu": "4",
        "karpenter.kwok.sh/instance-memory": "8Gi",
        "kwok.x-k8s.io/node": "fake",
        "kwok-partition": "a",
        "eks-node-viewer/instance-price": "0.100000",
        "team": "blue",
    }
    assert node.metadata.annotations == {"kwok.x-k8s.io/node": "fake"}
    assert node.spec.provider_id == f"kwok://{node.name}"
    assert [str(taint) for taint in node.spec.taints] == ["karpenter.sh/unregistered:NoExecute"]
    assert node.status.phase == "Pending"


def test_a_required_label_of_a_provider_that_the_type_does_not_have_is_not_put_on_the_node():
    undefined = "karpenter.k8s.aws/instance-family", "karpenter.kwok.sh/instance-famly"
    node = node_of(claim("pool-a1", *(requirement(key, "m5") for key in undefined)))
    assert not set(undefined) & set(node.metadata.labels)


def test_capacity_is_that_of_the_type_and_not_of_the_request():
    node = node_of(claim(cpu="1"))
    assert str(node.status.capacity["cpu"]) == "4"
    assert str(node.status.allocatable["cpu"]) == "3900m"
    assert instance_of(node).capacity == node.status.capacity


@pytest.mark.parametrize(
    ("wanted", "system"), [((), "linux"), ((requirement(OS, "windows"),), "windows"), ((requirement(OS, "b"),), "b")]
)
def test_a_node_runs_one_of_the_systems_its_type_can(wanted, system):
    assert node_of(claim("c", *wanted), systems=("windows", "linux", "b")).metadata.labels[OS] == system


def test_the_node_name_follows_from_name_and_uid():
    assert node_name(claim("a", uid="1")) == node_name(claim("a", uid="1"))
    assert node_name(claim("a", uid="1")) != node_name(claim("a", uid="2"))


def test_long_names_stay_within_what_kubernetes_takes():
    node = node_of(claim("p" * 240))
    assert len(node.name) <= 253
    assert len(node.metadata.labels[HOSTNAME]) <= 63
