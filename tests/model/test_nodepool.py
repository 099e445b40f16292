"""When two versions of a NodePool mean the same."""

import pytest
from msgspec.structs import replace

from builders import nodepool

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
