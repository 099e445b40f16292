"""Arbitrary bytes from an API server or proxy: an error of the port, or one unreadable object."""

import asyncio
import gzip
import json

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import build
from dovetail.kube.decode import LineReader, ListPages, change_of
from dovetail.kube.requests import ApiRequest, error_of, read_status
from dovetail.kube.transport import TransportLimits
from dovetail.manifest.codec import Interner
from dovetail.model.kinds import NODE, POD
from dovetail.model.kube_object import Key, UnreadableObject
from dovetail.ports.errors import ApiError, Corrupted, OutcomeUnknown, Throttled, Unavailable
from kube.stub import serving, stream

CALL = ApiRequest(method="GET", path="/api/v1/pods")
DEEP = 5_000


def pod(name, extra=b"", version=b"5"):
    metadata = b'"metadata":{"name":"%s","namespace":"default","resourceVersion":"%s"}' % (name, version)
    return b"{" + metadata + extra + b"}"


BAD = {
    "invalid UTF-8 in a field": pod(b"bad", b',"spec":{"nodeName":"n\xff"}'),
    "invalid UTF-8 in a label": b'{"metadata":{"name":"bad","namespace":"default","labels":{"a":"\xc3\x28"}}}',
    "nested too deeply": pod(b"bad", b',"status":{"x":' + b"[" * DEEP + b"]" * DEEP + b"}"),
    "nested in what is not read": pod(b"bad", b',"more":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP),
    "nested in its metadata": b'{"metadata":{"managedFields":'
    + b"[" * DEEP
    + b"]" * DEEP
    + b',"name":"bad","namespace":"default"}}',
    "metadata of the wrong type": b'{"metadata":{"name":"bad","namespace":"default","labels":[]}}',
    "a number without end": pod(b"bad", b',"spec":{"priority":' + b"9" * 6000 + b"}"),
}
NAMELESS = {
    "null": b"null",
    "a list": b"[]",
    "text": b'"pod"',
    "no metadata to read": b'{"metadata":null}',
    "a name in invalid UTF-8": b'{"metadata":{"name":"\xff","namespace":"default"}}',
}


def answered(handler_body, kind=POD, verb="list", **how):
    """The result or error of one call to a server that responds with these bytes."""

    async def main():
        async def answer(_):
            return web.Response(body=handler_body, content_type="application/json")

        async with serving(answer, **how) as (cluster, _):
            if verb == "get":
                return await cluster.get(kind, Key("default", "bad"))
            return await cluster.list(kind)

    return asyncio.run(main())


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_one_bad_object_of_a_list_loses_no_other_and_is_named(bad):
    body = b'{"kind":"PodList","items":[%s,%s,%s],"metadata":{"resourceVersion":"7"}}' % (pod(b"a"), bad, pod(b"z"))
    listing = answered(body)
    assert [item.name for item in listing.items] == ["a", "z"]
    assert [each.key for each in listing.unreadable] == [Key("default", "bad")]
    assert listing.unreadable[0].faults[0].problem
    assert listing.resource_version == "7"


@pytest.mark.parametrize("bad", NAMELESS.values(), ids=NAMELESS)
def test_an_object_of_a_list_that_not_even_has_a_name_loses_no_other(bad):
    body = b'{"items":[%s,%s,%s],"metadata":{"resourceVersion":"7"}}' % (pod(b"a"), bad, pod(b"z"))
    listing = answered(body)
    assert [item.name for item in listing.items] == ["a", "z"]
    assert len(listing.unreadable) == 1


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_object_in_a_watch_is_skipped_and_named(bad):
    lines = [b'{"type":"ADDED","object":%s}\n' % each for each in (pod(b"a"), bad, pod(b"z"))]
    changes, failure = watched(stream(*lines))
    assert failure is None
    assert [change.object.key.name for change in changes] == ["a", "bad", "z"]
    assert [isinstance(change.object, UnreadableObject) for change in changes] == [False, True, False]


@pytest.mark.parametrize("bad", NAMELESS.values(), ids=NAMELESS)
def test_a_watch_event_without_an_object_name_ends_the_watch_as_corrupted(bad):
    changes, failure = watched(
        stream(b'{"type":"ADDED","object":%s}\n' % pod(b"a"), b'{"type":"ADDED","object":%s}\n' % bad)
    )
    assert len(changes) == 1
    assert isinstance(failure, Corrupted)


def watched(*answers, **how):
    async def main():
        changes, failure = [], None
        async with serving(*answers, **how) as (cluster, _):
            try:
                async for change in cluster.watch(POD, "5"):
                    changes.append(change)  # noqa: PERF401 - those before an error count too
            except ApiError as raised:
                failure = raised
        return changes, failure

    return asyncio.run(main())


GARBAGE = {
    "nothing": b"",
    "text": b"upstream connect error",
    "binary": bytes(range(256)),
    "truncated": b'{"items":[' + pod(b"a") + b"," + pod(b"b")[:30],
    "truncated in a string": b'{"items":[{"metadata":{"name":"a',
    "brackets": b"[" * 100_000,
    "a list of lists": b"[[[]]]",
    "an empty object": b"{}",
    "a list without a version": b'{"kind":"PodList","metadata":{},"items":[]}',
    "half a surrogate pair": b'{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"\\ud800 and more"}}]}',
    "deep, and then cut": b'{"metadata":{"resourceVersion":"1"},"items":['
    + BAD["nested too deeply"]
    + b',{"metadata":',
    "deep, and no JSON": b'{"metadata":{"resourceVersion":"1"},"items":[' + BAD["nested too deeply"] + b",{what?}]}",
    "items that are no list": b'{"items":{"a":1},"metadata":{}}',
}


@pytest.mark.parametrize("body", GARBAGE.values(), ids=GARBAGE)
def test_an_answer_that_is_no_list_is_unavailable(body):
    with pytest.raises(Unavailable):
        answered(body)


NO_OBJECT = [GARBAGE[each] for each in ("nothing", "text", "binary", "truncated", "brackets", "a list of lists")]


@pytest.mark.parametrize("body", [*NO_OBJECT, BAD["nested too deeply"], b'{"metadata":{"name":"\xff"}}'])
def test_an_answer_that_is_no_object_is_an_error_of_the_port(body):
    with pytest.raises(ApiError):
        answered(body, verb="get")


def test_an_answer_to_a_write_that_cannot_be_read_leaves_its_outcome_unknown():
    async def main():
        async def answer(_):
            return web.Response(body=b"\xff\xfe", content_type="application/json")

        async with serving(answer) as (cluster, _):
            await cluster.create(NODE, build(NODE, {"metadata": {"name": "n"}}))

    with pytest.raises(OutcomeUnknown):
        asyncio.run(main())


@pytest.mark.parametrize(
    "body",
    [
        b"not gzip at all",
        gzip.compress(b'{"items":[],"metadata":{"resourceVersion":"1"}}', mtime=0)[:-12],
        gzip.compress(b"x" * 50_000, mtime=0)[:40],
    ],
)
def test_compression_that_breaks_is_unavailable(body):
    async def main():
        async def answer(_):
            return web.Response(body=body, headers={"Content-Encoding": "gzip", "Content-Type": "application/json"})

        async with serving(answer) as (cluster, _):
            await cluster.list(POD)

    with pytest.raises(Unavailable):
        asyncio.run(main())


def test_a_list_larger_than_the_limit_is_unavailable_even_when_it_is_compressed():
    async def main():
        async def answer(_):
            body = gzip.compress(b'{"items":[' + b" " * 3_000_000 + b"]}")
            return web.Response(body=body, headers={"Content-Encoding": "gzip", "Content-Type": "application/json"})

        async with serving(answer, limits=TransportLimits(most_bytes_of_list=1_000_000)) as (cluster, _):
            await cluster.list(POD)

    with pytest.raises(Unavailable, match="larger than"):
        asyncio.run(main())


def test_an_error_whose_body_never_ends_is_cut_off():
    async def endless(request):
        response = web.StreamResponse(status=500)
        response.enable_chunked_encoding()
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b"x" * 100_000)
        return response

    async def main():
        async with serving(endless, limits=TransportLimits(most_bytes=1_000_000)) as (cluster, _):
            await cluster.get(NODE, Key("", "n"))

    with pytest.raises(Unavailable):
        asyncio.run(main())


def test_a_watch_line_without_end_is_given_up_at_the_limit():
    async def endless(request):
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED","object":%s}\n{"type":"ADDED' % pod(b"a"))
        for _ in range(10_000):
            await response.write(b"x" * 100_000)
        return response

    changes, failure = watched(endless, limits=TransportLimits(most_bytes=1_000_000))
    assert len(changes) == 1
    assert isinstance(failure, Corrupted)
    assert "longer than" in str(failure)


@pytest.mark.parametrize("size", [999, 1000, 1001])
def test_the_limit_of_a_line_does_not_depend_on_how_it_arrives(size):
    line = b"x" * size + b"\n"
    for chunks in ([line], [line[:500], line[500:]], [bytes([each]) for each in line]):
        lines = LineReader(most=1000)
        if size <= 1000:
            assert [got for chunk in chunks for got in lines.feed(chunk)] == [line[:-1]]
        else:
            with pytest.raises(Corrupted):
                [got for chunk in chunks for got in lines.feed(chunk)]


RETRY_AFTER = {"²": None, "٣": None, "86400": 30.0, "9" * 5000: 30.0, "-5": None, "soon": None, "": None, "7": 7.0}


@pytest.mark.parametrize(("header", "wait"), RETRY_AFTER.items())
def test_any_retry_after_is_understood_or_ignored(header, wait):
    error = error_of(CALL, read_status(b"", 429), {"Retry-After": header})
    assert isinstance(error, Throttled)
    assert error.retry_after == wait


@pytest.mark.parametrize("seconds", [86_400, 10**400, -1])
def test_the_wait_in_a_status_is_capped_as_well(seconds):
    body = json.dumps({"code": 429, "details": {"retryAfterSeconds": seconds}}).encode()
    error = error_of(CALL, read_status(body, 429), {})
    assert isinstance(error, Throttled)
    assert error.retry_after in (30.0, None)


@settings(max_examples=300)
@given(st.binary(max_size=200) | st.text(max_size=60).map(str.encode), st.integers(100, 999))
def test_law_any_status_is_some_error_of_the_port(body, code):
    assert isinstance(
        error_of(CALL, read_status(body, code), {"Retry-After": body.decode("utf-8", "replace")}), ApiError
    )


GOOD = b'{"type":"MODIFIED","object":{"metadata":{"name":"a","labels":{"x":"\xc3\xbc"}},"spec":{"nodeName":"n"}}}'
ITEMS = b'{"metadata":{"name":"a"},"spec":{"priority":1}},{"metadata":{"name":"b"}}'
PAGE = b'{"metadata":{"resourceVersion":"1"},"items":[' + ITEMS + b"]}"


def mangled(text):
    """A text with a few of its bytes changed, cut out or repeated."""
    change = st.tuples(st.integers(0, len(text) - 1), st.integers(0, 12), st.binary(max_size=4))

    def apply(changes):
        made = text
        for at, length, put in changes:
            made = made[:at] + put + made[at + length :]
        return made

    return st.lists(change, max_size=4).map(apply)


@settings(max_examples=500)
@given(mangled(GOOD) | st.binary(max_size=60))
def test_law_any_line_of_a_watch_is_a_change_or_an_error_of_the_port(line):
    try:
        change = change_of(POD, line, CALL, Interner())
    except ApiError:
        return
    assert change.type


@settings(max_examples=500)
@given(mangled(PAGE) | st.binary(max_size=60))
def test_law_any_page_is_a_page_or_an_error_of_the_port(data):
    gathered = ListPages(POD, Interner())
    try:
        gathered.add(data)
    except ApiError:
        return
    assert isinstance(gathered.meta.resource_version, str)
