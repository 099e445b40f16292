"""When two versions of a NodePool mean the same."""

import pytest
from msgspec.structs import replace

from builders import nodepool

POOL = nodepool()


def test_versions_that_differ_in_counts_alone_mean_the_same():
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
def test_everything_else_is_another_meaning(other):
    assert not POOL.equal_ignoring_counts(other)
