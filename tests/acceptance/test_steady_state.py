"""Constant load: once a cluster has converged, a thousand further passes move nothing."""

from dataclasses import replace
from datetime import timedelta

import pytest

from acceptance.fleet import ON_DEMAND, cluster, free, running, worker
from builders import HUGE, LARGE, NOON, SMALL
from dovetail.core.disruption.planner import plan_disruption

TYPES = (SMALL, LARGE, HUGE)
MINUTE = timedelta(minutes=1)


def converged(policy, sizes):
    """Consolidate on paper until nothing moves: pods of a node that goes land where the plan's simulation has room."""
    pools = [free(template=ON_DEMAND, consolidationPolicy=policy, budgets=[{"nodes": "1"}])]
    nodes = {f"n{each:02}": [running(f"p{each}", f"n{each:02}", cpu=cpu)] for each, cpu in enumerate(sizes)}
    kinds = dict.fromkeys(nodes, "m.large")
    for turn in range(200):
        found = cluster(
            *(worker(name, *pods, type_=kinds[name]) for name, pods in nodes.items()), pools=pools, types=TYPES
        )
        commands = plan_disruption(found).commands
        if not commands:
            return found
        (command,) = commands
        (gone,) = command.candidates
        pods_to_reschedule = nodes.pop(gone.name)
        if command.replacements:
            new = f"r{turn:02}"
            draft = command.replacements[0]
            kinds[new] = draft.choices[0].type.name
            here = {each.name for each in draft.pods}
            nodes[new] = [running(each.name, new, cpu=_cpu(each)) for each in pods_to_reschedule if each.name in here]
            pods_to_reschedule = [each for each in pods_to_reschedule if each.name not in here]
        for each in sorted(pods_to_reschedule, key=_milli, reverse=True):
            target = next(name for name in sorted(nodes) if _room(nodes[name], kinds[name]) >= _milli(each))
            nodes[target].append(running(each.name, target, cpu=_cpu(each)))
    raise AssertionError("never converged")


def _cpu(pod):
    return str(pod.spec.containers[0].resources.requests["cpu"])


def _milli(pod):
    written = _cpu(pod)
    return int(written[:-1]) if written.endswith("m") else int(float(written) * 1000)


def _room(pods, kind):
    return {"m.small": 2000, "m.large": 4000, "m.huge": 16000}[kind] - sum(map(_milli, pods))


@pytest.mark.parametrize("policy", ["WhenEmptyOrUnderutilized", "Balanced"])
def test_a_thousand_passes_after_convergence_move_nothing(policy):
    found = converged(policy, ["500m", "1500m", "1", "2", "700m", "3500m", "300m", "1200m"])
    for number in range(1000):
        assert plan_disruption(replace(found, at=NOON + number * MINUTE)).commands == ()


def test_a_node_at_95_percent_is_not_replaced_by_its_twin_in_a_thousand_passes():
    full = worker("a", running("x", "a", cpu="3800m", memory="15Gi"))
    found = cluster(full, pools=[free(template=ON_DEMAND)], types=(LARGE,))
    assert all(not plan_disruption(replace(found, at=NOON + each * MINUTE)).commands for each in range(1000))
