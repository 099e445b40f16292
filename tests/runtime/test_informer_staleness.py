"""A cache that nothing confirms any more is stale: its watch is given up, it is listed again, and it says so."""

import asyncio

import pytest

from builders import build
from dovetail.model.kinds import CONFIG_MAP, NODE
from dovetail.model.kube_object import Fault, Key, UnreadableObject
from dovetail.ports.cluster import Listing, WatchEvent
from dovetail.ports.errors import Corrupted, Denied, Forbidden, Gone, NotFound, Throttled, Unavailable
from dovetail.runtime.informer import Informer
from dovetail.runtime.optional_kinds import OptionalKindsCluster
from dovetail.runtime.write_gate import WriteGate
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions

BOUND = 150.0


def node(name, version="5"):
    return build(NODE, {"metadata": {"name": name, "uid": name, "resourceVersion": version}})


class Server:
    """Lists what it is given, and watches as told: each watch takes the next script, then stays silent."""

    def __init__(self, *watches):
        self.watches = list(watches)
        self.listing = Listing((node("a"),), "5")
        self.refusal = None
        self.objects = {}
        self.lists = 0
        self.single = 0
        self.open = 0

    async def list(self, _kind, options=None):
        if self.refusal is not None:
            raise self.refusal
        if options is not None and options.field_selector:
            self.single += 1
            return self.objects.get(options.field_selector, Listing((), "9"))
        self.lists += 1
        return self.listing

    async def watch(self, _kind, _since, _options=None):
        if self.refusal is not None:
            raise self.refusal
        self.open += 1
        try:
            for wait, said in self.watches.pop(0) if self.watches else ():
                await asyncio.sleep(wait)
                if isinstance(said, Exception):
                    raise said
                yield said
            await asyncio.Event().wait()
        finally:
            self.open -= 1


def followed(story, server, *listeners):
    async def main():
        informer = Informer(server, NODE, stale_after=BOUND)
        for listener in listeners:
            informer.listen(listener)
        running = asyncio.get_running_loop().create_task(informer.run())
        await asyncio.sleep(1)
        await story(informer)
        assert not running.done(), running.exception()
        running.cancel()
        await asyncio.wait([running])

    run(main())


BOOKMARK = WatchEvent("BOOKMARK", "6")


def test_a_silent_watch_is_given_up_and_everything_is_listed_again():
    server = Server()

    async def story(informer):
        server.listing = Listing((node("b", "9"),), "9")
        await asyncio.sleep(BOUND - 2)
        assert set(informer.items) == {Key("", "a")}
        await asyncio.sleep(2)
        assert set(informer.items) == {Key("", "b")}
        assert not informer.stale
        assert server.open == 1

    followed(story, server)


def test_bookmarks_keep_a_quiet_cache_fresh():
    server = Server([(60.0, BOOKMARK)] * 100)

    async def story(informer):
        for _ in range(100):
            await asyncio.sleep(50)
            assert not informer.stale
            assert informer.age < 61
        assert server.lists == 1

    followed(story, server)


def test_a_silent_watch_whose_list_fails_too_is_stale_until_a_list_succeeds():
    server = Server()

    async def story(informer):
        server.refusal = Unavailable("down")
        await asyncio.sleep(BOUND - 2)
        assert not informer.stale
        await asyncio.sleep(600)
        assert informer.stale
        assert informer.age > BOUND
        server.refusal = None
        await asyncio.sleep(31)
        assert not informer.stale

    followed(story, server)


def test_a_watch_that_keeps_failing_is_stale_after_the_bound_and_listed_again():
    server = Server(*[[(0.0, Unavailable("down"))]] * 100)

    async def story(informer):
        await asyncio.sleep(BOUND - 5)
        assert server.lists == 1
        assert not informer.stale
        await asyncio.sleep(40)
        assert server.lists >= 2
        assert not informer.stale

    followed(story, server)


def test_a_day_of_retry_after_costs_half_a_minute():
    server = Server([(0.0, Throttled("later", 86_400.0))])

    async def story(informer):
        await asyncio.sleep(31)
        assert server.open == 1
        assert not informer.stale

    followed(story, server)


def test_a_line_that_cannot_be_read_leads_to_a_list_and_not_to_the_same_line_again():
    server = Server([(1.0, Corrupted("what is this"))])

    async def story(informer):
        server.listing = Listing((node("b", "9"),), "9")
        await asyncio.sleep(10)
        assert set(informer.items) == {Key("", "b")}
        assert server.lists == 2

    followed(story, server)


def test_lists_because_of_lines_that_cannot_be_read_are_few():
    server = Server(
        *[[(0.0, WatchEvent("MODIFIED", str(n), node("a", str(n)))), (0.0, Corrupted("?"))] for n in range(900)]
    )

    async def story(_informer):
        await asyncio.sleep(60)
        assert server.lists <= 14

    followed(story, server)


@pytest.mark.parametrize("error", [ValueError("odd"), RecursionError(), KeyError("x"), TimeoutError(), MemoryError()])
def test_whatever_a_watch_raises_the_informer_goes_on(error):
    server = Server([(1.0, error)])

    async def story(informer):
        server.listing = Listing((node("b", "9"),), "9")
        await asyncio.sleep(10)
        assert set(informer.items) == {Key("", "b")}

    followed(story, server)


def test_a_listener_that_breaks_keeps_nothing_from_the_others_and_does_not_end_the_watch(caplog):
    heard = []

    def broken(_before, after):
        if after is not None and after.name == "bad":
            raise KeyError("no such thing")

    def hears(_before, after):
        heard.append(after.name)

    server = Server(
        [(1.0, WatchEvent("ADDED", "6", node("bad", "6"))), (1.0, WatchEvent("ADDED", "7", node("good", "7")))]
    )

    async def story(informer):
        await asyncio.sleep(10)
        assert set(informer.items) == {Key("", "a"), Key("", "bad"), Key("", "good")}

    followed(story, server, broken, hears)
    assert heard == ["a", "bad", "good"]
    said = [record for record in caplog.records if record.getMessage() == "listener broke"]
    assert [(each.kind, each.object) for each in said] == [("Node", "bad")]


def test_an_assertion_still_ends_everything():
    async def main():
        informer = Informer(Server(), NODE, stale_after=BOUND)

        def wrong(_before, _after):
            raise AssertionError("we are wrong")

        informer.listen(wrong)
        with pytest.raises(AssertionError):
            await informer.run()

    run(main())


def unreadable(name, version="6"):
    return UnreadableObject(metadata=node(name, version).metadata, faults=(Fault("$", "is odd"),))


def test_an_object_that_was_mangled_on_the_way_is_read_again_half_a_minute_later():
    server = Server([(1.0, WatchEvent("MODIFIED", "6", unreadable("a"))), *[(60.0, BOOKMARK)] * 9])

    async def story(informer):
        await asyncio.sleep(5)
        assert set(informer.unreadable) == {Key("", "a")}
        server.objects = {"metadata.name=a": Listing((node("a", "6"),), "6")}
        await asyncio.sleep(30)
        assert not informer.unreadable
        assert informer.items[Key("", "a")].metadata.resource_version == "6"
        await asyncio.sleep(100)
        assert (server.lists, server.single) == (1, 1)

    followed(story, server)


def test_an_object_that_stays_unreadable_costs_one_read_every_half_minute():
    server = Server([(60.0, BOOKMARK)] * 100)
    server.listing = Listing((node("a"),), "5", (unreadable("b"),))
    server.objects = {"metadata.name=b": Listing((), "9", (unreadable("b"),))}

    async def story(informer):
        await asyncio.sleep(3610)
        assert set(informer.unreadable) == {Key("", "b")}
        assert (server.lists, server.single) == (1, 120)

    followed(story, server)


def test_an_unreadable_object_that_is_gone_is_forgotten():
    server = Server([(1.0, WatchEvent("MODIFIED", "6", unreadable("a")))])

    async def story(informer):
        await asyncio.sleep(40)
        assert not informer.unreadable
        assert not informer.items

    followed(story, server)


def test_an_unreadable_object_without_a_name_is_looked_for_with_a_list():
    server = Server()
    server.listing = Listing((), "5", (unreadable(""),))

    async def story(informer):
        server.listing = Listing((node("a"),), "6")
        await asyncio.sleep(31)
        assert not informer.unreadable
        assert set(informer.items) == {Key("", "a")}

    followed(story, server)


def test_an_object_that_can_be_read_by_then_is_not_listed_again():
    mended = WatchEvent("MODIFIED", "7", node("a", "7"))
    server = Server([(1.0, WatchEvent("MODIFIED", "6", unreadable("a"))), (1.0, mended), *[(60.0, BOOKMARK)] * 9])

    async def story(informer):
        await asyncio.sleep(120)
        assert not informer.unreadable
        assert server.lists == 1

    followed(story, server)


@pytest.mark.parametrize("version", ["²", "9" * 5000, "x", ""])
def test_any_text_may_stand_for_a_version(version):
    server = Server([(1.0, WatchEvent("MODIFIED", version, node("a", version)))])

    async def story(informer):
        await asyncio.sleep(10)
        assert informer.items[Key("", "a")].metadata.resource_version == version
        assert server.lists == 1

    followed(story, server)


def test_a_kind_that_is_not_installed_is_never_stale():
    async def main():
        world = World(WorldOptions())

        class Absent:
            async def list(self, _kind, _options=None):
                raise NotFound("the server could not find the requested resource")

            watch = world.watch

        gate = WriteGate()
        gate.close("only looking")
        informer = Informer(OptionalKindsCluster(Absent(), gate, every_kind=True), NODE, stale_after=BOUND)
        running = asyncio.get_running_loop().create_task(informer.run())
        await informer.synced.wait()
        for _ in range(300):
            await asyncio.sleep(7)
            assert not informer.stale
        running.cancel()
        await asyncio.wait([running])

    run(main())


class ConfigMaps:
    """A server that allows the list of ConfigMaps at some times only."""

    def __init__(self, error=Forbidden):
        self.allowed, self.error = False, error

    async def list(self, _kind, _options=None):
        if not self.allowed:
            raise self.error("configmaps is forbidden")
        return Listing((), "7")

    async def watch(self, *_):
        await asyncio.sleep(60)
        raise Gone("too old")
        yield


def config_maps(story, server):
    """The story of an informer of ConfigMaps that are optional."""

    async def main():
        gate = WriteGate()
        gate.open()
        informer = Informer(OptionalKindsCluster(server, gate, every_kind=False), CONFIG_MAP, stale_after=BOUND)
        running = asyncio.get_running_loop().create_task(informer.run())
        await story(informer)
        running.cancel()
        await asyncio.wait([running])

    run(main())


def test_config_maps_that_were_never_allowed_are_absent_and_appear_when_they_are():
    server = ConfigMaps()

    async def story(informer):
        await asyncio.sleep(1)
        assert informer.synced.is_set()
        await asyncio.sleep(10 * BOUND)
        assert not informer.stale
        server.allowed = True
        await asyncio.sleep(100)
        server.allowed = False
        await asyncio.sleep(2 * BOUND + 120)
        assert informer.stale  # there might be a pause

    config_maps(story, server)


def test_config_maps_are_unknown_as_long_as_the_credentials_are_refused():
    async def story(informer):
        await asyncio.sleep(100)
        assert not informer.synced.is_set()

    config_maps(story, ConfigMaps(Denied))


def test_the_watches_of_the_world_bring_bookmarks_often_enough():
    async def main():
        informer = Informer(World(WorldOptions()), NODE, stale_after=BOUND)
        running = asyncio.get_running_loop().create_task(informer.run())
        await informer.synced.wait()
        for _ in range(2000):
            await asyncio.sleep(7)
            assert not informer.stale
            assert informer.age < 125  # a watch may end just before its next bookmark
        running.cancel()
        await asyncio.wait([running])

    run(main())
