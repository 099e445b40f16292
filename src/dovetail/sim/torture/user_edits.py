"""Draws user edits and late watches close to actions that make the controllers add or remove nodes.

Users scale a Deployment down and up again within seconds, delete a node just after pods were bound to it, create pods
with `spec.nodeName`, and withdraw a change: they protect a pod or node, tighten a PodDisruptionBudget, set a budget to
0, pause a NodePool or revert a template. The draw does not know which node an edit affects or whether a command is in
progress. Every group has a separate random generator, so it changes no other piece of the trial.
"""

import random
from collections.abc import Iterable

from dovetail.sim.torture.cluster_generator import draw_budgets
from dovetail.sim.torture.trial import Parameters, TrialPiece

WARM_UP = 60.0
FOLLOWED_BY_EDITS = {"change template", "scale", "delete node", "delete claim", "delete pool", "cordon node"}
Action = tuple[str, Parameters]
WATCHED = ("Pod", "Pod", "Pod", "Node", "NodeClaim", "NodePool", "PodDisruptionBudget")
EDITS = ("protect pod", "protect pod", "protect node", "tighten", "freeze", "pause", "revert", "revert")
TOLERATIONS = ("nothing", "nothing", "dedicated taint", "everything")


def draw_edits(seed: int, pieces: Iterable[TrialPiece], faults_end_at: float) -> list[TrialPiece]:
    """Draw all groups of edits for a trial with these pieces."""
    node_changes = [each for each in pieces if each.what in FOLLOWED_BY_EDITS]
    scale_bursts = _scale_bursts(_rng(seed, "bursts"), faults_end_at)
    node_changes += [each for each in scale_bursts if each.what == "scale"]
    found = [
        *scale_bursts,
        *_deletions(_rng(seed, "deletions"), node_changes),
        *_edits(_rng(seed, "mind"), node_changes),
        *_pods_by_name(_rng(seed, "pods"), node_changes, faults_end_at),
        *_late_watches(_rng(seed, "watches"), node_changes, faults_end_at),
    ]
    return [each for each in found if WARM_UP <= each.at < faults_end_at]


def _rng(seed: int, name: str) -> random.Random:
    return random.Random(f"{seed}/edits/{name}")  # noqa: S311 - reproducible, not secret


def _piece(name: str, at: float, what: str, parameters: Parameters) -> TrialPiece:
    return TrialPiece(name, round(at, 1), what, parameters)


def _scale_bursts(rng: random.Random, faults_end_at: float) -> list[TrialPiece]:
    """Scale a Deployment down and, seconds later, up again; half of the time a watch is late then."""
    found = []
    for number in range(rng.choice((0, 1, 2, 3))):
        at, which, gap = rng.uniform(WARM_UP, faults_end_at - 60), rng.randrange(1000), rng.uniform(2, 45)
        few, many = rng.choice((0, 0, 1)), rng.choice((2, 3, 3, 5, 8))
        late_watch = _late_watch(rng)
        found.append(_piece(f"b{number}", at, "scale", {"which": which, "replicas": few}))
        found.append(_piece(f"b{number}u", at + gap, "scale", {"which": which, "replicas": many}))
        begins = at + rng.uniform(0, gap)
        if rng.random() < 0.5:
            found.append(_piece(f"b{number}w", begins, *late_watch))
    return found


def _late_watch(rng: random.Random) -> Action:
    """A watch that lags for seconds or is silent for minutes."""
    kind, late, silent = rng.choice(WATCHED), rng.choice((12, 25, 30)), rng.choice((60, 120, 240))
    if rng.random() < 0.6:
        return "watch lags", {"kind": kind, "seconds": late}
    return "watch is silent", {"kind": kind, "seconds": silent}


def _deletions(rng: random.Random, node_changes: list[TrialPiece]) -> list[TrialPiece]:
    """Delete a node or its NodeClaim seconds after pods may have been bound to it."""
    found = []
    for number, piece in enumerate(each for each in node_changes if each.parameters.get("replicas", 0) > 1):
        what = rng.choice(("delete node", "delete node", "delete claim"))
        at, which, newest = piece.at + rng.uniform(1, 40), rng.randrange(1000), rng.random() < 0.5
        if rng.random() < 0.2:
            found.append(_piece(f"h{number}", at, what, {"which": which, "newest": newest}))
    return found


def _edits(rng: random.Random, node_changes: list[TrialPiece]) -> list[TrialPiece]:
    """Edits that should stop a disruption in progress. Most are undone some minutes later."""
    found: list[TrialPiece] = []
    for number, piece in enumerate(node_changes):
        what, at = rng.choice(EDITS), piece.at + rng.uniform(3, 240)
        which = piece.parameters["which"] if rng.random() < 0.7 else rng.randrange(1000)
        lifted_at, after = at + rng.uniform(120, 900), draw_budgets(rng)
        leaving = rng.random() < 0.5
        if rng.random() >= (0.6 if piece.what == "change template" else 0.25):
            continue
        first, second = _edit(what, {"which": which}, after, leaving=leaving)
        found.append(_piece(f"e{number}", at, *first))
        if second is not None:
            found.append(_piece(f"e{number}u", lifted_at, *second))
    return found


def _edit(
    what: str, which: Parameters, after: list[dict[str, object]], *, leaving: bool
) -> tuple[Action, Action | None]:
    """The action, and the action that undoes it if there is one."""
    match what:
        case "protect pod":
            return ("protect pod", {**which, "until": "true", "leaving": leaving}), None
        case "protect node":
            return ("protect node", {**which, "leaving": leaving}), None
        case "tighten":
            return ("tighten PodDisruptionBudget", which), ("loosen PodDisruptionBudget", which)
        case "freeze":
            return ("change budgets", {**which, "budgets": [{"nodes": "0"}]}), (
                "change budgets",
                {**which, "budgets": after},
            )
        case "pause":
            return ("pause pool", {**which, "until": "true"}), ("pause pool", {**which, "until": "false"})
        case _:
            return ("revert template", which), None


def _pods_by_name(rng: random.Random, node_changes: list[TrialPiece], faults_end_at: float) -> list[TrialPiece]:
    """Create pods with `spec.nodeName`: the scheduler cannot keep them off a node that is being removed."""
    times = [rng.uniform(WARM_UP, faults_end_at) for _ in range(rng.choice((0, 1, 2)))]
    times += [each.at + rng.uniform(1, 60) for each in node_changes if rng.random() < 0.25]
    return [
        _piece(
            f"n{number}",
            at,
            "run pod on node",
            {
                "which": rng.randrange(1000),
                "leaving": rng.random() < 0.5,
                "tolerates": rng.choice(TOLERATIONS),
                "name": f"by-name-{number}",
            },
        )
        for number, at in enumerate(times)
    ]


def _late_watches(rng: random.Random, node_changes: list[TrialPiece], faults_end_at: float) -> list[TrialPiece]:
    """Delay watches at any time, mostly close to changes of nodes."""
    times = [rng.uniform(WARM_UP, faults_end_at) for _ in range(rng.choice((0, 0, 1, 2)))]
    times += [each.at + rng.uniform(-20, 20) for each in node_changes if rng.random() < 0.2]
    return [_piece(f"v{number}", at, *_late_watch(rng)) for number, at in enumerate(times)]
