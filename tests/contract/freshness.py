"""Lists: what is committed, what the server has cached, and what was there at a version."""

import pytest

from contract.environment import Environment
from contract.objects import make_map
from contract.watches import mine, take
from dovetail.ports.cluster import ListOptions, Patch
from dovetail.ports.errors import Invalid, Unavailable
from dovetail.sim.kubernetes.kinds import CONFIG_MAP

MINE = {"mine": "yes"}


def at(env: Environment, version: str, *, exact: bool = False) -> ListOptions:
    """A list at a version."""
    return ListOptions(env.namespace, "mine=yes", resource_version=version, exact=exact)


async def names(env: Environment, options: ListOptions) -> set[str]:
    """The names in a list."""
    return {item.name for item in (await env.cluster.list(CONFIG_MAP, options)).items}


async def a_list_without_a_version_has_every_write_that_was_answered(env: Environment) -> None:
    expected: set[str] = set()
    for _ in range(10):
        made = await make_map(env, labels=MINE)
        expected.add(made.name)
        assert await names(env, mine(env)) == expected
    for name in sorted(expected):
        await env.cluster.delete(CONFIG_MAP, env.key(name))
        expected.discard(name)
        assert await names(env, mine(env)) == expected


async def a_list_of_what_is_cached_catches_up_and_can_be_watched_from(env: Environment) -> None:
    first = await make_map(env, labels=MINE)

    async def seen() -> bool:
        return first.name in await names(env, at(env, "0"))

    await env.eventually(seen)
    cached = await env.cluster.list(CONFIG_MAP, at(env, "0"))
    second = await make_map(env, labels=MINE)
    changes = env.cluster.watch(CONFIG_MAP, cached.resource_version, mine(env))
    assert await take(changes, 1) == [("ADDED", second.name)]


async def a_list_not_older_than_a_write_has_it(env: Environment) -> None:
    for _ in range(5):
        made = await make_map(env, labels=MINE)
        listing = await env.cluster.list(CONFIG_MAP, at(env, made.metadata.resource_version))
        assert made in listing.items
        assert int(listing.resource_version) >= int(made.metadata.resource_version)


async def a_list_at_a_version_has_what_was_there_then(env: Environment) -> None:
    gone, changed = [await make_map(env, {"a": "1"}, labels=MINE) for _ in range(2)]
    then = changed.metadata.resource_version
    await env.cluster.delete(CONFIG_MAP, gone.key)
    await env.cluster.patch(CONFIG_MAP, changed.key, Patch({"data": {"a": "2"}}))
    await make_map(env, labels=MINE)
    listing = await env.cluster.list(CONFIG_MAP, at(env, then, exact=True))
    assert sorted(listing.items, key=lambda item: item.name) == sorted([gone, changed], key=lambda item: item.name)
    assert listing.resource_version == then


async def versions_that_cannot_be_are_refused(env: Environment) -> None:
    with pytest.raises(Invalid):
        await env.cluster.list(CONFIG_MAP, at(env, "abc"))
    with pytest.raises(Invalid) as refused:
        await env.cluster.list(CONFIG_MAP, at(env, "0", exact=True))
    assert [fault.path for fault in refused.value.faults] == ["resourceVersionMatch"]
    for exact in (False, True):
        with pytest.raises(Unavailable):
            await env.cluster.list(CONFIG_MAP, at(env, "999999999", exact=exact))
    with pytest.raises(Unavailable):
        await take(env.cluster.watch(CONFIG_MAP, "abc", mine(env)), 1)


CASES = (
    a_list_without_a_version_has_every_write_that_was_answered,
    a_list_of_what_is_cached_catches_up_and_can_be_watched_from,
    a_list_not_older_than_a_write_has_it,
    a_list_at_a_version_has_what_was_there_then,
    versions_that_cannot_be_are_refused,
)
