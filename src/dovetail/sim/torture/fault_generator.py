"""Draws a trial from its seed: the initial objects, user actions and faults.

Faults are spread evenly over the trial, come in bursts of a minute or two, or follow an action that makes nodes change.
Each piece is drawn from a separate random generator seeded by the trial and the id of the piece, so removing a piece
changes no other. Changing the order of draws, or a seed text such as "ambush", changes the trials of all seeds.
"""

import random
from collections.abc import Callable
from typing import Any

from dovetail.sim.torture.cluster_generator import ZONES, draw_budgets, draw_initial_objects
from dovetail.sim.torture.fault_injector import draw_cloud_faults
from dovetail.sim.torture.special_cases import draw_special_pieces
from dovetail.sim.torture.trial import Trial, TrialPiece
from dovetail.sim.torture.user_edits import draw_edits

Parameters = dict[str, Any]
Draw = Callable[[random.Random], Parameters]

WARM_UP = 60.0  # seconds without user actions at the start
WARNINGS = ("spot_interrupted", "rebalance_recommendation", "scheduled_change", "instance_status", "instance_stopped")
UNHEALTHY_CONDITIONS = (("Ready", "False"), ("NetworkUnavailable", "True"), ("MemoryPressure", "True"))
WATCHED = ("Pod", "Node", "NodeClaim", "NodePool", "PodDisruptionBudget")


def _any_call(rng: random.Random) -> Parameters:
    return {
        "calls": rng.choice(("any", "write", "write", "create", "patch", "delete", "evict", "get")),
        "kind": rng.choice(("", "", "NodeClaim", "NodeClaim", "Node", "Pod", "NodePool")),
        "times": rng.choice((1, 1, 2, 3, 5)),
    }


def _any_write(rng: random.Random) -> Parameters:
    return {**_any_call(rng), "calls": rng.choice(("write", "write", "create", "patch", "delete", "evict"))}


def _lease_call(rng: random.Random) -> Parameters:
    return {
        "calls": rng.choice(("any", "write", "patch")),
        "kind": "Lease",
        "times": rng.choice((1, 2, 4, 8)),
    }


def _choose_replica(rng: random.Random) -> Parameters:
    return {"leads": rng.random() < 0.8, "seconds": rng.choice((8, 18, 28, 60, 180))}


def _choose_object(rng: random.Random) -> Parameters:
    return {"which": rng.randrange(1000)}


def _shortage(rng: random.Random) -> Parameters:
    kind = rng.random()
    zone = rng.choice(ZONES) if kind < 0.6 else ""
    capacity_type = rng.choice(("spot", "on-demand")) if kind > 0.4 else ""
    return {"zone": zone, "capacity_type": capacity_type, "seconds": rng.choice((60, 300, 900))}


FAULTS: tuple[tuple[str, int, Draw], ...] = (
    ("conflict", 3, lambda rng: {**_any_call(rng), "calls": "patch"}),
    ("unavailable", 4, _any_call),
    ("throttled", 2, _any_call),
    ("timeout before effect", 2, _any_write),
    ("timeout after effect", 6, _any_write),
    ("slow call", 2, lambda rng: {**_any_call(rng), "seconds": rng.choice((2, 8, 15))}),
    ("watch breaks", 2, lambda rng: {"kind": rng.choice(WATCHED)}),
    ("watch is too old", 2, lambda rng: {"kind": rng.choice(WATCHED)}),
    ("watch replays", 2, lambda rng: {"kind": rng.choice(WATCHED), "steps": rng.randint(1, 5)}),
    ("watch lags", 4, lambda rng: {"kind": rng.choice(WATCHED), "seconds": rng.choice((3, 12, 25))}),
    ("watch history is compacted", 1, lambda _: {}),
    (
        "crash",
        5,
        lambda rng: {"call": rng.randint(1, 12), "after": rng.random() < 0.5, "down": rng.choice((1, 20))},
    ),
    ("leader steps down", 1, lambda rng: {"leads": True, "down": rng.choice((0.1, 15, 60))}),
    ("process is killed", 2, lambda rng: {"leads": rng.random() < 0.7, "down": rng.choice((1, 20, 120))}),
    ("lease is unreachable", 3, _choose_replica),
    ("process is suspended", 1, _choose_replica),
    ("unavailable", 1, _lease_call),
    ("timeout after effect", 2, _lease_call),
    ("slow call", 2, lambda rng: {**_lease_call(rng), "seconds": rng.choice((2, 8, 15, 40))}),
    ("shortage", 2, _shortage),
    ("instance never joins", 1, lambda _: {}),
    ("instance dies", 2, _choose_object),
    ("instance vanishes", 1, _choose_object),
    ("instance is reclaimed", 1, _choose_object),
    ("cloud warning", 1, lambda rng: {**_choose_object(rng), "kind": rng.choice(WARNINGS)}),
    (
        "node is unhealthy",
        1,
        lambda rng: {
            **_choose_object(rng),
            **dict(zip(("condition", "status"), rng.choice(UNHEALTHY_CONDITIONS), strict=True)),
        },
    ),
    ("clock jumps", 1, lambda rng: {"seconds": rng.choice((-300, -30, 30, 240)), "lasts": rng.choice((30, 200))}),
)

ACTIONS: tuple[tuple[str, int, Draw], ...] = (
    ("scale", 8, lambda rng: {**_choose_object(rng), "replicas": rng.choice((0, 1, 1, 2, 3, 5, 8, 10))}),
    ("roll out", 1, _choose_object),
    ("run job", 1, lambda rng: {"number": rng.randrange(1, 1000)}),
    ("delete node", 2, _choose_object),
    ("delete claim", 1, _choose_object),
    ("delete pool", 1, _choose_object),
    ("cordon node", 1, _choose_object),
    ("uncordon node", 1, _choose_object),
    ("change template", 3, lambda rng: {**_choose_object(rng), "label": str(rng.randrange(1000))}),
    ("change budgets", 2, lambda rng: {**_choose_object(rng), "budgets": draw_budgets(rng)}),
    (
        "change limits",
        1,
        lambda rng: {**_choose_object(rng), "limits": rng.choice(({"cpu": "12"}, {"nodes": "4"}, None))},
    ),
    ("protect pod", 1, lambda rng: {**_choose_object(rng), "until": rng.choice(("true", "10m", "soon", "false"))}),
    ("protect node", 1, _choose_object),
    ("loosen PodDisruptionBudget", 1, _choose_object),
    ("delete pod", 1, _choose_object),
)

FOLLOWED_BY_FAULTS = {"change template", "scale", "delete node", "delete pool"}
FOLLOWED_BY_LOSSES = FOLLOWED_BY_FAULTS | {
    "delete claim",
    "cloud warning",
    "instance is reclaimed",
    "node is unhealthy",
}
_FOLLOW_UPS = {"crash", "timeout after effect", "instance never joins", "shortage"}
_FOLLOW_UPS |= {"watch lags", "instance dies", "lease is unreachable"}
FOLLOW_UP_FAULTS = tuple(each for each in FAULTS if each[0] in _FOLLOW_UPS)


def draw_trial(seed: int) -> Trial:
    """Draw the trial of a seed."""
    rng = random.Random(f"{seed}/script")  # noqa: S311 - reproducible, not secret
    faults_end_at = float(rng.choice((1800, 2700, 3600, 4500)))
    pieces = draw_initial_objects(seed)
    for number in range(rng.randint(6, 16)):
        pieces.append(_draw_piece(seed, f"a{number}", ACTIONS, rng.uniform(WARM_UP, faults_end_at)))
    pieces += _follow_up_faults(seed, pieces, faults_end_at)
    times = _fault_times(rng, faults_end_at)
    pieces += [_draw_piece(seed, f"f{number}", FAULTS, at) for number, at in enumerate(times)]
    pieces += [*_instance_losses(seed, pieces, faults_end_at), *draw_edits(seed, pieces, faults_end_at)]
    pieces += draw_special_pieces(seed, faults_end_at)
    pieces += draw_cloud_faults(seed, faults_end_at)
    return Trial(seed, tuple(pieces), faults_end_at)


def _follow_up_faults(seed: int, pieces: list[TrialPiece], faults_end_at: float) -> list[TrialPiece]:
    """Draw faults shortly after actions that make nodes change."""
    found = []
    for number, piece in enumerate(each for each in pieces if each.what in FOLLOWED_BY_FAULTS):
        rng = random.Random(f"{seed}/ambush/{piece.id}")  # noqa: S311 - reproducible, not secret
        at = piece.at + rng.uniform(2, 60)
        if rng.random() < 0.6 and at < faults_end_at:
            found.append(_draw_piece(seed, f"x{number}", FOLLOW_UP_FAULTS, at))
    return found


def _instance_losses(seed: int, pieces: list[TrialPiece], faults_end_at: float) -> list[TrialPiece]:
    """Draw losses of instances at any time, mostly while nodes are removed."""
    rng = random.Random(f"{seed}/losses")  # noqa: S311 - reproducible, not secret
    times = [rng.uniform(WARM_UP, faults_end_at) for _ in range(rng.choice((0, 0, 1, 2)))]
    removals = [each for each in pieces if each.what in FOLLOWED_BY_LOSSES]
    times += [each.at + rng.uniform(2, 90) for each in removals if rng.random() < 0.15]
    lost = [(at, {**_choose_object(rng), "draining": rng.random() < 0.5}) for at in times]
    return [
        TrialPiece(f"l{number}", round(at, 1), "instance is lost", parameters)
        for number, (at, parameters) in enumerate(lost)
        if at < faults_end_at
    ]


def _fault_times(rng: random.Random, faults_end_at: float) -> list[float]:
    """Draw the times of faults: none to many spread evenly, and bursts of 100 seconds."""
    count = rng.choice((0, 6, 15, 40))
    times = [rng.uniform(5, faults_end_at) for _ in range(count)]
    for _ in range(rng.choice((0, 1, 2, 3))):
        begin = rng.uniform(5, faults_end_at - 120)
        times += [begin + rng.uniform(0, 100) for _ in range(rng.randint(4, 20))]
    return times


def _draw_piece(seed: int, name: str, table: tuple[tuple[str, int, Draw], ...], at: float) -> TrialPiece:
    rng = random.Random(f"{seed}/{name}")  # noqa: S311 - reproducible, not secret
    what, _, draw = rng.choices(table, weights=[weight for _, weight, _ in table])[0]
    return TrialPiece(name, round(at, 1), what, draw(rng))
