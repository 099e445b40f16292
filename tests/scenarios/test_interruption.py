"""Warnings about instances: nodes are tainted, replaced and drained ahead of what is going to happen."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from dovetail.model.kube_object import Key
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, INTERRUPT, TERMINATION_TIMESTAMP, ZONE
from dovetail.model.taints import DISRUPTED_TAINT
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import Conflict, OutcomeUnknown, Unavailable
from dovetail.sim.kubernetes.kinds import NODE, NODE_CLAIM
from leaving import Diary
from stories import GENERIC, budget, deployment, live, node_class, node_pool

KINDS = {
    "spot_interrupted": "SpotInterrupted",
    "scheduled_change": "InstanceUnhealthy",
    "instance_stopped": "InstanceStopping",
    "instance_terminated": "InstanceTerminating",
    "capacity_reservation_interrupted": "CapacityReservationInstanceInterrupted",
    "instance_status": "InstanceUnhealthy",
    "system_status": "InstanceUnhealthy",
    "event_status": "InstanceUnhealthy",
}
WITH_DEADLINE = {"spot_interrupted": 120, "capacity_reservation_interrupted": 120}
FORCEFUL = {"instance_status": 0, "system_status": 0}
POOL = node_pool(template={"expireAfter": "Never"})


def shielded(**fields):
    made = deployment(replicas=1, **fields)
    made["spec"]["template"]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    return made


async def settled(life, number):
    await life.until(lambda: life.running(number) and life.settled())
    return Diary(life.world)


async def replaced(life, node, pods, within):
    """Wait until the node is gone and its pods run elsewhere."""

    def holds():
        return life.running(pods) and life.settled() and node.name not in {each.name for each in life.nodes}

    await life.until(holds, within)


def claim_of(life, node):
    return next(claim for claim in life.claims if claim.provider_id == node.provider_id)


def figure(life, name, **labels):
    for line in life.parts.metrics.render().decode().splitlines():
        if line.startswith(name) and all(f'{key}="{value}"' in line for key, value in labels.items()):
            return float(line.rpartition(" ")[2])
    return 0.0


def tainted_at(diary, uid):
    """When a node was first seen with the taint that keeps pods away."""
    for at, step in diary.steps:
        taints = step.after.plain.get("spec", {}).get("taints") or ()
        if step.after.uid == uid and any(each["key"] == DISRUPTED_TAINT.key for each in taints):
            return at
    return None


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_warning_taints_replaces_drains_and_ends_the_node(kind):
    async def story(life):
        diary = await settled(life, 3)
        (node,) = life.nodes
        claim = claim_of(life, node)
        warned_at = life.world.clock.now()
        life.world.instance_failures.warn(node.name, kind)
        await life.until(lambda: len(life.claims) == 2, within=10)
        replaced_after = life.world.clock.now() - warned_at
        await replaced(life, node, 3, within=110)
        assert diary.deleted_at(claim.metadata.uid) - warned_at < timedelta(seconds=1)
        assert tainted_at(diary, node.metadata.uid) - warned_at < timedelta(seconds=1)
        assert replaced_after < timedelta(seconds=3)
        assert {event.involved_object.kind for event in life.events(KINDS[kind])} == {"Node", "NodeClaim"}
        assert {event.message for event in life.events("TerminatingOnInterruption")} == {
            "Interruption triggered termination for the Node",
            "Interruption triggered termination for the NodeClaim",
        }
        assert figure(life, "karpenter_interruption_received_messages_total", message_type=kind) == 1
        assert figure(life, "karpenter_interruption_deleted_messages_total") == 1
        assert figure(life, "karpenter_nodeclaims_disrupted_total", reason=kind, nodepool="default") == 1
        written = [
            step.after.meta["annotations"][TERMINATION_TIMESTAMP]
            for _, step in diary.steps
            if step.after.uid == claim.metadata.uid and TERMINATION_TIMESTAMP in step.after.meta["annotations"]
        ]
        told = {**WITH_DEADLINE, **FORCEFUL}.get(kind)
        due = (warned_at + timedelta(seconds=told or 0)).strftime("%Y-%m-%dT%H:%M:%SZ")
        assert set(written) == ({due} if told is not None else set())

    live(story, node_class(), POOL, deployment(replicas=3))


def test_room_for_the_pods_is_asked_for_before_any_of_them_is_evicted():
    """A budget that lets pods go one by one must not make their replacement come one by one."""

    async def story(life):
        diary = await settled(life, 6)
        (node,) = life.nodes
        life.world.instance_failures.warn(node.name)
        await replaced(life, node, 6, within=118)
        born = [at for at, step in diary.steps if step.type == "ADDED" and step.after.resource == NODE_CLAIM]
        left = [at for at, step in diary.steps if step.type == "DELETED" and step.after.resource == ("", "Pod")]
        assert len(born) == 1
        assert born[0] < sorted(left)[1]  # the budget lets one go at once; the second waits for the new node
        assert not diary.broken_budgets()

    live(story, node_class(), POOL, deployment(replicas=6), budget(maxUnavailable=1))


def test_pods_that_nothing_may_move_are_stopped_with_their_own_grace_ahead_of_the_reclaim():
    async def story(life):
        diary = await settled(life, 1)
        (node,), (pod,) = life.nodes, life.pods
        warned_at = life.world.clock.now()
        life.world.instance_failures.reclaim_spot(node.name)
        await life.until(lambda: len(life.claims) == 2, within=10)  # its new home is ready long before it has to go
        await replaced(life, node, 1, within=125)
        assert diary.deleted_at(pod.metadata.uid) - warned_at == pytest.approx(
            timedelta(seconds=75), abs=timedelta(seconds=2)
        )
        assert diary.grace_of(pod.metadata.uid) == pytest.approx(45, abs=1)
        assert diary.gone_at(node.metadata.uid) - warned_at < timedelta(seconds=120)

    live(story, node_class(), POOL, shielded(terminationGracePeriodSeconds=45), budget(maxUnavailable=0))


def test_a_reclaim_that_comes_before_the_drain_is_over_leaves_nothing_behind():
    async def story(life):
        await settled(life, 1)
        (node,) = life.nodes
        life.world.instance_failures.reclaim_spot(node.name, notice=1.0)
        await replaced(life, node, 1, within=300)

    slow = {"annotations": {"pod-delete.stage.kwok.x-k8s.io/delay": "10m"}}
    made = deployment(replicas=1)
    made["spec"]["template"]["metadata"].update(slow)
    live(story, node_class(), POOL, made)


def test_the_offering_is_avoided_and_had_again_after_three_minutes():
    async def story(life):
        await settled(life, 1)
        (node,) = life.nodes
        labels = node.metadata.labels
        offering = tuple(labels[key] for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE))

        async def available():
            found = await life.parts.provider.instance_types(life.pool())
            return {(each.name, o.zone, o.capacity_type) for each in found for o in each.offerings if o.available}

        assert offering in await available()
        life.world.instance_failures.warn(node.name)
        await asyncio.sleep(1)
        assert offering not in await available()
        await replaced(life, node, 1, within=110)
        new = life.nodes[0].metadata.labels
        assert tuple(new[key] for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)) != offering
        await asyncio.sleep(181)
        assert offering in await available()

    live(story, node_class(), POOL, deployment(replicas=1))


@pytest.mark.parametrize("act", [False, True])
def test_a_recommendation_is_told_and_acted_on_only_where_asked_for(act):
    async def story(life):
        await settled(life, 1)
        (node,) = life.nodes
        life.world.instance_failures.warn(node.name, "rebalance_recommendation")
        await asyncio.sleep(30)
        await life.until(lambda: life.running(1) and life.settled())
        assert (node.name not in {each.name for each in life.nodes}) is act
        told = life.events("SpotRebalanceRecommendation")
        assert {event.type for event in told} == {"Normal"}
        assert {event.involved_object.kind for event in told} == {"Node", "NodeClaim"}
        assert figure(life, "karpenter_interruption_deleted_messages_total") == 1
        if not act:
            assert INTERRUPT not in life.nodes[0].metadata.labels

    settings = replace(GENERIC, rebalance_recommendation="drain" if act else "tell")
    live(story, node_class(), POOL, deployment(replicas=1), settings=settings)


def test_the_same_warning_again_changes_nothing():
    async def story(life):
        diary = await settled(life, 1)
        (node,) = life.nodes
        claim = claim_of(life, node)
        for _ in range(4):
            life.world.instance_failures.warn(node.name)
            await asyncio.sleep(5)
        assert claim.name in {each.name for each in life.claims}  # still draining
        assert figure(life, "karpenter_interruption_received_messages_total") == 4
        assert figure(life, "karpenter_nodeclaims_disrupted_total", reason="spot_interrupted") == 1
        assert len(life.claims) == 2
        written = {
            step.after.meta["annotations"].get(TERMINATION_TIMESTAMP)
            for _, step in diary.steps
            if step.after.uid == claim.metadata.uid
        }
        assert len(written - {None}) == 1  # the first warning's deadline stands

    live(story, node_class(), POOL, shielded())


@pytest.mark.parametrize("label", ["nonsense", "", "SPOT_INTERRUPTED"])
def test_what_cannot_be_understood_is_set_aside(label):
    async def story(life):
        diary = await settled(life, 1)
        (node,) = life.nodes
        life.world.instance_failures.warn(node.name, label)
        await asyncio.sleep(30)
        assert not [step for _, step in diary.steps if step.after.resource == NODE_CLAIM and step.after.deleting]
        assert INTERRUPT not in life.nodes[0].metadata.labels
        assert figure(life, "karpenter_interruption_received_messages_total", message_type="no_op") == 1

    live(story, node_class(), POOL, deployment(replicas=1))


def test_warnings_about_nodes_of_others_are_nobodys_business():
    async def story(life):
        await settled(life, 1)
        foreign = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "theirs", "labels": {INTERRUPT: "spot_interrupted"}},
            "spec": {"providerID": "kwok://theirs"},
        }
        life.world.apply(foreign)
        await asyncio.sleep(60)
        assert {node.name for node in life.nodes} > {"theirs"}
        assert not life.events("SpotInterrupted")
        assert figure(life, "karpenter_interruption_deleted_messages_total") == 1

    live(story, node_class(), POOL, deployment(replicas=1))


class Failing:
    """Fails the first calls of one operation on one kind."""

    def __init__(self, operation, kind, error, times):
        self.wanted = operation, kind
        self.error = error
        self.times = times
        self.armed = False

    async def before(self, call):
        if self.armed and self.times and (call.operation, call.kind) == self.wanted:
            self.times -= 1
            raise self.error

    async def after(self, call):
        pass


@pytest.mark.parametrize(
    ("operation", "error", "times"),
    [("patch", Conflict("moved on"), 3), ("delete", Unavailable("down"), 1), ("patch", OutcomeUnknown("?"), 2)],
)
def test_a_failure_is_tried_again_while_there_is_time(operation, error, times):
    failing = Failing(operation, "NodeClaim", error, times)

    async def story(life):
        await settled(life, 1)
        (node,) = life.nodes
        failing.armed = True
        life.world.instance_failures.warn(node.name)
        await replaced(life, node, 1, within=60)
        assert failing.times == 0

    live(story, node_class(), POOL, deployment(replicas=1), interference=failing)


def test_a_warning_that_could_not_be_acted_on_comes_again():
    """What fails for long stays labelled: nothing is acknowledged before it is done."""
    failing = Failing("delete", "NodeClaim", Unavailable("down"), 8)

    async def story(life):
        await settled(life, 1)
        (node,) = life.nodes
        failing.armed = True
        life.world.instance_failures.warn(node.name)
        await asyncio.sleep(30)
        assert failing.times == 0
        assert INTERRUPT in life.nodes[0].metadata.labels
        assert figure(life, "karpenter_interruption_deleted_messages_total") == 0
        await replaced(life, node, 1, within=900)
        assert figure(life, "karpenter_interruption_received_messages_total") == 2

    live(story, node_class(), POOL, deployment(replicas=1), interference=failing)


def test_a_warning_that_came_while_nobody_listened_is_found_at_the_start():
    async def story(life):
        await settled(life, 1)
        (node,) = life.nodes
        await life.stop()
        life.world.instance_failures.warn(node.name)
        await asyncio.sleep(10)
        life.parts = life._parts()
        life.start()
        await replaced(life, node, 1, within=100)

    live(story, node_class(), POOL, deployment(replicas=1))


def test_a_label_put_on_with_a_patch_is_as_good_as_any():
    async def story(life):
        await settled(life, 1)
        (node,) = life.nodes
        life.world.api.patch(NODE, Key("", node.name), Patch({"metadata": {"labels": {INTERRUPT: "instance_stopped"}}}))
        await replaced(life, node, 1, within=60)

    live(story, node_class(), POOL, deployment(replicas=1))


class Odd:
    """A source that first answers with what nobody has thought of."""

    shared = True

    def __init__(self, source):
        self._source = source
        self.asked = 0
        self.acknowledge = source.acknowledge

    async def receive(self):
        self.asked += 1
        if self.asked == 1:
            raise KeyError("Messages")
        return await self._source.receive()


def test_a_source_that_breaks_in_an_unexpected_way_is_asked_again():
    async def story(life):
        manager = life.parts.manager
        (provider,) = manager.interruptions._context.providers
        odd = Odd(*provider.interruptions)
        object.__setattr__(provider, "interruptions", (odd,))
        await settled(life, 3)
        (node,) = life.nodes
        life.world.instance_failures.warn(node.name)
        await replaced(life, node, 3, within=400)
        assert odd.asked > 1

    live(story, node_class(), POOL, deployment(replicas=3))
