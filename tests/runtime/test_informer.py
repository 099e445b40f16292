"""The local copy stays true whatever happens to the watch."""

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import build
from dovetail.model.kinds import NODE
from dovetail.model.kube_object import Fault, Key, UnreadableObject
from dovetail.ports.cluster import Listing, Patch, WatchEvent
from dovetail.ports.errors import Gone, Unavailable
from dovetail.runtime.informer import Informer
from dovetail.sim.virtual_loop import run
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


class Scripted:
    """A cluster whose list and watch say exactly what they are told to."""

    def __init__(self, *listings):
        self.listings = list(listings)
        self.said = asyncio.Queue()
        self.held = asyncio.Event()
        self.held.set()

    async def list(self, _kind, _options=None):
        answer = self.listings.pop(0)
        await self.held.wait()
        return answer

    async def watch(self, _kind, _since, _options=None):
        while True:
            change = await self.said.get()
            if isinstance(change, Exception):
                raise change
            yield change


def versioned(name, version, uid=None, **labels):
    metadata = {"name": name, "uid": uid or name, "resourceVersion": str(version), "labels": labels}
    return build(NODE, {"metadata": metadata})


def scripted(story, *listings):
    async def main():
        cluster = Scripted(*listings)
        informer = Informer(cluster, NODE)
        heard = []
        informer.listen(lambda before, after: heard.append((before and before.name, after and after.name)))
        running = asyncio.get_running_loop().create_task(informer.run())
        await informer.synced.wait()
        await story(cluster, informer)
        running.cancel()
        await asyncio.wait([running])
        return heard

    return run(main())


def test_an_event_that_is_late_does_not_overwrite_the_answer_to_a_later_write():
    async def story(cluster, informer):
        informer.observe(versioned("a", 7, x="new"))
        cluster.said.put_nowait(WatchEvent("MODIFIED", "6", versioned("a", 6, x="old")))
        await asyncio.sleep(1)
        assert informer.items[Key("", "a")].metadata.labels == {"x": "new"}
        cluster.said.put_nowait(WatchEvent("MODIFIED", "8", versioned("a", 8, x="newest")))
        await asyncio.sleep(1)
        assert informer.items[Key("", "a")].metadata.labels == {"x": "newest"}

    scripted(story, Listing((versioned("a", 5),), "5"))


def test_a_late_event_of_the_object_before_does_not_replace_the_one_of_the_same_name():
    async def story(cluster, informer):
        informer.observe(versioned("a", 9, uid="second"))
        cluster.said.put_nowait(WatchEvent("MODIFIED", "6", versioned("a", 6, uid="first")))
        cluster.said.put_nowait(WatchEvent("DELETED", "7", versioned("a", 7, uid="first")))
        await asyncio.sleep(1)
        assert informer.items[Key("", "a")].metadata.uid == "second"
        cluster.said.put_nowait(WatchEvent("ADDED", "9", versioned("a", 9, uid="second")))
        await asyncio.sleep(1)
        assert informer.items[Key("", "a")].metadata.uid == "second"

    heard = scripted(story, Listing((versioned("a", 5, uid="first"),), "5"))
    assert heard == [(None, "a"), ("a", None), (None, "a")]


def test_what_was_created_while_a_list_was_under_way_is_neither_dropped_nor_taken_for_deleted():
    async def story(cluster, informer):
        cluster.held.clear()
        cluster.said.put_nowait(Gone("too old"))
        await asyncio.sleep(5)
        informer.observe(versioned("b", 9))  # the list answers with what was there before
        cluster.held.set()
        await asyncio.sleep(5)
        assert Key("", "b") in informer.items
        cluster.said.put_nowait(WatchEvent("ADDED", "9", versioned("b", 9)))
        cluster.said.put_nowait(WatchEvent("MODIFIED", "10", versioned("b", 10, x="1")))
        await asyncio.sleep(1)
        assert informer.items[Key("", "b")].metadata.labels == {"x": "1"}

    heard = scripted(story, Listing((versioned("a", 5),), "5"), Listing((versioned("a", 5),), "8"))
    assert heard == [(None, "a"), (None, "b"), ("b", "b")]


def test_an_old_list_does_not_take_back_a_newer_answer():
    async def story(cluster, informer):
        cluster.held.clear()
        cluster.said.put_nowait(Gone("too old"))
        await asyncio.sleep(5)
        informer.observe(versioned("a", 9, x="new"))
        cluster.held.set()
        await asyncio.sleep(5)
        assert informer.items[Key("", "a")].metadata.labels == {"x": "new"}

    scripted(story, Listing((versioned("a", 5),), "5"), Listing((versioned("a", 6, x="old"),), "8"))


def test_what_is_gone_from_a_later_list_is_dropped():
    async def story(cluster, informer):
        informer.observe(versioned("b", 6))
        cluster.said.put_nowait(Gone("too old"))
        await asyncio.sleep(5)
        assert set(informer.items) == {Key("", "a")}

    scripted(story, Listing((versioned("a", 5),), "5"), Listing((versioned("a", 5),), "8"))


def test_an_object_that_was_unreadable_for_a_while_is_not_taken_for_deleted():
    async def story(cluster, informer):
        bad = UnreadableObject(metadata=versioned("a", 6).metadata, faults=(Fault("spec", "is odd"),))
        cluster.said.put_nowait(WatchEvent("MODIFIED", "6", bad))
        await asyncio.sleep(1)
        assert set(informer.unreadable) == {Key("", "a")}
        informer.observe(versioned("a", 7, x="mended"))
        assert informer.items[Key("", "a")].metadata.labels == {"x": "mended"}
        assert not informer.unreadable

    scripted(story, Listing((versioned("a", 5),), "5"))


def unreadable(name, version, uid=""):
    metadata = msgspec.structs.replace(versioned(name, version).metadata, uid=uid)
    return UnreadableObject(metadata=metadata, faults=(Fault("spec", "is odd"),))


@pytest.mark.parametrize("way", ["watch", "own write"])
def test_an_older_readable_version_does_not_replace_a_newer_unreadable_one(way):
    async def story(cluster, informer):
        cluster.said.put_nowait(WatchEvent("MODIFIED", "7", unreadable("a", 7)))
        await asyncio.sleep(1)
        if way == "watch":  # resumed from before
            cluster.said.put_nowait(WatchEvent("MODIFIED", "6", versioned("a", 6, x="old")))
            await asyncio.sleep(1)
        else:  # the answer arrives after the event of a later write
            informer.observe(versioned("a", 6, x="old"))
        assert set(informer.unreadable) == {Key("", "a")}
        assert not informer.items
        informer.observe(versioned("a", 7, x="mended"))  # the same version, not mangled this time
        assert informer.items[Key("", "a")].metadata.labels == {"x": "mended"}

    scripted(story, Listing((versioned("a", 5),), "5"))


def test_an_old_list_does_not_replace_a_newer_unreadable_answer():
    async def story(cluster, informer):
        cluster.held.clear()
        cluster.said.put_nowait(Gone("too old"))
        await asyncio.sleep(5)
        informer.observe(unreadable("a", 9))
        cluster.held.set()
        await asyncio.sleep(5)
        assert set(informer.unreadable) == {Key("", "a")}
        assert not informer.items

    scripted(story, Listing((versioned("a", 5),), "5"), Listing((versioned("a", 6, x="old"),), "8"))


def test_the_late_deletion_of_an_earlier_object_does_not_remove_an_unreadable_one():
    async def story(cluster, informer):
        cluster.said.put_nowait(WatchEvent("ADDED", "7", unreadable("a", 7, uid="second")))
        await asyncio.sleep(1)
        deleted = msgspec.structs.replace(versioned("a", 6), metadata=unreadable("a", 6, uid="first").metadata)
        cluster.said.put_nowait(WatchEvent("DELETED", "8", deleted))
        await asyncio.sleep(1)
        assert set(informer.unreadable) == {Key("", "a")}
        cluster.said.put_nowait(WatchEvent("DELETED", "9", unreadable("a", 9, uid="second")))
        await asyncio.sleep(1)
        assert not informer.unreadable

    scripted(story, Listing((), "5"))


def test_an_api_server_that_was_set_back_in_time_is_believed_after_the_relist():
    async def story(cluster, informer):
        informer.observe(versioned("b", 90))
        cluster.said.put_nowait(Gone("restored"))
        await asyncio.sleep(5)
        assert informer.items == {Key("", "a"): versioned("a", 7, x="restored")}

    scripted(story, Listing((versioned("a", 50),), "50"), Listing((versioned("a", 7, x="restored"),), "8"))
