"""Watches: framing, bookmarks, how they end and how they fail."""

import asyncio
import json
from random import Random

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from dovetail.kube.decode import LineReader
from dovetail.kube.transport import TransportLimits
from dovetail.model.kinds import NODE, POD
from dovetail.model.kube_object import UnreadableObject
from dovetail.ports.errors import ApiError, Forbidden, Gone, Unavailable
from kube.stub import SEED, hang, refusal, serving, stream


def event(kind, name="n", version="1", **more):
    metadata = {"name": name, "resourceVersion": version}
    return json.dumps({"type": kind, "object": {"metadata": metadata, **more}}).encode() + b"\n"


def error(code, message="no"):
    status = {"kind": "Status", "status": "Failure", "code": code, "message": message, "reason": "Expired"}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


def watched(*answers, kind=NODE, **how):
    """All changes of one watch, its request, and the error it ended with."""

    async def main():
        changes, failure = [], None
        async with serving(*answers, **how) as (cluster, stub):
            try:
                async for change in cluster.watch(kind, "5"):
                    changes.append(change)  # noqa: PERF401 - those before an error count too
            except ApiError as raised:
                failure = raised
        return changes, stub.seen, failure

    return asyncio.run(main())


def test_a_watch_asks_for_bookmarks_since_a_version_and_for_a_random_time():
    _, (seen,), failure = watched(stream())
    assert failure is None
    assert seen.query["watch"] == "true"
    assert seen.query["allowWatchBookmarks"] == "true"
    assert seen.query["resourceVersion"] == "5"
    assert seen.query["timeoutSeconds"] == str(Random(SEED).randint(300, 600))  # noqa: S311 - not a secret


def test_changes_arrive_in_order_and_the_watch_ends_with_the_server():
    changes, _, failure = watched(stream(event("ADDED"), event("MODIFIED", version="2"), event("DELETED", version="3")))
    assert [(change.type, change.resource_version) for change in changes] == [
        ("ADDED", "1"),
        ("MODIFIED", "2"),
        ("DELETED", "3"),
    ]
    assert changes[0].object.name == "n"
    assert failure is None


def test_a_line_may_come_in_pieces_and_a_piece_may_hold_several_lines():
    data = event("ADDED", "first") + event("ADDED", "ünï") + event("ADDED", "last")
    changes, _, _ = watched(stream(data[:5], data[5:70], data[70:71], data[71:]))
    assert [change.object.name for change in changes] == ["first", "ünï", "last"]


def test_a_huge_line_is_read_whole():
    annotations = {"big": "x" * 3_000_000}
    data = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "n", "annotations": annotations}}}).encode()
    changes, _, _ = watched(stream(data, b"\n"))
    assert len(changes[0].object.metadata.annotations["big"]) == 3_000_000


def test_a_bookmark_needs_nothing_but_its_version():
    """The API server sends pods in bookmarks with `containers: null`."""
    changes, _, _ = watched(stream(event("BOOKMARK", version="9", spec={"containers": None})), kind=POD)
    assert [(change.type, change.resource_version, change.object) for change in changes] == [("BOOKMARK", "9", None)]


def test_an_unreadable_object_arrives_as_such_and_the_watch_goes_on():
    changes, _, failure = watched(
        stream(event("ADDED", "bad", "4", spec={"priority": "high"}), event("ADDED", "good", "5")), kind=POD
    )
    assert isinstance(changes[0].object, UnreadableObject)
    assert changes[0].resource_version == "4"
    assert changes[1].object.name == "good"
    assert failure is None


def test_an_expired_watch_is_gone():
    changes, _, failure = watched(stream(event("ADDED"), error(410, "too old resource version")))
    assert len(changes) == 1
    assert isinstance(failure, Gone)


def test_a_watch_refused_as_expired_is_gone():
    _, _, failure = watched(refusal(410, "Expired"))
    assert isinstance(failure, Gone)


@pytest.mark.parametrize(("code", "kind"), [(500, Unavailable), (403, Forbidden), (0, ApiError)])
def test_any_other_error_event_is_raised_by_its_code(code, kind):
    _, _, failure = watched(stream(error(code)))
    assert type(failure) is kind


def test_a_connection_that_breaks_in_a_line_is_unavailable_and_drops_only_that_line():
    changes, _, failure = watched(stream(event("ADDED"), event("ADDED", "half")[:20], broken=True))
    assert len(changes) == 1
    assert isinstance(failure, Unavailable)


def test_a_line_that_is_not_an_event_is_unavailable():
    _, _, failure = watched(stream(b"<html>\n"))
    assert isinstance(failure, Unavailable)


def test_a_server_that_never_answers_a_watch_is_unavailable():
    _, _, failure = watched(hang, limits=TransportLimits(deadline=0.05))
    assert isinstance(failure, Unavailable)


def test_a_watch_without_data_beyond_its_timeout_is_unavailable():
    changes, _, failure = watched(_open_for_ever, limits=TransportLimits(watch_seconds=(0, 0), watch_grace=0.05))
    assert len(changes) == 1
    assert isinstance(failure, Unavailable)
    assert "no data for" in str(failure)


async def _open_for_ever(request):
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    await response.write(event("ADDED"))
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def test_leaving_a_watch_early_lets_its_connection_go():
    async def main():
        async with serving(_open_for_ever) as (cluster, _):
            changes = cluster.watch(NODE, "5")
            first = await anext(changes)
            await changes.aclose()
            return first.type

    assert asyncio.run(main()) == "ADDED"


@given(st.lists(st.binary(min_size=1, max_size=20).filter(lambda line: b"\n" not in line and line.strip())), st.data())
def test_law_lines_do_not_depend_on_where_chunks_end(lines, data):
    stream_of_bytes = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream_of_bytes)), max_size=8)))
    splitter = LineReader(most=1_000_000)
    read = [
        line
        for begin, end in zip([0, *cuts], [*cuts, len(stream_of_bytes)], strict=True)
        for line in splitter.feed(stream_of_bytes[begin:end])
    ]
    assert read == lines
