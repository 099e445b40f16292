"""A dry run says what would be done, and does nothing."""

import asyncio
from dataclasses import replace

import pytest

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
    assert said(caplog, "looked at the cluster")[-1].would_disrupt == len(nodes)


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
