"""What goes wrong in the cloud of a story: drawn from the seed, carried out on the simulated cloud, and looked for.

Calls of the cloud fail as calls of the API server do, through pieces that name the kind `Instance`. The rest happens to
instances: they register late, the list of instances lags behind, and somebody deletes a Node past its finalizer while
its instance runs on. How long instances take to boot and to shut down, and whether the cluster has a cloud controller
that deletes the Nodes of ended instances, is drawn once for a story.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

from dovetail.sim.cloud.service import CapacityShortage, CloudOptions, SimulatedCloud
from dovetail.sim.kubernetes.kinds import NODE_CLAIM
from dovetail.sim.torture.trial import TrialPiece
from dovetail.sim.world import World

Terms = dict[str, Any]
LEAKS = "no instance leaks"
_FIRST_AT = 60.0  # seconds that a cluster is given to come up
_INSTANCE_CALLS = ("launch", "launch", "terminate", "list", "get", "any")


def _calls(dice: random.Random) -> Terms:
    return {"kind": "Instance", "calls": dice.choice(_INSTANCE_CALLS), "times": dice.choice((1, 2, 5, 20))}


def _writes(dice: random.Random) -> Terms:
    return {
        "kind": "Instance",
        "calls": dice.choice(("launch", "launch", "terminate")),
        "times": dice.choice((1, 2, 4)),
    }


_FAULTS: tuple[tuple[str, int, Callable[[random.Random], Terms]], ...] = (
    ("unavailable", 2, _calls),
    ("throttled", 2, _calls),
    ("timeout before effect", 1, _writes),
    ("timeout after effect", 4, _writes),
    ("slow call", 2, lambda dice: {**_calls(dice), "times": 2, "seconds": dice.choice((2, 15, 45))}),
    ("instance list lags", 3, lambda dice: {"seconds": dice.choice((5, 45, 200))}),
    ("instance joins late", 2, lambda dice: {"seconds": dice.choice((20, 120, 600, 1200))}),
    ("instance never joins", 1, lambda _: {}),
    ("node is removed", 2, lambda dice: {"which": dice.randrange(1000)}),
)


def draw_cloud_options(seed: int) -> CloudOptions:
    """How the cloud of a story behaves."""
    dice = random.Random(f"{seed}/cloud")  # noqa: S311 - reproducible, not secret
    boot = dice.choice(((0.0, 0.0), (0.5, 3.0), (10.0, 60.0)))
    shutdown = dice.choice(((0.0, 0.0), (2.0, 20.0), (20.0, 120.0)))
    return CloudOptions(boot=boot, shutdown=shutdown, deletes_nodes=dice.random() < 0.5)


def draw_cloud_faults(seed: int, peace_at: float) -> list[TrialPiece]:
    """What goes wrong in the cloud. Drawn apart from everything else."""
    dice = random.Random(f"{seed}/cloud faults")  # noqa: S311 - reproducible, not secret
    found = []
    for number in range(dice.choice((0, 1, 3, 8))):
        at = dice.uniform(_FIRST_AT, peace_at)
        what, _, draw = dice.choices(_FAULTS, weights=[weight for _, weight, _ in _FAULTS])[0]
        found.append(TrialPiece(f"c{number}", round(at, 1), what, draw(dice)))
    return found


def carried_out_by(world: World) -> dict[str, Callable[[TrialPiece], None]]:
    """What happens to the cloud itself, by the name of the piece."""
    cloud = world.cloud
    return {
        "shortage": lambda piece: _run_short(world, piece.terms),
        "instance never joins": lambda _: _never_join(cloud),
        "instance joins late": lambda piece: cloud.joining_late.append(piece.terms["seconds"]),
        "instance list lags": lambda piece: cloud.freeze_list(piece.terms["seconds"]),
    }


def _never_join(cloud: SimulatedCloud) -> None:
    cloud.joining_never += 1


def _run_short(world: World, terms: Terms) -> None:
    shortages = world.cloud.shortages
    shortage = CapacityShortage(zone=terms["zone"], capacity_type=terms["capacity_type"])
    shortages.append(shortage)

    def end() -> None:
        if shortage in shortages:
            shortages.remove(shortage)

    world.store.loop.call_later(terms["seconds"], end)


def leaked_instances(world: World) -> Iterator[tuple[str, str]]:
    """Instances that nobody needs and that are still paid for, and claims that have two, as law and message."""
    claims = {claim.uid: claim for claim in world.store.all(NODE_CLAIM)}
    owned = {(claim.plain.get("status") or {}).get("providerID") for claim in claims.values()}
    for record in world.cloud.instances.values():
        if not record.exists:
            continue
        if record.provider_id not in owned:
            yield LEAKS, f"instance {record.provider_id} of {record.claim or 'no claim'} is {record.state}"
