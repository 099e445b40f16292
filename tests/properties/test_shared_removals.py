"""Law: a removal ends the same whether or not an equal node was simulated before."""

import random
from dataclasses import replace

import msgspec
import pytest

from builders import claim, node, pod, snapshot
from dovetail.core.scheduling.removal_simulation import RemovalSimulation
from dovetail.model.labels import HOSTNAME, INITIALIZED, REGISTERED
from dovetail.model.pod import spec_requests
from dovetail.model.resources import add
from dovetail.model.snapshot import ClusterNode
from reference.clusters import random_cluster


def changed(value, **fields):
    return msgspec.structs.replace(value, **fields)


def copied(original, name):
    """The same node under another name, with pods of its own."""
    labels = {**original.node.metadata.labels, HOSTNAME: name}
    pods = tuple(
        changed(
            each,
            metadata=changed(each.metadata, name=f"{each.name}-{name}", uid=f"{each.metadata.uid}-{name}"),
            spec=changed(each.spec, node_name=name),
        )
        for each in original.pods
    )
    kube_node = changed(original.node, metadata=changed(original.node.metadata, name=name, uid=name, labels=labels))
    claim = original.claim
    if claim is not None:
        metadata = changed(claim.metadata, name=f"claim-{name}", uid=f"claim-{name}")
        claim = changed(claim, metadata=metadata, status=changed(claim.status, node_name=name))
    return replace(original, node=kube_node, claim=claim, pods=pods)


def full(roomy):
    """The node without room for more."""
    used = add(*(spec_requests(each.spec) for each in roomy.pods if not each.terminal))
    return replace(roomy, node=changed(roomy.node, status=changed(roomy.node.status, allocatable=used)))


def with_equal_nodes(cluster, rng):
    nodes = []
    for each in cluster.nodes:
        some = full(each) if each.node is not None and each.pods and rng.random() < 0.7 else each
        nodes.append(some)
        if some.node is not None:
            nodes += [copied(some, f"{some.name}-{number}") for number in range(rng.randint(0, 3))]
    rng.shuffle(nodes)
    return replace(cluster, nodes=tuple(nodes), unbound_pods=())


def described(removal):
    draft, blocker = removal.draft, removal.blocker
    launched = (draft.pool_name, sorted(draft.type_names), [each.key for each in draft.pods]) if draft else None
    return removal.kind, removal.price, blocker.key if blocker else None, removal.limits, launched


@pytest.mark.parametrize("chunk", range(4))
def test_a_removal_ends_the_same_if_an_equal_node_was_simulated_before(chunk):
    shared = 0
    for seed in range(chunk * 60, chunk * 60 + 60):
        case, rng = random_cluster(seed), random.Random(seed)  # noqa: S311 - not for secrets
        cluster = with_equal_nodes(case.snapshot, rng)
        simulation = RemovalSimulation(cluster, case.pools)
        for row in simulation.rows:
            alone = RemovalSimulation(cluster, case.pools).remove(row)
            assert described(simulation.remove(row)) == described(alone), f"seed {seed}, {simulation.name(row)}"
        keys = [key for key in simulation._shared_keys.values() if key is not None]
        shared += len(keys) - len({*keys})
    assert shared > 10


def worker(name, *pods, cpu):
    return ClusterNode(node(name, cpu=cpu, labels={REGISTERED: "true", INITIALIZED: "true"}), claim(name), pods)


@pytest.mark.parametrize("first", ["full", "roomy"])
def test_a_node_with_room_for_its_equals_pods_does_not_answer_for_it(first):
    full, roomy = (
        worker("full", pod("one", "2", on="full"), cpu="2"),
        worker("roomy", pod("two", "2", on="roomy"), cpu="4"),
    )
    simulation = RemovalSimulation(snapshot(nodes=[full, roomy]), [])
    simulation.remove(simulation.row(first))
    assert simulation.remove(simulation.row("full")).kind == "delete"
    assert simulation.remove(simulation.row("roomy")).kind == "stay"


def test_the_second_of_two_equal_full_nodes_names_its_own_pod():
    names = ("a", "b")
    nodes = [
        worker(name, pod(f"small-{name}", "1", on=name), pod(f"big-{name}", "2", on=name), cpu="3") for name in names
    ]
    simulation = RemovalSimulation(snapshot(nodes=nodes), [])
    blockers = [simulation.remove(simulation.row(name)).blocker.key.name for name in names]
    assert blockers == ["big-a", "big-b"]
    assert len(simulation._answers.shared._answers) == 1
