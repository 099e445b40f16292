"""What `make compare` measures of a controller, and how it prints it."""

import dataclasses
import statistics
from collections.abc import Sequence


@dataclasses.dataclass
class Figures:
    """What one controller did; seconds are wall clock, `cpu_seconds` those of the controller alone."""

    controller: str
    pods: int = 0
    scale_out_seconds: float = 0.0
    scale_out_nodes: int = 0
    scale_out_cost: float = 0.0
    scale_out_later_nodes: int = 0
    scale_out_later_cost: float = 0.0
    scale_out_cpu_seconds: float = 0.0
    settle_seconds: float = 0.0
    settle_nodes: int = 0
    settle_cost: float = 0.0
    settle_evictions: int = 0
    settle_launched: int = 0
    settle_cpu_seconds: float = 0.0
    churn_departures: int = 0
    churn_cost: float = 0.0
    churn_mean_cost: float = 0.0
    churn_evictions: int = 0
    churn_launched: int = 0
    churn_cpu_seconds: float = 0.0
    drift_pods: int = 0
    drift_seconds: float = 0.0
    drift_nodes: int = 0
    drift_cost: float = 0.0
    drift_evictions: int = 0
    drift_launched: int = 0
    drift_cpu_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_mib: float = 0.0
    restarts: int = 0
    load_before: float = 0.0
    load_after: float = 0.0


ROWS = {
    "scale_out_seconds": "scale out: seconds to all pods running",
    "scale_out_nodes": "scale out: nodes",
    "scale_out_cost": "scale out: $/h",
    "scale_out_later_nodes": "scale out: later nodes",
    "scale_out_later_cost": "scale out: later nodes, $/h",
    "scale_out_cpu_seconds": "scale out: controller CPU seconds",
    "settle_seconds": "scale in: seconds to the last change",
    "settle_nodes": "scale in: nodes at rest",
    "settle_cost": "scale in: $/h at rest",
    "settle_evictions": "scale in: evictions",
    "settle_launched": "scale in: nodes launched",
    "settle_cpu_seconds": "scale in: controller CPU seconds",
    "churn_departures": "churn: pods that left by themselves",
    "churn_evictions": "churn: evictions",
    "churn_launched": "churn: nodes launched",
    "churn_mean_cost": "churn: $/h on average",
    "churn_cost": "churn: $/h at the end",
    "churn_cpu_seconds": "churn: controller CPU seconds",
    "drift_seconds": "drift: seconds to all nodes replaced",
    "drift_nodes": "drift: nodes at the end",
    "drift_cost": "drift: $/h at the end",
    "drift_evictions": "drift: evictions",
    "drift_launched": "drift: nodes launched",
    "drift_cpu_seconds": "drift: controller CPU seconds",
    "cpu_seconds": "controller CPU seconds in all",
    "peak_memory_mib": "controller peak memory MiB",
    "restarts": "controller restarts",
}


def table(runs: list[Figures]) -> str:
    """The figures side by side in at most 80 columns; the ratio is the first to the second."""
    lines = [
        f"{'':40}" + "".join(f"{run.controller:>13}" for run in runs) + (f"{'ratio':>10}" if len(runs) == 2 else "")
    ]
    for row, title in ROWS.items():
        values = [getattr(run, row) for run in runs]
        places = 2 if row.endswith("cost") else 1
        shown = "".join(f"{value:13,.{places}f}" if isinstance(value, float) else f"{value:13,}" for value in values)
        ratio = f"{values[0] / values[1]:10.2f}" if len(values) == 2 and values[1] else ""
        lines.append(f"{title:40}{shown}{ratio}")
    return "\n".join(line.rstrip() for line in lines)


def spread(name: str, costs: Sequence[float]) -> str:
    """One line about the cost of several runs."""
    low, middle, high = min(costs), statistics.median(costs), max(costs)
    return (
        f"{name:10} {len(costs)} times, $/h: min {low:.2f}  median {middle:.2f}  mean {statistics.mean(costs):.2f}"
        f"  max {high:.2f}"
    )
