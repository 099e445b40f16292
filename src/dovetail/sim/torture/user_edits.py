"""What people do while nodes are moving, and watches that fall behind then: drawn around what sets nodes moving.

Scaling down and up again within seconds, nodes deleted just after pods came to them, pods put on a node by name, and
changes of mind: protection, a tighter PodDisruptionBudget, a budget of 0, a pause, a template changed back. Nothing
here knows which node is affected or whether a command is under way. Every group has its own dice, so the rest of a
story is as it was.
"""

import random
from collections.abc import Iterable

from dovetail.sim.torture.cluster_generator import draw_budgets
from dovetail.sim.torture.trial import Terms, TrialPiece

BEGIN = 60.0
STIRRING = {"change template", "scale", "delete node", "delete claim", "delete pool", "cordon node"}
Deed = tuple[str, Terms]
WATCHED = ("Pod", "Pod", "Pod", "Node", "NodeClaim", "NodePool", "PodDisruptionBudget")
CHANGES_OF_MIND = ("protect pod", "protect pod", "protect node", "tighten", "freeze", "pause", "revert", "revert")
TOLERATIONS = ("nothing", "nothing", "NoSchedule of others", "everything")


def draw_edits(seed: int, pieces: Iterable[TrialPiece], peace_at: float) -> list[TrialPiece]:
    """All groups, for a story that has these pieces."""
    stirring = [each for each in pieces if each.what in STIRRING]
    bursts = _bursts(_dice(seed, "bursts"), peace_at)
    stirring += [each for each in bursts if each.what == "scale"]
    found = [
        *bursts,
        *_deletions(_dice(seed, "deletions"), stirring),
        *_changes_of_mind(_dice(seed, "mind"), stirring),
        *_pods_by_name(_dice(seed, "pods"), stirring, peace_at),
        *_late_watches(_dice(seed, "watches"), stirring, peace_at),
    ]
    return [each for each in found if BEGIN <= each.at < peace_at]


def _dice(seed: int, name: str) -> random.Random:
    return random.Random(f"{seed}/edits/{name}")  # noqa: S311 - reproducible, not secret


def _piece(name: str, at: float, what: str, terms: Terms) -> TrialPiece:
    return TrialPiece(name, round(at, 1), what, terms)


def _bursts(dice: random.Random, peace_at: float) -> list[TrialPiece]:
    """A Deployment is scaled down and, seconds later, up again. So much at once often makes a watch fall behind."""
    found = []
    for number in range(dice.choice((0, 1, 2, 3))):
        at, which, gap = dice.uniform(BEGIN, peace_at - 60), dice.randrange(1000), dice.uniform(2, 45)
        few, many = dice.choice((0, 0, 1)), dice.choice((2, 3, 3, 5, 8))
        behind = _behind(dice)
        found.append(_piece(f"b{number}", at, "scale", {"which": which, "replicas": few}))
        found.append(_piece(f"b{number}u", at + gap, "scale", {"which": which, "replicas": many}))
        begins = at + dice.uniform(0, gap)
        if dice.random() < 0.5:
            found.append(_piece(f"b{number}w", begins, *behind))
    return found


def _behind(dice: random.Random) -> Deed:
    """The watch of one kind is late, or silent for minutes."""
    kind, late, silent = dice.choice(WATCHED), dice.choice((12, 25, 30)), dice.choice((60, 120, 240))
    if dice.random() < 0.6:
        return "watch lags", {"kind": kind, "seconds": late}
    return "watch is silent", {"kind": kind, "seconds": silent}


def _deletions(dice: random.Random, stirring: list[TrialPiece]) -> list[TrialPiece]:
    """Somebody deletes a node, or its claim, seconds after pods may have come to it."""
    found = []
    for number, piece in enumerate(each for each in stirring if each.terms.get("replicas", 0) > 1):
        what = dice.choice(("delete node", "delete node", "delete claim"))
        at, which, newest = piece.at + dice.uniform(1, 40), dice.randrange(1000), dice.random() < 0.5
        if dice.random() < 0.2:
            found.append(_piece(f"h{number}", at, what, {"which": which, "newest": newest}))
    return found


def _changes_of_mind(dice: random.Random, stirring: list[TrialPiece]) -> list[TrialPiece]:
    """What was set in motion is to stop, or something on its way is to stay. It is lifted again some minutes later."""
    found: list[TrialPiece] = []
    for number, piece in enumerate(stirring):
        what, at = dice.choice(CHANGES_OF_MIND), piece.at + dice.uniform(3, 240)
        which = piece.terms["which"] if dice.random() < 0.7 else dice.randrange(1000)
        lifted_at, after = at + dice.uniform(120, 900), draw_budgets(dice)
        leaving = dice.random() < 0.5
        if dice.random() >= (0.6 if piece.what == "change template" else 0.25):
            continue
        first, second = _edit(what, {"which": which}, after, leaving=leaving)
        found.append(_piece(f"e{number}", at, *first))
        if second is not None:
            found.append(_piece(f"e{number}u", lifted_at, *second))
    return found


def _edit(what: str, which: Terms, after: list[dict[str, object]], *, leaving: bool) -> tuple[Deed, Deed | None]:
    """What is done, and what lifts it again."""
    match what:
        case "protect pod":
            return ("protect pod", {**which, "until": "true", "leaving": leaving}), None
        case "protect node":
            return ("protect node", {**which, "leaving": leaving}), None
        case "tighten":
            return ("tighten disruption budget", which), ("loosen disruption budget", which)
        case "freeze":
            return ("change budgets", {**which, "budgets": [{"nodes": "0"}]}), (
                "change budgets",
                {**which, "budgets": after},
            )
        case "pause":
            return ("pause pool", {**which, "until": "true"}), ("pause pool", {**which, "until": "false"})
        case _:
            return ("revert template", which), None


def _pods_by_name(dice: random.Random, stirring: list[TrialPiece], peace_at: float) -> list[TrialPiece]:
    """Pods that name their node: no scheduler keeps them from one that is leaving."""
    instants = [dice.uniform(BEGIN, peace_at) for _ in range(dice.choice((0, 1, 2)))]
    instants += [each.at + dice.uniform(1, 60) for each in stirring if dice.random() < 0.25]
    return [
        _piece(
            f"n{number}",
            at,
            "run pod on node",
            {
                "which": dice.randrange(1000),
                "leaving": dice.random() < 0.5,
                "tolerates": dice.choice(TOLERATIONS),
                "name": f"by-name-{number}",
            },
        )
        for number, at in enumerate(instants)
    ]


def _late_watches(dice: random.Random, stirring: list[TrialPiece], peace_at: float) -> list[TrialPiece]:
    """Watches that fall behind at any time, most of all when nodes are set moving."""
    instants = [dice.uniform(BEGIN, peace_at) for _ in range(dice.choice((0, 0, 1, 2)))]
    instants += [each.at + dice.uniform(-20, 20) for each in stirring if dice.random() < 0.2]
    return [_piece(f"v{number}", at, *_behind(dice)) for number, at in enumerate(instants)]
