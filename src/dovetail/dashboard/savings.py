"""Adds up the savings of finished disruption decisions, in total, by reason and over time."""

from collections.abc import Iterable, Mapping
from typing import Any

Plain = dict[str, Any]
DONE = "done"


def add_up(decisions: Iterable[Mapping[str, Any]]) -> Plain:
    """The savings of successful disruptions: total, by reason, and the running total after each decision."""
    reasons: dict[str, Plain] = {}
    steps: list[Plain] = []
    total = 0.0
    finished = [each for each in decisions if each["act"] == "disrupt" and each["outcome"] == DONE]
    for each in sorted(finished, key=lambda each: each["at"]):
        saved = each["costPerHourBefore"] - each["costPerHourAfter"]
        row = reasons.setdefault(
            each["reason"], {"reason": each["reason"], "decisions": 0, "nodes": 0, "pods": 0, "savingPerHour": 0.0}
        )
        row["decisions"] += 1
        row["nodes"] += len(each["nodes"])
        row["pods"] += each["podsMoved"]
        row["savingPerHour"] = round(row["savingPerHour"] + saved, 6)
        total = round(total + saved, 6)
        steps.append({"at": each["at"], "reason": each["reason"], "savingPerHour": total, "id": each["id"]})
    return {
        "savingPerHour": total,
        "byReason": sorted(reasons.values(), key=lambda row: (-row["savingPerHour"], row["reason"])),
        "steps": steps,
    }
