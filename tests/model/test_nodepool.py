"""When two versions of a NodePool mean the same, and what the defaults of the CRD mean."""

import msgspec
import pytest
from msgspec.structs import replace

from builders import nodepool
from dovetail.model.nodeclaim import NodeClaimSpec
from dovetail.model.nodepool import NodeClassRef
from dovetail.model.reason import Reason

POOL = nodepool()


def test_versions_that_differ_only_in_counts_are_equal():
    counted = replace(POOL, status=replace(POOL.status, nodes=7, resources={}))
    assert POOL.equal_ignoring_counts(replace(counted, metadata=replace(POOL.metadata, resource_version="8")))


@pytest.mark.parametrize(
    "other",
    [
        nodepool(weight=3),
        nodepool(ready=False),
        nodepool("another"),
        replace(POOL, metadata=replace(POOL.metadata, annotations={"dovetail.sh/pause": "true"})),
        replace(POOL, metadata=replace(POOL.metadata, uid="made anew")),
    ],
    ids=["spec", "readiness", "name", "annotations", "identity"],
)
def test_versions_with_any_other_difference_are_not_equal(other):
    assert not POOL.equal_ignoring_counts(other)


DEFAULTED = {"consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": [{"nodes": "10%"}]}
"""The disruption block that the v1 CRD writes where there is none."""


@pytest.mark.parametrize(
    ("hard", "soft", "expected"),
    [
        ("720h", None, "720h"),
        (None, None, "720h"),
        ("720h", "100h", "Never"),
        ("720h0m0s", "100h", "Never"),
        ("720h", "Never", "Never"),
        ("719h", "100h", "719h"),
        ("Never", None, "Never"),
        ("Never", "720h", "Never"),  # what the v1beta1 CRD writes
    ],
)
def test_a_hard_expiration_of_720h_does_not_count_beside_a_soft_one(hard, soft, expected):
    disruption = {**DEFAULTED, **({} if soft is None else {"expireAfter": soft})}
    pool = nodepool(template={} if hard is None else {"expireAfter": hard}, disruption=disruption)
    assert str(pool.hard_expire_after) == expected


def test_the_budgets_that_the_crd_writes_govern_only_what_nothing_else_governs():
    pool = nodepool(disruption={**DEFAULTED, "actionControls": {"Drift": {"budgets": [{"nodes": "50%"}]}}})
    governed = {budget.path: budget.reasons for budget in pool.budgets}
    assert governed == {
        "spec.disruption.budgets[0]": frozenset({Reason.EMPTY, Reason.UNDERUTILIZED, Reason.EXPIRED}),
        "spec.disruption.actionControls.Drift.budgets[0]": frozenset({Reason.DRIFTED}),
    }


def test_an_empty_list_of_requirements_is_written_as_such():
    """The CRD requires it."""
    spec = NodeClaimSpec(requirements=())
    assert msgspec.json.decode(msgspec.json.encode(spec))["requirements"] == []
    assert "requirements" not in msgspec.json.decode(msgspec.json.encode(NodeClaimSpec()))


def test_a_reference_of_v1beta1_has_the_group_that_v1_requires():
    ref = NodeClassRef(api_version="karpenter.kwok.sh/v1alpha1", kind="KWOKNodeClass", name="default")
    assert ref.as_v1 == NodeClassRef(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="default")
