"""Speaks to the API server of the control plane with the standard library alone.

For the tests' own doings: set the scene, look at the outcome, wait. It is not the client under test, and shares nothing
with it.
"""

import dataclasses
import http.client
import json
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

MERGE = "application/merge-patch+json"
STORAGE_WITHIN = 30  # seconds
PATIENCE = 3  # limits are said for a quiet machine; one that is shared may be this much slower
STRATEGIC = "application/strategic-merge-patch+json"


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """What the server answered; `body` is the decoded JSON, or the text where it is none."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def ok(self) -> bool:
        """Whether the server did what was asked."""
        return 200 <= self.status < 300

    def expect(self) -> Any:
        """The body, or an error that shows what the server said."""
        assert self.ok, f"{self.status}: {self.body}"
        return self.body


class Api:
    """Requests as one user. Every request has a connection of its own, so a restart of the server disturbs none."""

    def __init__(self, url: str, ca_file: Path, token: str | None) -> None:
        self._address = urllib.parse.urlsplit(url).netloc
        self.trust = ssl.create_default_context(cafile=str(ca_file))
        self._token = token

    def request(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Reply:
        """Send one request; a refusal is a Reply, only a broken connection raises OSError.

        For a while after a custom resource is installed the server asks to come back: its storage is being made.
        """
        for _ in range(STORAGE_WITHIN):
            reply = self._request(method, path, body, content_type)
            if reply.status != 429 or "storage is (re)initializing" not in str(reply.body):
                break
            time.sleep(1)
        return reply

    def _request(self, method: str, path: str, body: object, content_type: str) -> Reply:
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = content_type
        connection = http.client.HTTPSConnection(self._address, context=self.trust, timeout=30)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
            is_json = "json" in response.headers.get("Content-Type", "")
            return Reply(
                response.status, dict(response.headers.items()), json.loads(text) if is_json and text else text
            )
        except http.client.HTTPException as broken:  # the server went away between two bytes
            raise ConnectionError(f"{method} {path}: {broken!r}") from broken
        finally:
            connection.close()

    def get(self, path: str) -> Reply:
        """GET."""
        return self.request("GET", path)

    def items(self, path: str) -> list[Any]:
        """The items of a list, each with a status; none where the resource is not installed."""
        reply = self.get(path)
        return [] if reply.status == 404 else [{"status": {}, **each} for each in reply.expect()["items"]]

    def post(self, path: str, body: object) -> Reply:
        """POST."""
        return self.request("POST", path, body)

    def patch(self, path: str, body: object, content_type: str = MERGE) -> Reply:
        """PATCH, a JSON merge unless told otherwise."""
        return self.request("PATCH", path, body, content_type)

    def delete(self, path: str, body: object = None) -> Reply:
        """DELETE, with delete options as the body."""
        return self.request("DELETE", path, body)


def eventually(probe: Callable[[], T | None], what: str, within: float = 30.0, every: float = 0.05) -> T:
    """Ask `probe` until its answer is truthy and return that. What fails or is not there means: not yet."""
    within *= PATIENCE
    deadline = time.monotonic() + within
    why = ""
    while True:
        try:
            answer = probe()
            if answer:
                return answer
            why = f"last answer: {answer!r}"
        except (AssertionError, OSError, LookupError, StopIteration) as not_yet:
            why = f"last failure: {not_yet!r}"
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {within:g} s: {what}; {why}")
        time.sleep(every)
