"""What the ledger says of lived stories, and that one id ties log, event, condition and ledger together."""

import asyncio
import logging
import time
from contextlib import contextmanager

import pytest

from dovetail.model.conditions import find
from dovetail.model.kinds import EVENT, NODE, NODE_CLAIM, POD
from dovetail.model.kube_object import Key
from dovetail.model.labels import DECISION
from dovetail.observe.ledger import SqliteLedger
from dovetail.observe.ledger_query import LedgerQuery, read_decision, read_history
from dovetail.observe.metrics import PrometheusMetrics
from dovetail.ports.cluster import Patch
from dovetail.sim.kubernetes.kinds import NODE_CLAIM as SIM_NODE_CLAIM
from dovetail.sim.kubernetes.kinds import NODE_POOL as SIM_NODE_POOL
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.assembly import Telemetry, assemble
from dovetail.wiring.embedded import admit
from stories import ACTING, FREELY, ON_DEMAND, Life, deployment, node_class, node_pool, pool
from watches import SilentWatches


class KeepingLife(Life):
    """A life whose controllers write a ledger; each start of the controllers is a new process."""

    def __init__(self, world, path):
        self.path = path
        self.ledger = None
        super().__init__(world, ACTING)

    def _parts(self):
        if self.ledger is not None:
            self.ledger.stop(30)
        self.ledger = SqliteLedger(self.path, self.world.clock, cluster="world")
        self.ledger.start()
        return assemble(
            self.world,
            self.world.clock,
            self.settings,
            Telemetry(metrics=PrometheusMetrics(strict=True), ledger=self.ledger),
        )


def lived(path, story, *manifests):
    async def main():
        world = World(WorldOptions(), validate=admit)
        async with world:
            life = KeepingLife(world, path)
            for manifest in manifests:
                world.apply(manifest)
            life.start()
            try:
                return await story(life)
            finally:
                await life.stop()
                life.ledger.stop(30)

    return run(main(), limit=10 * 24 * 3600.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@contextmanager
def log_lines():
    """What the controllers log, with their fields."""
    lines = []

    class Collect(logging.Handler):
        def emit(self, record):
            lines.append(record)

    logger, handler = logging.getLogger("dovetail"), Collect()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def history(path, **question):
    return read_history(path, LedgerQuery(**question))


async def scaled_out(life, replicas=8):
    life.world.apply(deployment(replicas=replicas))
    await life.until(lambda: life.running(replicas) and life.settled())


def test_a_launch_is_kept_with_its_pods_and_what_it_became(path):
    async def story(life):
        await scaled_out(life)
        await asyncio.sleep(5)
        return {node.name for node in life.nodes}

    nodes = lived(path, story, node_class(), pool())
    launches = history(path, act="launch")
    assert {each.made[0].node for each in launches} == nodes
    assert sum(each.pods for each in launches) == 8
    assert all(each.outcome == "done" and each.reason == "Provisioned" and each.cost_after > 0 for each in launches)


def test_one_id_ties_log_event_condition_and_ledger_together(path):
    async def story(life):
        await scaled_out(life)
        seen = {}

        def note(_key=None):
            for claim in life.claims:
                condition = find(claim.status.conditions, "DisruptionReason")
                if condition is not None:
                    seen[claim.name] = condition

        life.world.apply(deployment(replicas=0))
        await life.until(lambda: note() or not life.nodes)
        await asyncio.sleep(5)
        return seen, life.world.values(EVENT)

    with log_lines() as lines:
        conditions, events = lived(path, story, node_class(), pool())
    commands = history(path, act="disrupt")
    assert commands
    for command in commands:
        assert (command.reason, command.outcome) == ("Empty", "done")
        assert any(getattr(line, "command", "") == command.id for line in lines)
        told = [event for event in events if event.metadata.annotations.get(DECISION) == command.id]
        assert {event.reason for event in told} == {"DisruptionTerminating"}
        assert {event.involved_object.kind for event in told} == {"Node", "NodeClaim"}
        for node in command.nodes:
            assert command.id in conditions[node.nodeclaim].message
            assert conditions[node.nodeclaim].reason == "Empty"


def test_a_command_is_kept_with_its_budget_and_why_other_nodes_were_left_alone(path):
    async def story(life):
        await scaled_out(life)
        staying = {node.name for node in life.nodes}
        life.world.apply(deployment(replicas=1))
        await life.until(lambda: not staying & {node.name for node in life.nodes} and life.settled())
        await asyncio.sleep(5)

    lived(path, story, node_class(), pool())
    told = [read_decision(path, each.id) for each in history(path)]
    commands = [each for each in told if each.act == "disrupt"]
    assert commands
    for command in commands:
        weighed = command.considered
        went = {node.node for node in command.nodes}
        assert [(use.nodepool, use.used) for use in weighed.budgets] == [("default", len(went))]
        assert len(weighed.purchases) == command.replacements
        last = {each.node for each in weighed.refusals if each.method == command.method}
        assert not went & last
        assert all(each.message for each in weighed.refusals)
    assert any(each.considered.refusals for each in commands)
    assert all(each.considered.purchases[0].choices > 0 for each in told if each.act == "launch")


def test_a_command_that_kept_some_of_its_nodes_saves_what_the_others_cost(path, monkeypatch):
    watches = SilentWatches(monkeypatch)
    rule = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}

    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        life.world.apply(deployment(replicas=0, affinity=apart))
        await life.until(lambda: not life.pods)
        await asyncio.sleep(2)
        watches.silence(POD, 40)
        life.world.apply(deployment(replicas=1, affinity=apart))
        await life.until(lambda: len(life.nodes) == 1 and life.settled(), within=60)

    lived(path, story, node_class(), pool(), deployment(replicas=3, affinity=apart))
    (command,) = [each for each in history(path) if each.act == "disrupt" and each.outcome == "done"]
    assert len(command.nodes) == 3
    assert command.cost_before == pytest.approx(2 * command.nodes[0].price)


def test_a_node_deleted_by_hand_is_kept_as_such(path):
    async def story(life):
        await scaled_out(life)
        name = life.nodes[0].name
        await life.world.delete(NODE, Key("", name))
        await life.until(lambda: name not in {node.name for node in life.nodes} and life.running(8))
        await asyncio.sleep(5)
        return name

    name = lived(path, story, node_class(), pool())
    removal = next(each for each in history(path, node=name) if each.act == "remove")
    assert (removal.reason, removal.outcome, removal.nodes[0].node) == ("Manual", "done", name)
    assert removal.pods > 0
    assert removal.cost_before > 0


def test_what_ended_while_nobody_looked_is_unknown(path):
    async def story(life):
        await scaled_out(life)
        changed = {"labels": {"generation": "second"}}
        life.world.apply(node_pool(template={"requirements": ON_DEMAND}, template_metadata=changed, disruption=FREELY))
        await life.until(lambda: any(claim.has("DisruptionReason") for claim in life.claims))
        await life.stop()
        (going,) = [claim for claim in life.claims if claim.has("DisruptionReason")]
        await life.world.patch(NODE_CLAIM, going.key, Patch({"metadata": {"finalizers": []}}))
        if not going.deleting:
            await life.world.delete(NODE_CLAIM, going.key)
        life.parts = life._parts()
        life.start()
        await asyncio.sleep(5)

    lived(path, story, node_class(), pool())
    (command,) = history(path, act="disrupt")
    assert (command.outcome, command.note) == ("unknown", "the controller was not running when it ended")


def changing(**spec):
    """A pool whose nodes drift, for replacements that take ten minutes to come."""
    changed = {"labels": {"generation": "second"}, "annotations": {"node-ready.stage.kwok.x-k8s.io/delay": "10m"}}
    return node_pool(template={"requirements": ON_DEMAND}, template_metadata=changed, disruption=FREELY, **spec)


def pool_deleted(life, _claim):
    life.world.api.delete(SIM_NODE_POOL, Key("", "default"))


def deleted_by_hand(life, claim):
    life.world.api.delete(SIM_NODE_CLAIM, claim.key)


def interrupted(life, claim):
    life.world.instance_failures.warn(claim.status.node_name, "spot_interrupted")


@pytest.mark.parametrize(
    ("happens", "note", "removal"),
    [
        (pool_deleted, ": nodepool default was deleted", ("Manual", "nodepool default was deleted")),
        (deleted_by_hand, "", ("Manual", "a user or another program deleted the NodeClaim or its node")),
        (interrupted, "", ("Interrupted", "spot interrupted")),
    ],
)
def test_a_command_that_is_overtaken_says_so_and_the_removal_has_its_own_reason(path, happens, note, removal):
    """A drifted node waits for its replacement when something else takes it away."""

    async def story(life):
        await scaled_out(life)
        life.world.apply(changing())
        await life.until(lambda: any(claim.has("DisruptionReason") for claim in life.claims))
        (going,) = [claim for claim in life.claims if claim.has("DisruptionReason")]
        happens(life, going)
        await life.until(lambda: going.name not in {claim.name for claim in life.claims})
        await asyncio.sleep(5)
        return going.status.node_name

    name = lived(path, story, node_class(), pool())
    command, taken = (
        next(each for each in history(path, node=name) if each.act == act) for act in ("disrupt", "remove")
    )
    overtaken = f"its nodes were deleted before the command deleted them{note}"
    assert (command.reason, command.outcome, command.note) == ("Drifted", "failed", overtaken)
    assert (taken.reason, taken.why, taken.outcome) == (*removal, "done")


def turned_bad(life, node):
    life.world.instance_failures.turn(node.name, "NetworkUnavailable", "True")


def warned(life, node):
    life.world.instance_failures.warn(node.name, "spot_interrupted")


def vanished(life, node):
    life.world.instance_failures.vanish(node.name)


def left_alone(life, node):
    """It is the clock that takes it."""


STEADY = {"requirements": ON_DEMAND, "expireAfter": "Never"}
REPAIRING = {"repair": {"policies": [{"conditionType": "NetworkUnavailable", "toleration": "10m"}]}}
ENDS = {
    "Unhealthy": (node_pool(template=STEADY, **REPAIRING), turned_bad),
    "Interrupted": (node_pool(template=STEADY), warned),
    "GarbageCollected": (node_pool(template=STEADY), vanished),
    "Expired": (node_pool(template={**STEADY, "expireAfter": "20m"}), left_alone),
}


@pytest.mark.parametrize("reason", ENDS)
def test_a_node_that_goes_without_a_command_is_kept_with_its_reason_name_and_price(path, reason):
    manifest, happens = ENDS[reason]

    async def story(life):
        await scaled_out(life)
        node, nodes = life.nodes[0], len(life.nodes)
        (claim,) = [each for each in life.claims if each.provider_id == node.provider_id]
        happens(life, node)
        await life.until(lambda: claim.name not in {each.name for each in life.claims}, within=3600)
        await asyncio.sleep(5)
        return node.name, nodes, life.world.values(EVENT)

    name, nodes, events = lived(path, story, node_class(), manifest)
    removal = next(each for each in history(path, node=name) if each.act == "remove")
    assert (removal.reason, removal.nodes[0].node, removal.outcome) == (reason, name, "done")
    assert removal.cost_before > 0
    assert removal.cost_after == 0
    assert removal.nodes[0].peers == nodes
    told = [event for event in events if event.metadata.annotations.get(DECISION) == removal.id]
    assert {event.involved_object.kind for event in told} == (set() if happens is vanished else {"Node", "NodeClaim"})


def test_a_reason_that_is_noted_a_moment_after_the_claim_began_to_go_counts(path):
    """The watch may tell of a deletion before the delete itself is answered."""

    async def story(life):
        await scaled_out(life)
        claim = life.claims[0]
        await life.world.delete(NODE_CLAIM, claim.key)
        await asyncio.sleep(1)
        life.parts.manager.ledger._context.removal_reasons[claim.metadata.uid] = "expired"
        await life.until(lambda: claim.name not in {each.name for each in life.claims})
        await asyncio.sleep(5)
        return claim.name

    name = lived(path, story, node_class(), pool())
    assert [each.reason for each in history(path, node=name) if each.act == "remove"] == ["Expired"]


def found_out(ledger):
    """Its own thread finds out, in its own time."""
    while not ledger.health().trouble:
        time.sleep(0.005)


def test_a_full_disk_is_told_on_the_pools_and_stops_nobody(tmp_path):
    (tmp_path / "taken").write_text("a file where the directory should be")

    async def story(life):
        await scaled_out(life)
        found_out(life.ledger)
        life.parts.manager.ledger.report_health()
        await life.parts.recorder.flush()
        figures = life.parts.metrics.render().decode()
        return life.events("LedgerFailing"), figures

    events, figures = lived(tmp_path / "taken" / "ledger.db", story, node_class(), pool())
    (event,) = events
    assert (event.type, event.involved_object.kind) == ("Warning", "NodePool")
    assert "--ledger" in event.message
    assert "dovetail_ledger_failing 1.0" in figures
