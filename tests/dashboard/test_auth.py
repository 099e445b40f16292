"""Authentication by TokenReview: who gets access, for how long, and what a refusal says."""

import asyncio
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from acceptance.fleet import cluster, worker
from dashboard.pages import page_served
from dovetail.dashboard import auth
from dovetail.dashboard.address import AddressUnsafe, PageAddress
from dovetail.dashboard.auth import ADMITTED_SECONDS, MOST, REFUSED_SECONDS, TokenReviewAuthenticator
from dovetail.ports.errors import Unavailable
from dovetail.ports.token_review import TokenIdentity

DANA, EVE = "token-of-dana", "token-of-eve"


class Registry:
    """An API server that knows these people."""

    def __init__(self):
        self.standings = {DANA: TokenIdentity("dana"), EVE: TokenIdentity("eve", ("list pods",))}
        self.asked = []
        self.down = False

    async def review(self, token):
        self.asked.append(token)
        await asyncio.sleep(0)
        if self.down:
            raise Unavailable("POST /apis/authentication.k8s.io/v1/tokenreviews: connection refused")
        return self.standings.get(token, TokenIdentity())

    @asynccontextmanager
    async def open(self):
        yield self


@pytest.fixture
def registry():
    return Registry()


@pytest.fixture
def page(registry):
    with page_served(cluster(worker("secret-node")), reviewer=registry.open) as served:
        yield served


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_an_authenticated_user_with_permissions_has_access(page):
    answer = page.ask("/api/cluster", **bearer(DANA))
    assert (answer.status, answer.json["nodes"][0]["name"]) == (200, "secret-node")
    assert page.ask("/", **bearer(DANA)).status == 200
    assert page.ask("/api/cluster", **bearer(DANA), Host="dovetail.example").status == 200


@pytest.mark.parametrize("path", ["/", "/api/cluster", "/api/plan", "/api/events", "/api/snapshot", "/app.js"])
def test_other_requests_get_no_data(page, path):
    for headers, status in (
        ({}, 401),
        (bearer("unknown"), 401),
        (bearer(EVE), 403),
        ({"Cookie": f"dovetail_session={DANA}"}, 401),
    ):
        answer = page.ask(path, **headers)
        assert answer.status == status
        assert b"secret-node" not in answer.body
        assert ("WWW-Authenticate" in answer.headers) == (status == 401)


def test_the_login_page_names_the_token_and_a_refusal_names_the_missing_permission(page):
    form = page.ask("/").body.decode()
    assert "kubectl create token" in form
    assert '<p id="verdict" role="alert"></p>' in form
    assert (
        page.ask("/", **bearer(EVE)).body.decode().count("You are eve, who may not list pods in every namespace") == 1
    )
    assert page.ask("/api/plan", **bearer(EVE)).json["error"].startswith("you are eve, who may not list pods")
    assert "does not know this token" in page.ask("/api/plan", **bearer("unknown")).json["error"]


def test_a_token_is_exchanged_for_a_random_cookie(page):
    given = page.ask("/api/session", **bearer(DANA)).headers["Set-Cookie"]
    again = page.ask("/api/session", **bearer(DANA)).headers["Set-Cookie"]
    assert "HttpOnly" in given
    assert "SameSite=Strict" in given
    assert DANA not in given
    cookie = given.partition(";")[0]
    assert again.partition(";")[0] != cookie
    assert page.ask("/api/cluster", Cookie=cookie).status == 200
    assert page.ask("/api/cluster", Cookie=cookie + "x").status == 401
    for headers in (bearer(EVE), bearer("unknown"), {}):
        assert "Set-Cookie" not in page.ask("/api/session", **headers).headers


def test_without_the_api_server_access_is_denied(page, registry):
    registry.down = True
    answer = page.ask("/api/cluster", **bearer(DANA))
    assert answer.status == 503
    assert "cannot review the token" in answer.json["error"]
    assert DANA not in answer.body.decode()
    assert "cannot review the token" in page.ask("/", **bearer(DANA)).body.decode()


def request(token="", cookie=""):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return SimpleNamespace(headers=headers, cookies={"dovetail_session": cookie} if cookie else {})


def run_async(work):
    """Live a moment at a door with a clock of its own."""
    registry, now = Registry(), [0.0]
    return asyncio.run(work(registry, TokenReviewAuthenticator(registry, lambda: now[0]), now))


def test_a_revoked_permission_ends_access_within_half_a_minute():
    async def work(registry, authenticator, now):
        session = await authenticator.create_session(request(DANA))
        registry.standings[DANA] = TokenIdentity("dana", ("list nodes",))
        now[0] = ADMITTED_SECONDS - 1
        assert (await authenticator.authorize(request(cookie=session.value))).admitted
        now[0] = ADMITTED_SECONDS
        assert (await authenticator.authorize(request(cookie=session.value))).status == 403
        registry.standings.pop(DANA)
        now[0] += REFUSED_SECONDS
        assert (await authenticator.authorize(request(cookie=session.value))).status == 401

    run_async(work)


def test_a_positive_verdict_expires_while_the_api_server_is_down():
    async def work(registry, authenticator, now):
        assert (await authenticator.authorize(request(DANA))).admitted
        registry.down = True
        now[0] = ADMITTED_SECONDS
        assert (await authenticator.authorize(request(DANA))).status == 503
        registry.down = False
        now[0] += REFUSED_SECONDS
        assert (await authenticator.authorize(request(DANA))).admitted

    run_async(work)


def test_concurrent_requests_share_one_review():
    async def work(registry, authenticator, _now):
        verdicts = await asyncio.gather(*(authenticator.authorize(request(DANA)) for _ in range(50)))
        assert all(each.admitted for each in verdicts)
        for _ in range(50):
            assert (await authenticator.authorize(request(EVE))).status == 403
        return registry.asked

    assert run_async(work) == [DANA, EVE]


def test_a_client_that_disconnects_does_not_cancel_the_shared_review():
    async def work(registry, authenticator, _now):
        first, second = (asyncio.create_task(authenticator.authorize(request(DANA))) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).admitted
        return registry.asked

    assert run_async(work) == [DANA]


def test_caches_are_bounded_and_overlong_tokens_are_not_reviewed():
    async def work(registry, authenticator, _now):
        for number in range(MOST + 50):
            await authenticator.authorize(request(f"guess-{number}"))
        assert len(authenticator._verdicts) == MOST
        assert (await authenticator.authorize(request("x" * (auth.LONGEST + 1)))).status == 401
        return len(registry.asked)

    assert run_async(work) == MOST + 50


def test_a_stream_ends_when_its_user_loses_access(page, registry, monkeypatch):
    monkeypatch.setattr(auth, "ADMITTED_SECONDS", 0.0)
    with page.stream("/api/events?since=nothing", **bearer(DANA)) as events:
        assert next(events)["event"] == "reset"
        registry.standings[DANA] = TokenIdentity("dana", ("list nodes",))
        page.published_state.publish(cluster(worker("secret-node"), worker("another")))
        assert "another" not in json.dumps(list(events))


def test_tokenreview_allows_any_address_and_excludes_a_page_token():
    assert PageAddress("0.0.0.0", reviewed=True).guarded  # noqa: S104 - nothing listens
    with pytest.raises(AddressUnsafe, match="--dashboard-auth token"):
        PageAddress("127.0.0.1", "correct-horse-battery-staple", reviewed=True)


def test_tokenreview_needs_a_live_cluster():
    with pytest.raises(AddressUnsafe, match="needs a live cluster"), page_served(cluster(worker("a")), reviewed=True):
        pass
