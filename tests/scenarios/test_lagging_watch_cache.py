"""What cannot be undone is decided by quorum reads: the API server's watch cache may be minutes behind.

In each story the watch cache of one kind stands still: its watches say nothing, and a list at resourceVersion 0 answers
what was true before. Each story is told twice: as the controllers are, and with their lists of that kind served from
the watch cache, which has to break it.
"""

import asyncio
from dataclasses import replace

import pytest

from dovetail.model.command import REPLACES_ANNOTATION
from dovetail.model.kinds import CONFIG_MAP, NODE_CLAIM, NODE_POOL, POD, POD_DISRUPTION_BUDGET
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import EVERYTHING, Patch
from dovetail.ports.errors import OutcomeUnknown
from dovetail.sim.world import World, WorldOptions
from stories import ACTING, budget, clean, deployment, live, node_class, pool
from watches import SilentWatches, Terminations

LAG = 100.0
PAUSED = {"name": "dovetail", "namespace": "default", "annotations": {"dovetail.sh/pause": "true"}}


class WatchCache:
    """The watch cache of the API server; lists come from it where they are not quorum reads."""

    def __init__(self, monkeypatch, *, quorum):
        self._watches, self._kinds, listed = SilentWatches(monkeypatch), set(), World.list

        async def cached(world, kind, options=EVERYTHING):
            lags = kind.name in self._kinds and not options.resource_version
            return await listed(world, kind, replace(options, resource_version="0") if lags else options)

        if not quorum:
            monkeypatch.setattr(World, "list", cached)

    def lag(self, kind):
        self._watches.silence(kind, LAG)
        self._kinds.add(kind.name)


async def an_empty_node_gets_pods(life, cache):
    """Neither its claim nor its instance goes."""
    await life.until(lambda: life.running(3) and life.settled())
    ended = Terminations(life.world)
    life.world.apply(deployment(replicas=0))
    await life.until(lambda: not life.pods)
    await asyncio.sleep(2)
    cache.lag(POD)
    life.world.apply(deployment(replicas=3))
    await life.until(lambda: life.running(3), within=30)
    await asyncio.sleep(LAG)
    assert ended.killed_pods == []
    assert life.running(3)
    assert clean(life)


async def a_node_with_new_pods_is_deleted(life, cache):
    """Its instance does not end before they are evicted."""
    await life.until(lambda: life.running(3) and life.settled())
    ended = Terminations(life.world)
    await life.world.patch(
        NODE_POOL, Key("", "default"), Patch({"spec": {"disruption": {"consolidateAfter": "Never"}}})
    )
    life.world.apply(deployment(replicas=0))
    await life.until(lambda: not life.pods)
    await asyncio.sleep(2)
    cache.lag(POD)
    life.world.apply(deployment(replicas=3))
    await life.until(lambda: life.running(3), within=30)
    await life.world.delete(NODE_CLAIM, life.claims[0].key)
    await life.until(lambda: ended.nodes, within=LAG)
    assert ended.killed_pods == []


async def replaced(life, cache, kind, change):
    """A node is about to be replaced when something that keeps it changes."""
    await life.until(lambda: life.running(3) and life.settled())
    (node,) = life.nodes
    life.world.apply(node_class(nodeRegistrationDelay="30s"))
    drifted = {"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}}
    await life.world.patch(NODE_POOL, Key("", "default"), Patch(drifted))
    await life.until(lambda: any(REPLACES_ANNOTATION in claim.metadata.annotations for claim in life.claims))
    cache.lag(kind)
    await change(life)
    await asyncio.sleep(LAG)
    assert node.name in [each.name for each in life.nodes if not each.deleting]


async def the_budget_is_closed(life, cache):
    async def close(life):
        closed = {"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}}
        await life.world.patch(NODE_POOL, Key("", "default"), Patch(closed))

    await replaced(life, cache, NODE_POOL, close)


async def evictions_are_forbidden(life, cache):
    async def forbid(life):
        life.world.apply(budget(maxUnavailable=0))

    await replaced(life, cache, POD_DISRUPTION_BUDGET, forbid)


async def disruption_is_paused(life, cache):
    async def pause(life):
        life.world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": PAUSED})

    await replaced(life, cache, CONFIG_MAP, pause)


class Unanswered:
    """The first create of a NodeClaim takes effect, and the answer is lost."""

    def __init__(self):
        self.lost = False

    async def before(self, call):
        pass

    async def after(self, call):
        if (call.operation, call.kind) == ("create", "NodeClaim") and not self.lost:
            self.lost = True
            raise OutcomeUnknown("connection reset")


async def the_answer_to_a_create_is_lost(life, cache):
    """The pods get one node, not two."""
    await life.until(lambda: life.running(3) and life.settled())
    life.world.interference = Unanswered()
    cache.lag(NODE_CLAIM)
    life.world.apply(deployment("more", 1, cpu="40"))
    await asyncio.sleep(60)
    assert len(life.claims) == 2


async def a_new_process_starts(life, cache):
    """It takes no instance for leaked."""
    await asyncio.sleep(LAG)
    life.world.apply(deployment(replicas=3))
    await life.until(lambda: life.running(3) and life.settled())
    ended = Terminations(life.world)
    cache.lag(NODE_CLAIM)
    await life.restart()
    await asyncio.sleep(LAG)
    assert ended.nodes == []


STORIES = (
    an_empty_node_gets_pods,
    a_node_with_new_pods_is_deleted,
    the_budget_is_closed,
    evictions_are_forbidden,
    disruption_is_paused,
    the_answer_to_a_create_is_lost,
    a_new_process_starts,
)


def told(story, monkeypatch, *, quorum):
    cache = WatchCache(monkeypatch, quorum=quorum)
    replicas = 0 if story is a_new_process_starts else 3
    manifests = node_class(), pool(), deployment(replicas=replicas)
    live(lambda life: story(life, cache), *manifests, options=WorldOptions(cache_lag=LAG), settings=ACTING)


@pytest.mark.parametrize("story", STORIES)
def test_what_cannot_be_undone_is_decided_by_quorum_reads(story, monkeypatch):
    told(story, monkeypatch, quorum=True)


@pytest.mark.parametrize("story", [story for story in STORIES if story is not a_new_process_starts])
def test_lists_from_the_watch_cache_would_break_the_story(story, monkeypatch):
    """Without quorum reads. A new process terminates nothing in any case while it knows of no NodeClaim."""
    with pytest.raises(AssertionError):
        told(story, monkeypatch, quorum=False)
