"""What happens in a story: what people do to the cluster, and what fails around the controllers, drawn from the seed.

Most of it is spread evenly; some comes in storms, because trouble rarely comes alone. Each piece is drawn from its own
dice, so leaving one out changes no other.
"""

import random
from collections.abc import Callable
from typing import Any

from dovetail.sim.torture.cluster_generator import ZONES, draw_budgets, draw_scene
from dovetail.sim.torture.fault_injector import draw_cloud_faults
from dovetail.sim.torture.special_cases import draw_special_pieces
from dovetail.sim.torture.trial import Trial, TrialPiece
from dovetail.sim.torture.user_edits import draw_edits

Terms = dict[str, Any]
Draw = Callable[[random.Random], Terms]

BEGIN = 60.0  # seconds that a cluster is given to come up at all
WARNINGS = ("spot_interrupted", "rebalance_recommendation", "scheduled_change", "instance_status", "instance_stopped")
SICK = (("Ready", "False"), ("NetworkUnavailable", "True"), ("MemoryPressure", "True"))
WATCHED = ("Pod", "Node", "NodeClaim", "NodePool", "PodDisruptionBudget")


def _any_call(dice: random.Random) -> Terms:
    return {
        "calls": dice.choice(("any", "write", "write", "create", "patch", "delete", "evict", "get")),
        "kind": dice.choice(("", "", "NodeClaim", "NodeClaim", "Node", "Pod", "NodePool")),
        "times": dice.choice((1, 1, 2, 3, 5)),
    }


def _written(dice: random.Random) -> Terms:
    return {**_any_call(dice), "calls": dice.choice(("write", "write", "create", "patch", "delete", "evict"))}


def _lease_call(dice: random.Random) -> Terms:
    return {
        "calls": dice.choice(("any", "write", "patch")),
        "kind": "Lease",
        "times": dice.choice((1, 2, 4, 8)),
    }


def _one_of_them(dice: random.Random) -> Terms:
    return {"leads": dice.random() < 0.8, "seconds": dice.choice((8, 18, 28, 60, 180))}


def _which(dice: random.Random) -> Terms:
    return {"which": dice.randrange(1000)}


def _shortage(dice: random.Random) -> Terms:
    kind = dice.random()
    zone = dice.choice(ZONES) if kind < 0.6 else ""
    sold_as = dice.choice(("spot", "on-demand")) if kind > 0.4 else ""
    return {"zone": zone, "capacity_type": sold_as, "seconds": dice.choice((60, 300, 900))}


FAULTS: tuple[tuple[str, int, Draw], ...] = (
    ("conflict", 3, lambda dice: {**_any_call(dice), "calls": "patch"}),
    ("unavailable", 4, _any_call),
    ("throttled", 2, _any_call),
    ("timeout before effect", 2, _written),
    ("timeout after effect", 6, _written),
    ("slow call", 2, lambda dice: {**_any_call(dice), "seconds": dice.choice((2, 8, 15))}),
    ("watch breaks", 2, lambda dice: {"kind": dice.choice(WATCHED)}),
    ("watch is too old", 2, lambda dice: {"kind": dice.choice(WATCHED)}),
    ("watch replays", 2, lambda dice: {"kind": dice.choice(WATCHED), "steps": dice.randint(1, 5)}),
    ("watch lags", 4, lambda dice: {"kind": dice.choice(WATCHED), "seconds": dice.choice((3, 12, 25))}),
    ("history is forgotten", 1, lambda _: {}),
    (
        "crash",
        5,
        lambda dice: {"call": dice.randint(1, 12), "after": dice.random() < 0.5, "down": dice.choice((1, 20))},
    ),
    ("leader steps down", 1, lambda dice: {"leads": True, "down": dice.choice((0.1, 15, 60))}),
    ("process is killed", 2, lambda dice: {"leads": dice.random() < 0.7, "down": dice.choice((1, 20, 120))}),
    ("lease is out of reach", 3, _one_of_them),
    ("machine sleeps", 1, _one_of_them),
    ("unavailable", 1, _lease_call),
    ("timeout after effect", 2, _lease_call),
    ("slow call", 2, lambda dice: {**_lease_call(dice), "seconds": dice.choice((2, 8, 15, 40))}),
    ("shortage", 2, _shortage),
    ("instance never joins", 1, lambda _: {}),
    ("instance dies", 2, _which),
    ("instance vanishes", 1, _which),
    ("instance is reclaimed", 1, _which),
    ("cloud warns", 1, lambda dice: {**_which(dice), "kind": dice.choice(WARNINGS)}),
    (
        "node is sick",
        1,
        lambda dice: {**_which(dice), **dict(zip(("condition", "status"), dice.choice(SICK), strict=True))},
    ),
    ("clock jumps", 1, lambda dice: {"seconds": dice.choice((-300, -30, 30, 240)), "lasts": dice.choice((30, 200))}),
)

ACTIONS: tuple[tuple[str, int, Draw], ...] = (
    ("scale", 8, lambda dice: {**_which(dice), "replicas": dice.choice((0, 1, 1, 2, 3, 5, 8, 10))}),
    ("roll out", 1, _which),
    ("run job", 1, lambda dice: {"number": dice.randrange(1, 1000)}),
    ("delete node", 2, _which),
    ("delete claim", 1, _which),
    ("delete pool", 1, _which),
    ("cordon node", 1, _which),
    ("uncordon node", 1, _which),
    ("change template", 3, lambda dice: {**_which(dice), "label": str(dice.randrange(1000))}),
    ("change budgets", 2, lambda dice: {**_which(dice), "budgets": draw_budgets(dice)}),
    ("change limits", 1, lambda dice: {**_which(dice), "limits": dice.choice(({"cpu": "12"}, {"nodes": "4"}, None))}),
    ("protect pod", 1, lambda dice: {**_which(dice), "until": dice.choice(("true", "10m", "soon", "false"))}),
    ("protect node", 1, _which),
    ("loosen disruption budget", 1, _which),
    ("delete pod", 1, _which),
)

STIRRING = {"change template", "scale", "delete node", "delete pool"}
TAKING = STIRRING | {"delete claim", "cloud warns", "instance is reclaimed", "node is sick"}
AMBUSHES = tuple(
    each
    for each in FAULTS
    if each[0]
    in {
        "crash",
        "timeout after effect",
        "instance never joins",
        "shortage",
        "watch lags",
        "instance dies",
        "lease is out of reach",
    }
)


def draw_story(seed: int) -> Trial:
    """The story of a seed."""
    dice = random.Random(f"{seed}/script")  # noqa: S311 - reproducible, not secret
    peace_at = float(dice.choice((1800, 2700, 3600, 4500)))
    pieces = draw_scene(seed)
    for number in range(dice.randint(6, 16)):
        pieces.append(_drawn(seed, f"a{number}", ACTIONS, dice.uniform(BEGIN, peace_at)))
    pieces += _ambushes(seed, pieces, peace_at)
    instants = _instants(dice, peace_at)
    pieces += [_drawn(seed, f"f{number}", FAULTS, at) for number, at in enumerate(instants)]
    pieces += [*_losses(seed, pieces, peace_at), *draw_edits(seed, pieces, peace_at)]
    pieces += draw_special_pieces(seed, peace_at)
    pieces += draw_cloud_faults(seed, peace_at)
    return Trial(seed, tuple(pieces), peace_at)


def _ambushes(seed: int, pieces: list[TrialPiece], peace_at: float) -> list[TrialPiece]:
    """What sets nodes moving is often followed by a fault while they move."""
    found = []
    for number, piece in enumerate(each for each in pieces if each.what in STIRRING):
        dice = random.Random(f"{seed}/ambush/{piece.id}")  # noqa: S311 - reproducible, not secret
        at = piece.at + dice.uniform(2, 60)
        if dice.random() < 0.6 and at < peace_at:
            found.append(_drawn(seed, f"x{number}", AMBUSHES, at))
    return found


def _losses(seed: int, pieces: list[TrialPiece], peace_at: float) -> list[TrialPiece]:
    """Machines are lost in the middle of anything, most of all while nodes go. Drawn apart from everything else."""
    dice = random.Random(f"{seed}/losses")  # noqa: S311 - reproducible, not secret
    instants = [dice.uniform(BEGIN, peace_at) for _ in range(dice.choice((0, 0, 1, 2)))]
    instants += [each.at + dice.uniform(2, 90) for each in pieces if each.what in TAKING and dice.random() < 0.15]
    lost = [(at, {**_which(dice), "draining": dice.random() < 0.5}) for at in instants]
    return [
        TrialPiece(f"l{number}", round(at, 1), "instance is lost", terms)
        for number, (at, terms) in enumerate(lost)
        if at < peace_at
    ]


def _instants(dice: random.Random, peace_at: float) -> list[float]:
    """Calm stories, restless ones, and storms of a minute or two."""
    restless = dice.choice((0, 6, 15, 40))
    instants = [dice.uniform(5, peace_at) for _ in range(restless)]
    for _ in range(dice.choice((0, 1, 2, 3))):
        begin = dice.uniform(5, peace_at - 120)
        instants += [begin + dice.uniform(0, 100) for _ in range(dice.randint(4, 20))]
    return instants


def _drawn(seed: int, name: str, table: tuple[tuple[str, int, Draw], ...], at: float) -> TrialPiece:
    dice = random.Random(f"{seed}/{name}")  # noqa: S311 - reproducible, not secret
    what, _, draw = dice.choices(table, weights=[weight for _, weight, _ in table])[0]
    return TrialPiece(name, round(at, 1), what, draw(dice))
