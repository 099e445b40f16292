"""A page served by the test process, and an HTTP client for it."""

import gzip
import http.client
import json
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from dovetail.cli.dashboard_api import documents
from dovetail.dashboard.address import PageAddress
from dovetail.dashboard.published_state import PublishedState
from dovetail.dashboard.server import PageServer
from dovetail.settings import DecisionOptions


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


@dataclass
class Served:
    published_state: PublishedState
    address: str

    def ask(self, path, method="GET", **headers):
        """One question. Headers are given as keywords: `x_y` is X-Y."""
        connection = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=30)
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers=given)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        return Answer(answer.status, dict(answer.headers), body)

    @contextmanager
    def stream(self, path="/api/events", **headers):
        """Events as they come: pairs of name and fields."""
        connection = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=30)
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        try:
            yield _events(answer)
        finally:
            answer.close()
            connection.close()


def _events(answer):
    fields = {}
    for raw in answer:
        line = raw.decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "event" in fields:
            yield fields
            fields = {}
        else:
            fields = {}


@contextmanager
def page_served(snapshot=None, *, ledger=None, token="", reviewer=None, reviewed=False):
    published_state = PublishedState()
    if snapshot is not None:
        published_state.publish(snapshot)
    page = PageServer(
        published_state=published_state,
        documents=documents(ledger),
        options=DecisionOptions(),
        access=PageAddress("127.0.0.1", token, reviewed=reviewed or reviewer is not None),
        port=0,
        reviewer=reviewer,
    )
    with page.served() as address:
        yield Served(published_state, address)
