"""Law: a sweep that followed the cluster answers like one that is made anew."""

import random
from dataclasses import replace

import msgspec
import pytest

from builders import claim, node, pod, snapshot
from dovetail.core.scheduling.daemon_overhead import read_daemons
from dovetail.core.scheduling.pod_shapes import PodIndex
from dovetail.core.scheduling.removal import Bounds
from dovetail.core.scheduling.removal_simulation import RemovalSimulation
from dovetail.model.labels import INITIALIZED, REGISTERED
from dovetail.model.resources import Quantity
from dovetail.model.snapshot import ClusterNode
from reference.clusters import random_cluster


def described(drafts):
    return [(each.pool_name, sorted(each.type_names), [pod.key for pod in each.pods]) for each in drafts]


def answers(removal_simulation):
    """Everything the sweep says, as plain values."""
    one = {}
    for row in removal_simulation.rows:
        found = removal_simulation.remove(row)
        blocker = found.blocker.key if found.blocker is not None else None
        one[removal_simulation.name(row)] = (
            found.kind,
            found.price,
            blocker,
            described([found.draft] if found.draft else []),
        )
    pairs = list(zip(removal_simulation.rows, removal_simulation.rows[1:], strict=False))
    for bounds in (Bounds(), Bounds(below=0.5, max_drafts=1)):
        for pair in pairs:
            together = removal_simulation.remove_together(pair, bounds)
            blocker = together.blocker.key if together.blocker is not None else None
            one[tuple(map(removal_simulation.name, pair)), bounds] = blocker, described(together.drafts)
    return one


def resized(pod, rng):
    """The pod with another request, and sometimes other labels: of a kind that may not have been there before."""
    wanted = {"cpu": Quantity.parse(rng.choice(("50m", "450m", "3")))}
    containers = tuple(
        msgspec.structs.replace(
            each,
            resources=msgspec.structs.replace(each.resources, requests={**each.resources.requests, **wanted}),
        )
        for each in pod.spec.containers
    )
    meta = pod.metadata
    if rng.random() < 0.4:
        labels = {key: rng.choice(("a", "b", value)) for key, value in meta.labels.items()}
        meta = msgspec.structs.replace(meta, labels=labels)
    return msgspec.structs.replace(pod, metadata=meta, spec=msgspec.structs.replace(pod.spec, containers=containers))


def with_one_pod_changed(snapshot, rng, number):
    """Another pod on some node: gone, a twin of one that runs elsewhere, at its end, or on its way out."""
    place = rng.randrange(len(snapshot.nodes))
    node = snapshot.nodes[place]
    everywhere = [pod for each in snapshot.nodes for pod in each.pods]
    kind = rng.choice(("gone", "twin", "twin", "ended", "leaving", "resized", "resized"))
    pods = list(node.pods)
    if kind == "twin" and everywhere:
        equivalent = rng.choice(everywhere)
        meta = msgspec.structs.replace(equivalent.metadata, name=f"twin-{number}", uid=f"twin-{number}")
        spec = msgspec.structs.replace(equivalent.spec, node_name=node.name)
        pods.append(msgspec.structs.replace(equivalent, metadata=meta, spec=spec))
    elif pods:
        chosen = pods.pop(rng.randrange(len(pods)))
        if kind == "ended":
            status = msgspec.structs.replace(chosen.status, phase="Succeeded")
            pods.append(msgspec.structs.replace(chosen, status=status))
        elif kind == "resized":
            pods.append(resized(chosen, rng))
        elif kind == "leaving":
            meta = msgspec.structs.replace(chosen.metadata, deletion_timestamp=snapshot.at)
            pods.append(msgspec.structs.replace(chosen, metadata=meta))
    changed = replace(node, pods=tuple(pods))
    return replace(snapshot, nodes=(*snapshot.nodes[:place], changed, *snapshot.nodes[place + 1 :])), changed


@pytest.mark.parametrize("chunk", range(6))
def test_a_sweep_that_followed_answers_like_a_new_one(chunk):
    followed = 0
    for seed in range(chunk * 100, chunk * 100 + 100):
        case, rng = random_cluster(seed), random.Random(seed)  # noqa: S311 - not for secrets
        snapshot = replace(case.snapshot, unbound_pods=())
        removal_simulation = RemovalSimulation(snapshot, case.pools)
        closed = set()
        for number in range(4):
            if not snapshot.nodes:
                break
            answers(removal_simulation)
            before = snapshot
            snapshot, node = with_one_pod_changed(snapshot, rng, number)
            if read_daemons(before) != read_daemons(snapshot):
                break  # other daemons on every node: `SimulationCache` makes a new sweep
            rows = {removal_simulation.name(row): row for row in range(len(removal_simulation._problem.existing_nodes))}
            if node.name not in rows:
                break
            closed ^= {node.name} if rng.random() < 0.2 else set()
            if not removal_simulation.follow(rows[node.name], node, closed=node.name in closed):
                break
            fresh = RemovalSimulation(snapshot, case.pools, closed=closed)
            assert answers(removal_simulation) == answers(fresh), f"seed {seed}, change {number}"
            followed += 1
    assert followed > 200


def without(snapshot, place):
    """The node of a place is gone, or on its way out."""
    return replace(snapshot, nodes=(*snapshot.nodes[:place], *snapshot.nodes[place + 1 :])), snapshot.nodes[place]


@pytest.mark.parametrize("chunk", range(4))
def test_a_sweep_that_parted_with_nodes_answers_like_a_new_one(chunk):
    """Between the departures pods come and go elsewhere, and nodes are closed."""
    parted = spread = 0
    for seed in range(chunk * 150, chunk * 150 + 150):
        case, rng = random_cluster(seed), random.Random(seed)  # noqa: S311 - not for secrets
        snapshot = replace(case.snapshot, unbound_pods=())
        removal_simulation = RemovalSimulation(snapshot, case.pools)
        closed = set()
        for number in range(4):
            if len(snapshot.nodes) < 2:
                break
            if rng.random() < 0.8:
                answers(removal_simulation)  # now and then nobody has asked
            before = snapshot
            if rng.random() < 0.6:
                snapshot, node = without(snapshot, rng.randrange(len(snapshot.nodes)))
                if (
                    node.name not in removal_simulation._problem.existing_nodes.row_by_name
                    or not removal_simulation.remove_node(removal_simulation.row(node.name))
                ):
                    break
                if read_daemons(before) != read_daemons(snapshot):
                    break
                closed -= {node.name}
                parted += 1
                spread += bool(removal_simulation._topology.spreads)
            else:
                snapshot, node = with_one_pod_changed(snapshot, rng, number)
                closed ^= {node.name} if rng.random() < 0.2 else set()
                known = removal_simulation._problem.existing_nodes.row_by_name.get(node.name)
                if read_daemons(before) != read_daemons(snapshot):
                    break
                if known is None or not removal_simulation.follow(known, node, closed=node.name in closed):
                    break
            assert answers(removal_simulation) == answers(RemovalSimulation(snapshot, case.pools, closed=closed)), (
                f"seed {seed}, {number}"
            )
    assert parted > 80
    assert spread > 15


def asking_for_more(snapshot, rng, number):
    """One pod asks for a resource that nobody asked for before, and looks at a label nobody looked at."""
    places = [place for place, node in enumerate(snapshot.nodes) if node.pods]
    if not places:
        return snapshot
    place = rng.choice(places)
    first, *others = snapshot.nodes[place].pods
    wanted = {f"example.com/{number}": Quantity.parse("1")}
    containers = tuple(
        msgspec.structs.replace(
            each, resources=msgspec.structs.replace(each.resources, requests={**each.resources.requests, **wanted})
        )
        for each in first.spec.containers
    )
    asking = msgspec.structs.replace(first, spec=msgspec.structs.replace(first.spec, containers=containers))
    return with_pods(snapshot, place, [asking, *others])[0]


def test_sweeps_that_share_a_register_answer_like_those_that_do_not():
    """Also one that was made before somebody asked for something new, and goes on."""
    followed = 0
    for seed in range(150):
        case, rng = random_cluster(seed), random.Random(seed)  # noqa: S311 - not for secrets
        snapshot, register = replace(case.snapshot, unbound_pods=()), PodIndex()
        elder = RemovalSimulation(snapshot, case.pools, register=register)
        old = snapshot
        for number in range(3):
            if not snapshot.nodes:
                break
            snapshot, _ = with_one_pod_changed(snapshot, rng, number)
            if rng.random() < 0.5:
                snapshot = asking_for_more(snapshot, rng, number)
            shared = RemovalSimulation(snapshot, case.pools, register=register)
            assert answers(shared) == answers(RemovalSimulation(snapshot, case.pools)), f"seed {seed}, {number}"
        if old.nodes:
            before = old
            old, node = with_one_pod_changed(old, rng, 9)
            row = elder._problem.existing_nodes.row_by_name.get(node.name)
            followable = row is not None and read_daemons(before) == read_daemons(old)
            if followable and elder.follow(row, node, closed=False):
                assert answers(elder) == answers(RemovalSimulation(old, case.pools)), f"seed {seed}"
                followed += 1
    assert followed > 30


def with_pods(snapshot, place, pods):
    changed = replace(snapshot.nodes[place], pods=tuple(pods))
    return replace(snapshot, nodes=(*snapshot.nodes[:place], changed, *snapshot.nodes[place + 1 :])), changed


def renamed(pod, name):
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name, uid=name))


def test_a_pod_that_loses_its_last_other_room_is_named_if_it_comes_first():
    ready = {REGISTERED: "true", INITIALIZED: "true"}
    urgent = {"priority": 10}
    there = [
        pod("first", "1", on="a", spec=urgent),
        pod("large", "3", on="a"),
        pod("like-first", "1", on="b", spec=urgent),
    ]
    a = ClusterNode(node("a", labels=ready), claim("a"), tuple(there[:2]))
    b = ClusterNode(node("b", cpu="2", labels=ready), claim("b"), tuple(there[2:]))
    full = replace(b, pods=(there[2], pod("one-more", "1", on="b", spec=urgent)))
    removal_simulation = RemovalSimulation(snapshot(nodes=[a, b]), [])
    assert removal_simulation.remove(removal_simulation.row("a")).blocker.key.name == "large"
    assert removal_simulation.follow(removal_simulation.row("b"), full, closed=False)
    assert removal_simulation.remove(removal_simulation.row("a")).blocker.key.name == "first"


def worker(name, *pods, cpu="4"):
    """A node that is ready, with these pods on it."""
    return ClusterNode(node(name, cpu=cpu, labels={REGISTERED: "true", INITIALIZED: "true"}), claim(name), pods)


def test_pods_of_a_new_kind_are_followed_and_so_is_the_last_of_a_kind_that_goes():
    a, b = worker("a", pod("one", "1", on="a")), worker("b", pod("two", "2", on="b"))
    removal_simulation = RemovalSimulation(snapshot(nodes=[a, b]), [])
    assert removal_simulation.remove(removal_simulation.row("a")).kind == "delete"
    grown = replace(a, pods=(pod("one", "3", on="a"),))
    assert removal_simulation.follow(removal_simulation.row("a"), grown, closed=False)
    assert removal_simulation.remove(removal_simulation.row("a")).blocker.key.name == "one"
    assert removal_simulation.follow(removal_simulation.row("b"), replace(b, pods=()), closed=False)
    assert removal_simulation.remove(removal_simulation.row("a")).kind == "delete"


def test_when_the_last_goes_that_kept_others_away_it_begins_anew():
    away = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
    shy = pod("shy", "1", on="a", spec={"affinity": away})
    web = pod("web", "1", on="b", metadata={"labels": {"app": "web"}})
    removal_simulation = RemovalSimulation(snapshot(nodes=[worker("a", shy), worker("b", web)]), [])
    assert not removal_simulation.follow(removal_simulation.row("a"), worker("a"), closed=False)


def test_answers_are_kept_while_the_pods_of_a_node_take_and_count_the_same():
    """A pod that is annotated changes nothing for others; the answers of its own node name the pods of that node."""
    here, there = worker("a", pod("small", "1", on="a")), worker("b", pod("other", "1", on="b"))
    removal_simulation = RemovalSimulation(snapshot(nodes=[here, there]), [])
    rows = removal_simulation.row("a"), removal_simulation.row("b")
    kept = [removal_simulation.remove(row) for row in rows]
    assert removal_simulation.follow(rows[1], worker("b", pod("twin", "1", on="b")), closed=False)
    assert removal_simulation.remove(rows[0]) is kept[0]
    assert removal_simulation.remove(rows[1]) is not kept[1]
    assert removal_simulation.follow(rows[1], worker("b", pod("twin", "4", on="b")), closed=False)
    assert removal_simulation.remove(rows[0]).blocker.key.name == "small"
    assert removal_simulation.remove(rows[1]).blocker.key.name == "twin"
