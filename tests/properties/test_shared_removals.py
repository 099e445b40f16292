"""Law: a removal ends the same whether or not an equal node was simulated before."""

import random
from dataclasses import replace

import msgspec
import pytest

from dovetail.core.scheduling.removal_simulation import RemovalSimulation
from dovetail.model.labels import HOSTNAME
from dovetail.model.pod import spec_requests
from dovetail.model.resources import add
from reference.clusters import random_cluster


def changed(value, **fields):
    return msgspec.structs.replace(value, **fields)


def copied(node, name):
    """The same node under another name, with pods of its own."""
    labels = {**node.node.metadata.labels, HOSTNAME: name}
    pods = tuple(
        changed(
            pod,
            metadata=changed(pod.metadata, name=f"{pod.name}-{name}", uid=f"{pod.metadata.uid}-{name}"),
            spec=changed(pod.spec, node_name=name),
        )
        for pod in node.pods
    )
    kube_node = changed(node.node, metadata=changed(node.node.metadata, name=name, uid=name, labels=labels))
    claim = node.claim
    if claim is not None:
        metadata = changed(claim.metadata, name=f"claim-{name}", uid=f"claim-{name}")
        claim = changed(claim, metadata=metadata, status=changed(claim.status, node_name=name))
    return replace(node, node=kube_node, claim=claim, pods=pods)


def full(node):
    """The node without room for more."""
    used = add(*(spec_requests(pod.spec) for pod in node.pods if not pod.terminal))
    return replace(node, node=changed(node.node, status=changed(node.node.status, allocatable=used)))


def with_equal_nodes(snapshot, rng):
    nodes = []
    for node in snapshot.nodes:
        some = full(node) if node.node is not None and node.pods and rng.random() < 0.7 else node
        nodes.append(some)
        if some.node is not None:
            nodes += [copied(some, f"{some.name}-{number}") for number in range(rng.randint(0, 3))]
    rng.shuffle(nodes)
    return replace(snapshot, nodes=tuple(nodes), unbound_pods=())


def described(removal):
    draft, blocker = removal.draft, removal.blocker
    launched = (draft.pool_name, sorted(draft.type_names), [pod.key for pod in draft.pods]) if draft else None
    return removal.kind, removal.price, blocker.key if blocker else None, removal.limits, launched


@pytest.mark.parametrize("chunk", range(4))
def test_a_removal_ends_the_same_if_an_equal_node_was_simulated_before(chunk):
    shared = 0
    for seed in range(chunk * 60, chunk * 60 + 60):
        case, rng = random_cluster(seed), random.Random(seed)  # noqa: S311 - not for secrets
        snapshot = with_equal_nodes(case.snapshot, rng)
        simulation = RemovalSimulation(snapshot, case.pools)
        for row in simulation.rows:
            alone = RemovalSimulation(snapshot, case.pools).remove(row)
            assert described(simulation.remove(row)) == described(alone), f"seed {seed}, {simulation.name(row)}"
        keys = [key for key in simulation._shared_keys.values() if key is not None]
        shared += len(keys) - len({*keys})
    assert shared > 10
