"""What goes wrong while a command is checked and committed: it ends one way or the other, and says which."""

import asyncio

from dovetail.model.command import RECORD_ANNOTATION, REPLACES_ANNOTATION, read_record, taken_by
from dovetail.model.kinds import NODE, NODE_CLAIM, NODE_POOL
from dovetail.model.kube_object import Key
from dovetail.model.labels import EXCLUDE_FROM_LOAD_BALANCERS
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import Denied, Unavailable
from dovetail.sim.kubernetes.kinds import resource_of
from stories import ACTING, budget, clean, deployment, live, node_class, pool
from watches import Terminations

DRIFTED = {"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}}
PROTECT = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
QUIET = pool(consolidateAfter="Never")


class Faults:
    """Runs an action before each call of a kind: it may raise, or change the world."""

    def __init__(self):
        self.actions = {}

    async def before(self, call):
        action = self.actions.get((call.operation, call.kind))
        if action is not None:
            action(call)

    async def after(self, call):
        pass


def replacements(life):
    return [claim for claim in life.claims if REPLACES_ANNOTATION in claim.metadata.annotations]


def taken_back(life):
    return [event for event in life.events("DisruptionBlocked") if "was rolled back" in event.message]


def patch(life, kind, name, body):
    life.world.api.patch(resource_of(kind), Key("", name), Patch(body))


async def drifting(life):
    """One node with three pods that drifted; its replacement takes a minute to register."""
    await life.until(lambda: life.running(3) and life.settled())
    (node,) = life.nodes
    life.world.apply(node_class(nodeRegistrationDelay="60s"))
    patch(life, NODE_POOL, "default", DRIFTED)
    await life.until(lambda: replacements(life), within=300)
    return node


def test_a_command_whose_check_is_never_answered_is_rolled_back_in_the_end():
    faults = Faults()

    def deny(call):
        raise Denied("poddisruptionbudgets is forbidden")

    async def story(life):
        node = await drifting(life)
        faults.actions["list", "PodDisruptionBudget"] = deny
        await life.until(lambda: clean(life), within=1800)
        assert node.name in [each.name for each in life.nodes]

    live(story, node_class(), QUIET, deployment(replicas=3), settings=ACTING, interference=faults)


def test_a_claim_that_lost_its_record_is_not_committed():
    faults = Faults()

    async def story(life):
        node = await drifting(life)
        ended = Terminations(life.world)
        (claim,) = [each for each in life.claims if each not in replacements(life)]

        checked = []

        def take_off(call):
            """Another replica that leads by now takes the command back, between the check and the commit."""
            if checked and call.key == claim.key:
                faults.actions.clear()
                patch(life, NODE_CLAIM, claim.name, {"metadata": {"annotations": {RECORD_ANNOTATION: None}}})
                patch(life, NODE, node.name, PROTECT)

        faults.actions["list", "PodDisruptionBudget"] = checked.append
        faults.actions["patch", "NodeClaim"] = take_off
        await asyncio.sleep(300)
        assert checked
        assert node.name not in ended.nodes
        await life.until(lambda: clean(life), within=600)

    live(story, node_class(), QUIET, deployment(replicas=3), settings=ACTING, interference=faults)


def test_a_second_claim_for_the_same_instance_keeps_the_node():
    async def story(life):
        node = await drifting(life)
        (claim,) = [each for each in life.claims if each not in replacements(life)]
        await life.world.patch(NODE, node.key, Patch(PROTECT))
        plain = life.world.store.find(resource_of(NODE_CLAIM), claim.key).plain
        equivalent = {**plain, "metadata": {"name": "twin", "labels": plain["metadata"]["labels"]}}
        equivalent.pop("status")
        life.world.apply(equivalent)
        life.world.api.patch(resource_of(NODE_CLAIM), Key("", "twin"), Patch({"status": plain["status"]}, "", "status"))
        await asyncio.sleep(600)
        assert claim.name in [each.name for each in life.claims]
        assert not any(each.deleting for each in life.claims if each.name == claim.name)

    live(story, node_class(), QUIET, deployment(replicas=3), settings=ACTING)


def test_a_node_that_waits_for_a_pdb_still_gets_traffic():
    async def story(life):
        node = await drifting(life)
        life.world.apply(budget(maxUnavailable=1))
        life.world.apply(deployment(replicas=4))  # the fourth cannot be scheduled for now: no disruption is allowed
        seen = []
        for _ in range(300):
            await asyncio.sleep(1)
            now = [each for each in life.nodes if each.name == node.name and not each.deleting]
            seen += [EXCLUDE_FROM_LOAD_BALANCERS in each.metadata.labels for each in now]
        assert seen
        assert not any(seen)

    live(story, node_class(), QUIET, deployment(replicas=3), settings=ACTING)


def committed_commands(life):
    """The ids of all commands that were committed from now on."""
    found = set()

    def hear(step):
        claim = step.after.value(NODE_CLAIM) if step.after.resource[1] == "NodeClaim" else None
        record = taken_by(claim) if claim is not None else None
        if record is not None:
            found.add(record.id)

    life.world.store.listen_to_all(hear)
    return found


def test_a_command_that_is_being_taken_back_is_not_resumed_when_its_obstacle_goes_away():
    faults = Faults()

    async def story(life):
        node = await drifting(life)

        def fail(call):
            if call.key == node.key:
                raise Unavailable("down")

        committed = committed_commands(life)
        life.world.apply(deployment("more", replicas=1))  # uses the replacement, which stays therefore
        (record,) = [record for record in map(read_record, life.claims) if record is not None]
        await life.world.patch(NODE, node.key, Patch(PROTECT))
        faults.actions["patch", "Node"] = fail
        await life.until(lambda: taken_back(life), within=300)
        patch(life, NODE, node.name, {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": None}}})
        await asyncio.sleep(30)
        faults.actions.clear()
        await life.until(lambda: clean(life), within=300)
        assert record.id not in committed

    live(story, node_class(), QUIET, deployment(replicas=3), settings=ACTING, interference=faults)


def test_a_pause_deletes_a_replacement_that_is_ready_and_that_nobody_uses():
    async def story(life):
        node = await drifting(life)
        life.world.apply(budget(maxUnavailable=1))
        life.world.apply(deployment(replicas=4, cpu="1000"))  # rolls out a pod that never starts: the PDB blocks
        await life.until(lambda: all(claim.has("Initialized") for claim in life.claims), within=300)
        await asyncio.sleep(20)
        assert len(life.nodes) == 2
        assert not clean(life)
        patch(life, NODE_POOL, "default", {"metadata": {"annotations": {"dovetail.sh/pause": "true"}}})
        await life.until(lambda: clean(life) and len(life.nodes) == 1, within=120)
        assert life.nodes[0].name == node.name

    live(story, node_class(), QUIET, deployment(replicas=3), settings=ACTING)
