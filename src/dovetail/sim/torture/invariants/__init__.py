"""The invariants every story must keep, judged from outside: from API objects, calls, and the cloud's own records.

They are written from the documentation and share no code with the controllers they judge; an import-linter contract
keeps it so. What the plain objects mean is read in `readers`, `windows`, `disruption_terms`, `repair_terms` and `pods`;
`history` remembers what was true since when. Each invariant hears every change after it happened, and every call of the
controllers right before it takes effect (`base`).
"""

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.budgets import BudgetsHold
from dovetail.sim.torture.invariants.commands import CommandsStillHold
from dovetail.sim.torture.invariants.consolidation import ConsolidationSaves, DestinationsAreQuiet
from dovetail.sim.torture.invariants.deletions import (
    CommandsAreNotRepeated,
    DeletionsHaveACause,
    RepairKeepsItsTerms,
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
    RepairKeepsItsTerms,
    CommandsStillHold,
    CommandsAreNotRepeated,
    OneInstanceForAClaim,
    LimitsHold,
    ConsolidationSaves,
    NoLeftoverTaints,
    LostInstancesAreNoticed,
    SingleLeader,
    NodePatchesNameAVersion,
)


def every_invariant(history: Observer) -> tuple[Invariant, ...]:
    """All of them, over one history."""
    return tuple(each(history) for each in INVARIANTS)
