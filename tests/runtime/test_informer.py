"""The local copy stays true whatever happens to the watch."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import build
from dovetail.model.kinds import NODE
from dovetail.model.wire import Key
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import Unavailable
from dovetail.runtime.informer import Informer
from dovetail.sim.loop import run
from dovetail.sim.world import World, WorldOptions


def node(name, **labels):
    return build(NODE, {"metadata": {"name": name, "labels": labels}})


def with_informer(story, world_options=None, interference=None):
    """Run a story against a world with an informer on it; returns what listeners heard, as (before, after) names."""

    async def main():
        world = World(world_options or WorldOptions(), interference=interference)
        informer = Informer(world, NODE)
        heard = []
        informer.listen(lambda before, after: heard.append((before and before.name, after and after.name)))
        running = asyncio.get_running_loop().create_task(informer.run())
        await informer.synced.wait()
        await story(world, informer)
        await asyncio.sleep(120)
        truth = {value.key: value for value in world.values(NODE)}
        assert informer.items == truth
        running.cancel()
        await asyncio.wait([running])
        return heard

    return run(main())


def test_changes_are_heard_once_and_in_order():
    async def story(world, _informer):
        await world.create(NODE, node("a"))
        await world.patch(NODE, Key("", "a"), Patch({"metadata": {"labels": {"x": "1"}}}))
        await world.delete(NODE, Key("", "a"))

    assert with_informer(story) == [(None, "a"), ("a", "a"), ("a", None)]


def test_a_deletion_missed_while_the_history_was_forgotten_is_told_after_the_relist():
    async def story(world, _informer):
        await world.create(NODE, node("a"))
        await world.create(NODE, node("b"))
        await asyncio.sleep(1)
        world.store.forget_history()
        await world.delete(NODE, Key("", "a"))
        world.forget_history()
        await asyncio.sleep(2000)

    heard = with_informer(story)
    assert ("a", None) in heard
    assert heard.count(("a", None)) == 1


def test_watches_that_end_are_resumed_without_repeating_anything():
    async def story(world, _informer):
        for number in range(20):
            await world.create(NODE, node(f"n{number:02}"))
            await asyncio.sleep(50)

    short = WorldOptions(watch_lifetime=(60.0, 90.0))
    assert with_informer(story, short) == [(None, f"n{number:02}") for number in range(20)]


class Flaky:
    """An API server that refuses every other list and watch."""

    def __init__(self):
        self.calls = 0

    async def before(self, call):
        if call.operation in {"list", "watch"}:
            self.calls += 1
            if self.calls % 2:
                raise Unavailable("down")

    async def after(self, call):
        pass


def test_an_api_server_that_comes_and_goes_costs_time_not_truth():
    async def story(world, _informer):
        for number in range(5):
            await world.create(NODE, node(f"n{number}"))
            await asyncio.sleep(100)

    short = WorldOptions(watch_lifetime=(20.0, 40.0))
    assert with_informer(story, short, Flaky()) == [(None, f"n{number}") for number in range(5)]


def test_an_own_write_is_seen_at_once_and_an_old_answer_changes_nothing():
    async def story(world, informer):
        created = await world.create(NODE, node("a"))
        informer.observe(created)
        assert Key("", "a") in informer.items
        newer = await world.patch(NODE, Key("", "a"), Patch({"metadata": {"labels": {"x": "1"}}}))
        informer.observe(newer)
        informer.observe(created)
        assert informer.items[Key("", "a")].metadata.labels == {"x": "1"}
        await world.delete(NODE, Key("", "a"))
        await asyncio.sleep(10)
        informer.observe(newer)
        assert informer.items == {}

    with_informer(story)


steps = st.lists(st.tuples(st.sampled_from("cpdf"), st.integers(0, 4), st.floats(0, 40)), max_size=30)


@settings(max_examples=50, deadline=None)
@given(steps)
def test_law_the_copy_equals_the_cluster_and_listeners_can_rebuild_it(steps):
    """c: create, p: patch, d: delete, f: the server forgets its history."""

    async def story(world, informer):
        rebuilt = set(informer.items)
        informer.listen(lambda b, a: (rebuilt.discard(b.key) if b else None, rebuilt.add(a.key) if a else None))
        for number, (verb, which, wait) in enumerate(steps):
            key = Key("", f"n{which}")
            exists = any(value.key == key for value in world.values(NODE))
            if verb == "c" and not exists:
                await world.create(NODE, node(key.name))
            elif verb == "p" and exists:
                await world.patch(NODE, key, Patch({"metadata": {"labels": {"step": str(number)}}}))
            elif verb == "d" and exists:
                await world.delete(NODE, key)
            elif verb == "f":
                world.forget_history()
            await asyncio.sleep(wait)
        await asyncio.sleep(700)
        assert rebuilt == set(informer.items)

    with_informer(story, WorldOptions(watch_lifetime=(30.0, 60.0)))
