"""The HTTP interface of the page: methods, headers, host names, tokens and the event stream."""

import json
from dataclasses import replace

import pytest

from acceptance.fleet import cluster, running, worker
from dashboard.pages import page_served
from dovetail.dashboard.address import AddressUnsafe, PageAddress
from dovetail.dashboard.published_state import KEPT, EventStream

TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def served():
    with page_served(cluster(worker("a"), worker("b"))) as page:
        yield page


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/api/plan", "/api/cluster", "/nowhere"])
def test_only_get_and_head_are_allowed(method, path, served):
    answer = served.ask(path, method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/", "/app.js", "/app.css", "/api/cluster", "/nowhere", "/favicon.svg"])
def test_every_response_has_the_security_headers(path, served):
    headers = served.ask(path).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Server"] == "dovetail", "versions are nobody's business"


def test_the_page_loads_nothing_from_other_origins(served):
    page = served.ask("/").body.decode()
    assert "http://" not in page
    assert "https://" not in page
    assert "<style" not in page
    assert "onclick" not in page


def test_responses_are_compressed_if_the_client_accepts_it(served):
    assert served.ask("/api/cluster", Accept_Encoding="gzip").headers["Content-Encoding"] == "gzip"
    assert served.ask("/app.js", Accept_Encoding="gzip").headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in served.ask("/api/cluster").headers


def test_a_file_that_has_not_changed_is_not_sent_again(served):
    first = served.ask("/app.js")
    assert served.ask("/app.js", If_None_Match=first.headers["ETag"]).status == 304


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8088", "localhost.evil.example", "127.0.0.1.evil.example", "10.1.2.3"]
)
def test_a_host_name_other_than_loopback_is_refused(host, served):
    """Else a page of somebody else could read this one through the visitor's browser."""
    assert served.ask("/api/cluster", Host=host).status == 421


@pytest.mark.parametrize("host", ["localhost:8088", "127.0.0.1", "[::1]:8088", "127.0.0.5:8088"])
def test_loopback_host_names_are_accepted(host, served):
    assert served.ask("/api/cluster", Host=host).status == 200


def test_without_the_token_no_cluster_data_is_sent():
    with page_served(cluster(worker("a")), token=TOKEN) as page:
        assert page.ask("/").status == 401
        assert b"Token" in page.ask("/").body
        for path in ("/api/cluster", "/api/plan", "/api/events", "/api/session", "/app.js", "/api/snapshot"):
            refused = page.ask(path)
            assert (refused.status, refused.headers["WWW-Authenticate"]) == (401, 'Bearer realm="dovetail"')
        assert page.ask("/api/cluster", Authorization=f"Bearer {TOKEN}x").status == 401
        assert page.ask("/api/cluster", Authorization=f"Basic {TOKEN}").status == 401
        assert page.ask("/api/cluster", Cookie=f"dovetail_session={TOKEN}").status == 401
        assert page.ask("/api/cluster", Authorization=f"Bearer {TOKEN}").status == 200


def test_the_token_is_exchanged_for_a_derived_cookie():
    with page_served(cluster(worker("a")), token=TOKEN) as page:
        given = page.ask("/api/session", Authorization=f"Bearer {TOKEN}").headers["Set-Cookie"]
        assert "HttpOnly" in given
        assert "SameSite=Strict" in given
        assert TOKEN not in given
        cookie = given.partition(";")[0]
        assert page.ask("/api/cluster", Cookie=cookie).status == 200
        assert page.ask("/api/cluster", Cookie=cookie, Host="dovetail.example").status == 200


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.1", "dovetail.example"])  # noqa: S104 - refused
def test_an_address_other_than_loopback_needs_a_token(address):
    with pytest.raises(AddressUnsafe, match="--dashboard-token-file"):
        PageAddress(address)
    assert PageAddress(address, TOKEN).token


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_needs_no_token(address):
    assert PageAddress(address).address == address


def test_a_short_token_is_refused():
    with pytest.raises(AddressUnsafe, match="openssl rand"):
        PageAddress("127.0.0.1", "short")


def test_a_frame_has_only_changes_and_missed_frames_are_sent_again():
    before = cluster(worker("a"), worker("b"))
    with page_served(before) as page:
        whole = planned(page)
        with page.stream(f"/api/events?since={whole['mark']}") as events:
            page.published_state.publish(replace(before, nodes=(worker("a", running("x", "a")), before.nodes[1])))
            event = next(events)
        frame = json.loads(event["data"])
        assert event["event"] == "frame"
        assert [node["name"] for node in frame["nodes"]] == ["a"]
        assert frame["nodes"][0]["pods"][0] == 1
        with page.stream("/api/events", Last_Event_ID=whole["mark"]) as events:
            assert next(events)["id"] == event["id"]


def planned(page):
    """The whole, once the plan is in it: from then on nothing changes by itself."""
    with page.stream("/api/events?since=nothing") as events:
        while "planned" not in (whole := page.ask("/api/cluster").json)["summary"]:
            next(events)
    return whole


@pytest.mark.parametrize("mark", ["", "another-1", "nonsense", "{run}-999999", "{run}-x"])
def test_a_mark_of_another_run_resets_the_client(mark, served):
    whole = served.ask("/api/cluster").json
    run = whole["mark"].rpartition("-")[0]
    with served.stream("/api/events", Last_Event_ID=mark.format(run=run)) as events:
        assert next(events)["event"] == "reset"


def test_a_client_that_missed_too_many_frames_is_reset():
    feed = EventStream()
    feed.show({}, {"at": 0})
    start = feed.mark
    for number in range(1, KEPT + 1):
        feed.show({}, {"at": number})
    assert len(feed.since(start)) == KEPT
    feed.show({}, {"at": "later"})
    assert feed.since(start) is None


def test_without_a_visible_change_there_is_no_frame():
    feed = EventStream()
    feed.show({"a": {"name": "a", "pool": ""}}, {"at": 1})
    mark = feed.mark
    feed.show({"a": {"name": "a", "pool": ""}}, {"at": 1})
    assert feed.mark == mark


@pytest.mark.parametrize(
    "header", [{"Authorization": b"Bearer \xff\xfe"}, {"Cookie": b"dovetail_session=\xff"}, {"Expect": b"\xff"}]
)
@pytest.mark.parametrize("path", ["/", "/api/plan", "/nowhere"])
def test_headers_that_are_not_text_are_handled(header, path):
    with page_served(cluster(worker("a")), token=TOKEN) as page:
        answer = page.ask(path, **header)
    assert answer.status == 401
    assert answer.headers["Server"] == "dovetail"


@pytest.mark.parametrize(
    "query",
    [
        "/api/budgets/default?days=" + "9" * 5000,
        "/api/history?most=" + "9" * 5000,
        "/api/history?since=0001-01-01T00:00:00%2B14:00",
        "/api/savings?until=9999-12-31T23:59:59-14:00",
    ],
)
def test_out_of_range_numbers_and_instants_are_bad_requests(query, tmp_path):
    with page_served(cluster(worker("a")), ledger=tmp_path / "ledger.db") as page:
        assert page.ask(query).status == 400
