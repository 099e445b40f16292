"""Every topology rule in play, with its tally: which tallies constrain a pod, and which count it once it is placed."""

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dovetail.core.scheduling.alternative import ANYWHERE
from dovetail.core.scheduling.base import Base
from dovetail.core.scheduling.ladder import Stance
from dovetail.core.scheduling.market import Market
from dovetail.core.scheduling.rooms import hard
from dovetail.core.scheduling.rules import Affinity, Spread, Term
from dovetail.core.scheduling.selectors import Selector
from dovetail.core.scheduling.shape import Shape
from dovetail.core.scheduling.tally import FarTally, NearTally, SpreadTally, Tally
from dovetail.model.labels import HOSTNAME
from dovetail.model.taints import untolerated


@dataclass(frozen=True, slots=True)
class Rules:
    """What constrains a pod of one shape in one stance. The numbers say whether a rule selects the pod itself."""

    spread: tuple[tuple[SpreadTally, int], ...]
    near: NearTally | None
    near_self: bool
    far: tuple[FarTally, ...]
    keys: tuple[str, ...]  # other than hostname, by name
    free: bool  # no rule applies

    @property
    def tallies(self) -> Iterable[Tally]:
        """Everything that is asked."""
        near = self.near.parts if self.near is not None else ()
        return (*(tally for tally, _ in self.spread), *near, *self.far)


class Rulebook:
    """The rules of the shapes a run may place, and of the pods that are there."""

    def __init__(self, base: Base, shapes: Iterable[Shape], *, respect_preferences: bool) -> None:
        self._base = base
        self._respect = respect_preferences
        self._rows_by_shape: dict[Shape, list[int]] | None = None
        self._by_label: dict[tuple[str, str, str], list[Shape]] = {}
        self._by_namespace: dict[str, list[Shape]] = {}
        for shape in base.kinds:
            self._by_namespace.setdefault(shape.namespace, []).append(shape)
            for key, value in shape.labels.items():
                self._by_label.setdefault((shape.namespace, key, value), []).append(shape)
        self._selected: dict[Selector, tuple[Shape, ...]] = {}
        self.counted_by: dict[Shape, list[Tally]] = {shape: [] for shape in base.kinds}
        self._guards: dict[Shape, list[FarTally]] = {}
        self._guarding: dict[Term, FarTally] = {}
        self._spreads: dict[Spread, SpreadTally] = {}
        self._eligibility: dict[tuple[object, ...], list[bool]] = {}
        self._nears: dict[Affinity, NearTally] = {}
        self._fars: dict[Term, FarTally] = {}
        self._rules: dict[Stance, Rules] = {}
        self._ladders: dict[Shape, tuple[Stance, ...]] = {}
        self._add_guards()
        self.shapes = tuple(shapes)
        for shape in self.shapes:
            for stance in self.ladder(shape):
                self._rules[stance] = self._read(shape, stance)

    def ladder(self, shape: Shape) -> tuple[Stance, ...]:
        """The stances of a shape in this run."""
        known = self._ladders.get(shape)
        if known is None:
            known = shape.ladder(respect_preferences=self._respect, soft_taints=self._base.soft_taints)
            self._ladders[shape] = known
        return known

    def rules(self, stance: Stance) -> Rules:
        """What constrains a pod in this stance."""
        return self._rules[stance]

    def asking(self, tallies: Container[Tally]) -> set[Shape]:
        """The shapes whose rules ask any of these tallies."""
        return {
            shape
            for shape in self.shapes
            if any(tally in tallies for stance in self.ladder(shape) for tally in self._rules[stance].tallies)
        }

    def knows(self, shape: Shape) -> bool:
        """Whether a shape was there when the rules were read, or was adopted since."""
        return shape in self.counted_by

    def adopt(self, shape: Shape) -> bool:
        """Make a new shape known; False if it brings a rule that nobody had."""
        ladder = self.ladder(shape)
        if not all(map(self._is_read, ladder)) or not all(term in self._guarding for term in shape.guards):
            return False
        self._guards[shape] = [
            tally for term, tally in self._guarding.items() if term.selector.selects(shape.namespace, shape.labels)
        ]
        self.counted_by[shape] = [*self._counting(shape), *(self._guarding[term] for term in shape.guards)]
        for stance in ladder:
            self._rules[stance] = self._read(shape, stance)
        self.shapes += (shape,)
        return True

    def _is_read(self, stance: Stance) -> bool:
        return (
            all(rule in self._spreads for rule in stance.spread)
            and all(term in self._fars for term in stance.anti)
            and (stance.affinity is None or stance.affinity in self._nears)
        )

    def _counting(self, shape: Shape) -> Iterator[Tally]:
        """The tallies of rules that select a shape."""
        about = (shape.namespace, shape.labels)
        yield from (tally for rule, tally in self._spreads.items() if rule.selector.selects(*about))
        yield from (tally for term, tally in self._fars.items() if term.selector.selects(*about))
        yield from (part for rule, near in self._nears.items() if rule.matches(*about) for part in near.parts)

    def moved(self, row: int, gone: Sequence[Shape], come: Sequence[Shape]) -> bool:
        """Note who is where now; False if others are free of a rule because nobody is left who brings it."""
        if self._rows_by_shape is not None:
            for shape in come:
                self._rows_by_shape.setdefault(shape, []).append(row)
            for shape in gone:
                self._rows_by_shape[shape].remove(row)
        return all(self._rows_of(shape) for shape in gone if shape.guards)

    @property
    def spreads(self) -> Collection[SpreadTally]:
        """The tallies of all spread rules."""
        return self._spreads.values()

    def _rows_of(self, shape: Shape) -> Sequence[int]:
        """Where pods of a shape are. Only rules ask, and most pods have none."""
        if self._rows_by_shape is None:
            self._rows_by_shape = self._where()
        return self._rows_by_shape.get(shape, ())

    def _where(self) -> dict[Shape, list[int]]:
        rows: dict[Shape, list[int]] = {}
        for row in range(len(self._base.rooms)):
            for shape in self._base.placed(row):
                rows.setdefault(shape, []).append(row)
        return rows

    def _read(self, shape: Shape, stance: Stance) -> Rules:
        spread = tuple(
            (self._spread(rule), int(rule.selector.selects(shape.namespace, shape.labels))) for rule in stance.spread
        )
        near = self._near(stance.affinity) if stance.affinity is not None else None
        far = (*(self._far(term) for term in stance.anti), *self._guards.get(shape, ()))
        keys = {tally.key for tally, _ in spread} | {tally.key for tally in far}
        keys |= {part.key for part in near.parts} if near is not None else set()
        return Rules(
            spread=spread,
            near=near,
            near_self=stance.affinity is not None and stance.affinity.matches(shape.namespace, shape.labels),
            far=far,
            keys=tuple(sorted(keys - {HOSTNAME})),
            free=not spread and near is None and not far,
        )

    # -- tallies

    def _add_guards(self) -> None:
        """Required anti-affinity holds both ways: its owners are counted for the pods it selects."""
        owners: dict[Term, list[Shape]] = {}
        for shape in self._base.kinds:
            for term in shape.guards:
                owners.setdefault(term, []).append(shape)
        for term, shapes in owners.items():
            tally = self._guarding[term] = FarTally(term, self._column(term.key))
            self._fill(tally, shapes)
            for shape in self._shapes(term.selector):
                self._guards.setdefault(shape, []).append(tally)

    def _far(self, term: Term) -> FarTally:
        if term not in self._fars:
            tally = self._fars[term] = FarTally(term, self._column(term.key))
            self._fill(tally, self._shapes(term.selector))
        return self._fars[term]

    def _near(self, rule: Affinity) -> NearTally:
        if rule not in self._nears:
            matching = [
                shape for shape in self._shapes(rule.terms[0].selector) if rule.matches(shape.namespace, shape.labels)
            ]
            keys = dict.fromkeys(term.key for term in rule.terms)
            parts = [Tally(key, self._column(key)) for key in keys]
            for part in parts:
                self._fill(part, matching)
            self._nears[rule] = NearTally(rule, parts)
        return self._nears[rule]

    def _spread(self, rule: Spread) -> SpreadTally:
        if rule not in self._spreads:
            provided = {value for market in self._base.markets for value in self._provided(rule, market)}
            tally = SpreadTally(rule, self._column(rule.key), self._eligible(rule), provided)
            self._spreads[rule] = tally
            self._fill(tally, self._shapes(rule.selector))
        return self._spreads[rule]

    def _fill(self, tally: Tally, shapes: Iterable[Shape]) -> None:
        for shape in shapes:
            self.counted_by[shape].append(tally)
            for row in self._rows_of(shape):
                domain = tally.domain(row)
                if domain is not None and tally.counts_on(row):
                    tally.counts[domain] = tally.counts.get(domain, 0) + 1

    def _column(self, key: str) -> Sequence[str | None]:
        return () if key == HOSTNAME else self._base.rooms.labels(key).values

    def _eligible(self, rule: Spread) -> list[bool]:
        asked = (rule.alternatives, rule.tolerations, rule.held_keys)
        if asked not in self._eligibility:
            self._eligibility[asked] = self._eligible_rooms(rule)
        return self._eligibility[asked]

    def _eligible_rooms(self, rule: Spread) -> list[bool]:
        rooms = self._base.rooms
        eligible = rooms.meeting(rule.alternatives) if rule.alternatives is not None else rooms.meeting(_ANY)
        if rule.tolerations is not None:
            eligible = eligible & rooms.tolerated(rule.tolerations, soft=True)
        for key in rule.held_keys:
            if key != HOSTNAME:
                eligible = eligible & (rooms.labels(key).ids >= 0)
        answer: list[bool] = eligible.tolist()
        return answer

    def _provided(self, rule: Spread, market: Market) -> Iterable[str]:
        """The domains a NodePool could provide, as far as the rule's policies allow."""
        if rule.key == HOSTNAME:
            return ()
        template = market.template
        if rule.tolerations is not None and untolerated(rule.tolerations, hard(template.taints)) is not None:
            return ()
        root = self._base.root(market)
        if rule.alternatives is None:
            return root.domains(rule.key)
        reached = (root.narrow(alternative) for alternative in rule.alternatives)
        return {value for options in reached if not isinstance(options, str) for value in options.domains(rule.key)}

    def _shapes(self, selector: Selector) -> tuple[Shape, ...]:
        """The shapes a selector selects, found through the rarest label it names."""
        if selector not in self._selected:
            self._selected[selector] = tuple(
                shape for shape in self._considered(selector) if selector.selects(shape.namespace, shape.labels)
            )
        return self._selected[selector]

    def _considered(self, selector: Selector) -> Iterable[Shape]:
        if selector.nothing:
            return ()
        namespaces = sorted(selector.namespaces)
        for key, operator, values in selector.expressions:
            if operator == "In":
                named = [(namespace, key, value) for namespace in namespaces for value in values]
                return [shape for name in named for shape in self._by_label.get(name, ())]
        return [shape for namespace in namespaces for shape in self._by_namespace.get(namespace, ())]


_ANY = (ANYWHERE,)
