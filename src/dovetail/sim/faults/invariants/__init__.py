"""The invariants every story must keep, judged from outside: from API objects, calls, and the cloud's own records.

They are written from the documentation and share no code with the controllers they judge; an import-linter contract
keeps it so. What the plain objects mean is read in `readers`, `windows`, `disruption_terms`, `repair_terms` and `pods`;
`history` remembers what was true since when. Each invariant hears every change after it happened, and every call of the
controllers right before it takes effect (`base`).
"""

from dovetail.sim.faults.invariants.base import Invariant
from dovetail.sim.faults.invariants.budgets import BudgetsHold
from dovetail.sim.faults.invariants.commands import CommandsStillHold
from dovetail.sim.faults.invariants.costs import ConsolidationSaves
from dovetail.sim.faults.invariants.deletions import DeletionsHaveACause, RepairKeepsItsTerms, ReplacementsComeFirst
from dovetail.sim.faults.invariants.evictions import DisruptionBudgetsHold
from dovetail.sim.faults.invariants.graces import PodsKeepTheirGrace
from dovetail.sim.faults.invariants.history import History
from dovetail.sim.faults.invariants.instances import OneInstanceForAClaim
from dovetail.sim.faults.invariants.leaders import OneWriter
from dovetail.sim.faults.invariants.limits import LimitsHold
from dovetail.sim.faults.invariants.losses import LossesAreNoticed
from dovetail.sim.faults.invariants.marks import MarksAreTakenBack
from dovetail.sim.faults.invariants.patches import NodePatchesNameAVersion
from dovetail.sim.faults.invariants.pauses import DryRunsWriteNothing, PausedPoolsAreLeftAlone
from dovetail.sim.faults.invariants.protections import ProtectedPodsStay
from dovetail.sim.faults.invariants.repetitions import CommandsAreNotRepeated
from dovetail.sim.faults.invariants.terminations import NoInstanceEndsUnderPods, VolumesAreDetached
from dovetail.sim.faults.invariants.tiers import DrainsGoByTiers
from dovetail.sim.faults.invariants.waits import NodesWait

INVARIANTS: tuple[type[Invariant], ...] = (
    BudgetsHold,
    NodesWait,
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
    MarksAreTakenBack,
    LossesAreNoticed,
    OneWriter,
    NodePatchesNameAVersion,
)


def every_invariant(history: History) -> tuple[Invariant, ...]:
    """All of them, over one history."""
    return tuple(each(history) for each in INVARIANTS)
