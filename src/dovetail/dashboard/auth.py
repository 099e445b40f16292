"""Whether whoever asks may look: with the page's own token, or with one of the cluster that its API server vouches for.

When in doubt the door stays shut. A token is shown once for a cookie that is not it; what the cookie stands for only
this process knows. Whoever was let in is asked about again after a moment, so that a right taken away is soon lost.
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
ADMITTED_SECONDS = 30.0  # how long the API server's yes holds
REFUSED_SECONDS = 5.0  # and its no, so that asking again and again is no burden to it
MOST = 1000  # sessions, and answers, that are remembered
LONGEST = 16 * 1024  # characters of a token


@dataclass(frozen=True, slots=True)
class AccessVerdict:
    """Whether somebody may look; else the status of the answer, and why."""

    status: int = 200
    why: str = ""
    wrong: bool = True  # something was shown, and it is not enough

    @property
    def admitted(self) -> bool:
        """Whether they may."""
        return self.status == 200


@dataclass(frozen=True, slots=True)
class Session:
    """A cookie for somebody who showed a token."""

    value: str
    seconds: int


class Authenticator(Protocol):
    """Lets people in, or not."""

    form: str  # the page that asks for what is missing

    async def authorize(self, request: web.Request) -> AccessVerdict:
        """Whether whoever asks may look."""
        ...

    async def create_session(self, request: web.Request) -> Session | None:
        """A session for somebody who showed a token and was let in; None for anybody else."""
        ...


class TokenAuthenticator:
    """Opens to the page's own token; without one, to everybody who can reach it."""

    form = "login.html"

    def __init__(self, token: str = "") -> None:
        self._token = token

    @property
    def _session(self) -> str:
        return hmac.new(self._token.encode(), b"dovetail dashboard", hashlib.sha256).hexdigest()

    async def authorize(self, request: web.Request) -> AccessVerdict:
        """Whether the token, or the cookie that is made from it, was shown."""
        if not self._token or self._knows(request) or _same(request.cookies.get(COOKIE, ""), self._session):
            return AccessVerdict()
        if _bearer(request):
            return AccessVerdict(401, "that is not the token")
        return AccessVerdict(401, "show the token of this page: Authorization: Bearer TOKEN", wrong=False)

    async def create_session(self, request: web.Request) -> Session | None:
        """The cookie that stands for the token."""
        return Session(self._session, YEAR_SECONDS) if self._token and self._knows(request) else None

    def _knows(self, request: web.Request) -> bool:
        return _same(_bearer(request), self._token)


class TokenReviewAuthenticator:
    """Opens to whoever the API server knows and allows what the page shows."""

    form = "login-cluster.html"

    def __init__(self, reviewer: Reviewer, clock: Callable[[], float] = time.monotonic) -> None:
        self._reviewer = reviewer
        self._clock = clock
        self._sessions: OrderedDict[str, tuple[str, float]] = OrderedDict()  # token and end, by the cookie's value
        self._known: OrderedDict[str, tuple[AccessVerdict, float]] = OrderedDict()  # and end, by the token's digest
        self._asking: dict[str, asyncio.Task[AccessVerdict]] = {}

    async def authorize(self, request: web.Request) -> AccessVerdict:
        """Whether the token that was shown, or that the cookie stands for, opens the door."""
        token = _bearer(request) or self._token_of(request.cookies.get(COOKIE, ""))
        if not token:
            return AccessVerdict(401, "show a token of this cluster: Authorization: Bearer TOKEN", wrong=False)
        if len(token) > LONGEST or not token.isascii():
            return AccessVerdict(401, "that is no token of this cluster")
        digest = hashlib.sha256(token.encode()).hexdigest()
        known = self._known.get(digest)
        if known is not None and self._clock() < known[1]:
            return known[0]
        if digest not in self._asking:
            self._asking[digest] = asyncio.create_task(self._review(token, digest))
        return await asyncio.shield(self._asking[digest])

    async def create_session(self, request: web.Request) -> Session | None:
        """A cookie of random letters."""
        token = _bearer(request)
        if not token or not (await self.authorize(request)).admitted:
            return None
        value = secrets.token_urlsafe(24)
        _remember(self._sessions, value, (token, self._clock() + DAY_SECONDS))
        return Session(value, DAY_SECONDS)

    def _token_of(self, cookie: str) -> str:
        token, ends = self._sessions.get(cookie, ("", 0.0))
        return token if self._clock() < ends else ""

    async def _review(self, token: str, digest: str) -> AccessVerdict:
        try:
            verdict = _verdict(await self._reviewer.review(token))
        except ApiError as error:
            log.warning("nobody can be let in to the page", extra={"error": str(error)})
            verdict = AccessVerdict(503, f"the API server cannot be asked who you are: {error}")
        finally:
            self._asking.pop(digest, None)
        lasts = ADMITTED_SECONDS if verdict.admitted else REFUSED_SECONDS
        _remember(self._known, digest, (verdict, self._clock() + lasts))
        return verdict


def _verdict(standing: TokenIdentity) -> AccessVerdict:
    if not standing.known:
        return AccessVerdict(401, "the API server does not know this token; it may have expired")
    if standing.lacks:
        lacks = " and ".join(standing.lacks)
        return AccessVerdict(403, f"you are {standing.user}, who may not {lacks} in every namespace, as this page does")
    return AccessVerdict()


def _remember(among: OrderedDict[str, T], key: str, value: T) -> None:
    among[key] = value
    while len(among) > MOST:
        among.popitem(last=False)


def _bearer(request: web.Request) -> str:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _same(given: str, wanted: str) -> bool:
    """Whether two secrets are equal. Headers may hold bytes that are no text: they come as halves of pairs."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), wanted.encode())
