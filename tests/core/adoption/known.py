"""Facts about a small cluster that Karpenter runs, for the tests of the report."""

from datetime import timedelta

from acceptance.fleet import cluster, free, worker
from builders import NOON, nodepool
from dovetail.core.adoption.facts import AdoptionFacts, KarpenterDeployment, LeaseState
from dovetail.core.lifecycle.nodepool_hash import hash_annotations

KARPENTER = KarpenterDeployment(
    namespace="kube-system",
    name="karpenter",
    replicas=2,
    image="public.ecr.aws/karpenter/controller:1.14.1@sha256:0",
    environment={"CLUSTER_NAME": "demo", "FEATURE_GATES": "ReservedCapacity=true,NodeOverlay=false"},
)
LEASE = LeaseState(namespace="kube-system", holder="karpenter-5d_1", held_until=NOON + timedelta(seconds=10))


def facts(*nodes, pools=None, **known):
    """Facts about these nodes, or about one."""
    found = cluster(*(nodes or (worker("a"),)), pools=pools or [free()])
    return AdoptionFacts(**{"snapshot": found, "karpenter": KARPENTER, "lease": LEASE, **known})


def stamped(pool=None, **hashes):
    """A NodePool with the hash annotations of Karpenter."""
    pool = pool or nodepool()
    pool.metadata.annotations.update({**hash_annotations(pool), **hashes})
    return pool
