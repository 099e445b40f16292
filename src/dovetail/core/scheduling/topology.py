"""Topology: all spread, affinity and anti-affinity rules of a problem, with their counts.

For each preference level of a shape, `PodTopologyRules` has the counts that constrain it; `counted_by` has, for each
shape, the counts that change when a pod of that shape is placed. Equal rules of different pods are one rule with one
set of counts. Required anti-affinity works in both directions: the pods that own a term are counted too, for the pods
that the term selects (`_owner_counts`).

Invariant: counts equal what a recount of all placed pods would give. Shapes that a selector selects are found through
an index by namespace and label, so rules x shapes pairs are not all compared.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dovetail.core.scheduling.existing_nodes import hard
from dovetail.core.scheduling.instance_type_table import InstanceTypeTable
from dovetail.core.scheduling.node_affinity import ANYWHERE
from dovetail.core.scheduling.pod_shapes import PodShape
from dovetail.core.scheduling.preferences import PreferenceLevel
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.topology_counts import AffinityCounts, AntiAffinityCounts, SpreadCounts, TopologyCounts
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


class Topology:
    """The rules of the shapes that a run may place, and of the pods on existing nodes."""

    def __init__(self, problem: Problem, shapes: Iterable[PodShape], *, respect_preferences: bool) -> None:
        self._problem = problem
        self._respect = respect_preferences
        self._rows_by_shape: dict[PodShape, list[int]] | None = None
        self._by_label: dict[tuple[str, str, str], list[PodShape]] = {}
        self._by_namespace: dict[str, list[PodShape]] = {}
        for shape in problem.all_shapes:
            self._by_namespace.setdefault(shape.namespace, []).append(shape)
            for key, value in shape.labels.items():
                self._by_label.setdefault((shape.namespace, key, value), []).append(shape)
        self._selected: dict[Selector, tuple[PodShape, ...]] = {}
        self.counted_by: dict[PodShape, list[TopologyCounts]] = {shape: [] for shape in problem.all_shapes}
        self._others_anti_affinity: dict[PodShape, list[AntiAffinityCounts]] = {}
        self._owner_counts: dict[Term, AntiAffinityCounts] = {}
        self._spreads: dict[SpreadRule, SpreadCounts] = {}
        self._eligibility: dict[tuple[object, ...], list[bool]] = {}
        self._affinity_counts: dict[AffinityRule, AffinityCounts] = {}
        self._anti_affinity_counts: dict[Term, AntiAffinityCounts] = {}
        self._rules: dict[PreferenceLevel, PodTopologyRules] = {}
        self._levels: dict[PodShape, tuple[PreferenceLevel, ...]] = {}
        self._count_owners()
        for shape in shapes:
            for level in self.preference_levels(shape):
                self._rules[level] = self._read(shape, level)

    def preference_levels(self, shape: PodShape) -> tuple[PreferenceLevel, ...]:
        """The preference levels of a shape in this run."""
        known = self._levels.get(shape)
        if known is None:
            known = shape.preference_levels(respect_preferences=self._respect, soft_taints=self._problem.soft_taints)
            self._levels[shape] = known
        return known

    def rules(self, level: PreferenceLevel) -> PodTopologyRules:
        """The rules that constrain a pod at this preference level."""
        return self._rules[level]

    def knows(self, shape: PodShape) -> bool:
        """Whether a shape was there when the rules were read, or was added since."""
        return shape in self.counted_by

    def add_shape(self, shape: PodShape) -> bool:
        """Add a shape; False if it has a rule that no other shape has."""
        preference_levels = self.preference_levels(shape)
        if not all(map(self._has_counts_for, preference_levels)) or not all(
            term in self._owner_counts for term in shape.required_anti_affinity
        ):
            return False
        self._others_anti_affinity[shape] = [
            topology_counts
            for term, topology_counts in self._owner_counts.items()
            if term.selector.selects(shape.namespace, shape.labels)
        ]
        self.counted_by[shape] = [
            *self._counts_selecting(shape),
            *(self._owner_counts[term] for term in shape.required_anti_affinity),
        ]
        for level in preference_levels:
            self._rules[level] = self._read(shape, level)
        return True

    def _has_counts_for(self, level: PreferenceLevel) -> bool:
        return (
            all(rule in self._spreads for rule in level.spread)
            and all(term in self._anti_affinity_counts for term in level.anti)
            and (level.affinity is None or level.affinity in self._affinity_counts)
        )

    def _counts_selecting(self, shape: PodShape) -> Iterator[TopologyCounts]:
        """The counts of rules that select a shape."""
        pod = (shape.namespace, shape.labels)
        yield from (topology_counts for rule, topology_counts in self._spreads.items() if rule.selector.selects(*pod))
        yield from (
            topology_counts
            for term, topology_counts in self._anti_affinity_counts.items()
            if term.selector.selects(*pod)
        )
        yield from (
            part for rule, affinity in self._affinity_counts.items() if rule.matches(*pod) for part in affinity.parts
        )

    def record_move(self, row: int, gone: Sequence[PodShape], come: Sequence[PodShape]) -> bool:
        """Record that pods left and joined a row.

        False if the last pod of a shape with required anti-affinity left: then its term no longer applies.
        """
        if self._rows_by_shape is not None:
            for shape in come:
                self._rows_by_shape.setdefault(shape, []).append(row)
            for shape in gone:
                self._rows_by_shape[shape].remove(row)
        return all(self._rows_of(shape) for shape in gone if shape.required_anti_affinity)

    @property
    def spreads(self) -> Collection[SpreadCounts]:
        """The counts of all spread rules."""
        return self._spreads.values()

    def _rows_of(self, shape: PodShape) -> Sequence[int]:
        """The rows with pods of a shape. Computed on first use, since many clusters have no topology rules."""
        if self._rows_by_shape is None:
            self._rows_by_shape = self._find_rows()
        return self._rows_by_shape.get(shape, ())

    def _find_rows(self) -> dict[PodShape, list[int]]:
        rows: dict[PodShape, list[int]] = {}
        for row in range(len(self._problem.existing_nodes)):
            for shape in self._problem.counted_shapes(row):
                rows.setdefault(shape, []).append(row)
        return rows

    def _read(self, shape: PodShape, level: PreferenceLevel) -> PodTopologyRules:
        spread = tuple(
            (self._spread(rule), int(rule.selector.selects(shape.namespace, shape.labels))) for rule in level.spread
        )
        affinity = self._affinity(level.affinity) if level.affinity is not None else None
        anti_affinity = (
            *(self._anti_affinity(term) for term in level.anti),
            *self._others_anti_affinity.get(shape, ()),
        )
        keys = {topology_counts.key for topology_counts, _ in spread} | {
            topology_counts.key for topology_counts in anti_affinity
        }
        keys |= {part.key for part in affinity.parts} if affinity is not None else set()
        return PodTopologyRules(
            spread=spread,
            affinity=affinity,
            selects_itself=level.affinity is not None and level.affinity.matches(shape.namespace, shape.labels),
            anti_affinity=anti_affinity,
            keys=tuple(sorted(keys - {HOSTNAME})),
            unconstrained=not spread and affinity is None and not anti_affinity,
        )

    # -- counts

    def _count_owners(self) -> None:
        """Count the pods that own each required anti-affinity term, for the pods that the term selects."""
        owners: dict[Term, list[PodShape]] = {}
        for shape in self._problem.all_shapes:
            for term in shape.required_anti_affinity:
                owners.setdefault(term, []).append(shape)
        for term, shapes in owners.items():
            topology_counts = self._owner_counts[term] = AntiAffinityCounts(term, self._column(term.key))
            self._fill(topology_counts, shapes)
            for shape in self._shapes(term.selector):
                self._others_anti_affinity.setdefault(shape, []).append(topology_counts)

    def _anti_affinity(self, term: Term) -> AntiAffinityCounts:
        if term not in self._anti_affinity_counts:
            topology_counts = self._anti_affinity_counts[term] = AntiAffinityCounts(term, self._column(term.key))
            self._fill(topology_counts, self._shapes(term.selector))
        return self._anti_affinity_counts[term]

    def _affinity(self, rule: AffinityRule) -> AffinityCounts:
        if rule not in self._affinity_counts:
            matching = [
                shape for shape in self._shapes(rule.terms[0].selector) if rule.matches(shape.namespace, shape.labels)
            ]
            keys = dict.fromkeys(term.key for term in rule.terms)
            parts = [TopologyCounts(key, self._column(key)) for key in keys]
            for part in parts:
                self._fill(part, matching)
            self._affinity_counts[rule] = AffinityCounts(rule, parts)
        return self._affinity_counts[rule]

    def _spread(self, rule: SpreadRule) -> SpreadCounts:
        if rule not in self._spreads:
            provided = {value for type_table in self._problem.type_tables for value in self._provided(rule, type_table)}
            topology_counts = SpreadCounts(rule, self._column(rule.key), self._eligible(rule), provided)
            self._spreads[rule] = topology_counts
            self._fill(topology_counts, self._shapes(rule.selector))
        return self._spreads[rule]

    def _fill(self, topology_counts: TopologyCounts, shapes: Iterable[PodShape]) -> None:
        for shape in shapes:
            self.counted_by[shape].append(topology_counts)
            for row in self._rows_of(shape):
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
        if rule.key == HOSTNAME:
            return ()
        template = type_table.template
        if rule.tolerations is not None and untolerated(rule.tolerations, hard(template.taints)) is not None:
            return ()
        root = self._problem.root(type_table)
        if rule.alternatives is None:
            return root.domains(rule.key)
        narrowed = (root.narrow(alternative) for alternative in rule.alternatives)
        return {value for options in narrowed if not isinstance(options, str) for value in options.domains(rule.key)}

    def _shapes(self, selector: Selector) -> tuple[PodShape, ...]:
        """The shapes that a selector selects."""
        if selector not in self._selected:
            self._selected[selector] = tuple(
                shape for shape in self._possible_matches(selector) if selector.selects(shape.namespace, shape.labels)
            )
        return self._selected[selector]

    def _possible_matches(self, selector: Selector) -> Iterable[PodShape]:
        """The shapes with a value of the first `In` expression, or all shapes of the selector's namespaces."""
        if selector.nothing:
            return ()
        namespaces = sorted(selector.namespaces)
        for key, operator, values in selector.expressions:
            if operator == "In":
                named = [(namespace, key, value) for namespace in namespaces for value in values]
                return [shape for name in named for shape in self._by_label.get(name, ())]
        return [shape for namespace in namespaces for shape in self._by_namespace.get(namespace, ())]
