"""The invariants of a trial, checked from outside: API objects, calls, and the records of the simulated cloud.

They are written from the documentation and share no code with the controllers; an import-linter contract enforces this.
`readers`, `disruption_settings`, `repair_policies` and `objects` interpret plain objects, `observer` records their
history, and `base` notifies each invariant of every change and of every call right before it takes effect.
"""

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.budgets import BudgetsHold
from dovetail.sim.torture.invariants.closed_nodes import ReadyNodesAreOpened
from dovetail.sim.torture.invariants.commands import CommandsStillHold
from dovetail.sim.torture.invariants.consolidation import ConsolidationSaves, DestinationsAreQuiet
from dovetail.sim.torture.invariants.cool_down import MovedPodsCoolDown
from dovetail.sim.torture.invariants.deletions import (
    CommandsAreNotRepeated,
    DeletionsHaveACause,
    RepairFollowsPolicy,
    ReplacementsComeFirst,
)
from dovetail.sim.torture.invariants.disruption_delays import DelaysAreKept
from dovetail.sim.torture.invariants.evictions import DisruptionBudgetsHold, DrainsGoByTiers, PodsKeepTheirGrace
from dovetail.sim.torture.invariants.instances import (
    LostInstancesAreNoticed,
    NoInstanceEndsUnderPods,
    OneInstanceForAClaim,
    VolumesAreDetached,
)
from dovetail.sim.torture.invariants.limits import LimitsHold
from dovetail.sim.torture.invariants.observer import Observer
from dovetail.sim.torture.invariants.protections import ProtectedPodsStay
from dovetail.sim.torture.invariants.quiescence import NoLeftoverTaints
from dovetail.sim.torture.invariants.writes import (
    DryRunsWriteNothing,
    NodePatchesNameAVersion,
    PausedPoolsAreLeftAlone,
    SingleLeader,
)

INVARIANTS: tuple[type[Invariant], ...] = (
    BudgetsHold,
    DelaysAreKept,
    DestinationsAreQuiet,
    MovedPodsCoolDown,
    ProtectedPodsStay,
    PausedPoolsAreLeftAlone,
    DryRunsWriteNothing,
    DisruptionBudgetsHold,
    PodsKeepTheirGrace,
    DrainsGoByTiers,
    NoInstanceEndsUnderPods,
    VolumesAreDetached,
    DeletionsHaveACause,
    ReplacementsComeFirst,
    RepairFollowsPolicy,
    CommandsStillHold,
    CommandsAreNotRepeated,
    OneInstanceForAClaim,
    LimitsHold,
    ConsolidationSaves,
    NoLeftoverTaints,
    ReadyNodesAreOpened,
    LostInstancesAreNoticed,
    SingleLeader,
    NodePatchesNameAVersion,
)


def every_invariant(observer: Observer) -> tuple[Invariant, ...]:
    """Create all invariants for one observer."""
    return tuple(each(observer) for each in INVARIANTS)
