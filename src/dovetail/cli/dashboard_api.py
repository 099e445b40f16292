"""Builds the dashboard of a command: its address, its access rules and the JSON documents it serves.

The documents come from the same functions that print `-o json`, so dashboard and commands always agree. `dashboard.api`
cannot import them, because `cli` is above `dashboard` in the layers; it gets them as a `Documents` value.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.dashboard.address import PageAddress
    from dovetail.dashboard.api import Documents
    from dovetail.dashboard.published_state import PublishedState
    from dovetail.dashboard.savings import LedgerSavings
    from dovetail.dashboard.server import PageServer
    from dovetail.wiring.assembly import Assembly

PAUSE_SECONDS = 1.0  # between two published snapshots

Where = tuple[Path | None, str | None]
"""A kubeconfig and a context."""


def make_page(
    published_state: "PublishedState", settings: Settings, ledger: Path | None, port: int, where: Where = (None, None)
) -> "PageServer":
    """Build the dashboard server for the settings; `AddressUnsafe` if it would be reachable without a token."""
    from dovetail.dashboard.server import PageServer
    from dovetail.wiring.live import token_reviewer

    return PageServer(
        published_state=published_state,
        documents=documents(ledger),
        options=settings.options,
        access=access_of(settings),
        port=port,
        reviewer=partial(token_reviewer, *where),
    )


@asynccontextmanager
async def serve_dashboard(parts: "Assembly", settings: Settings, where: Where = (None, None)) -> AsyncIterator[None]:
    """Serve the dashboard of a controller process inside the context, unless its port is 0.

    The leader publishes what its informers know. A standby replica watches the cluster only while a user is connected.
    """
    from dovetail.cli.dashboard import watch
    from dovetail.cli.dashboard_follower import publish_by_role
    from dovetail.dashboard.published_state import PublishedState, keep_publishing
    from dovetail.observe.ledger import resolve_ledger_path
    from dovetail.wiring.live import snapshot_from_state
    from dovetail.wiring.system_clock import SystemClock

    if not settings.dashboard_port:
        yield
        return
    published_state, state = PublishedState(), parts.manager.state
    providers = parts.providers
    take = partial(snapshot_from_state, state, providers.cloud, SystemClock(), providers.unusable)
    page = make_page(
        published_state, settings, resolve_ledger_path(settings.ledger, os.environ), settings.dashboard_port, where
    )
    as_leader = partial(keep_publishing, published_state, state, take, PAUSE_SECONDS)
    as_standby = partial(watch, published_state, *where, settings)
    is_standby = partial(_is_standby, parts)
    with page.served():
        publishing = asyncio.create_task(
            publish_by_role(published_state, is_standby, as_leader, as_standby), name="page"
        )
        try:
            yield
        finally:
            publishing.cancel()
            await asyncio.wait([publishing])


def _is_standby(parts: "Assembly") -> bool:
    return not (parts.dry or parts.gate.is_open)


def access_of(settings: Settings) -> "PageAddress":
    """Read the address of the dashboard and its token; `AddressUnsafe` if the token file has none."""
    from dovetail.dashboard.address import AddressUnsafe, PageAddress
    from dovetail.manifest.input_file import InputUnreadable, read_text

    token = ""
    if settings.dashboard_token_file:
        place = Path(settings.dashboard_token_file)
        try:
            token = read_text(place).strip()
        except InputUnreadable as error:
            raise AddressUnsafe(f"the token file of the dashboard cannot be read: {place} {error}") from None
        if not token:
            raise AddressUnsafe(f"{place} holds no token; write one into it, for example with: openssl rand -hex 24")
    return PageAddress(settings.dashboard_address, token, reviewed=settings.dashboard_auth == "tokenreview")


def documents(ledger: Path | None) -> "Documents":
    """Build the documents that dashboard and commands share; history needs the ledger."""
    from dovetail.cli.view.budgets import calendar_document
    from dovetail.cli.view.explain import node_document, pod_document, pool_document
    from dovetail.cli.view.plan import plan_document
    from dovetail.dashboard.api import Documents

    def history(parameters: Mapping[str, str], now: datetime) -> dict[str, Any]:
        return _history(ledger, parameters, now)

    def decision(identity: str, now: datetime) -> dict[str, Any]:
        return _decision(ledger, identity, now)

    return Documents(
        plan=plan_document,
        node=node_document,
        nodepool=pool_document,
        pod=pod_document,
        calendar=calendar_document,
        history=history,
        decision=decision,
        window=_window,
        savings=partial(_savings, ledger),
    )


def _decision(ledger: Path | None, identity: str, now: datetime) -> dict[str, Any]:
    from dovetail.cli.view.history import HistorySavings, decision_document
    from dovetail.dashboard.api import PageApiError
    from dovetail.observe.ledger_query import LedgerMissing, NoSuchDecision, parse_instant, read_decision
    from dovetail.observe.ledger_savings import read_savings

    if ledger is None:
        raise PageApiError("this process keeps no ledger, so there are no past decisions")
    try:
        found = read_decision(ledger, identity)
        savings = HistorySavings(now, read_savings(ledger, parse_instant(found.at), now))
        return decision_document(found, savings)
    except (LedgerMissing, NoSuchDecision) as error:
        raise PageApiError(str(error)) from None


def _history(ledger: Path | None, parameters: Mapping[str, str], now: datetime) -> dict[str, Any]:
    import typer

    from dovetail.cli.history import instant
    from dovetail.cli.view.history import HistorySavings, history_document
    from dovetail.dashboard.api import PageApiError
    from dovetail.observe.ledger_query import LedgerMissing, LedgerQuery, read_history
    from dovetail.observe.ledger_savings import read_savings

    if ledger is None:
        return {"decisions": [], "missing": "this process keeps no ledger, so there are no past decisions"}
    most = parameters.get("most", "0")
    if not most.isascii() or not most.isdigit() or len(most) > 9:
        raise PageApiError(f"most must be a number of at most nine digits, got {most[:40]!r}", 400)
    try:
        question = LedgerQuery(
            node=parameters.get("node", ""),
            nodepool=parameters.get("nodepool", ""),
            reason=parameters.get("reason", ""),
            act=parameters.get("act", ""),
            since=instant("since", parameters.get("since", ""), lambda: now),
            until=instant("until", parameters.get("until", ""), lambda: now),
            most=int(most),
        )
        until = min(question.until or now, now)  # nothing is saved yet in the time to come
        savings = HistorySavings(until, read_savings(ledger, question.since, until))
        return history_document(read_history(ledger, question), savings)
    except typer.BadParameter as error:
        raise PageApiError(error.message, 400) from None
    except LedgerMissing as error:
        return {"decisions": [], "missing": str(error)}


def _window(parameters: Mapping[str, str], now: datetime) -> tuple[datetime | None, datetime]:
    import typer

    from dovetail.cli.history import instant
    from dovetail.dashboard.api import PageApiError

    try:
        since = instant("since", parameters.get("since", ""), lambda: now)
        return since, min(instant("until", parameters.get("until", ""), lambda: now) or now, now)
    except typer.BadParameter as error:
        raise PageApiError(error.message, 400) from None


def _savings(ledger: Path | None, since: datetime | None, until: datetime) -> "LedgerSavings":
    from dovetail.dashboard.savings import LedgerSavings
    from dovetail.observe.ledger_query import LedgerMissing
    from dovetail.observe.ledger_savings import read_savings

    if ledger is None:
        return LedgerSavings(since, until, missing="this process keeps no ledger, so past savings are not known")
    try:
        return LedgerSavings(since, until, tuple(read_savings(ledger, since, until).values()))
    except LedgerMissing as error:
        return LedgerSavings(since, until, missing=str(error))
