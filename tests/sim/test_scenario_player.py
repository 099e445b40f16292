"""The player: every event of a scenario does to the cluster what it says, in every round."""

import asyncio

import pytest

from dovetail.model import kinds
from dovetail.model.conditions import find
from dovetail.model.kube_object import Key
from dovetail.sim.kubernetes.kinds import DEPLOYMENTS, JOBS
from dovetail.sim.scenario.document import read_scenario, rename_deprecated
from dovetail.sim.scenario.meter import Meter
from dovetail.sim.scenario.player import Player
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from sim.day import deployment, node

JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "report"},
    "spec": {
        "parallelism": 2,
        "completions": 3,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c"}]}},
    },
}


def scenario(*events, seed=0):
    document = {"apiVersion": "dovetail.sh/v1alpha1", "kind": "Scenario", "metadata": {"name": "s"}}
    objects = [deployment("web", 0), node("node-a"), node("node-b"), node("node-c")]
    return read_scenario(
        {**document, "spec": {"seed": seed, "for": "1h", "objects": objects, "events": [*events]}}, "s"
    )


def played(*events, minutes=10, seed=0, look=lambda *_: None):
    """The actions of the player; `look` sees the world at the end."""
    actions = []

    async def main():
        async with World(WorldOptions(seed=seed)) as world:
            player = Player(world, scenario(*events, seed=seed), show=actions.append)
            player.prepare()
            async with player.playing():
                await asyncio.sleep(minutes * 60)
            look(world, player)

    run(main())
    return actions


def replicas(world, _=None):
    return world.store.find(DEPLOYMENTS, Key("default", "web")).plain["spec"]["replicas"]


def test_scaling_sets_replicas_and_reports_old_and_new_values():
    seen = []
    event = {"at": "1m", "title": "Morning", "scale": {"web": 4}}
    (action,) = played(event, look=lambda world, player: seen.append((replicas(world), player.title)))
    assert seen == [(4, "Morning")]
    assert (action.name, action.about, action.details) == ("event", "Morning", ("web 0 -> 4",))


def test_noise_varies_replicas_with_the_seed_within_its_share():
    found = []
    for seed in range(8):
        event = {"at": "1m", "scale": {"web": 100}, "noise": 0.1}
        played(event, seed=seed, minutes=2, look=lambda world, _: found.append(replicas(world)))
    assert len(set(found)) > 4
    assert all(90 <= number <= 110 for number in found)


def test_scaling_a_missing_deployment_is_reported():
    missed = []
    played({"at": "1m", "scale": {"other": 4}}, look=lambda _, player: missed.extend(player.missed))
    assert missed == ["events[0] found nothing to act on at 0:01:00"]


def test_each_round_creates_a_new_job_and_deletes_the_previous_one():
    left = []
    event = {"at": "1m", "every": "3m", "runJob": JOB}
    actions = played(event, look=lambda world, _: left.extend(each.key.name for each in world.store.all(JOBS)))
    assert left == ["report-4"]
    assert {each.details for each in actions} == {("report: 3 pods, 2 at a time",)}


def test_a_patch_without_a_name_reaches_every_object_and_counts_rounds():
    seen = []
    event = {
        "at": "1m",
        "every": "3m",
        "patch": {"kind": "Node", "patch": {"metadata": {"labels": {"g": "g$(round)"}}}},
    }

    def look(world, _):
        seen.extend(each.metadata.labels["g"] for each in world.values(kinds.NODE))

    actions = played(event, look=look, minutes=5)
    assert seen == ["g2", "g2", "g2"]
    assert ("patch", "Node node-a", ("metadata.labels.g=g1",)) in [(e.name, e.about, e.details) for e in actions]


def struck(what, busy="node-b", **terms):
    """The action on the busiest of three nodes, and the world after it."""
    after = {}

    def look(world, _):
        after["nodes"] = {each.name: each for each in world.values(kinds.NODE)}

    pinned = deployment("pinned", 3)
    pinned["spec"]["template"]["spec"]["nodeName"] = busy
    actions = played({"at": "10s", "apply": pinned}, {"at": "1m", what: {"choose": "busiest", **terms}}, look=look)
    return actions[-1], after["nodes"]


@pytest.mark.parametrize("what", ["deleteNodes", "vanish"])
@pytest.mark.parametrize("busy", ["node-a", "node-b", "node-c"])
def test_the_busiest_node_is_deleted_or_vanishes_with_its_pods(what, busy):
    action, nodes = struck(what, busy)
    assert (action.about, action.pods) == (busy, 3)
    assert set(nodes) == {"node-a", "node-b", "node-c"} - {busy}


def test_a_condition_of_a_node_is_set():
    action, nodes = struck("setCondition", type="KernelDeadlock", reason="AUFSUmountHung")
    assert action.details == ("KernelDeadlock is True",)
    conditions = {name: find(each.status.conditions, "KernelDeadlock") for name, each in nodes.items()}
    assert [name for name, condition in conditions.items() if condition is not None] == ["node-b"]
    assert conditions["node-b"].reason == "AUFSUmountHung"


def test_an_interruption_without_spot_nodes_is_reported():
    event = {"at": "1m", "title": "Reclaim", "interrupt": {"capacityType": "spot"}}
    assert [each.name for each in played(event)] == ["event", "none"]


def test_an_event_that_the_api_server_refuses_ends_the_run_with_its_error():
    with pytest.raises(ExceptionGroup) as caught:
        played({"at": "1m", "patch": {"kind": "Pod", "patch": {"spec": 3}}}, {"at": "2m", "apply": {**JOB, "spec": 1}})
    assert caught.value.exceptions


def test_the_meter_reports_when_no_pod_is_pending():
    settled = []

    async def main():
        async with World(WorldOptions()) as world:
            meter = Meter(lambda *reported: settled.append(reported))
            meter.watch(world, asyncio.get_running_loop().time)
            world.apply(deployment("web", 3))
            await asyncio.sleep(60)
            assert not settled
            world.apply(node("node-a"))
            await asyncio.sleep(60)

    run(main())
    assert [number for number, _ in settled] == [3]
    assert 60 <= settled[0][1] < 120


def test_the_old_name_of_events_is_read_with_a_warning():
    document = {"spec": {"happenings": [{"at": "1h"}]}}
    (warning,) = rename_deprecated(document)
    assert document == {"spec": {"events": [{"at": "1h"}]}}
    assert "rename it to events" in warning
    assert rename_deprecated(document) == ()
