"""The page under requests that no browser would send: raw bytes over a socket to the real application.

Three pages are served by this process: an open one, one with a token, and one that asks the API server. A request may
be refused in any way, but the page never fails (5xx) and never stops answering.
"""

import atexit
import re
import socket
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from dashboard.pages import page_served
from dovetail.manifest.snapshot_document import load_snapshot
from dovetail.ports.token_review import TokenIdentity
from fuzz import corpus
from fuzz.engine import Target
from fuzz.mutating import mutated_bytes
from fuzz.words import CHUNKS, TEXTS

PATIENCE = 30.0  # seconds; a request that gets no answer by then hangs
TOKEN = "a-token-of-sixteen-letters"
PATHS = (
    "/",
    "/index.html",
    "/app.js",
    "/favicon.svg",
    "/api/session",
    "/api/cluster",
    "/api/snapshot",
    "/api/savings",
    "/api/cost",
    "/api/plan",
    "/api/node/{}",
    "/api/explain/node/{}",
    "/api/explain/nodepool/{}",
    "/api/explain/pod/{}/{}",
    "/api/budgets/{}",
    "/api/history",
    "/api/decision/{}",
    "/nowhere",
    "/api/../api/plan",
    "//",
    "/%2e%2e/%00",
    "/api/budgets/general",
    "/api/budgets/general",
)
ASKING = ("/api/budgets/general", "/api/history", "/api/savings", "/api/cost")
QUERIES = ("days", "from", "most", "since", "until", "node", "nodepool", "reason", "act", "a[]", "")
HEADERS = (
    "Authorization",
    "Cookie",
    "Host",
    "If-None-Match",
    "Last-Event-ID",
    "Accept-Encoding",
    "X-Forwarded-Proto",
    "Content-Length",
    "Transfer-Encoding",
    "Connection",
    "Upgrade",
    "Range",
    "Expect",
    "Accept",
)
VALUES = (
    "Bearer ",
    "Bearer \xff\xfe",
    "Bearer \u20ac",
    f"Bearer {TOKEN}",
    f"bearer  {TOKEN} ",
    "Basic YQ==",
    "Bearer known",
    "Bearer " + "x" * 20_000,
    "dovetail_session=x",
    "dovetail_session=\xff",
    'dovetail_session="\\377"',
    "dovetail_session=" + "y" * 5000,
    "localhost",
    "[::1",
    "evil.example",
    "127.0.0.1:99999",
    "gzip, deflate",
    "chunked",
    "0",
    "-1",
    "9" * 30,
    "websocket",
    "100-continue",
    "bytes=0-",
    "*/*;q=x",
    "\x00",
    "=;=;=",
)
MOMENTS = (
    "9999-12-31",
    "0001-01-01",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "99999d",
    "292y",
    "2562047h",
    "-1h",
    "366",
    "1",
)


class _Registry:
    @asynccontextmanager
    async def open(self):
        yield self

    async def review(self, token):
        token.encode("ascii")  # what the API server is asked must be text
        return TokenIdentity("dana") if token == "known" else TokenIdentity()


@cache
def _addresses() -> tuple[tuple[str, int], ...]:
    """Where the three pages are."""
    stack = ExitStack()
    atexit.register(stack.close)
    ledger = Path(stack.enter_context(TemporaryDirectory())) / "ledger.db"
    ledger.write_bytes(corpus.ledger())
    shown = load_snapshot(corpus.snapshot())
    served = [
        stack.enter_context(page_served(shown, ledger=ledger)),
        stack.enter_context(page_served(shown, ledger=ledger, token=TOKEN)),
        stack.enter_context(page_served(shown, ledger=ledger, reviewer=_Registry().open)),
    ]
    parts = [urlsplit(each.address) for each in served]
    return tuple((each.hostname or "", each.port or 0) for each in parts)


def run_page(content: bytes) -> None:
    """Send the bytes; the first tells which page."""
    which, request = (content[0] if content else 0) % 3, content[1:]
    with socket.create_connection(_addresses()[which], timeout=PATIENCE) as connection:
        answer = _exchange(connection, request)
    if answer:
        status = int(answer.split(b" ", 2)[1])
        assert status < 500, answer[:500]


def _exchange(connection: socket.socket, request: bytes) -> bytes:
    """The beginning of the answer. Only a request that is not whole is ended by hanging up: that cancels its answer."""
    whole = request.rstrip(b" ").endswith(b"\r\n\r\n") and not re.search(
        rb"(?i)content-length|transfer-encoding", request
    )
    try:
        connection.sendall(request)
        if not whole:
            connection.settimeout(0.05)
            with suppress(TimeoutError):
                return connection.recv(65536)
            connection.settimeout(PATIENCE)
            connection.shutdown(socket.SHUT_WR)
        return connection.recv(65536)
    except ConnectionError:
        return b""


def make_page(random: Random) -> bytes:
    """A page, and a request of which some part is odd."""
    names = ("general", "batch", "default", *(each.replace("\n", "") for each in TEXTS))
    path = random.choice(PATHS if random.random() < 0.5 else ASKING)
    while "{}" in path:
        path = path.replace("{}", _quoted(random, random.choice(names)), 1)
    if random.random() < 0.5:
        pairs = [
            f"{random.choice(QUERIES)}={_quoted(random, random.choice(random.choice((MOMENTS, TEXTS))))}"
            for _ in range(random.randint(1, 3))
        ]
        path += "?" + "&".join(pairs)
    lines = [f"{random.choice(('GET', 'GET', 'GET', 'HEAD', 'POST', 'X'))} {path} HTTP/1.1", "Host: 127.0.0.1"]
    token = random.choice((None, TOKEN, "known", "known"))
    lines += [f"Authorization: Bearer {token}"] if token else []
    lines += [f"{random.choice(HEADERS)}: {random.choice(VALUES)}" for _ in range(random.choice((0, 1, 2)))]
    request = ("\r\n".join([*lines, "Connection: close"]) + "\r\n\r\n").encode("latin-1", "replace")
    if random.random() < 0.3:
        request = mutated_bytes(random, request, (random.choice(CHUNKS),))
    return bytes([random.randrange(3)]) + request


def _quoted(random: Random, text: str) -> str:
    content = text.encode("utf-8", "surrogatepass")[:6000]
    if random.random() < 0.2:
        content += random.choice(CHUNKS)[:100]
    plain = random.random() < 0.1
    return "".join(chr(each) if (plain and each >= 33) or chr(each).isalnum() else f"%{each:02x}" for each in content)


PAGE = Target("page", make_page, run_page, 250)
