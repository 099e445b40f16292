"""Watches: nothing missed, nothing repeated, everything in order, and an honest `Gone`."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from contract.environment import Environment
from contract.objects import make_map
from dovetail.model.kinds import Kind
from dovetail.model.kube_object import KubeObject, UnreadableObject
from dovetail.ports.cluster import ListOptions, Patch, WatchEvent
from dovetail.ports.errors import Gone
from dovetail.sim.kubernetes.kinds import CONFIG_MAP


class Numbers(KubeObject, frozen=True):
    """ConfigMaps as someone reads them who expects numbers."""

    data: Mapping[str, int] = {}


NUMBERS = Kind(Numbers, "ConfigMap", "configmaps", namespaced=True)


def mine(env: Environment, extra: str = "") -> ListOptions:
    """Only what the case makes: real namespaces are born with a ConfigMap in them."""
    return ListOptions(namespace=env.namespace, label_selector="mine=yes" + extra)


async def take(changes: AsyncIterator[WatchEvent[Any]], count: int) -> list[tuple[str, str]]:
    """The next changes that are not bookmarks, as type and name."""
    return [(change.type, change.object.key.name) for change in await take_whole(changes, count)]


async def take_whole(changes: AsyncIterator[WatchEvent[Any]], count: int) -> list[WatchEvent[Any]]:
    """The next changes that are not bookmarks."""
    seen: list[WatchEvent[Any]] = []
    async with asyncio.timeout(30):
        async for change in changes:
            if change.type != "BOOKMARK":
                seen.append(change)
            if len(seen) == count:
                break
    return seen


async def a_watch_from_a_list_sees_every_change_in_order(env: Environment) -> None:
    before = await make_map(env, labels={"mine": "yes"})
    listing = await env.cluster.list(CONFIG_MAP, mine(env))
    assert [item.name for item in listing.items] == [before.name]
    made = await make_map(env, labels={"mine": "yes"})
    await env.cluster.patch(CONFIG_MAP, before.key, Patch({"data": {"a": "1"}}))
    changes = env.cluster.watch(CONFIG_MAP, listing.resource_version, mine(env))
    past = await take(changes, 2)
    await env.cluster.delete(CONFIG_MAP, made.key)
    await env.cluster.delete(CONFIG_MAP, before.key)
    assert past == [("ADDED", made.name), ("MODIFIED", before.name)]
    changes = env.cluster.watch(CONFIG_MAP, listing.resource_version, mine(env))
    every = await take(changes, 4)
    assert every == [*past, ("DELETED", made.name), ("DELETED", before.name)]


async def a_watch_sees_what_happens_while_it_waits(env: Environment) -> None:
    listing = await env.cluster.list(CONFIG_MAP, mine(env))
    changes = env.cluster.watch(CONFIG_MAP, listing.resource_version, mine(env))
    waiting = asyncio.create_task(take_whole(changes, 3))
    await asyncio.sleep(0.1)
    made = await make_map(env, {"a": "1"}, labels={"mine": "yes"})
    patched = await env.cluster.patch(CONFIG_MAP, made.key, Patch({"data": {"a": "2"}}))
    await env.cluster.delete(CONFIG_MAP, made.key)
    added, modified, deleted = await waiting
    assert (added.object, modified.object) == (made, patched)
    assert deleted.object.data == {"a": "2"}
    assert int(deleted.resource_version) > int(modified.resource_version)


async def a_watch_resumes_where_another_ended(env: Environment) -> None:
    listing = await env.cluster.list(CONFIG_MAP, mine(env))
    names = [(await make_map(env, labels={"mine": "yes"})).name for _ in range(4)]
    first = await take_whole(env.cluster.watch(CONFIG_MAP, listing.resource_version, mine(env)), 2)
    rest = await take(env.cluster.watch(CONFIG_MAP, first[-1].resource_version, mine(env)), 2)
    assert [change.object.name for change in first] == names[:2]
    assert rest == [("ADDED", name) for name in names[2:]]


async def objects_enter_and_leave_a_selective_watch(env: Environment) -> None:
    options = mine(env, ",colour=red")
    listing = await env.cluster.list(CONFIG_MAP, options)
    made = await make_map(env, labels={"mine": "yes", "colour": "blue"})
    for colour in ("red", "blue"):
        await env.cluster.patch(CONFIG_MAP, made.key, Patch({"metadata": {"labels": {"colour": colour}}}))
    seen = await take(env.cluster.watch(CONFIG_MAP, listing.resource_version, options), 2)
    assert seen == [("ADDED", made.name), ("DELETED", made.name)]


async def a_watch_from_too_long_ago_is_gone(env: Environment) -> None:
    if not env.can_expire_history:
        pytest.skip("history cannot be made to expire here")
    listing = await env.cluster.list(CONFIG_MAP, mine(env))
    await make_map(env, labels={"mine": "yes"})
    await env.expire_history()
    with pytest.raises(Gone):
        await take(env.cluster.watch(CONFIG_MAP, listing.resource_version, mine(env)), 1)
    fresh = await env.cluster.list(CONFIG_MAP, mine(env))
    made = await make_map(env, labels={"mine": "yes"})
    assert await take(env.cluster.watch(CONFIG_MAP, fresh.resource_version, mine(env)), 1) == [("ADDED", made.name)]


async def what_cannot_be_understood_is_shown_as_unreadable(env: Environment) -> None:
    listing = await env.cluster.list(NUMBERS, mine(env))
    odd = await make_map(env, {"a": "no number"}, labels={"mine": "yes"})
    plain = await make_map(env, labels={"mine": "yes"})
    after = await env.cluster.list(NUMBERS, mine(env))
    assert [item.name for item in after.items] == [plain.name]
    assert [item.key for item in after.unreadable] == [odd.key]
    assert after.unreadable[0].faults
    first, second = await take_whole(env.cluster.watch(NUMBERS, listing.resource_version, mine(env)), 2)
    assert isinstance(first.object, UnreadableObject)
    assert first.object.metadata.uid == odd.metadata.uid
    assert isinstance(second.object, Numbers)


CASES = (
    a_watch_from_a_list_sees_every_change_in_order,
    a_watch_sees_what_happens_while_it_waits,
    a_watch_resumes_where_another_ended,
    objects_enter_and_leave_a_selective_watch,
    a_watch_from_too_long_ago_is_gone,
    what_cannot_be_understood_is_shown_as_unreadable,
)
