"""Scenarios that play a snapshot onward without new workloads and without interruptions.

`dovetail adopt`, `plan --until-stable` and `what-if --for` share them.
"""

from dataclasses import replace
from pathlib import Path

from dovetail.core.explain.missing_catalogs import ignored_nodepools
from dovetail.model.snapshot import Snapshot
from dovetail.settings import Settings
from dovetail.sim.scenario.document import Scenario
from dovetail.sim.scenario.parsing import PositiveSpan

_DECIDING = ("feature_gates", "min_values_policy", "node_sizing", "preference_policy")
"""Settings of the command that decisions in the simulation depend on."""


def snapshot_scenario(
    snapshot: Snapshot, file: Path, lasts: str, settings: Settings, *, disruption: str = "on"
) -> Scenario:
    """The scenario that starts from a snapshot, which is stored in `file`."""
    deciding = {name: str(getattr(settings, name)) for name in _DECIDING}
    return Scenario(
        name="snapshot",
        start=snapshot.at,
        lasts=PositiveSpan(lasts),
        snapshot=str(file),
        settings={**deciding, "disruption": disruption},
    )


def only_managed(snapshot: Snapshot) -> Snapshot:
    """The snapshot without the NodePools that no provider manages; their nodes stay, as nodes without a NodeClaim."""
    ignored = ignored_nodepools(snapshot)
    return replace(
        snapshot,
        nodepools={name: pool for name, pool in snapshot.nodepools.items() if name not in ignored},
        nodes=tuple(
            replace(node, claim=None) if node.nodepool_name in ignored else node
            for node in snapshot.nodes
            if node.node is not None or node.nodepool_name not in ignored
        ),
    )
