"""Where past decisions come from: a ledger file, or the controller that leads in the cluster.

`--ledger` or DOVETAIL_LEDGER names a file. Otherwise the leader is asked through the API server. If the leader runs on
this host outside a pod, or if no cluster is configured, the default ledger file of this host is read.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any, Protocol

from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.wiring.leader_page import LeaderAddress

NAMESPACE_VARIABLE = "DOVETAIL_NAMESPACE"
"""The environment variable with the namespace of the controller."""

Plain = dict[str, Any]


class HistoryUnavailable(Exception):
    """Past decisions cannot be read; the message names the place and the fix."""


class HistorySource(Protocol):
    """A place with past decisions."""

    def history(self, parameters: Mapping[str, str]) -> Plain:
        """Return the document of the decisions that match, newest first."""
        ...

    def decision(self, identity: str) -> Plain:
        """Return the document of one decision, by its id or a unique prefix."""
        ...


@dataclass(frozen=True, slots=True)
class LedgerFile:
    """A ledger file on this host."""

    path: Path

    def __str__(self) -> str:
        return f"the ledger {self.path}"

    def _now(self) -> datetime:
        """Return the time up to which savings are counted: that of the last record of a demo, whose cluster is gone."""
        from dovetail.observe.ledger_query import LedgerMissing, known_until
        from dovetail.observe.ledger_schema import LedgerUnreadable

        now = datetime.now(UTC)
        try:
            return known_until(self.path, now)
        except (LedgerMissing, LedgerUnreadable):
            return now  # the reader of decisions says so

    def history(self, parameters: Mapping[str, str]) -> Plain:
        """Return the document of the decisions that match, newest first."""
        from dovetail.cli.dashboard_api import documents

        return _present(documents(self.path).history(parameters, self._now()))

    def decision(self, identity: str) -> Plain:
        """Return the document of one decision."""
        from dovetail.cli.dashboard_api import documents
        from dovetail.dashboard.api import PageApiError

        try:
            return documents(self.path).decision(identity, self._now())
        except PageApiError as error:
            raise HistoryUnavailable(str(error)) from None


@dataclass(frozen=True, slots=True)
class LeaderLedger:
    """The ledger of the leading controller, read through the API server."""

    address: "LeaderAddress"

    def __str__(self) -> str:
        return "the ledger of the leading controller"

    def history(self, parameters: Mapping[str, str]) -> Plain:
        """Return the document of the decisions that match, newest first."""
        from dovetail.cli.view.printing import document_type

        local = _default_file()
        found = self._ask("/api/history", parameters, local)
        return {**document_type("History"), **_present(found)} if found is not None else local.history(parameters)

    def decision(self, identity: str) -> Plain:
        """Return the document of one decision."""
        from urllib.parse import quote

        from dovetail.cli.view.printing import document_type

        local = _default_file()
        found = self._ask(f"/api/decision/{quote(identity, safe='')}", {}, local)
        return {**document_type("Decision"), **found} if found is not None else local.decision(identity)

    def _ask(self, path: str, query: Mapping[str, str], local: LedgerFile) -> Plain | None:
        """Ask the leader; None if the default file of this host has the answer."""
        from dovetail.kube.endpoint import AccessFault
        from dovetail.ports.errors import WorldError
        from dovetail.wiring.leader_page import LeaderNotInPod, LeaderUnreachable, NoSuchDocument, ask_leader
        from dovetail.wiring.system_clock import SystemClock

        try:
            return asyncio.run(ask_leader(self.address, path, query, SystemClock()))
        except LeaderNotInPod as error:
            if error.host == gethostname() and local.path.exists():
                return None
            raise HistoryUnavailable(str(error)) from None
        except AccessFault as error:
            chosen = self.address.kubeconfig is not None or self.address.context is not None
            if local.path.exists() and not chosen:
                return None
            raise HistoryUnavailable(f"{error}; or name a ledger file with --ledger") from None
        except (LeaderUnreachable, NoSuchDocument, WorldError) as error:
            raise HistoryUnavailable(str(error)) from None


def _present(document: Plain) -> Plain:
    """Return the document of a ledger that is there."""
    if document.get("missing"):
        raise HistoryUnavailable(str(document["missing"]))
    return document


def _default_file() -> LedgerFile:
    from dovetail.observe.ledger import resolve_ledger_path

    place = resolve_ledger_path("", os.environ)
    assert place is not None
    return LedgerFile(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPlace:
    """The options that select the source."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str = ""
    pod: str = ""
    token_file: Path | None = None


def find_source(place: HistoryPlace, settings: Settings) -> HistorySource:
    """Select the source; raises `HistoryUnavailable` if the ledger is disabled or the token file is not readable."""
    from dovetail.manifest.input_file import InputUnreadable, read_text
    from dovetail.model.kube_object import Key
    from dovetail.observe.ledger import resolve_ledger_path
    from dovetail.wiring.leader_page import DEFAULT_NAMESPACE, DEFAULT_PORT, LeaderAddress

    if settings.ledger:
        path = resolve_ledger_path(settings.ledger, os.environ)
        if path is None:
            raise HistoryUnavailable("the ledger is disabled (DOVETAIL_LEDGER=off); name a file with --ledger")
        return LedgerFile(path)
    namespace = place.namespace or os.environ.get(NAMESPACE_VARIABLE, "") or DEFAULT_NAMESPACE
    try:
        token = read_text(place.token_file).strip() if place.token_file is not None else ""
    except InputUnreadable as error:
        raise HistoryUnavailable(f"the token file cannot be read: {place.token_file} {error}") from None
    return LeaderLedger(
        LeaderAddress(
            kubeconfig=place.kubeconfig,
            context=place.context,
            lease=Key(settings.leader_election_namespace or namespace, settings.leader_election_name),
            namespace=namespace,
            pod=place.pod,
            port=settings.dashboard_port or DEFAULT_PORT,
            token=token,
        )
    )
