"""The laws every story must keep, each in its own file: written from the documents, judged from outside.

A law hears every change of the world after it happened, and every call of the controllers right before it takes effect.
"""

from dovetail.sim.faults.history import History
from dovetail.sim.faults.laws.base import Law
from dovetail.sim.faults.laws.budgets import BudgetsHold
from dovetail.sim.faults.laws.commands import CommandsStillHold
from dovetail.sim.faults.laws.costs import ConsolidationSaves
from dovetail.sim.faults.laws.deletions import DeletionsHaveACause
from dovetail.sim.faults.laws.drains import PodsAreAsked
from dovetail.sim.faults.laws.leaders import OneActs
from dovetail.sim.faults.laws.limits import LimitsHold
from dovetail.sim.faults.laws.losses import LossesAreNoticed
from dovetail.sim.faults.laws.marks import MarksAreTakenBack
from dovetail.sim.faults.laws.protections import ProtectedPodsStay
from dovetail.sim.faults.laws.repetitions import CommandsAreNotRepeated
from dovetail.sim.faults.laws.terminations import NoInstanceEndsUnderPods

LAWS: tuple[type[Law], ...] = (
    BudgetsHold,
    ProtectedPodsStay,
    PodsAreAsked,
    NoInstanceEndsUnderPods,
    DeletionsHaveACause,
    CommandsStillHold,
    CommandsAreNotRepeated,
    LimitsHold,
    ConsolidationSaves,
    MarksAreTakenBack,
    LossesAreNoticed,
    OneActs,
)


def every_law(history: History) -> tuple[Law, ...]:
    """All of them, over one history."""
    return tuple(law(history) for law in LAWS)
