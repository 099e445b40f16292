"""A dry run says what would be done, and does nothing."""

import asyncio
from dataclasses import replace

import pytest

from dovetail.controllers.dry_run import DryRunInterruptions
from dovetail.model.kinds import NODE_CLAIM, NODE_POOL
from dovetail.ports.errors import Denied, NotFound
from stories import ACTING, Life, deployment, live, node_class, pool

DRY = replace(ACTING, dry_run=True)
READS = {"get", "list", "watch"}


class ReadOnly:
    """Any write is forbidden, and told."""

    def __init__(self):
        self.writes = []

    async def before(self, call):
        if call.operation not in READS:
            self.writes.append(call)
            raise Denied("read only")

    async def after(self, call):
        pass


def said(caplog, what):
    return [record for record in caplog.records if record.getMessage() == what]


@pytest.fixture(autouse=True)
def _listen(caplog):
    caplog.set_level("INFO", logger="dovetail")


def dry(story, *manifests):
    watcher = ReadOnly()
    live(story, *manifests, settings=DRY, interference=watcher)
    assert watcher.writes == []


def test_pods_that_wait_are_told_what_would_be_launched_on_a_cluster_that_was_never_managed(caplog):
    async def story(life):
        await asyncio.sleep(300)
        assert life.claims == ()

    dry(story, node_class(), pool(), deployment(replicas=5))
    (launch,) = said(caplog, "would launch a node")
    assert (launch.nodepool, launch.pods) == ("default", 5)


def test_the_same_advice_is_not_repeated_and_a_new_one_is_given(caplog):
    async def story(life):
        await asyncio.sleep(300)
        life.world.apply({**deployment(), "spec": {"replicas": 7}})
        await asyncio.sleep(300)

    dry(story, node_class(), pool(), deployment(replicas=5))
    assert [record.pods for record in said(caplog, "would launch a node")] == [5, 7]


def test_nodes_that_would_go_are_named_with_what_that_saves_and_stay(caplog):
    async def story(acting):
        await acting.until(lambda: acting.running(10) and acting.settled())
        await acting.stop()
        watcher = acting.world.interference = ReadOnly()
        advising = Life(acting.world, DRY)
        acting.parts, before = advising.parts, acting.nodes
        acting.start()
        acting.world.apply({**deployment(), "spec": {"replicas": 0}})
        await asyncio.sleep(600)
        assert acting.nodes == before
        assert watcher.writes == []
        return [node.name for node in before]

    nodes = live(story, node_class(), pool(), deployment(), settings=replace(ACTING, disruption="off"))
    advice = said(caplog, "would disrupt nodes")[-1]
    assert advice.nodes == nodes
    assert advice.reason == "Empty"
    assert advice.saving_per_hour > 0
    assert said(caplog, "evaluated the cluster")[-1].would_disrupt == len(nodes)


REPAIRING = {**pool(), "spec": {**pool()["spec"], "repair": {"defaultTolerationDuration": "1m"}}}


def advised(happening, *manifests, settings=DRY):
    """Act until all is settled, then only advise for ten minutes in which something happens; the nodes there were."""

    async def story(acting):
        await acting.until(lambda: acting.running(10) and acting.settled())
        await acting.stop()
        before = acting.nodes
        happening(acting.world, before)
        watcher = acting.world.interference = ReadOnly()
        acting.parts = Life(acting.world, settings).parts
        acting.start()
        await asyncio.sleep(600)
        assert [node.name for node in acting.nodes] == [node.name for node in before]
        assert watcher.writes == []
        return before

    return live(story, node_class(), *manifests, settings=replace(ACTING, disruption="off"))


def test_a_node_that_would_be_repaired_is_named_with_what_ails_it(caplog):
    def sick(world, nodes):
        world.instance_failures.turn(nodes[0].name, "KernelDeadlock", "True")

    (node,) = advised(sick, REPAIRING, deployment())
    (advice,) = said(caplog, "would remove a node")
    assert (advice.node, advice.reason) == (node.name, "Unhealthy")
    assert advice.why.startswith("KernelDeadlock is True since 2026-01-05T")


def test_a_pool_with_too_many_sick_nodes_is_told_that_none_would_be_repaired(caplog):
    def sick(world, nodes):
        for node in nodes:
            world.instance_failures.turn(node.name, "KernelDeadlock", "True")

    small = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]}
    spec = REPAIRING["spec"]
    template = {"spec": {**spec["template"]["spec"], "requirements": [small]}}
    nodes = advised(sick, {**REPAIRING, "spec": {**spec, "template": template}}, deployment())
    assert len(nodes) > 2
    assert said(caplog, "would remove a node") == []
    told = said(caplog, "would not repair a node")
    assert {advice.node for advice in told} == {node.name for node in nodes}
    assert f"{len(nodes)} of {len(nodes)} nodes are unhealthy, 1 may be" in told[0].why


def test_a_node_that_would_be_drained_ahead_of_its_interruption_is_named_once_and_the_warning_stays(caplog):
    def warn(world, nodes):
        world.instance_failures.warn(nodes[0].name)

    (node,) = advised(warn, pool(), deployment())
    (advice,) = said(caplog, "would remove a node")
    assert (advice.node, advice.reason) == (node.name, "Interrupted")
    assert advice.why.startswith("spot interrupted, to be empty by 2026-01-05T")


@pytest.mark.parametrize(("setting", "named"), [("event", 0), ("drain", 1)])
def test_a_recommendation_is_spoken_of_where_it_would_be_followed(caplog, setting, named):
    def warn(world, nodes):
        world.instance_failures.warn(nodes[0].name, "rebalance_recommendation")

    advised(warn, pool(), deployment(), settings=replace(DRY, rebalance_recommendation=setting))
    assert len(said(caplog, "would remove a node")) == named


def test_a_source_that_hides_what_it_hands_out_is_not_listened_to():
    class Queue:
        shared = False
        asked = 0

        async def receive(self):
            self.asked += 1
            await asyncio.sleep(1)
            return []

    async def story(life):
        manager, queue, board = life.parts.manager, Queue(), Queue()
        board.shared = True
        (provider,) = manager.dry_run_interruptions._context.providers
        providers = (replace(provider, interruptions=(queue, board)),)
        context = replace(manager.dry_run_interruptions._context, providers=providers)
        listening = asyncio.create_task(DryRunInterruptions(context, manager.interruptions, manager.dry_run).run())
        await asyncio.sleep(60)
        listening.cancel()
        assert (queue.asked, board.asked > 10) == (0, True)

    dry(story, node_class(), pool())


class Bare(ReadOnly):
    """A cluster without our kinds."""

    async def before(self, call):
        if call.kind in {"NodePool", "NodeClaim"}:
            raise NotFound(f"no {call.kind}")
        await super().before(call)


def test_a_cluster_without_our_kinds_is_told_once_and_looked_at_all_the_same(caplog):
    async def story(life):
        await asyncio.sleep(600)

    live(story, deployment(replicas=2), settings=DRY, interference=Bare())
    absent = {record.kind for record in said(caplog, "kind is not installed")}
    assert absent == {f"{kind.plural}.{kind.group}" for kind in (NODE_POOL, NODE_CLAIM)}
    assert len(said(caplog, "kind is not installed")) == 2
    assert len(said(caplog, "would launch nothing for a pod")) == 2
