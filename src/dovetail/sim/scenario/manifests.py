"""Manifests for the workloads of a scenario, and the number of their replicas over time.

A workload becomes a Deployment, with a PodDisruptionBudget if it has `maxUnavailable`, or a series of Jobs. A group of
a trace becomes a ReplicaSet.
"""

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any

from dovetail.sim.kubernetes.kubelet import RUN_SECONDS
from dovetail.sim.scenario.document import Daily, Workload
from dovetail.sim.scenario.trace import Arrival

Plain = dict[str, Any]
DAY = 24 * 3600.0


def deployment(work: Workload, replicas: int) -> Plain:
    """The Deployment of a workload."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": work.name, "namespace": work.namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": work.name}},
            "template": _template(work),
        },
    }


def disruption_budget(work: Workload) -> Plain | None:
    """The PodDisruptionBudget of a workload with `maxUnavailable`, else None."""
    if work.max_unavailable is None:
        return None
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": work.name, "namespace": work.namespace},
        "spec": {"maxUnavailable": work.max_unavailable, "selector": {"matchLabels": {"app": work.name}}},
    }


def job(work: Workload, number: int) -> Plain:
    """The Job of one run of a workload with `runs`."""
    assert work.runs is not None, "only workloads with runs have jobs"
    template = _template(work)
    template["metadata"]["annotations"] = {
        **template["metadata"]["annotations"],
        RUN_SECONDS: str(work.runs.lasts.seconds),
    }
    template["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{work.name}-{number}", "namespace": work.namespace},
        "spec": {"parallelism": work.runs.pods, "completions": work.runs.pods, "template": template},
    }


def arrival(group: Arrival) -> Plain:
    """The ReplicaSet of a group of pods in a trace."""
    resources = {"requests": {"cpu": group.cpu, "memory": group.memory}}
    spec: Plain = {"containers": [{"name": "main", "image": "trace", "resources": resources}]}
    if group.priority:
        spec["priority"] = group.priority
    if group.node_selector:
        spec["nodeSelector"] = dict(group.node_selector)
    if group.tolerations:
        spec["tolerations"] = [
            {"key": key, "operator": "Equal", "value": value} if value else {"key": key, "operator": "Exists"}
            for key, value in group.tolerations.items()
        ]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": group.name, "namespace": group.namespace},
        "spec": {
            "replicas": group.pods,
            "selector": {"matchLabels": {"trace": group.name}},
            "template": {
                "metadata": {"labels": {"trace": group.name}, "annotations": dict(group.annotations)},
                "spec": spec,
            },
        },
    }


def turns(work: Workload, start: datetime, lasts: float, random: Random) -> Iterator[tuple[float, int]]:
    """The changes of a workload's replicas: seconds from the start, and the new number."""
    if work.daily is not None:
        yield from _daily_changes(work.daily, start, lasts, random)
    elif work.turns:
        if work.turns[0].at.seconds > 0:
            yield 0.0, 0
        for turn in sorted(work.turns, key=lambda each: each.at.seconds):
            yield turn.at.seconds, turn.replicas
    else:
        yield 0.0, work.replicas or 0


def _daily_changes(daily: Daily, start: datetime, lasts: float, random: Random) -> Iterator[tuple[float, int]]:
    """Replicas follow a cosine with its maximum at the peak, sampled at each interval."""
    hour, minute = map(int, daily.peak.split(":"))
    peak, last = (hour * 60 + minute) * 60.0, -1
    at = 0.0
    while at <= lasts:
        now = start + timedelta(seconds=at)
        second_of_day = now.hour * 3600 + now.minute * 60 + now.second
        height = (1 + math.cos(2 * math.pi * (second_of_day - peak) / DAY)) / 2
        weekend = daily.weekend if now.weekday() >= 5 else 1.0
        exact = daily.low + (daily.high - daily.low) * height * weekend
        exact *= 1 + daily.noise * random.uniform(-1, 1)
        replicas = max(0, round(exact))
        if replicas != last:
            yield at, replicas
            last = replicas
        at += daily.every.seconds


def _template(work: Workload) -> Plain:
    resources = {"requests": {"cpu": str(work.cpu), "memory": str(work.memory)}}
    container = {"name": "main", "image": work.name, "resources": resources}
    return {
        "metadata": {"labels": {**work.labels, "app": work.name}, "annotations": dict(work.annotations)},
        "spec": {"containers": [container], **work.pod},
    }
