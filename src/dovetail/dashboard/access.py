"""Who may look. On loopback everybody on the machine, by a name of the machine; anywhere else whoever has the token.

The token is sent as a bearer token, or once, for a cookie that is made from it and is not it. Comparing takes as long
for a wrong one as for the right one. A page of somebody else that leads a browser here by a name of its own is refused.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import ip_address

from aiohttp import web

COOKIE = "dovetail_session"
OPEN = ("/login.js", "/app.css", "/favicon.svg")
"""What the login page needs; nothing in it is about the cluster."""
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
FEWEST = 16  # characters of a token

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AccessUnsafe(Exception):
    """The page would be open to people it is not for; the message says what to do."""


@dataclass(frozen=True)
class Access:
    """Where the page is, and what has to be shown to see it."""

    address: str = "127.0.0.1"
    token: str = ""

    def __post_init__(self) -> None:
        if not self.token and not is_loopback(self.address):
            remedy = "give a token with --dashboard-token-file (DOVETAIL_DASHBOARD_TOKEN_FILE), or stay on 127.0.0.1"
            raise AccessUnsafe(f"anybody could look at the page on {self.address}; {remedy}")
        if self.token and len(self.token) < FEWEST:
            remedy = "make a longer one, for example with: openssl rand -hex 24"
            raise AccessUnsafe(f"the token of the page is shorter than {FEWEST} characters; {remedy}")

    @property
    def session(self) -> str:
        """What the cookie of somebody who showed the token holds."""
        return hmac.new(self.token.encode(), b"dovetail dashboard", hashlib.sha256).hexdigest()

    def admits(self, request: web.Request) -> bool:
        """Whether whoever asks may look."""
        if not self.token:
            return True
        return self.knows(request) or _same(request.cookies.get(COOKIE, ""), self.session)

    def knows(self, request: web.Request) -> bool:
        """Whether the token itself was shown."""
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and _same(given.strip(), self.token)

    def trusts_host(self, request: web.Request) -> bool:
        """Without a token, only names of this machine are answered to."""
        host = request.host.rsplit(":", 1)[0] if not request.host.endswith("]") else request.host
        return bool(self.token) or host in LOCAL_NAMES


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach it."""
    if address == "localhost":
        return True
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
