"""The permissions of `dovetail run` are those that the manifests grant."""

from pathlib import Path

import yaml

from core.adoption.known import KARPENTER, LEASE
from dovetail.core.adoption.facts import Permission
from dovetail.core.adoption.permissions import (
    BINDING,
    NAMESPACE,
    SERVICE_ACCOUNT,
    permissions_of_run,
    run_permissions,
    step_permissions,
)

DEPLOY = Path(__file__).parents[3] / "deploy"


def test_the_list_is_that_of_the_cluster_roles():
    documents = [
        each
        for file in ("base/reading.yaml", "acting/acting.yaml")
        for each in yaml.safe_load_all((DEPLOY / file).read_text())
    ]
    granted = {
        Permission(verb, resource, group)
        for role in documents
        if role["kind"] == "ClusterRole"
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert permissions_of_run() == granted


def test_the_steps_need_karpenters_deployment_and_lease():
    steps = set(step_permissions(KARPENTER, LEASE)) - set(step_permissions(None, None))
    assert {str(each) for each in steps} == {
        "patch deployments/scale.apps in namespace kube-system",
        "get leases.coordination.k8s.io karpenter-leader-election in namespace kube-system",
        "patch leases.coordination.k8s.io karpenter-leader-election in namespace kube-system",
    }


def test_the_service_account_needs_less_than_who_takes_the_steps():
    assert set(run_permissions(LEASE)) < set(step_permissions(KARPENTER, LEASE))
    assert set(run_permissions(LEASE)) - permissions_of_run() <= set(step_permissions(None, LEASE))


def test_the_binding_and_the_account_are_those_of_the_manifests():
    documents = yaml.safe_load_all((DEPLOY / "acting" / "acting.yaml").read_text())
    (bound,) = [each for each in documents if each["kind"] == "ClusterRoleBinding"]
    assert bound["metadata"]["name"] == BINDING
    (subject,) = bound["subjects"]
    assert (subject["namespace"], subject["name"]) == (NAMESPACE, SERVICE_ACCOUNT)
