"""Topology: all spread, affinity and anti-affinity rules of a problem, with their counts.

For each step of a shape, `PodTopologyRules` has the counts that constrain it; `counted_by` has, for each shape, the
counts that change when such a pod is placed. Equal rules of different pods are one rule with one set of counts.
Required anti-affinity works in both directions: the pods that own a term are counted too, for the pods that the term
selects.

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
    """What constrains a pod of one shape at one preference step. The number is 1 if the rule selects the pod itself."""

    spread: tuple[tuple[SpreadCounts, int], ...]
    near: AffinityCounts | None
    near_self: bool
    far: tuple[AntiAffinityCounts, ...]
    keys: tuple[str, ...]  # other than hostname, by name
    free: bool  # no rule applies


class Topology:
    """The rules of the shapes a run may place, and of the pods that are there."""

    def __init__(self, base: Problem, shapes: Iterable[PodShape], *, respect_preferences: bool) -> None:
        self._base = base
        self._respect = respect_preferences
        self._rows_by_shape: dict[PodShape, list[int]] | None = None
        self._by_label: dict[tuple[str, str, str], list[PodShape]] = {}
        self._by_namespace: dict[str, list[PodShape]] = {}
        for shape in base.kinds:
            self._by_namespace.setdefault(shape.namespace, []).append(shape)
            for key, value in shape.labels.items():
                self._by_label.setdefault((shape.namespace, key, value), []).append(shape)
        self._selected: dict[Selector, tuple[PodShape, ...]] = {}
        self.counted_by: dict[PodShape, list[TopologyCounts]] = {shape: [] for shape in base.kinds}
        self._guards: dict[PodShape, list[AntiAffinityCounts]] = {}
        self._guarding: dict[Term, AntiAffinityCounts] = {}
        self._spreads: dict[SpreadRule, SpreadCounts] = {}
        self._eligibility: dict[tuple[object, ...], list[bool]] = {}
        self._nears: dict[AffinityRule, AffinityCounts] = {}
        self._fars: dict[Term, AntiAffinityCounts] = {}
        self._rules: dict[PreferenceLevel, PodTopologyRules] = {}
        self._ladders: dict[PodShape, tuple[PreferenceLevel, ...]] = {}
        self._add_guards()
        for shape in shapes:
            for level in self.preference_levels(shape):
                self._rules[level] = self._read(shape, level)

    def preference_levels(self, shape: PodShape) -> tuple[PreferenceLevel, ...]:
        """The preference steps of a shape in this run."""
        known = self._ladders.get(shape)
        if known is None:
            known = shape.preference_levels(respect_preferences=self._respect, soft_taints=self._base.soft_taints)
            self._ladders[shape] = known
        return known

    def rules(self, level: PreferenceLevel) -> PodTopologyRules:
        """What constrains a pod at this preference step."""
        return self._rules[level]

    def knows(self, shape: PodShape) -> bool:
        """Whether a shape was there when the rules were read, or was adopted since."""
        return shape in self.counted_by

    def adopt(self, shape: PodShape) -> bool:
        """Add a shape; False if it has a rule that no other shape has."""
        preference_levels = self.preference_levels(shape)
        if not all(map(self._is_read, preference_levels)) or not all(term in self._guarding for term in shape.guards):
            return False
        self._guards[shape] = [
            topology_counts
            for term, topology_counts in self._guarding.items()
            if term.selector.selects(shape.namespace, shape.labels)
        ]
        self.counted_by[shape] = [*self._counting(shape), *(self._guarding[term] for term in shape.guards)]
        for level in preference_levels:
            self._rules[level] = self._read(shape, level)
        return True

    def _is_read(self, level: PreferenceLevel) -> bool:
        return (
            all(rule in self._spreads for rule in level.spread)
            and all(term in self._fars for term in level.anti)
            and (level.affinity is None or level.affinity in self._nears)
        )

    def _counting(self, shape: PodShape) -> Iterator[TopologyCounts]:
        """The counts of rules that select a shape."""
        about = (shape.namespace, shape.labels)
        yield from (topology_counts for rule, topology_counts in self._spreads.items() if rule.selector.selects(*about))
        yield from (topology_counts for term, topology_counts in self._fars.items() if term.selector.selects(*about))
        yield from (part for rule, near in self._nears.items() if rule.matches(*about) for part in near.parts)

    def moved(self, row: int, gone: Sequence[PodShape], come: Sequence[PodShape]) -> bool:
        """Record that pods left and joined a row; False if the last pod with a required anti-affinity term left."""
        if self._rows_by_shape is not None:
            for shape in come:
                self._rows_by_shape.setdefault(shape, []).append(row)
            for shape in gone:
                self._rows_by_shape[shape].remove(row)
        return all(self._rows_of(shape) for shape in gone if shape.guards)

    @property
    def spreads(self) -> Collection[SpreadCounts]:
        """The counts of all spread rules."""
        return self._spreads.values()

    def _rows_of(self, shape: PodShape) -> Sequence[int]:
        """Where pods of a shape are. Only rules ask, and most pods have none."""
        if self._rows_by_shape is None:
            self._rows_by_shape = self._where()
        return self._rows_by_shape.get(shape, ())

    def _where(self) -> dict[PodShape, list[int]]:
        rows: dict[PodShape, list[int]] = {}
        for row in range(len(self._base.existing_nodes)):
            for shape in self._base.placed(row):
                rows.setdefault(shape, []).append(row)
        return rows

    def _read(self, shape: PodShape, level: PreferenceLevel) -> PodTopologyRules:
        spread = tuple(
            (self._spread(rule), int(rule.selector.selects(shape.namespace, shape.labels))) for rule in level.spread
        )
        near = self._near(level.affinity) if level.affinity is not None else None
        far = (*(self._far(term) for term in level.anti), *self._guards.get(shape, ()))
        keys = {topology_counts.key for topology_counts, _ in spread} | {topology_counts.key for topology_counts in far}
        keys |= {part.key for part in near.parts} if near is not None else set()
        return PodTopologyRules(
            spread=spread,
            near=near,
            near_self=level.affinity is not None and level.affinity.matches(shape.namespace, shape.labels),
            far=far,
            keys=tuple(sorted(keys - {HOSTNAME})),
            free=not spread and near is None and not far,
        )

    # -- counts

    def _add_guards(self) -> None:
        """Required anti-affinity holds both ways: its owners are counted for the pods it selects."""
        owners: dict[Term, list[PodShape]] = {}
        for shape in self._base.kinds:
            for term in shape.guards:
                owners.setdefault(term, []).append(shape)
        for term, shapes in owners.items():
            topology_counts = self._guarding[term] = AntiAffinityCounts(term, self._column(term.key))
            self._fill(topology_counts, shapes)
            for shape in self._shapes(term.selector):
                self._guards.setdefault(shape, []).append(topology_counts)

    def _far(self, term: Term) -> AntiAffinityCounts:
        if term not in self._fars:
            topology_counts = self._fars[term] = AntiAffinityCounts(term, self._column(term.key))
            self._fill(topology_counts, self._shapes(term.selector))
        return self._fars[term]

    def _near(self, rule: AffinityRule) -> AffinityCounts:
        if rule not in self._nears:
            matching = [
                shape for shape in self._shapes(rule.terms[0].selector) if rule.matches(shape.namespace, shape.labels)
            ]
            keys = dict.fromkeys(term.key for term in rule.terms)
            parts = [TopologyCounts(key, self._column(key)) for key in keys]
            for part in parts:
                self._fill(part, matching)
            self._nears[rule] = AffinityCounts(rule, parts)
        return self._nears[rule]

    def _spread(self, rule: SpreadRule) -> SpreadCounts:
        if rule not in self._spreads:
            provided = {value for type_table in self._base.type_tables for value in self._provided(rule, type_table)}
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
        return () if key == HOSTNAME else self._base.existing_nodes.labels(key).values

    def _eligible(self, rule: SpreadRule) -> list[bool]:
        asked = (rule.alternatives, rule.tolerations, rule.held_keys)
        if asked not in self._eligibility:
            self._eligibility[asked] = self._eligible_rooms(rule)
        return self._eligibility[asked]

    def _eligible_rooms(self, rule: SpreadRule) -> list[bool]:
        existing_nodes = self._base.existing_nodes
        eligible = (
            existing_nodes.meeting(rule.alternatives) if rule.alternatives is not None else existing_nodes.meeting(_ANY)
        )
        if rule.tolerations is not None:
            eligible = eligible & existing_nodes.tolerated(rule.tolerations, soft=True)
        for key in rule.held_keys:
            if key != HOSTNAME:
                eligible = eligible & (existing_nodes.labels(key).ids >= 0)
        answer: list[bool] = eligible.tolist()
        return answer

    def _provided(self, rule: SpreadRule, type_table: InstanceTypeTable) -> Iterable[str]:
        """The domains a NodePool could provide, as far as the rule's policies allow."""
        if rule.key == HOSTNAME:
            return ()
        template = type_table.template
        if rule.tolerations is not None and untolerated(rule.tolerations, hard(template.taints)) is not None:
            return ()
        root = self._base.root(type_table)
        if rule.alternatives is None:
            return root.domains(rule.key)
        reached = (root.narrow(alternative) for alternative in rule.alternatives)
        return {value for options in reached if not isinstance(options, str) for value in options.domains(rule.key)}

    def _shapes(self, selector: Selector) -> tuple[PodShape, ...]:
        """The shapes a selector selects, found through the rarest label it names."""
        if selector not in self._selected:
            self._selected[selector] = tuple(
                shape for shape in self._considered(selector) if selector.selects(shape.namespace, shape.labels)
            )
        return self._selected[selector]

    def _considered(self, selector: Selector) -> Iterable[PodShape]:
        if selector.nothing:
            return ()
        namespaces = sorted(selector.namespaces)
        for key, operator, values in selector.expressions:
            if operator == "In":
                named = [(namespace, key, value) for namespace in namespaces for value in values]
                return [shape for name in named for shape in self._by_label.get(name, ())]
        return [shape for namespace in namespaces for shape in self._by_namespace.get(namespace, ())]


_ANY = (ANYWHERE,)
