"""Simulates the first hour of Dovetail on a copy of a cluster, for `dovetail adopt`.

The run is that of `dovetail simulate` from a snapshot: the real controllers on virtual time, without new workloads and
without interruptions. It runs twice, as Dovetail starts by default (disruption off) and with disruption on.

The time of a run grows with nodes and minutes, so a large cluster is simulated for less than an hour: 1,000 nodes for
18 minutes.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from dovetail.cli.simulation.report import Report
from dovetail.cli.simulation.runner import run_scenario
from dovetail.cli.simulation.snapshot_scenario import snapshot_scenario
from dovetail.core.adoption.facts import FirstHour, NodeMoment
from dovetail.manifest.snapshot_file import snapshot_bytes
from dovetail.model.snapshot import Snapshot
from dovetail.settings import Settings

NODES_FOR_AN_HOUR = 300
LEAST_MINUTES = 10


def simulate_first_hours(
    snapshot: Snapshot, settings: Settings, progress: Callable[[float], None]
) -> tuple[FirstHour, ...]:
    """One hour with disruption off, and one with disruption on. `progress` gets the finished part of both."""
    minutes = simulated_minutes(len(snapshot.nodes))
    with TemporaryDirectory(prefix="dovetail-") as folder:
        file = Path(folder) / "cluster.json"
        file.write_bytes(snapshot_bytes(snapshot))
        hours = []
        for disruption, before in (("off", 0.0), ("on", 0.5)):
            scenario = snapshot_scenario(snapshot, file, f"{minutes}m", settings, disruption=disruption)
            show = partial(_show, progress, before, minutes)
            hours.append(_first_hour(snapshot, run_scenario(scenario, progress=show).report, disruption, minutes))
    return tuple(hours)


def simulated_minutes(nodes: int) -> int:
    """An hour, and less in proportion above 300 nodes, but at least 10 minutes."""
    return max(LEAST_MINUTES, min(60, 60 * NODES_FOR_AN_HOUR // max(nodes, 1)))


def _show(progress: Callable[[float], None], before: float, minutes: int, seconds: float) -> None:
    progress(before + seconds / 60 / minutes / 2)


def _first_hour(snapshot: Snapshot, report: Report, disruption: str, minutes: int) -> FirstHour:
    """A launch that Karpenter has begun is finished during the hour, and does not count."""
    begun = {node.claim.name for node in snapshot.nodes if node.claim is not None}
    timeline = [each for each in report["timeline"] if each["what"] != "launched" or each["node"] not in begun]
    return FirstHour(
        disruption=disruption,
        minutes=minutes,
        cost_before=sum(snapshot.price_of(node) or 0.0 for node in snapshot.nodes if node.managed),
        cost_after=report["samples"][-1]["cost"],
        launched=sum(each["what"] == "launched" for each in timeline),
        removed=report["nodes"]["removed"],
        evictions=report["evictions"],
        pending_before=len(snapshot.unbound_pods),
        pending=report["pending"]["stillWaiting"],
        moments=tuple(
            NodeMoment(
                at=each["at"], what=each["what"], node=each["node"], nodepool=each["nodePool"], reason=each["reason"]
            )
            for each in timeline
            if each["what"] in {"launched", "disrupted", "gone"}
        ),
    )
