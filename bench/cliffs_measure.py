"""One cluster of `cliffs.py`: `cliffs_measure.py NODES SHAPE` prints the figures as JSON.

Seconds are those of the processor. "Calls" are the function calls of a first pass as cProfile counts them: they do not
depend on how busy the machine is. They are counted up to 2,000 nodes, in a pass of its own after all others.
"""

import cProfile
import gc
import json
import pstats
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from statistics import median
from typing import Any

import msgspec

from dovetail.core.disruption.planner import Planner
from dovetail.model.catalog import InstanceType
from dovetail.model.kube_object import LabelSelector, LabelSelectorRequirement
from dovetail.model.labels import HOSTNAME, NODEPOOL, ZONE
from dovetail.model.pod import Affinity, Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from dovetail.model.resources import Quantity
from dovetail.model.snapshot import ClusterNode, Snapshot
from plan_measure import COMPARED, LATER, check_same, disruptable, plan_once
from sweep_measure import peak_mb
from workloads import ROLE

REGIME = "settling"
REPEATS = 2
CHANGED = 5  # changes of each kind, one after the other; the median counts
POOLS = 50
COUNTED = 2_000  # up to this size function calls are counted

Change = Callable[[Snapshot, random.Random, int], Snapshot]


# -- shapes


def shaped(snapshot: Snapshot, shape: str) -> Snapshot:
    """The cluster, where all pods or NodePools have what `shape` says."""
    if shape == "50-pools":
        return _with_many_pools(snapshot)
    change = SHAPED.get(shape)
    if change is None:
        return snapshot
    number = 0
    made = []
    for node in snapshot.nodes:
        pods = []
        for pod in node.pods:
            number += 1
            pods.append(pod if pod.daemon else change(pod, number))
        made.append(replace(node, pods=tuple(pods)))
    return replace(snapshot, nodes=tuple(made))


def _spread(key: str) -> Callable[[Pod, int], Pod]:
    """Pods of a workload get equal constraints, as one object."""
    made: dict[str, tuple[TopologySpreadConstraint, ...]] = {}

    def changed(pod: Pod, _: int) -> Pod:
        app = pod.metadata.labels["app"]
        if app not in made:
            selector = LabelSelector(match_labels={"app": app})
            made[app] = (TopologySpreadConstraint(topology_key=key, max_skew=1, label_selector=selector),)
        return _with_spec(pod, topology_spread_constraints=made[app])

    return changed


def _spread_by_team(pod: Pod, _: int) -> Pod:
    """Every workload has a rule of its own, and every rule counts all pods of a namespace."""
    app = pod.metadata.labels["app"]
    return _with_spec(pod, topology_spread_constraints=_team_constraints(20 + int(app.removeprefix("app-"))))


@cache
def _team_constraints(max_skew: int) -> tuple[TopologySpreadConstraint, ...]:
    selector = LabelSelector(match_expressions=(LabelSelectorRequirement(key="tier", operator="Exists"),))
    return (TopologySpreadConstraint(topology_key=HOSTNAME, max_skew=max_skew, label_selector=selector),)


def _apart() -> Callable[[Pod, int], Pod]:
    made: dict[str, Affinity] = {}

    def changed(pod: Pod, _: int) -> Pod:
        app = pod.metadata.labels["app"]
        if app not in made:
            term = PodAffinityTerm(topology_key=HOSTNAME, label_selector=LabelSelector(match_labels={"app": app}))
            made[app] = Affinity(
                pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(term,))
            )
        return _with_spec(pod, affinity=made[app])

    return changed


def _own_requests(pod: Pod, number: int) -> Pod:
    """A little less than its workload requests, and less memory by a number of bytes that no other pod has."""
    first, *others = pod.spec.containers
    requests = first.resources.requests
    cpu, memory = requests["cpu"].milli, requests["memory"].units
    own = {"cpu": Quantity.of(f"{cpu - number % (cpu // 10 + 1)}m"), "memory": Quantity.of(memory - number)}
    first = msgspec.structs.replace(first, resources=msgspec.structs.replace(first.resources, requests=own))
    return _with_spec(pod, containers=(first, *others))


def _own_label(pod: Pod, number: int) -> Pod:
    labels = {**pod.metadata.labels, "example.com/number": str(number)}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels))


def _with_spec(pod: Pod, **fields: Any) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **fields))


SHAPED: dict[str, Callable[[Pod, int], Pod]] = {
    "host-spread": _spread(HOSTNAME),
    "team-spread": _spread_by_team,
    "zone-spread": _spread(ZONE),
    "anti-affinity": _apart(),
    "own-requests": _own_requests,
    "own-labels": _own_label,
}


def _with_many_pools(snapshot: Snapshot) -> Snapshot:
    """The nodes of the default NodePool belong to one of fifty that are equal but for their names."""
    default, dedicated = snapshot.nodepools["default"], snapshot.nodepools["dedicated"]
    every = {dedicated.name: dedicated}
    for number in range(POOLS):
        name = f"pool-{number:02}"
        every[name] = msgspec.structs.replace(
            default, metadata=msgspec.structs.replace(default.metadata, name=name, uid=name)
        )
    nodes = tuple(
        _relabelled(node, {NODEPOOL: f"pool-{number % POOLS:02}"}) if node.nodepool_name == "default" else node
        for number, node in enumerate(snapshot.nodes)
    )
    types = snapshot.catalogs["default"]
    return replace(snapshot, nodes=nodes, nodepools=every, catalogs=dict.fromkeys(every, types))


def _relabelled(node: ClusterNode, labels: dict[str, str]) -> ClusterNode:
    assert node.node is not None
    assert node.claim is not None
    written = {**node.node.metadata.labels, **labels}
    kube_node = msgspec.structs.replace(node.node, metadata=msgspec.structs.replace(node.node.metadata, labels=written))
    claim = msgspec.structs.replace(node.claim, metadata=msgspec.structs.replace(node.claim.metadata, labels=written))
    return replace(node, node=kube_node, claim=claim)


# -- changes


def _nothing(snapshot: Snapshot, _: random.Random, __: int) -> Snapshot:
    return replace(snapshot, at=snapshot.at + LATER)


def _pod_left(snapshot: Snapshot, rng: random.Random, _: int) -> Snapshot:
    place = rng.choice([place for place, node in enumerate(snapshot.nodes) if any(not p.daemon for p in node.pods)])
    node = snapshot.nodes[place]
    gone = rng.choice([pod for pod in node.pods if not pod.daemon])
    return _with_node(snapshot, place, replace(node, pods=tuple(pod for pod in node.pods if pod is not gone)))


def _label(snapshot: Snapshot, rng: random.Random, number: int) -> Snapshot:
    place = rng.randrange(len(snapshot.nodes))
    return _with_node(snapshot, place, _relabelled(snapshot.nodes[place], {"example.com/rack": str(number)}))


def _read_label(snapshot: Snapshot, rng: random.Random, _: int) -> Snapshot:
    place = rng.choice([place for place, node in enumerate(snapshot.nodes) if node.labels[ROLE] == "any"])
    return _with_node(snapshot, place, _relabelled(snapshot.nodes[place], {ROLE: "special"}))


def _node_comes(snapshot: Snapshot, rng: random.Random, number: int) -> Snapshot:
    """The twin of a node, with twins of its pods; a third of the pods are still missing."""
    twin = rng.choice(snapshot.nodes)
    assert twin.node is not None
    assert twin.claim is not None
    name = f"{twin.name}-{number}"
    labels = {HOSTNAME: name}
    kube_node = msgspec.structs.replace(
        twin.node, metadata=msgspec.structs.replace(twin.node.metadata, name=name, uid=name)
    )
    claim = msgspec.structs.replace(
        twin.claim, metadata=msgspec.structs.replace(twin.claim.metadata, name=f"claim-{name}", uid=f"claim-{name}")
    )
    pods = tuple(_moved(pod, name) for pod in twin.pods if pod.daemon or rng.random() < 2 / 3)
    node = _relabelled(replace(twin, node=kube_node, claim=claim, pods=pods), labels)
    return replace(snapshot, at=snapshot.at + LATER, nodes=tuple(sorted((*snapshot.nodes, node), key=_name)))


def _name(node: ClusterNode) -> str:
    return node.name


def _moved(pod: Pod, node: str) -> Pod:
    meta = msgspec.structs.replace(pod.metadata, name=f"{pod.metadata.name}-{node}", uid=f"{pod.metadata.uid}-{node}")
    return msgspec.structs.replace(pod, metadata=meta, spec=msgspec.structs.replace(pod.spec, node_name=node))


def _node_goes(snapshot: Snapshot, rng: random.Random, _: int) -> Snapshot:
    place = rng.randrange(len(snapshot.nodes))
    return replace(snapshot, at=snapshot.at + LATER, nodes=(*snapshot.nodes[:place], *snapshot.nodes[place + 1 :]))


def _price(snapshot: Snapshot, rng: random.Random, _: int) -> Snapshot:
    """Another price of an offering that some node was launched from."""
    node = rng.choice(snapshot.nodes)
    offering = snapshot.offering_of(node)
    types = snapshot.catalogs[node.nodepool_name]
    changed = tuple(_dearer(each, offering) if offering in each.offerings else each for each in types)
    return replace(snapshot, at=snapshot.at + LATER, catalogs=dict.fromkeys(snapshot.catalogs, changed))


def _dearer(each: InstanceType, offering: object) -> InstanceType:
    offerings = tuple(replace(one, price=one.price * 1.01) if one is offering else one for one in each.offerings)
    return replace(each, offerings=offerings)


def _with_node(snapshot: Snapshot, place: int, node: ClusterNode) -> Snapshot:
    nodes = snapshot.nodes
    return replace(snapshot, at=snapshot.at + LATER, nodes=(*nodes[:place], node, *nodes[place + 1 :]))


CHANGES: dict[str, Change] = {
    "nothing": _nothing,
    "pod-left": _pod_left,
    "label": _label,
    "read-label": _read_label,
    "node-comes": _node_comes,
    "node-goes": _node_goes,
    "price": _price,
}


def changed(snapshot: Snapshot, kinds: tuple[str, ...]) -> Iterator[tuple[str, Snapshot]]:
    """The cluster after one change after the other."""
    rng = random.Random(9)  # noqa: S311 - not for secrets
    for number in range(CHANGED):
        for kind in kinds:
            yield kind, (snapshot := CHANGES[kind](snapshot, rng, number))


# -- measuring


def calls_of(snapshot: Snapshot) -> int:
    """The function calls of a first pass."""
    profile = cProfile.Profile()
    profile.runcall(Planner().plan, snapshot, thorough=True)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def main() -> None:
    nodes, shape = int(sys.argv[1]), sys.argv[2]
    snapshot = shaped(disruptable(nodes, REGIME), shape)
    gc.collect()
    planner = Planner()
    passes = [plan_once(planner, snapshot)[0]]
    peak = peak_mb()
    passes += [plan_once(Planner(), replace(snapshot))[0] for _ in range(REPEATS - 1)]
    again: dict[str, list[float]] = {}
    plan_once(planner, _nothing(snapshot, random.Random(0), 0))  # noqa: S311 - not for secrets
    for kind, following in changed(snapshot, tuple(CHANGES) if shape == "base" else ("pod-left",)):
        seconds, plan = plan_once(planner, following)
        again.setdefault(kind, []).append(seconds)
        if nodes <= COMPARED:
            passes.append(check_same(plan, following))
    figures: dict[str, Any] = {
        "nodes": nodes,
        "shape": shape,
        "pods": sum(len(node.pods) for node in snapshot.nodes),
        "first": median(passes) if nodes <= COMPARED else min(passes),
        "next": median(again["pod-left"]),
        "peak_mb": peak,
        "calls": calls_of(replace(snapshot)) if nodes <= COUNTED else 0,
    }
    if shape == "base":
        figures["changes"] = {kind: median(runs) for kind, runs in again.items()}
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main()
