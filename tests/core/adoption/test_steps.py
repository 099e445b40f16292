"""The commands name what is in the cluster, and never touch a CustomResourceDefinition."""

from dataclasses import replace
from pathlib import Path

import yaml

from builders import nodepool
from core.adoption.known import KARPENTER, LEASE, facts
from dovetail.core.adoption.steps import MANIFESTS, steps_back, switch_steps

ROOT = Path(__file__).parents[3]
EC2 = {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}


def commands(steps):
    return [each for step in steps for each in step.commands]


def switch(known):
    return commands(switch_steps(known, "registry.example.com/dovetail:1"))


def test_the_names_are_those_of_the_cluster():
    karpenter = replace(KARPENTER, namespace="karp", name="kp", replicas=3, selector="app=kp")
    known = facts(karpenter=karpenter, lease=replace(LEASE, namespace="karp"))
    found = switch(known)
    assert "kubectl -n karp scale deployment kp --replicas=0" in found
    assert "kubectl -n karp wait --for=delete pod -l app=kp --timeout=120s" in found
    assert "kubectl -n dovetail set image deployment/dovetail dovetail=registry.example.com/dovetail:1" in found
    assert "kubectl -n karp scale deployment kp --replicas=3" in commands(steps_back(known))


def test_karpenter_that_is_stopped_already_gets_its_replicas_back():
    known = facts(karpenter=replace(KARPENTER, replicas=0), lease=replace(LEASE, holder=""))
    assert "kubectl -n kube-system scale deployment karpenter --replicas=2" in commands(steps_back(known))
    titles = [step.title for step in switch_steps(known, "dovetail")]
    assert not any("It stands by" in each for each in titles)


def test_dovetail_starts_with_karpenters_lease_and_variables_before_karpenter_stops():
    environment = {"CLUSTER_NAME": "demo", "INTERRUPTION_QUEUE": "my queue", "SYSTEM_NAMESPACE": "kube-system"}
    found = switch(facts(karpenter=replace(KARPENTER, environment=environment)))
    (variables,) = [each for each in found if "set env" in each and "LEADER_ELECTION" in each]
    assert variables.endswith(
        "LEADER_ELECTION_NAME=karpenter-leader-election LEADER_ELECTION_NAMESPACE=kube-system CLUSTER_NAME=demo"
        " INTERRUPTION_QUEUE='my queue'"
    )
    scaled = [each for each in found if " scale " in each]
    assert scaled == [
        "kubectl -n dovetail scale deployment dovetail --replicas=2",
        "kubectl -n kube-system scale deployment karpenter --replicas=0",
    ]
    assert found.index(variables) < found.index(scaled[0])


def test_variables_that_could_not_be_read_are_not_forgotten():
    found = switch(facts(karpenter=replace(KARPENTER, unread=("INTERRUPTION_QUEUE", "Secret proxy"))))
    assert "# Also set what Karpenter's Deployment only refers to: INTERRUPTION_QUEUE, Secret proxy" in found


def test_another_lease_gets_another_role():
    (role,) = [each for each in switch(facts(lease=replace(LEASE, name="mine"))) if "lease-role" in each]
    assert role == (
        "sed s/karpenter-leader-election/mine/ deploy/beside-karpenter/lease-role.yaml"
        " | kubectl -n kube-system apply --server-side -f -"
    )


def test_on_aws_the_service_account_gets_karpenters_role():
    pools = [nodepool(template=EC2)]
    irsa = replace(KARPENTER, role_arn="arn:aws:iam::1:role/karpenter")
    assert any("role-arn=arn:aws:iam::1:role/karpenter" in each for each in switch(facts(pools=pools, karpenter=irsa)))
    assert any("create-pod-identity-association" in each for each in switch(facts(pools=pools)))
    assert not any("aws" in each for each in switch(facts()))


def test_no_step_touches_a_definition():
    found = [*switch(facts()), *commands(steps_back(facts()))]
    assert not any("crd" in each.lower() for each in found)
    kustomization = yaml.safe_load((ROOT / MANIFESTS / "kustomization.yaml").read_text())
    deleted = [yaml.safe_load(each["patch"]) for each in kustomization["patches"]]
    assert {"$patch": "delete", "kind": "CustomResourceDefinition"}.items() <= deleted[0].items()
    assert kustomization["replicas"] == [{"name": "dovetail", "count": 0}]
