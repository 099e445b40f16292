"""Authentication and authorization of the page: by a token of the page, or by TokenReview with tokens of the cluster.

A client sends its token once and gets a session cookie. With a page token, the cookie is an HMAC of the token. With
TokenReview, it is a random value that only this process can map to the token; the API server's verdict is cached for
`ADMITTED_SECONDS`, so that a revoked right is lost soon, and negative ones for `REFUSED_SECONDS`. If the API server
cannot be reached, access is denied.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from aiohttp import web

from dovetail.ports.errors import ApiError
from dovetail.ports.token_review import Reviewer, TokenIdentity

log = logging.getLogger(__name__)
T = TypeVar("T")
COOKIE = "dovetail_session"
YEAR_SECONDS = 365 * 24 * 3600
DAY_SECONDS = 24 * 3600
ADMITTED_SECONDS = 30.0  # how long a positive verdict of the API server is cached
REFUSED_SECONDS = 5.0  # how long a negative one is cached, to limit the load of repeated requests
MOST = 1000  # sessions, and cached verdicts, that are kept
LONGEST = 16 * 1024  # characters of a token


@dataclass(frozen=True, slots=True)
class AccessVerdict:
    """Whether a client may see the page; if not, the HTTP status and the reason."""

    status: int = 200
    why: str = ""
    wrong: bool = True  # a token was sent and is not sufficient

    @property
    def admitted(self) -> bool:
        """Whether access is granted."""
        return self.status == 200


@dataclass(frozen=True, slots=True)
class Session:
    """A session cookie: its value and lifetime in seconds."""

    value: str
    seconds: int


class Authenticator(Protocol):
    """Authorizes requests and creates sessions."""

    form: str  # the login page

    async def authorize(self, request: web.Request) -> AccessVerdict:
        """Whether the client of a request may see the page."""
        ...

    async def create_session(self, request: web.Request) -> Session | None:
        """A session if the request has a valid bearer token, else None."""
        ...


class TokenAuthenticator:
    """Accepts the token of the page; without a token, every request."""

    form = "login.html"

    def __init__(self, token: str = "") -> None:
        self._token = token

    @property
    def _session(self) -> str:
        return hmac.new(self._token.encode(), b"dovetail dashboard", hashlib.sha256).hexdigest()

    async def authorize(self, request: web.Request) -> AccessVerdict:
        """Accept the token, or the cookie derived from it."""
        if not self._token or self._has_token(request) or _same(request.cookies.get(COOKIE, ""), self._session):
            return AccessVerdict()
        if _bearer(request):
            return AccessVerdict(401, "the token is wrong")
        return AccessVerdict(401, "a token is required: send Authorization: Bearer TOKEN", wrong=False)

    async def create_session(self, request: web.Request) -> Session | None:
        """A session whose cookie is derived from the token."""
        return Session(self._session, YEAR_SECONDS) if self._token and self._has_token(request) else None

    def _has_token(self, request: web.Request) -> bool:
        return _same(_bearer(request), self._token)


class TokenReviewAuthenticator:
    """Accepts tokens of the cluster whose users may read what the page shows."""

    form = "login-cluster.html"

    def __init__(self, reviewer: Reviewer, clock: Callable[[], float] = time.monotonic) -> None:
        self._reviewer = reviewer
        self._clock = clock
        self._sessions: OrderedDict[str, tuple[str, float]] = OrderedDict()  # cookie -> token, expiry
        self._verdicts: OrderedDict[str, tuple[AccessVerdict, float]] = OrderedDict()  # token digest -> verdict, expiry
        self._reviews: dict[str, asyncio.Task[AccessVerdict]] = {}

    async def authorize(self, request: web.Request) -> AccessVerdict:
        """Review the token of the request or of its session; concurrent requests share one review."""
        token = _bearer(request) or self._token_of(request.cookies.get(COOKIE, ""))
        if not token:
            message = "a token of this cluster is required: send Authorization: Bearer TOKEN"
            return AccessVerdict(401, message, wrong=False)
        if len(token) > LONGEST or not token.isascii():
            return AccessVerdict(401, "this is not a token of this cluster")
        digest = hashlib.sha256(token.encode()).hexdigest()
        known = self._verdicts.get(digest)
        if known is not None and self._clock() < known[1]:
            return known[0]
        if digest not in self._reviews:
            self._reviews[digest] = asyncio.create_task(self._review(token, digest))
        return await asyncio.shield(self._reviews[digest])

    async def create_session(self, request: web.Request) -> Session | None:
        """A session with a random cookie."""
        token = _bearer(request)
        if not token or not (await self.authorize(request)).admitted:
            return None
        value = secrets.token_urlsafe(24)
        _remember(self._sessions, value, (token, self._clock() + DAY_SECONDS))
        return Session(value, DAY_SECONDS)

    def _token_of(self, cookie: str) -> str:
        token, expires_at = self._sessions.get(cookie, ("", 0.0))
        return token if self._clock() < expires_at else ""

    async def _review(self, token: str, digest: str) -> AccessVerdict:
        try:
            verdict = _verdict(await self._reviewer.review(token))
        except ApiError as error:
            log.warning("token review failed, access to the page is denied", extra={"error": str(error)})
            verdict = AccessVerdict(503, f"the API server cannot review the token: {error}")
        finally:
            self._reviews.pop(digest, None)
        lifetime = ADMITTED_SECONDS if verdict.admitted else REFUSED_SECONDS
        _remember(self._verdicts, digest, (verdict, self._clock() + lifetime))
        return verdict


def _verdict(identity: TokenIdentity) -> AccessVerdict:
    if not identity.known:
        return AccessVerdict(401, "the API server does not know this token; it may have expired")
    if identity.lacks:
        lacks = " and ".join(identity.lacks)
        return AccessVerdict(403, f"you are {identity.user}, who may not {lacks} in every namespace, as this page does")
    return AccessVerdict()


def _remember(cache: OrderedDict[str, T], key: str, value: T) -> None:
    cache[key] = value
    while len(cache) > MOST:
        cache.popitem(last=False)


def _bearer(request: web.Request) -> str:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _same(given: str, expected: str) -> bool:
    """Compare two secrets in constant time. aiohttp decodes invalid bytes of headers as lone surrogates."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())
