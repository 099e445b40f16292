"""A drain as people and scripts read it: the pods by tier, what each waits for, and where they would go."""

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
    "stuck": "it will not end unless somebody changes something",
    "slow": "nothing permanent is in the way",
    "moving": "nothing is in the way",
}


def drain_document(told: DrainView) -> dict[str, Any]:
    """For scripts."""
    return {
        "verdict": told.verdict,
        "since": _stamp(told.since),
        "deadline": _stamp(told.deadline),
        "waitsFor": told.step or None,
        "pods": [_pod_document(each) for each in told.pods],
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


def draw_drain(console: Console, told: DrainView) -> None:
    """For people: how it stands, then every pod."""
    if told.since is not None:
        console.print(f"Draining since {moment(told.since, told.at)}: {summary(told)}", style=_COLOURS[told.verdict])
    if told.deadline is not None:
        begins = "" if told.since is not None else " if it began now"
        console.print(f"Every pod is gone by {moment(told.deadline, told.at)}{begins}, budgets or not.", style="yellow")
    if told.pods:
        console.print()
        console.print(_pods_table(told))


def summary(told: DrainView) -> str:
    """How a drain stands, in one line."""
    if not told.waiting:
        return told.step or "every pod is gone"
    states = Counter(str(each.state) for each in told.waiting)
    parts = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
    means = _MEANS[told.verdict]
    return f"{told.verdict}, {means}; {counted(len(told.waiting), 'pod')} to go ({parts})"


def held(told: DrainView) -> Iterator[str]:
    """A line for each pod that is held: by what, since when, and whether that ends."""
    for each in told.waiting:
        if each.state in (PodState.PROTECTED, PodState.BLOCKED):
            since = f", since {moment(each.since, told.at)}" if each.since is not None else ""
            yield f"{each.pod.key} {each.state}: {each.why}{since}, {_lasting(each, told.at).plain or 'may change'}"


def _pods_table(told: DrainView) -> Any:
    table = plain_table("TIER", "POD", "STATE", "SINCE", "LASTS", "WHY")
    for each in told.pods:
        tier = "-" if each.state == PodState.LEFT_ALONE else f"{int(each.tier)} {each.tier}"
        since = moment(each.since, told.at) if each.since is not None else ""
        table.add_row(tier, str(each.pod.key), str(each.state), since, _lasting(each, told.at), each.why)
    return table


def _lasting(view: PodView, now: datetime) -> Text:
    if view.permanent:
        return Text("permanent", style="red")
    if view.until is not None:
        return Text(f"until {moment(view.until, now)}", style="yellow")
    return Text("may change", style="dim") if view.state == PodState.BLOCKED else Text("")


def homes_document(homes: Placement) -> list[dict[str, Any]]:
    """Where the pods would go, for scripts."""
    return [
        {"pod": str(pod), "node": node or None, "nodepool": pool or None, "nowhere": why or None}
        for pod, node, pool, why in _homes(homes)
    ]


def draw_homes(console: Console, homes: Placement) -> None:
    """Where the pods would go, for people."""
    rows = list(_homes(homes))
    if not rows:
        return
    table = plain_table("POD", "WOULD GO TO")
    for pod, node, pool, why in rows:
        place = f"node {node}" if node else f"a new node of nodepool {pool}" if pool else f"nowhere: {why}"
        table.add_row(str(pod), Text(place, style="red" if why else ""))
    console.print()
    console.print(table)


def _homes(homes: Placement) -> Iterator[tuple[Key, str, str, str]]:
    bought = {pod: draft.pool_name for draft in homes.drafts for pod in draft.pod_keys}
    for pod in sorted({*homes.node_by_pod, *bought, *homes.refusals}):
        refusal = homes.refusals.get(pod)
        yield pod, homes.node_by_pod.get(pod, ""), bought.get(pod, ""), message(refusal) if refusal is not None else ""
