"""Renders the results of planted bugs as a table of at most 80 columns, or as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import Any

from planted.trial import Baseline, Result
from planted.workspace import Outcome

REQUIRED_PERCENTAGE = 95.0  # of the bugs must be caught
WIDTHS = (34, 12, 18, 7, 5)


def render(results: Sequence[Result]) -> str:
    """One line for each bug, totals for each area, and the surviving bugs."""
    lines = [_row("id", "area", "test", "torture", "s")]
    lines += [_row(each.bug.id, each.bug.area, _test(each), _torture(each), f"{each.seconds:.1f}") for each in results]
    lines += ["", _row("", "area", "caught", "", "")]
    for area in dict.fromkeys(each.bug.area for each in results):
        lines.append(_row("", area, _share([each for each in results if each.bug.area == area]), "", ""))
    by_torture = sum(each.torture is not None and each.torture.caught for each in results)
    required = f"required: {REQUIRED_PERCENTAGE:.0f} %"
    lines += ["", f"caught {_share(results)}, {percentage(results):.1f} % ({required}), {by_torture} by torture"]
    for each in results:
        if each.broken:
            lines += wrap(f"broken: {each.bug.id}: {each.broken}", 80, subsequent_indent="    ")
        elif not each.caught:
            why = each.bug.survives_because or "no reason given"
            lines += wrap(f"survives: {each.bug.id}: {why}", 80, subsequent_indent="    ")
    return "\n".join(lines)


def percentage(results: Sequence[Result]) -> float:
    """The percentage of caught bugs."""
    return 100 * sum(each.caught for each in results) / len(results) if results else 100.0


def passes(results: Sequence[Result], baseline: Baseline) -> bool:
    """Whether enough bugs are caught, all could be planted, and the baseline passes."""
    clean = not baseline.failed and not baseline.red_seeds and not any(each.broken for each in results)
    return clean and percentage(results) >= REQUIRED_PERCENTAGE


def to_plain(results: Iterable[Result], baseline: Baseline) -> dict[str, Any]:
    """All results as plain data for JSON."""
    return {
        "percentage": percentage(list(results)),
        "baseline": {**asdict(baseline), "red_seeds": sorted(baseline.red_seeds)},
        "bugs": [
            {
                "id": each.bug.id,
                "area": each.bug.area,
                "says": each.bug.says,
                "file": each.bug.file,
                "caught": each.caught,
                "broken": each.broken,
                "survives_because": each.bug.survives_because,
                "tests": _plain(each.tests),
                "torture": _plain(each.torture),
            }
            for each in results
        ],
    }


def _plain(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    said = {"failed": outcome.failed, "said": outcome.said, "hangs": outcome.hangs}
    return {"caught": outcome.caught, "seconds": round(outcome.seconds, 1), **said}


def _test(result: Result) -> str:
    if result.broken:
        return "BROKEN"
    if result.tests is None or not result.tests.caught:
        return "no" if result.caught else "SURVIVES"
    if result.tests.hangs:
        return "hangs"
    return result.tests.failed.partition("::")[0].rpartition("/")[2].removeprefix("test_").removesuffix(".py")


def _torture(result: Result) -> str:
    if result.torture is None:
        return ""
    if not result.torture.caught:
        return "no"
    return "hangs" if result.torture.hangs else f"seed {result.torture.failed}"


def _share(results: Sequence[Result]) -> str:
    return f"{sum(each.caught for each in results)} of {len(results)}"


def _row(*cells: str) -> str:
    return " ".join(cell[:width].ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()
