"""Puts the report together: the verdict, the findings, the comparison of nodes, the first hour and the steps."""

from dataclasses import dataclass

from dovetail.core.adoption.comparison import MarkTotal, NodeComparison, compare_nodes, totals
from dovetail.core.adoption.facts import AdoptionFacts
from dovetail.core.adoption.findings import Finding, FindingLevel, find_all
from dovetail.core.adoption.steps import Step, steps_back, switch_steps
from dovetail.core.disruption.planner import PassPlan


@dataclass(frozen=True, kw_only=True)
class AdoptionReport:
    """The answer of `dovetail adopt`."""

    facts: AdoptionFacts
    findings: tuple[Finding, ...]
    nodes: tuple[NodeComparison, ...]
    totals: tuple[MarkTotal, ...]
    switch: tuple[Step, ...]
    back: tuple[Step, ...]

    def at_level(self, level: FindingLevel) -> tuple[Finding, ...]:
        """The findings of one level."""
        return tuple(each for each in self.findings if each.level is level)

    @property
    def ready(self) -> bool | None:
        """Whether nothing has to be fixed before the switch; None if instance types are missing to say so."""
        if self.at_level(FindingLevel.FIX):
            return False
        return None if self.facts.snapshot.missing_catalogs else True


def build_report(facts: AdoptionFacts, plan: PassPlan, image: str) -> AdoptionReport:
    """The report of these facts. `plan` is the first pass of Dovetail, `image` that of the printed commands."""
    nodes = compare_nodes(facts, plan)
    stoppable = not facts.karpenter_missing  # steps with guessed names would start Dovetail beside another Karpenter
    return AdoptionReport(
        facts=facts,
        findings=find_all(facts),
        nodes=nodes,
        totals=totals(nodes),
        switch=switch_steps(facts, image) if stoppable else (),
        back=steps_back(facts) if stoppable else (),
    )
