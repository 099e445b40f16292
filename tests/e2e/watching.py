"""What happened in a cluster, as the API server told it: every change of the kinds that matter, in the store's order.

Revisions of etcd order changes of all kinds, so histories of five watches are one history. A server that is restarted
or silent is asked again; what was missed meanwhile is made up for by a list.
"""

import http.client
import json
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from e2e.controlplane.api import eventually
from e2e.controlplane.stack import ControlPlane

KINDS = {
    "NodePool": "/apis/karpenter.sh/v1/nodepools",
    "NodeClaim": "/apis/karpenter.sh/v1/nodeclaims",
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
}
Plain = dict[str, Any]


class Change(NamedTuple):
    """Something is new, changed or gone since a revision of the store; seen at a time of the watcher's own clock."""

    revision: int
    kind: str
    before: Plain | None
    after: Plain | None
    seen_at: float

    @property
    def thing(self) -> Plain:
        """What it is about."""
        found = self.after or self.before
        assert found is not None
        return found


@dataclass
class _Stream:
    """One kind: what is known of it, and since which revision."""

    kind: str
    known: dict[str, Plain]
    revision: str = ""
    listed: bool = False


class Watcher:
    """Watches from `with` to its end; `history()` is everything until now."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster
        self._changes: list[Change] = []
        self._over = threading.Event()
        self._sockets: dict[str, socket.socket] = {}
        self._streams = {kind: _Stream(kind, {}) for kind in KINDS}
        self._threads = [
            threading.Thread(target=self._follow, args=(stream,), name=f"watch {kind}")
            for kind, stream in self._streams.items()
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        eventually(lambda: all(stream.listed for stream in self._streams.values()), "the watches have begun")
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for open_socket in list(self._sockets.values()):
            try:
                open_socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it was just closed
        for thread in self._threads:
            thread.join(10)

    def now(self, kind: str) -> list[Plain]:
        """What is there of a kind, as far as it was told."""
        return list(self._streams[kind].known.values())

    def history(self) -> list[Change]:
        """Everything that happened, in the order in which it did."""
        return sorted(self._changes, key=lambda change: change.revision)

    def count(self) -> int:
        """How many changes were seen."""
        return len(self._changes)

    def _follow(self, stream: _Stream) -> None:
        while not self._over.is_set():
            try:
                if not stream.revision:
                    self._list(stream)
                self._watch(stream)
            except (OSError, AssertionError, http.client.HTTPException, ValueError):
                time.sleep(0.1)  # the server is away, or went in the middle of a line

    def _list(self, stream: _Stream) -> None:
        listing = self._cluster.api.get(KINDS[stream.kind]).expect()
        revision = listing["metadata"]["resourceVersion"]
        there = {item["metadata"]["uid"]: item for item in listing["items"]}
        for uid in list(stream.known):
            if uid not in there:
                self._note(stream, uid, None, int(revision))
        for uid, item in there.items():
            if stream.known.get(uid, item)["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"] or (
                uid not in stream.known
            ):
                self._note(stream, uid, item, int(item["metadata"]["resourceVersion"]))
        stream.revision, stream.listed = revision, True

    def _watch(self, stream: _Stream) -> None:
        address = urlsplit(self._cluster.url).netloc
        connection = http.client.HTTPSConnection(address, context=self._cluster.api.trust, timeout=60)
        try:
            connection.connect()
            self._sockets[stream.kind] = connection.sock
            path = f"{KINDS[stream.kind]}?watch=1&resourceVersion={stream.revision}"
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._cluster.token}"})
            response = connection.getresponse()
            if response.status != 200:
                stream.revision = ""
                return
            while not self._over.is_set() and (line := response.readline()):
                if not self._hear(stream, json.loads(line)):
                    return
        finally:
            connection.close()

    def _hear(self, stream: _Stream, event: Plain) -> bool:
        if event["type"] not in {"ADDED", "MODIFIED", "DELETED"}:
            stream.revision = ""  # too old: list again
            return False
        item = event["object"]
        stream.revision = item["metadata"]["resourceVersion"]
        gone = event["type"] == "DELETED"
        self._note(stream, item["metadata"]["uid"], None if gone else item, int(stream.revision))
        return True

    def _note(self, stream: _Stream, uid: str, item: Plain | None, revision: int) -> None:
        before = stream.known.get(uid)
        if item is None:
            stream.known.pop(uid, None)
        else:
            stream.known[uid] = _trimmed(stream.kind, item)
        if before is not None or item is not None:
            self._changes.append(Change(revision, stream.kind, before, stream.known.get(uid), time.time()))


def _trimmed(kind: str, item: Plain) -> Plain:
    """Without what nobody asks for: five thousand pods are told of five times each."""
    item["metadata"].pop("managedFields", None)
    if kind == "Pod":
        kept = {name: item["spec"].get(name) for name in ("nodeName", "nodeSelector")}
        status = {name: item["status"].get(name) for name in ("phase", "conditions")}
        return {"metadata": item["metadata"], "spec": kept, "status": status}
    return item
