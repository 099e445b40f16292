"""Law: the commands the controller starts are those that `dovetail plan` printed for the same snapshot.

The controller is the real one: it runs one pass over a simulated API server on virtual time, second look included, and
its commands are read from the NodeClaims it wrote. `plan` reads a snapshot file of the moment before the pass.
"""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from random import Random
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from acceptance.fleet import ON_DEMAND, cluster, free, running, worker
from builders import HUGE, LARGE, NOON, SMALL, stamped
from dovetail.cli.app import app
from dovetail.controllers.cluster_state import ClusterState
from dovetail.controllers.context import ControllerContext
from dovetail.controllers.disruption import DisruptionController
from dovetail.controllers.disruption_queue import DisruptionQueue
from dovetail.manifest import codec
from dovetail.manifest.snapshot_file import snapshot_bytes
from dovetail.model.command import read_record
from dovetail.model.kinds import NODE_CLAIM
from dovetail.model.snapshot_builder import snapshot_objects
from dovetail.settings import DecisionOptions, Settings
from dovetail.sim.kubernetes.kinds import resource_of
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from properties import policy_changes, setting_changes, workload_changes  # noqa: F401 - they register the changes
from properties.answers import fresh
from properties.inputs import CHANGES, Inputs, edited

SEEDS, CHUNKS = 50, 2
CHANGED = 5
UNSEEN = {"failed commands", "object unreadable", "pause of everything"}
"""Changes left out: a back-off that only the controller knows of, and what stops every command."""
WINDOW = {"schedule": "0 12 * * *", "duration": "1h"}
CLOSING = {"nodes": "0", **WINDOW}
BUDGETS = ([], [{"nodes": "3"}], [{"nodes": "80%"}], [CLOSING], [{"nodes": "1", **WINDOW}])
CHEAP = {"controller.kubernetes.io/pod-deletion-cost": "-100000000"}


class Provider:
    """Offers the instance types of the snapshot."""

    def __init__(self, catalogs):
        self._catalogs = catalogs

    def supports(self, _):
        return True

    async def instance_types(self, pool):
        return self._catalogs.get(pool.name, ())


def some_cluster(seed):
    """A random cluster with every kind of object, after some random changes; and the feature gates."""
    inputs = Inputs(seed)
    for kind in inputs.rng.sample(sorted(CHANGES.keys() - UNSEEN), CHANGED):
        CHANGES[kind](inputs)
    return asyncio.run(fresh(inputs)).snapshot(inputs), replace(inputs.gates, drift=seed % 4 == 0)


def some_fleet(seed):
    """Nodes of a few types, filled at random, so that many can go one by one; mostly none of them together."""
    rng = Random(seed)  # noqa: S311 - reproducible, not secret
    pool = free(template=ON_DEMAND, budgets=rng.choice(BUDGETS), consolidateAfter=rng.choice(("0s", "10s")))
    nodes = [_some_worker(f"n{number}", rng) for number in range(rng.randint(3, 14))]
    if seed % 3:  # comes first in every set of nodes and has no other place
        selector = {"nodeSelector": {"kubernetes.io/hostname": "pin"}}
        pinned = running("pinned", "pin", spec=selector, metadata={"annotations": CHEAP})
        nodes.append(worker("pin", pinned, labels={"kubernetes.io/hostname": "pin"}))
    at = NOON + timedelta(seconds=rng.choice((0, -5, -5, 3595)))  # windows that open or close before the second look
    return cluster(*nodes, pools=[pool], types=(SMALL, LARGE, HUGE), at=at), DecisionOptions()


def _some_worker(name, rng):
    type_ = rng.choice(("m.large", "m.large", "m.huge"))
    number = 0 if rng.random() < 0.03 else rng.choice((1, 1, 1, 2, 5))
    sizes = [rng.choice((300, 700, 1500, 2500)) for _ in range(number)]
    pods = [running(f"{name}-{each}", name, cpu=f"{cpu}m", memory="100Mi") for each, cpu in enumerate(sizes)]
    event = NOON - timedelta(seconds=rng.choice((9, 90_000)))
    conditions = {"Drifted": "True"} if rng.random() < 0.05 else {}
    return worker(name, *pods, type_=type_, conditions=conditions, status={"lastPodEventTime": stamped(event)})


def settings_of(gates):
    """The settings that switch these gates."""
    written = f"Drift={str(gates.drift).lower()},SpotToSpotConsolidation={str(gates.spot_to_spot).lower()}"
    return Settings(feature_gates=written, preference_policy="Respect" if gates.respect_preferences else "Ignore")


async def start_commands(snapshot, settings):
    """A snapshot file of the moment before a pass of the controller, and the commands that pass starts."""
    world = World(WorldOptions(call_time=(0.0, 0.0), watch_delay=0.0, epoch=snapshot.at))
    for kind, values in snapshot_objects(snapshot)._by_kind.items():
        for value in values:
            world.store.put(resource_of(kind), codec.to_plain(kind, _identified(kind, value)))
    state = ClusterState(world, snapshot.well_known)
    for name in snapshot.nominated:
        state.nominate(name, snapshot.at + timedelta(minutes=1))
    ports = {"cluster": world, "cloud": Provider(snapshot.catalogs), "clock": world.clock}
    recorder = SimpleNamespace(publish=lambda _: None)
    context = ControllerContext(**ports, recorder=recorder, state=state, settings=settings)
    disruption = DisruptionController(context, DisruptionQueue(context))
    informers = [asyncio.create_task(each.run()) for each in (*state.informers, state.switch)]
    await state.synced()
    await state.switch.synced.wait()
    seen = await context.snapshot()
    before = {record.id for record in map(read_record, world.values(NODE_CLAIM)) if record is not None}
    await disruption.run_pass()
    for each in informers:
        each.cancel()
    nodes = {each.claim.name: each.name for each in seen.nodes if each.claim is not None}
    return snapshot_bytes(seen, "json"), written_commands(world, before, nodes)


def _identified(kind, value):
    """The object with a uid of its own."""
    return edited(value, "metadata.uid", f"uid-{kind.name}-{value.key}")


def written_commands(world, before, nodes):
    """The new commands written on NodeClaims: method, reason, nodes and number of replacements of each."""
    found = {}
    for claim in world.values(NODE_CLAIM):
        record = read_record(claim)
        if record is not None and record.id not in before:
            method = (record.method, str(record.reason), record.replacements)
            found.setdefault(record.id, (method, []))[1].append(nodes[claim.name])
    return sorted((method, sorted(nodes)) for method, nodes in found.values())


def printed_commands(snapshot, settings):
    """The commands that `dovetail plan` prints for a snapshot file."""
    options = ["--feature-gates", settings.feature_gates, "--preference-policy", settings.preference_policy]
    result = CliRunner().invoke(app, ["plan", "--snapshot", "-", "-o", "json", *options], input=snapshot)
    assert result.exit_code == 0, result.output
    commands = json.loads(result.stdout)["commands"]
    return sorted(
        ((each["method"], each["reason"], len(each["replacements"])), sorted(each["nodes"])) for each in commands
    )


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("make", [some_cluster, some_fleet])
def test_the_controller_starts_the_commands_that_plan_printed(make, chunk):
    seen = Counter()
    for seed in range(chunk * SEEDS, (chunk + 1) * SEEDS):
        found, gates = make(seed)
        settings = settings_of(gates)
        snapshot, started = run(start_commands(found, settings))
        assert printed_commands(snapshot, settings) == started, f"{make.__name__}({seed})"
        seen.update({method for (method, _, _), _ in started})
        seen["several commands"] += len(started) > 1
    assert (+seen).keys() > {"several commands", "emptiness", "single-node"}, f"too few kinds of commands: {seen}"
