import asyncio
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from builders import NOON
from dovetail.model.kinds import NODE
from dovetail.model.kube_object import ObjectMeta
from dovetail.model.node import Node
from dovetail.observe.events import EventBacklog
from dovetail.ports.cluster import Notice

ABOUT = Node(metadata=ObjectMeta(name="a", uid="u-a"))


def notice(number, *, warning):
    return Notice(NODE, ABOUT, "Reason", str(number), warning=warning)


@given(st.lists(st.booleans(), max_size=30), st.integers(1, 6))
def test_warnings_come_first_nothing_is_lost_untold_and_there_is_never_too_much(warnings, room):
    async def main():
        backlog, dropped = EventBacklog(room), []
        said = [notice(number, warning=warning) for number, warning in enumerate(warnings)]
        for number, each in enumerate(said):
            dropped.append(backlog.put(each, NOON + timedelta(seconds=number)))
            assert len(backlog) <= room
        dropped = [each for each in dropped if each is not None]
        taken = []
        while len(backlog):
            taken.append((await backlog.take())[0])
            backlog.done()
        await asyncio.wait_for(backlog.join(), 1)
        return said, taken, dropped

    said, taken, dropped = asyncio.run(main())
    assert sorted(map(id, taken + dropped)) == sorted(map(id, said))
    kept = {id(each) for each in taken}
    assert taken == [e for e in said if e.warning and id(e) in kept] + [
        e for e in said if not e.warning and id(e) in kept
    ]
    assert not any(each.warning for each in dropped) or all(each.warning for each in taken)


def test_who_waits_for_a_notice_gets_it():
    async def main():
        backlog = EventBacklog()
        waiting = asyncio.create_task(backlog.take())
        await asyncio.sleep(0)
        told = notice(1, warning=False)
        assert backlog.put(told, NOON) is None
        assert await waiting == (told, NOON)
        joined = asyncio.create_task(backlog.join())
        await asyncio.sleep(0)
        assert not joined.done()
        backlog.done()
        await joined

    asyncio.run(main())
