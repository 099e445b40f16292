"""Prints a drain: every pod with its tier, its state and what blocks its eviction, and where it would be scheduled."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from dovetail.cli.view.printing import counted, moment, plain_table, stamp
from dovetail.core.explain.drain import DrainView, PodState, PodView
from dovetail.core.scheduling.solver import Placement
from dovetail.core.wording import message
from dovetail.model.kube_object import Key

_COLOURS = {"stuck": "red", "slow": "yellow", "moving": "green"}
_MEANS = {
    "stuck": "it cannot finish without a manual change",
    "slow": "all obstacles are temporary",
    "moving": "nothing blocks it",
}
_ENDS = {"stuck": "would not end", "slow": "would end once its obstacles do", "moving": "would end"}


def drain_document(view: DrainView) -> dict[str, Any]:
    """Build the document of a drain."""
    return {
        "verdict": view.verdict,
        "since": _stamp(view.since),
        "deadline": _stamp(view.deadline),
        "waitsFor": view.step or None,
        "pods": [_pod_document(each) for each in view.pods],
    }


def _pod_document(view: PodView) -> dict[str, Any]:
    return {
        "pod": str(view.pod.key),
        "tier": int(view.tier),
        "state": str(view.state),
        "why": view.why or None,
        "since": _stamp(view.since),
        "until": _stamp(view.until),
        "permanent": view.permanent,
    }


def _stamp(instant: datetime | None) -> str | None:
    return None if instant is None else stamp(instant)


def draw_drain(console: Console, view: DrainView) -> None:
    """Draw the state of the drain, then every pod."""
    if view.since is not None:
        console.print(f"Draining since {moment(view.since, view.at)}: {summary(view)}", style=_COLOURS[view.verdict])
    if view.deadline is not None:
        begins = "" if view.since is not None else " if the drain starts now"
        console.print(
            f"All pods are deleted by {moment(view.deadline, view.at)}{begins}, despite PodDisruptionBudgets.",
            style="yellow",
        )
    if view.pods:
        console.print()
        console.print(_pods_table(view))


def outcome(view: DrainView) -> str:
    """Say whether a drain would end."""
    return _ENDS[view.verdict] if view.waiting else "would end"


def summary(view: DrainView) -> str:
    """Describe the state of a drain in one line."""
    if not view.waiting:
        return view.step or "all pods are gone"
    states = Counter(str(each.state) for each in view.waiting)
    parts = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
    means = _MEANS[view.verdict]
    return f"{view.verdict}, {means}; {counted(len(view.waiting), 'pod')} left ({parts})"


def blocked_pods(view: DrainView) -> Iterator[str]:
    """Yield a line for each pod that cannot be evicted now: why, since when and until when."""
    for each in view.waiting:
        if each.state in (PodState.PROTECTED, PodState.BLOCKED):
            since = f", since {moment(each.since, view.at)}" if each.since is not None else ""
            yield f"{each.pod.key} {each.state}: {each.why}{since}, {_lasting(each, view.at).plain or 'may change'}"


def _pods_table(view: DrainView) -> Any:
    dated = any(each.since is not None for each in view.pods)
    table = plain_table("TIER", "POD", "STATE", *(["SINCE"] if dated else []), "LASTS", "WHY")
    for each in view.pods:
        tier = "-" if each.state == PodState.LEFT_ALONE else f"{int(each.tier)} {each.tier}"
        since = [moment(each.since, view.at) if each.since is not None else ""] if dated else []
        table.add_row(tier, str(each.pod.key), str(each.state), *since, _lasting(each, view.at), each.why)
    return table


def _lasting(view: PodView, now: datetime) -> Text:
    if view.permanent:
        return Text("permanent", style="red")
    if view.until is not None:
        return Text(f"until {moment(view.until, now)}", style="yellow")
    return Text("may change", style="dim") if view.state == PodState.BLOCKED else Text("")


def placement_document(placement: Placement) -> list[dict[str, Any]]:
    """Build the list of pods with the node or NodePool where each would be scheduled."""
    return [
        {"pod": str(pod), "node": node or None, "nodepool": pool or None, "nowhere": why or None}
        for pod, node, pool, why in _placements(placement)
    ]


def draw_placement(console: Console, placement: Placement) -> None:
    """Draw where each pod would be scheduled."""
    rows = list(_placements(placement))
    if not rows:
        return
    table = plain_table("POD", "WOULD RUN ON")
    for pod, node, pool, why in rows:
        place = f"node {node}" if node else f"a new node of NodePool {pool}" if pool else f"no node: {why}"
        table.add_row(str(pod), Text(place, style="red" if why else ""))
    console.print()
    console.print(table)


def _placements(placement: Placement) -> Iterator[tuple[Key, str, str, str]]:
    pool_by_pod = {pod: draft.pool_name for draft in placement.drafts for pod in draft.pod_keys}
    for pod in sorted({*placement.node_by_pod, *pool_by_pod, *placement.refusals}):
        refusal = placement.refusals.get(pod)
        why = message(refusal) if refusal is not None else ""
        yield pod, placement.node_by_pod.get(pod, ""), pool_by_pod.get(pod, ""), why
