"""The savings of the page: dollars that commands saved in a window, in total, by reason and over time."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dovetail.core.savings import CommandSaving, saved_dollars
from dovetail.dashboard.nodes import stamp

Plain = dict[str, Any]
POINTS = 60  # of the chart


@dataclass(frozen=True, slots=True)
class LedgerSavings:
    """What the ledger says about savings in a window; without `since`, from the first command on."""

    since: datetime | None
    until: datetime
    commands: tuple[CommandSaving, ...] = ()
    missing: str | None = None  # why nothing is known


def summarize(savings: LedgerSavings) -> Plain:
    """Build the figures of the window. `saved` is null if nothing is known."""
    known = [each for each in savings.commands if each.counted]
    since, until = savings.since, savings.until
    if since is None:
        since = min((each.at for each in known), default=until)
    return {
        "since": stamp(since),
        "until": stamp(until),
        "saved": None if savings.missing else round(saved_dollars(known, since, until), 4),
        "savingPerHour": None if savings.missing else round(sum(each.rate for each in known), 6),
        "notCounted": sum(not each.counted and each.at >= since for each in savings.commands),
        "byReason": _by_reason(known, since, until),
        "steps": _steps(known, since, until) if known and since < until else [],
        "missing": savings.missing,
    }


def _by_reason(savings: Iterable[CommandSaving], since: datetime, until: datetime) -> list[Plain]:
    """One row for each reason with commands that started or saved in the window, the largest saving first."""
    rows: dict[str, Plain] = {}
    for each in savings:
        amount = each.dollars(since, until)
        if not amount and each.at < since:
            continue
        row = rows.setdefault(each.reason, {"reason": each.reason, "commands": 0, "nodes": 0, "saved": 0.0})
        row["commands"] += 1
        row["nodes"] += each.nodes
        row["saved"] += amount
    for row in rows.values():
        row["saved"] = round(row["saved"], 4)
    return sorted(rows.values(), key=lambda row: (-row["saved"], row["reason"]))


def _steps(savings: list[CommandSaving], since: datetime, until: datetime) -> list[Plain]:
    """The dollars saved since the start of the window, at equal intervals, in total and by reason."""
    instants = [since + (until - since) * number / POINTS for number in range(POINTS + 1)]
    by_reason: dict[str, list[CommandSaving]] = {}
    for each in savings:
        by_reason.setdefault(each.reason, []).append(each)
    steps = []
    for at in instants:
        reasons = {reason: saved_dollars(mine, since, at) for reason, mine in by_reason.items()}
        rounded = {reason: round(dollars, 4) for reason, dollars in reasons.items()}
        steps.append({"at": stamp(at), "saved": round(sum(reasons.values()), 4), "byReason": rounded})
    return steps
