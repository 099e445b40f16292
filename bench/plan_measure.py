"""One full disruption pass over one cluster, timed: `plan_measure.py NODES REGIME` prints the figures as JSON.

The cluster is that of `cluster.py`, with what disruption looks at on top: pools that consolidate at once within 10 %,
nodes that are empty, drifted or protected, and PodDisruptionBudgets for a fifth of the workloads.
"""

import gc
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from statistics import mean, median
from typing import Any

import msgspec

from cluster import AT, cluster
from dovetail.core.disruption.disruption_cost import BASE_COST, disruption_cost
from dovetail.core.disruption.planner import PassPlan, Planner
from dovetail.core.provisioning.eligible_pods import usable_pools
from dovetail.model.budget import BudgetSpec
from dovetail.model.cluster_objects import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from dovetail.model.conditions import READY
from dovetail.model.duration import Delay
from dovetail.model.kube_object import Condition, LabelSelector, ObjectMeta
from dovetail.model.labels import ARCH, CAPACITY_TYPE, DO_NOT_DISRUPT, NODEPOOL, ZONE
from dovetail.model.nodeclaim import DRIFTED, INITIALIZED, LAUNCHED, REGISTERED
from dovetail.model.nodepool import Disruption, NodePool
from dovetail.model.pod import Pod, spec_requests
from dovetail.model.resources import ZERO, Quantity
from dovetail.model.snapshot import ClusterNode, Snapshot
from sweep_measure import peak_mb, sweep_once
from workloads import DEDICATED, workloads

REPEATS = 2
COMPARED = 1_000  # up to this size, every pass is held against one made anew
CHANGED = 15  # pods of each kind that change, one after the other; median or mean counts, whichever is worse
LONG_AGO = AT - timedelta(days=1)
LATER = timedelta(seconds=10)
EMPTY, DRIFTING, PROTECTED = 0.2, 0.01, 0.02  # shares of the dedicated nodes, and of all nodes
WITH_BUDGET = 0.2  # share of the workloads
EXHAUSTED_EVERY = 20  # of their budgets
ALIKE = (NODEPOOL, ZONE, ARCH, CAPACITY_TYPE)
TRIED = 50  # nodes that are asked for room before another pod is drawn
STEPS = tuple(
    Condition(type=step, status="True", last_transition_time=LONG_AGO) for step in (LAUNCHED, REGISTERED, INITIALIZED)
)
ADRIFT = Condition(type=DRIFTED, status="True", reason="ImageDrifted", last_transition_time=LONG_AGO)


def disruptable(nodes: int, regime: str) -> Snapshot:
    """The cluster with everything that stands in the way of disruption, or asks for it."""
    rng = random.Random(5)  # noqa: S311 - not for secrets
    plain = cluster(nodes, regime)
    return replace(
        plain,
        at=AT + timedelta(hours=2),  # no pod cools down: every method simulates
        nodes=tuple(_settled(node, rng.random()) for node in plain.nodes),
        nodepools={name: _consolidating(pool) for name, pool in plain.nodepools.items()},
        pdbs=tuple(_budgets(nodes // 5, rng)),
    )


def _consolidating(pool: NodePool) -> NodePool:
    written = Disruption(
        consolidation_policy="WhenEmptyOrUnderutilized",
        consolidate_after=Delay.parse("0s"),
        budgets=(BudgetSpec(nodes="10%"),),
    )
    ready = msgspec.structs.replace(pool.status, conditions=(Condition(type=READY, status="True"),))
    spec = msgspec.structs.replace(pool.spec, disruption=written)
    return msgspec.structs.replace(pool, spec=spec, status=ready)


def _settled(node: ClusterNode, drawn: float) -> ClusterNode:
    assert node.claim is not None
    emptied = node.nodepool_name == DEDICATED and drawn < EMPTY  # elsewhere, everybody could move to an empty node
    drifting = 0.5 < drawn < 0.5 + DRIFTING
    conditions = (*STEPS, ADRIFT) if drifting else STEPS
    status = msgspec.structs.replace(node.claim.status, conditions=conditions)
    meta = msgspec.structs.replace(node.claim.metadata, creation_timestamp=LONG_AGO)
    claim = msgspec.structs.replace(node.claim, metadata=meta, status=status)
    pods = node.pods
    if emptied:
        pods = tuple(pod for pod in pods if pod.daemon)
    elif drawn > 1 - PROTECTED:
        pods = (_annotated(pods[0], {DO_NOT_DISRUPT: "true"}), *pods[1:])
    return replace(node, claim=claim, pods=pods)


def _annotated(pod: Pod, annotations: dict[str, str]) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations))


def _budgets(count: int, rng: random.Random) -> Iterator[PodDisruptionBudget]:
    chosen = [each for each in workloads(count, 1) if rng.random() < WITH_BUDGET]
    for number, each in enumerate(chosen):
        yield PodDisruptionBudget(
            metadata=ObjectMeta(name=each.name, namespace=each.namespace),
            spec=PodDisruptionBudgetSpec(max_unavailable=1, selector=LabelSelector(match_labels=dict(each.labels))),
            status=PodDisruptionBudgetStatus(disruptions_allowed=int(number % EXHAUSTED_EVERY > 0), expected_pods=9),
        )


# -- passes


def plan_once(planner: Planner, snapshot: Snapshot) -> tuple[float, PassPlan]:
    """Seconds of the processor for a pass, and what came of it."""
    begun = time.process_time()
    plan = planner.plan(snapshot, thorough=True)
    return time.process_time() - begun, plan


def check_complete(plan: PassPlan, snapshot: Snapshot) -> None:
    """Every method has a command or a refusal for every managed node."""
    managed = {node.name for node in snapshot.nodes if node.managed}
    for method, refusals in plan.refusals_by_method.items():
        answered = {refusal.object.name for refusal in refusals}
        answered |= {each.name for command in plan.commands_by_method[method] for each in command.candidates}
        assert answered == managed, f"{method} left {len(managed - answered)} nodes without an answer"


def check_same(plan: PassPlan, snapshot: Snapshot) -> float:
    """A pass that built on earlier ones says what a new one says; the seconds of the new one."""
    seconds, fresh = plan_once(Planner(), snapshot)
    assert plan.refusals_by_method == fresh.refusals_by_method
    assert [*map(str, plan.commands)] == [*map(str, fresh.commands)]
    for method, commands in fresh.commands_by_method.items():
        assert [*map(str, plan.commands_by_method[method])] == [*map(str, commands)]
    return seconds


def changes(snapshot: Snapshot) -> Iterator[tuple[str, Snapshot]]:
    """One random pod at a time, each on a random node: it leaves, another comes in its place, that one is annotated,
    asks for more and is labelled. Then a twin of one that runs elsewhere comes to another node, where it has room.
    """
    rng = random.Random(9)  # noqa: S311 - not for secrets
    current = snapshot
    for number in range(CHANGED):
        place, chosen = _draw(current, rng)
        others = tuple(pod for pod in current.nodes[place].pods if pod is not chosen)
        yield "leaves", (current := _with(current, place, others))
        equivalent = _renamed(chosen, f"{chosen.metadata.name}-{number}")
        yield "comes", (current := _with(current, place, (*others, equivalent)))
        equivalent = _annotated(equivalent, {"example.com/seen": "yes"})
        yield "annotated", (current := _with(current, place, (*others, equivalent)))
        yield "resized", (current := _with(current, place, (*others, equivalent := _resized(equivalent))))
        yield (
            "labelled",
            (current := _with(current, place, (*others, _labelled(equivalent, {"example.com/seen": "yes"})))),
        )
        place, equivalent = _roomy(current, rng, f"elsewhere-{number}")
        yield "elsewhere", (current := _with(current, place, (*current.nodes[place].pods, equivalent)))


def _draw(snapshot: Snapshot, rng: random.Random) -> tuple[int, Pod]:
    """A random pod of a random node, and where that is."""
    place = rng.choice([place for place, node in enumerate(snapshot.nodes) if disruption_cost(node.pods) > BASE_COST])
    return place, rng.choice([pod for pod in snapshot.nodes[place].pods if not pod.daemon])


def _roomy(snapshot: Snapshot, rng: random.Random, name: str) -> tuple[int, Pod]:
    """The twin of a random pod, for a random node of the same pool, zone and kind that has room for it."""
    while True:
        at, chosen = _draw(snapshot, rng)
        alike = [
            place
            for place, node in enumerate(snapshot.nodes)
            if place != at and all(node.labels[key] == snapshot.nodes[at].labels[key] for key in ALIKE)
        ]
        asked = spec_requests(chosen.spec)
        for place in rng.sample(alike, min(TRIED, len(alike))):
            left = snapshot.nodes[place].available
            if all(amount <= left.get(resource, ZERO) for resource, amount in asked.items()):
                spec = msgspec.structs.replace(chosen.spec, node_name=snapshot.nodes[place].name)
                return place, _renamed(msgspec.structs.replace(chosen, spec=spec), name)


def _resized(pod: Pod) -> Pod:
    """A tenth more of the processor, as after a resize in place: nobody asked for as much before."""
    first, *others = pod.spec.containers
    asked = first.resources.requests
    more = {**asked, "cpu": Quantity.of(f"{asked['cpu'].milli * 11 // 10 + 1}m")}
    first = msgspec.structs.replace(first, resources=msgspec.structs.replace(first.resources, requests=more))
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, containers=(first, *others)))


def _labelled(pod: Pod, labels: dict[str, str]) -> Pod:
    written = {**pod.metadata.labels, **labels}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=written))


def _renamed(pod: Pod, name: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name, uid=name))


def _with(snapshot: Snapshot, place: int, pods: tuple[Pod, ...]) -> Snapshot:
    nodes = snapshot.nodes
    changed = replace(nodes[place], pods=pods)
    return replace(snapshot, at=snapshot.at + LATER, nodes=(*nodes[:place], changed, *nodes[place + 1 :]))


def main() -> None:
    nodes, regime = int(sys.argv[1]), sys.argv[2]
    snapshot = disruptable(nodes, regime)
    gc.collect()
    pools = usable_pools(snapshot)
    sweeps = [sweep_once(snapshot, pools)[:2] for _ in range(REPEATS)]
    planners, passes = [Planner()], []
    seconds, plan = plan_once(planners[0], replace(snapshot))
    passes.append(seconds)
    peak = peak_mb()  # of one planner: the others are there to repeat what it does
    for _ in range(REPEATS - 1):
        planners.append(Planner())
        passes.append(plan_once(planners[-1], replace(snapshot))[0])
    check_complete(plan, snapshot)
    again: dict[str, list[float]] = {}
    anew: list[float] = []  # beside each change, when the machine was as busy
    for kind, changed in changes(snapshot):
        repeated = [plan_once(planner, changed) for planner in planners]
        again.setdefault(kind, []).append(min(seconds for seconds, _ in repeated))
        later = repeated[-1][1]
        check_complete(later, changed)
        if nodes <= COMPARED:
            anew.append(check_same(later, changed))
    codes = {method: Counter(each.code for each in refusals) for method, refusals in plan.refusals_by_method.items()}
    figures: dict[str, Any] = {
        "nodes": nodes,
        "regime": regime,
        "sweep": min(sum(run) for run in sweeps),
        "first": median(anew) if anew else min(passes),
        "again": {kind: max(median(runs), mean(runs)) for kind, runs in again.items()},
        "worst": {kind: max(runs) for kind, runs in again.items()},
        "answers": codes,
        "commands": {
            method: [len(each.candidates) for each in made] for method, made in plan.commands_by_method.items()
        },
        "peak_mb": peak,
    }
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main()
