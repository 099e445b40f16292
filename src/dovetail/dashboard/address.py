"""The address of the page and its protection: open on loopback, with a token on any other address.

Without a token the page answers only to loopback host names, so that a foreign web page cannot read it through DNS
rebinding. Authentication is in `auth`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import ip_address

from aiohttp import web

OPEN = ("/login.js", "/app.css", "/favicon.svg")
"""Files that the login page needs; they contain nothing about the cluster."""
SHORTEST_TOKEN = 16  # characters

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AddressUnsafe(Exception):
    """The page would be open to everyone who can reach it; the message has the fix."""


@dataclass(frozen=True)
class PageAddress:
    """The address that the page listens on, and how clients authenticate."""

    address: str = "127.0.0.1"
    token: str = ""
    reviewed: bool = False  # clients authenticate with tokens of the cluster (TokenReview) instead of `token`

    def __post_init__(self) -> None:
        if self.token and self.reviewed:
            remedy = "remove --dashboard-token-file, or use --dashboard-auth token"
            raise AddressUnsafe(f"a token file cannot be combined with --dashboard-auth tokenreview; {remedy}")
        if not self.guarded and not is_loopback(self.address):
            remedy = (
                "set a token with --dashboard-token-file (DOVETAIL_DASHBOARD_TOKEN_FILE), require tokens of the "
                "cluster with --dashboard-auth tokenreview (DOVETAIL_DASHBOARD_AUTH), or listen on 127.0.0.1"
            )
            raise AddressUnsafe(f"the page on {self.address} would be open to everyone; {remedy}")
        if self.token and len(self.token) < SHORTEST_TOKEN:
            remedy = "create a longer one, for example with: openssl rand -hex 24"
            raise AddressUnsafe(f"the token of the page is shorter than {SHORTEST_TOKEN} characters; {remedy}")

    @property
    def guarded(self) -> bool:
        """Whether clients must authenticate."""
        return bool(self.token) or self.reviewed

    def trusts_host(self, request: web.Request) -> bool:
        """Whether to answer a request for this host name: without authentication, only loopback names."""
        host = request.host.rsplit(":", 1)[0] if not request.host.endswith("]") else request.host
        return self.guarded or is_loopback(host.removeprefix("[").removesuffix("]"))


def is_loopback(address: str) -> bool:
    """Whether an address or host name is a loopback address."""
    if address == "localhost":
        return True
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
