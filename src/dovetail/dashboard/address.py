"""Where the page is. On loopback for everybody on the machine, by a name of the machine; anywhere else with a token.

A page of somebody else that leads a browser here by a name of its own is refused. What has to be shown is for the door.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import ip_address

from aiohttp import web

OPEN = ("/login.js", "/app.css", "/favicon.svg")
"""What the login page needs; nothing in it is about the cluster."""
FEWEST = 16  # characters of a token

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AddressUnsafe(Exception):
    """The page would be open to people it is not for; the message says what to do."""


@dataclass(frozen=True)
class PageAddress:
    """Where the page is, and what has to be shown to see it."""

    address: str = "127.0.0.1"
    token: str = ""
    reviewed: bool = False  # tokens of the cluster are asked for in place of one of the page

    def __post_init__(self) -> None:
        if self.token and self.reviewed:
            remedy = "leave out --dashboard-token-file, or choose --dashboard-auth token"
            raise AddressUnsafe(f"the page asks for tokens of the cluster, so it needs none of its own; {remedy}")
        if not self.guarded and not is_loopback(self.address):
            remedy = (
                "give a token with --dashboard-token-file (DOVETAIL_DASHBOARD_TOKEN_FILE), ask for tokens of the "
                "cluster with --dashboard-auth tokenreview (DOVETAIL_DASHBOARD_AUTH), or stay on 127.0.0.1"
            )
            raise AddressUnsafe(f"anybody could look at the page on {self.address}; {remedy}")
        if self.token and len(self.token) < FEWEST:
            remedy = "make a longer one, for example with: openssl rand -hex 24"
            raise AddressUnsafe(f"the token of the page is shorter than {FEWEST} characters; {remedy}")

    @property
    def guarded(self) -> bool:
        """Whether something has to be shown."""
        return bool(self.token) or self.reviewed

    def trusts_host(self, request: web.Request) -> bool:
        """Where nothing has to be shown, only names of this machine are answered to."""
        host = request.host.rsplit(":", 1)[0] if not request.host.endswith("]") else request.host
        return self.guarded or is_loopback(host.removeprefix("[").removesuffix("]"))


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach it."""
    if address == "localhost":
        return True
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
