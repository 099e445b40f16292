"""Builds the report of a simulation run from the meter: cost and its lower bound, nodes, evictions, pending times.

The report is plain data, ready for JSON, and depends on virtual time only: equal runs have equal reports.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.core.savings import CommandSaving
from dovetail.model.budget import BudgetSpec
from dovetail.model.nodepool import NodePool
from dovetail.sim.scenario.document import Scenario
from dovetail.sim.scenario.meter import DAY, HOUR, Meter, PoolFigures

Report = dict[str, Any]
MOST_MOMENTS = 20_000  # entries of the timeline


@dataclass(frozen=True, slots=True)
class Sample:
    """The time since the previous sample: average dollars per hour, and the maxima of nodes, pods and pending pods."""

    at: float
    cost: float
    bound: float | None
    nodes: int
    pods: int
    pending: int


def report_of(
    scenario: Scenario, meter: Meter, samples: Sequence[Sample], missed: Sequence[str], pools: Iterable[NodePool]
) -> Report:
    """Build the report; `pools` are the NodePools at the end of the run."""
    budgets = {pool.name: [_written(each) for each in pool.budget_specs] for pool in pools}
    days = -int(-scenario.lasts.seconds // DAY)
    floor = _floor_by_day(samples, days)
    total_floor = None if floor is None else sum(floor)
    disrupted: dict[str, int] = {}
    for pool in meter.pools.values():
        for reason, number in pool.disrupted.items():
            disrupted[reason] = disrupted.get(reason, 0) + number
    return {
        "scenario": scenario.name,
        "seed": scenario.seed,
        "start": f"{scenario.start:%Y-%m-%dT%H:%M:%SZ}",
        "simulatedSeconds": scenario.lasts.seconds,
        "cost": {
            "total": _money(meter.cost),
            "lowerBound": None if total_floor is None else _money(total_floor),
            "overLowerBound": None if not total_floor else round(meter.cost / total_floor - 1, 4),
        },
        "nodes": {
            "launched": meter.launched,
            "removed": meter.removed,
            "most": meter.most_nodes,
        },
        "evictions": meter.evictions,
        "disruptions": dict(sorted(disrupted.items())),
        "pending": _pending(meter),
        "apiCalls": meter.calls,
        "nodePools": {name: _pool(pool, budgets.get(name, [])) for name, pool in sorted(meter.pools.items())},
        "days": [_day(day, meter, floor) for day in range(days)],
        "samples": [
            {
                "hour": round(each.at / HOUR, 3),
                "cost": _money(each.cost),
                "lowerBound": None if each.bound is None else _money(each.bound),
                "nodes": each.nodes,
                "pods": each.pods,
                "pending": each.pending,
            }
            for each in samples
        ],
        "timeline": [
            {
                "at": round(each.at, 3),
                "what": each.what,
                "node": each.node,
                "nodePool": each.pool,
                "reason": each.reason,
            }
            for each in meter.timeline[:MOST_MOMENTS]
        ],
        "missed": [*missed, *_cut(len(meter.timeline))],
    }


def savings_of(savings: Iterable[CommandSaving]) -> Report:
    """Build the part of the report about savings, in dollars."""
    commands = list(savings)
    by_reason: dict[str, float] = {}
    for each in commands:
        reason = str(each.reason)
        by_reason[reason] = by_reason.get(reason, 0.0) + each.dollars()
    return {
        "savings": {
            "total": _money(sum(by_reason.values())),
            "commands": sum(each.counted for each in commands),
            "notCounted": sum(not each.counted for each in commands),
            "byReason": {reason: _money(amount) for reason, amount in sorted(by_reason.items())},
        }
    }


def _cut(moments: int) -> Iterable[str]:
    if moments > MOST_MOMENTS:
        yield f"the timeline ends after {MOST_MOMENTS:,} of {moments:,} entries; all other figures are complete"


def _day(day: int, meter: Meter, floor: Sequence[float] | None) -> dict[str, Any]:
    return {
        "day": day + 1,
        "cost": _money(meter.cost_by_day[day]),
        "lowerBound": None if floor is None else _money(floor[day]),
        "evictions": meter.evictions_by_day[day],
        "nodesLaunched": meter.launched_by_day[day],
        "nodesRemoved": meter.removed_by_day[day],
        "pendingPodHours": round(meter.pending_by_day[day] / HOUR, 4),
    }


def _written(budget: BudgetSpec) -> str:
    """Describe a budget in a few words."""
    whom = ", ".join(budget.reasons or ()) or budget.action or ""
    when = f"at {budget.schedule} for {budget.duration}" if budget.schedule else ""
    return " ".join(each for each in (str(budget.nodes), whom, when) if each)


def _pool(pool: PoolFigures, budgets: list[str]) -> dict[str, Any]:
    return {
        "cost": _money(pool.cost),
        "nodesLaunched": pool.launched,
        "nodesRemoved": pool.removed,
        "mostNodes": pool.most_nodes,
        "mostLeavingAtOnce": pool.most_leaving,
        "evictions": pool.evictions,
        "pendingPodHours": round(pool.waited / HOUR, 4),
        "budgets": {"written": budgets, "mostUsed": pool.most_budgeted, "ofNodes": pool.nodes_then},
        "disruptions": dict(sorted(pool.disrupted.items())),
    }


def _pending(meter: Meter) -> Mapping[str, Any]:
    waits = sorted(meter.waits)
    return {
        "podHours": round(sum(meter.pending_by_day.values()) / HOUR, 4),
        "started": len(waits),
        "meanSeconds": round(sum(waits) / len(waits), 2) if waits else 0.0,
        "p50Seconds": _quantile(waits, 0.5),
        "p95Seconds": _quantile(waits, 0.95),
        "mostSeconds": round(waits[-1], 2) if waits else 0.0,
        "stillWaiting": len(meter.pending_since),
    }


def _quantile(waits: Sequence[float], share: float) -> float:
    return round(waits[min(len(waits) - 1, int(share * len(waits)))], 2) if waits else 0.0


def _floor_by_day(samples: Sequence[Sample], days: int) -> list[float] | None:
    """Sum the lower bound by day, in dollars; each sample covers the time since the previous one."""
    if any(sample.bound is None for sample in samples):
        return None
    floor, before = [0.0] * days, 0.0
    for sample in samples:
        floor[min(int(before // DAY), days - 1)] += (sample.bound or 0.0) * (sample.at - before) / HOUR
        before = sample.at
    return floor


def length(seconds: float) -> str:
    """Format a duration in the largest suitable unit."""
    for unit, name in ((DAY, "day"), (HOUR, "hour"), (60.0, "minute"), (1.0, "second")):
        if seconds >= unit and (seconds % unit == 0 or seconds >= 3 * unit):
            number = f"{seconds / unit:,.4g}"
            return f"{number} {name}{'' if number == '1' else 's'}"
    return f"{seconds:g} seconds"


def budget_use(budgets: Mapping[str, Any]) -> str:
    """Format the peak of disrupted nodes that budgets count, of how many nodes, and the budgets."""
    allowed = "; ".join(budgets["written"]) or "no limit"
    return f"{budgets['mostUsed']} of {budgets['ofNodes']} ({allowed})" if budgets["mostUsed"] else f"0 ({allowed})"


def _money(dollars: float) -> float:
    return round(dollars, 4)
