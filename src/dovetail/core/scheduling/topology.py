"""Topology: all spread, affinity and anti-affinity rules of a problem, with their counts.

For each preference level, `PodTopologyRules` has the counts that constrain a pod; `counted_by` has, for each set of pod
constraints, the counts that change when a pod with them is placed. Equal rules of different pods are one rule with one
set of counts. Required anti-affinity works in both directions: the pods that own a term are counted too, for the pods
that the term selects (`_owner_counts`).

Invariant: counts equal what a recount of all placed pods would give. Constraints that a selector selects are found
through an index by namespace and label, so rules x constraints pairs are not all compared.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dovetail.core.scheduling.existing_nodes import hard
from dovetail.core.scheduling.instance_type_table import InstanceTypeTable
from dovetail.core.scheduling.node_affinity import ANYWHERE
from dovetail.core.scheduling.pod_shapes import PodConstraints, PodShape
from dovetail.core.scheduling.preferences import PreferenceLevel
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.topology_counts import (
    AffinityCounts,
    AntiAffinityCounts,
    HostPods,
    HostSpreadCounts,
    SpreadCounts,
    TopologyCounts,
)
from dovetail.core.scheduling.topology_rules import AffinityRule, Selector, SpreadRule, Term
from dovetail.model.labels import HOSTNAME
from dovetail.model.taints import untolerated


@dataclass(frozen=True, slots=True)
class PodTopologyRules:
    """What constrains a pod at one preference level. A spread rule comes with 1 if it selects the pod itself, or 0."""

    spread: tuple[tuple[SpreadCounts, int], ...]
    affinity: AffinityCounts | None
    selects_itself: bool
    anti_affinity: tuple[AntiAffinityCounts, ...]
    keys: tuple[str, ...]  # the topology keys other than hostname, sorted
    unconstrained: bool  # no rule applies

    @property
    def counts(self) -> Iterator[TopologyCounts]:
        """The counts of all rules."""
        yield from (topology_counts for topology_counts, _ in self.spread)
        yield from self.affinity.parts if self.affinity is not None else ()
        yield from self.anti_affinity


class Topology:
    """The rules of the pods that a run may place, and of the pods on existing nodes."""

    def __init__(self, problem: Problem, shapes: Iterable[PodShape], *, respect_preferences: bool) -> None:
        self._problem = problem
        self._respect = respect_preferences
        self._rows_by_constraints: dict[PodConstraints, list[int]] | None = None
        self._by_label: dict[tuple[str, str, str], list[PodConstraints]] = {}
        self._by_namespace: dict[str, list[PodConstraints]] = {}
        for constraints in problem.all_constraints:
            self._by_namespace.setdefault(constraints.namespace, []).append(constraints)
            for key, value in constraints.labels.items():
                self._by_label.setdefault((constraints.namespace, key, value), []).append(constraints)
        self._selected: dict[Selector, tuple[PodConstraints, ...]] = {}
        self.counted_by: dict[PodConstraints, list[TopologyCounts]] = {
            constraints: [] for constraints in problem.all_constraints
        }
        self._others_anti_affinity: dict[PodConstraints, list[AntiAffinityCounts]] = {}
        self._owner_counts: dict[Term, AntiAffinityCounts] = {}
        self._spread_over_hosts: set[PodConstraints] = set()  # what some hostname spread selects
        self._spreads: dict[SpreadRule, SpreadCounts] = {}
        self._eligibility: dict[tuple[object, ...], list[bool]] = {}
        self.host_pods = HostPods()
        self._affinity_counts: dict[AffinityRule, AffinityCounts] = {}
        self._anti_affinity_counts: dict[Term, AntiAffinityCounts] = {}
        self._rules: dict[PreferenceLevel, PodTopologyRules] = {}
        self._levels: dict[PodConstraints, tuple[PreferenceLevel, ...]] = {}
        self._count_owners()
        for constraints in dict.fromkeys(shape.constraints for shape in shapes):
            for level in self.preference_levels(constraints):
                self._rules[level] = self._read(constraints, level)

    def preference_levels(self, constraints: PodConstraints) -> tuple[PreferenceLevel, ...]:
        """The preference levels of a pod in this run."""
        known = self._levels.get(constraints)
        if known is None:
            known = constraints.preference_levels(
                respect_preferences=self._respect, soft_taints=self._problem.soft_taints
            )
            self._levels[constraints] = known
        return known

    def rules(self, level: PreferenceLevel) -> PodTopologyRules:
        """The rules that constrain a pod at this preference level."""
        return self._rules[level]

    def knows(self, constraints: PodConstraints) -> bool:
        """Whether these constraints were there when the rules were read, or were added since."""
        return constraints in self.counted_by

    def add(self, constraints: PodConstraints) -> bool:
        """Add constraints; False if they have a rule that no others have."""
        preference_levels = self.preference_levels(constraints)
        if not all(map(self._has_counts_for, preference_levels)) or not all(
            term in self._owner_counts for term in constraints.required_anti_affinity
        ):
            return False
        self._others_anti_affinity[constraints] = [
            topology_counts
            for term, topology_counts in self._owner_counts.items()
            if term.selector.selects(constraints.namespace, constraints.labels)
        ]
        self.counted_by[constraints] = [
            *self._counts_selecting(constraints),
            *(self._owner_counts[term] for term in constraints.required_anti_affinity),
        ]
        for level in preference_levels:
            self._rules[level] = self._read(constraints, level)
        return True

    def _has_counts_for(self, level: PreferenceLevel) -> bool:
        return (
            all(rule in self._spreads for rule in level.spread)
            and all(term in self._anti_affinity_counts for term in level.anti)
            and (level.affinity is None or level.affinity in self._affinity_counts)
        )

    def _counts_selecting(self, constraints: PodConstraints) -> Iterator[TopologyCounts]:
        """The counts of rules that select pods with these new constraints. Hostname spread selects them from now on."""
        pod = (constraints.namespace, constraints.labels)
        for rule, topology_counts in self._spreads.items():
            if not rule.selector.selects(*pod):
                continue
            if isinstance(topology_counts, HostSpreadCounts):
                topology_counts.selected.add(constraints)
                self._spread_over_hosts.add(constraints)
            else:
                yield topology_counts
        yield from (
            topology_counts
            for term, topology_counts in self._anti_affinity_counts.items()
            if term.selector.selects(*pod)
        )
        yield from (
            part for rule, affinity in self._affinity_counts.items() if rule.matches(*pod) for part in affinity.parts
        )

    def record_move(self, row: int, gone: Iterable[PodShape], come: Iterable[PodShape]) -> bool:
        """Record that pods left and joined a row.

        False if the last pod with some required anti-affinity left: then its term no longer applies.
        """
        left = [shape.constraints for shape in gone]
        if self._rows_by_constraints is not None:
            for shape in come:
                self._rows_by_constraints.setdefault(shape.constraints, []).append(row)
            for constraints in left:
                self._rows_by_constraints[constraints].remove(row)
        return all(self._rows_of(constraints) for constraints in left if constraints.required_anti_affinity)

    def moved(self, shapes: Iterable[PodShape]) -> set[TopologyCounts]:
        """The counts that change for other hosts too when such pods leave or join a host."""
        return {
            topology_counts
            for constraints in {shape.constraints for shape in shapes}
            for topology_counts in self.counted_by[constraints]
            if not (topology_counts.by_host and isinstance(topology_counts, AntiAffinityCounts))
        }

    def ruled_by(self, changed: Collection[TopologyCounts]) -> Iterator[PodConstraints]:
        """The constraints of pods with a rule among those of these counts."""
        for constraints, levels in self._levels.items() if changed else ():
            rules = [self._rules[level] for level in levels if level in self._rules]
            if any(topology_counts in changed for each in rules for topology_counts in each.counts):
                yield constraints

    @property
    def spreads(self) -> Collection[SpreadCounts]:
        """The counts of all spread rules."""
        return self._spreads.values()

    def _rows_of(self, constraints: PodConstraints) -> Sequence[int]:
        """The rows with such pods. Computed on first use, since many clusters have no topology rules."""
        if self._rows_by_constraints is None:
            self._rows_by_constraints = self._find_rows()
        return self._rows_by_constraints.get(constraints, ())

    def _find_rows(self) -> dict[PodConstraints, list[int]]:
        rows: dict[PodConstraints, list[int]] = {}
        for row in range(len(self._problem.existing_nodes)):
            for shape in self._problem.counted_shapes(row):
                rows.setdefault(shape.constraints, []).append(row)
        return rows

    def _read(self, constraints: PodConstraints, level: PreferenceLevel) -> PodTopologyRules:
        spread = tuple(
            (self._spread(rule), int(rule.selector.selects(constraints.namespace, constraints.labels)))
            for rule in level.spread
        )
        affinity = self._affinity(level.affinity) if level.affinity is not None else None
        anti_affinity = (
            *(self._anti_affinity(term) for term in level.anti),
            *self._others_anti_affinity.get(constraints, ()),
        )
        keys = {topology_counts.key for topology_counts, _ in spread} | {
            topology_counts.key for topology_counts in anti_affinity
        }
        keys |= {part.key for part in affinity.parts} if affinity is not None else set()
        return PodTopologyRules(
            spread=spread,
            affinity=affinity,
            selects_itself=level.affinity is not None
            and level.affinity.matches(constraints.namespace, constraints.labels),
            anti_affinity=anti_affinity,
            keys=tuple(sorted(keys - {HOSTNAME})),
            unconstrained=not spread and affinity is None and not anti_affinity,
        )

    # -- counts

    def _count_owners(self) -> None:
        """Count the pods that own each required anti-affinity term, for the pods that the term selects."""
        owners: dict[Term, list[PodConstraints]] = {}
        for constraints in self._problem.all_constraints:
            for term in constraints.required_anti_affinity:
                owners.setdefault(term, []).append(constraints)
        for term, owning in owners.items():
            topology_counts = self._owner_counts[term] = AntiAffinityCounts(term, self._column(term.key))
            self._fill(topology_counts, owning)
            for constraints in self._select(term.selector):
                self._others_anti_affinity.setdefault(constraints, []).append(topology_counts)

    def _anti_affinity(self, term: Term) -> AntiAffinityCounts:
        if term not in self._anti_affinity_counts:
            topology_counts = self._anti_affinity_counts[term] = AntiAffinityCounts(term, self._column(term.key))
            self._fill(topology_counts, self._select(term.selector))
        return self._anti_affinity_counts[term]

    def _affinity(self, rule: AffinityRule) -> AffinityCounts:
        if rule not in self._affinity_counts:
            matching = [
                constraints
                for constraints in self._select(rule.terms[0].selector)
                if rule.matches(constraints.namespace, constraints.labels)
            ]
            keys = dict.fromkeys(term.key for term in rule.terms)
            parts = [TopologyCounts(key, self._column(key)) for key in keys]
            for part in parts:
                self._fill(part, matching)
            self._affinity_counts[rule] = AffinityCounts(rule, parts)
        return self._affinity_counts[rule]

    def _spread(self, rule: SpreadRule) -> SpreadCounts:
        if rule not in self._spreads:
            if rule.key == HOSTNAME:
                self._spreads[rule] = self._host_spread(rule)
                return self._spreads[rule]
            provided = {value for type_table in self._problem.type_tables for value in self._provided(rule, type_table)}
            topology_counts = SpreadCounts(rule, self._column(rule.key), self._eligible(rule), provided)
            self._spreads[rule] = topology_counts
            self._fill(topology_counts, self._select(rule.selector))
        return self._spreads[rule]

    def _host_spread(self, rule: SpreadRule) -> HostSpreadCounts:
        if not self.host_pods.in_use:
            self.host_pods.in_use = True
            for row in range(len(self._problem.existing_nodes)):
                self.read_host(row)
        found = HostSpreadCounts(rule, self._eligible(rule), self.host_pods)
        found.selected.update(self._select(rule.selector))
        self._spread_over_hosts.update(found.selected)
        return found

    def read_host(self, row: int) -> None:
        """Read the pods of a node that hostname spread counts."""
        if self.host_pods.in_use:
            counted = self._problem.counted_shapes(row)
            self.host_pods.pods[row] = tuple([shape.constraints for shape in counted])

    def is_counted(self, constraints: PodConstraints) -> bool:
        """Whether some rule counts pods with these constraints."""
        return bool(self.counted_by[constraints]) or constraints in self._spread_over_hosts

    def _fill(self, topology_counts: TopologyCounts, selected: Iterable[PodConstraints]) -> None:
        for constraints in selected:
            self.counted_by[constraints].append(topology_counts)
            for row in self._rows_of(constraints):
                domain = topology_counts.domain(row)
                if domain is not None and topology_counts.counts_on(row):
                    topology_counts.counts[domain] = topology_counts.counts.get(domain, 0) + 1

    def _column(self, key: str) -> Sequence[str | None]:
        return () if key == HOSTNAME else self._problem.existing_nodes.labels(key).values

    def _eligible(self, rule: SpreadRule) -> list[bool]:
        key = (rule.alternatives, rule.tolerations, rule.held_keys)
        if key not in self._eligibility:
            self._eligibility[key] = self._eligible_rows(rule)
        return self._eligibility[key]

    def _eligible_rows(self, rule: SpreadRule) -> list[bool]:
        existing_nodes = self._problem.existing_nodes
        eligible = existing_nodes.meeting((ANYWHERE,) if rule.alternatives is None else rule.alternatives)
        if rule.tolerations is not None:
            eligible = eligible & existing_nodes.tolerated(rule.tolerations, soft=True)
        for key in rule.held_keys:
            if key != HOSTNAME:
                eligible = eligible & (existing_nodes.labels(key).ids >= 0)
        answer: list[bool] = eligible.tolist()
        return answer

    def _provided(self, rule: SpreadRule, type_table: InstanceTypeTable) -> Iterable[str]:
        """The domains that a NodePool could provide, as far as the rule's policies allow."""
        template = type_table.template
        if rule.tolerations is not None and untolerated(rule.tolerations, hard(template.taints)) is not None:
            return ()
        root = self._problem.root(type_table)
        if rule.alternatives is None:
            return root.domains(rule.key)
        narrowed = (root.narrow(alternative) for alternative in rule.alternatives)
        return {value for options in narrowed if not isinstance(options, str) for value in options.domains(rule.key)}

    def _select(self, selector: Selector) -> tuple[PodConstraints, ...]:
        """The constraints that a selector selects."""
        if selector not in self._selected:
            self._selected[selector] = tuple(
                constraints
                for constraints in self._possible_matches(selector)
                if selector.selects(constraints.namespace, constraints.labels)
            )
        return self._selected[selector]

    def _possible_matches(self, selector: Selector) -> Iterable[PodConstraints]:
        """The constraints with a value of the first `In` expression, or all of the selector's namespaces."""
        if selector.nothing:
            return ()
        namespaces = sorted(selector.namespaces)
        for key, operator, values in selector.expressions:
            if operator == "In":
                named = [(namespace, key, value) for namespace in namespaces for value in values]
                return [constraints for name in named for constraints in self._by_label.get(name, ())]
        return [constraints for namespace in namespaces for constraints in self._by_namespace.get(namespace, ())]
